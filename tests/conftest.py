"""How all tests run: skipped tests, the order of the files, the hypothesis profiles, and notebooks under nbval."""

import contextlib
import functools
import importlib.util
import io
import os
import shutil
import tempfile
from collections import Counter

import hypothesis
import pytest

from kafkagroups.cli import main
from kafkagroups.spark.session import NoJava, find_java

# Notebooks under test must not change a learner's progress. An empty name means: in memory.
os.environ["KAFKAGROUPS_PROGRESS"] = ""
# Lesson 14 starts a broker if it can. Its output must not depend on the machine.
os.environ["KAFKAGROUPS_BROKER"] = "recorded"

IN_CI = os.environ.get("CI") == "true"
ENGINE_IS_OFF = os.environ.get("KAFKAGROUPS_ENGINE") == "off"

# marker: the commands that its tests need, each with its name for people
NEEDS = {
    "java": [("JAVA", "Java 17 or newer")],
    "cluster": [("JAVA", "Java 17 or newer")],
    "browser": [("chromium", "Chromium")],
    "fuzz": [("ATHERIS", "atheris")],
    "engine": [("ENGINE", "native engine")],
    "broker": [("mvn", "Maven"), ("JAVA", "Java 17 or newer")],
}

# The fast profile has hypothesis' default of 100 examples, the same ones in every run; `make check` has 20 of them.
hypothesis.settings.register_profile("fast", deadline=None, derandomize=True)
hypothesis.settings.register_profile("quick", deadline=None, derandomize=True, max_examples=20)
hypothesis.settings.register_profile("long", deadline=None, max_examples=20_000)
hypothesis.settings.load_profile(os.environ.get("KG_PROFILE", "fast"))


def _execute_cell(kernel, source, allow_stdin=None):
    return kernel.kc.execute(source, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)


def pytest_configure(config):
    """Change nbval, where it is used: importing Jupyter takes as long as hundreds of tests."""
    if not config.pluginmanager.hasplugin("nbval"):
        return
    from nbval import kernel

    start_new_kernel = kernel.start_new_kernel

    def start_kernel(**settings):
        """Start a kernel, at most three times. It dies if another program takes one of the ports chosen for it."""
        for _ in range(2):
            with contextlib.suppress(RuntimeError):
                return start_new_kernel(**settings)
        return start_new_kernel(**settings)

    # nbval kills its kernels, so they cannot remove their scratch folders. The end of the tests removes this one.
    folder = tempfile.mkdtemp(prefix="kafkagroups-notebooks-")
    config.add_cleanup(functools.partial(shutil.rmtree, folder, ignore_errors=True))
    os.environ["TMPDIR"] = folder
    # nbval sends cells with store_history=False. IPython then ignores the `;` that hides a result.
    kernel.RunningKernel.execute_cell_input = _execute_cell
    kernel.start_new_kernel = start_kernel


def pytest_collection_modifyitems(config, items):
    """A test with the parameter "compiled" is a test of the native engine, without its marker."""
    for item in items:
        if hasattr(item, "callspec") and "compiled" in item.callspec.params.values():
            item.add_marker("engine")
        if hasattr(item, "output_timeout"):
            item.output_timeout = 60  # The default of nbval, 5 s, is too short for a busy machine.
        for marker, needs in NEEDS.items():
            missing = [name for command, name in needs if not _is_installed(command)]
            if missing and (item.get_closest_marker(marker) or marker in _cell_tags(item)):
                item.add_marker(pytest.mark.skip(reason=f"no {', no '.join(missing)}"))
    if ENGINE_IS_OFF:
        _leave_out_the_engine(config, items)
    items.sort(key=_order)


def _leave_out_the_engine(config, items):
    """Deselect the tests of an engine that is switched off. They are not skipped, because CI allows no skipped test."""
    left_out = [item for item in items if item.get_closest_marker("engine") or "engine" in _cell_tags(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _order(item):
    """Return the rank of a test's file. A slow file that starts last would leave the other worker idle."""
    path = item.nodeid.partition("::")[0]
    for rank, start in enumerate(SLOW_FILES):
        if path.startswith(start):
            return rank
    return len(SLOW_FILES)


SLOW_FILES = ("tests/spark/", "notebooks/", "tests/fuzz/", "tests/engine/")


@functools.cache
def _is_installed(command):
    """Return whether a command exists. JAVA is any Java that Spark can use; ATHERIS and ENGINE are Python packages."""
    packages = {"ATHERIS": "atheris", "ENGINE": "kafkagroups_engine"}
    if command in packages:
        return importlib.util.find_spec(packages[command]) is not None
    if command != "JAVA":
        return shutil.which(command) is not None
    try:
        return bool(find_java())
    except NoJava:
        return False


def _cell_tags(item):
    """Return the tags of a notebook's cell. They say what the cell needs, as a marker does for a test."""
    if not hasattr(item, "cell"):
        return ()
    return getattr(item, "cell", {}).get("metadata", {}).get("tags", ())


def _skipped_reports(config):
    """Return the reports of skipped tests. With xdist only the controller has all of them."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return reporter.stats.get("skipped", []) if reporter else []


def pytest_sessionfinish(session):
    is_worker = hasattr(session.config, "workerinput")
    if IN_CI and not is_worker and session.exitstatus == pytest.ExitCode.OK and _skipped_reports(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    terminalreporter.section("skipped")
    reports = _skipped_reports(config)
    reasons = Counter(
        str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr).removeprefix("Skipped: ")
        for report in reports
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"{count} skipped: {reason}")
    if not reports:
        terminalreporter.line("no test was skipped")
    elif IN_CI:
        terminalreporter.line("This run failed, because CI allows no skipped test.", red=True)


@pytest.fixture(scope="session")
def foreign(tmp_path_factory):
    """One broker's folder: the three d-foreign cases. Their groups are in partitions that are not theirs of 400."""
    from tests.captured import captured  # test_skipped.py copies this file to a folder without `tests`.

    folder = tmp_path_factory.mktemp("broker")
    for case in (captured("crafted") / "crafted" / "logs").glob("d-foreign-*"):
        shutil.copytree(case, folder, dirs_exist_ok=True)
    return folder


@pytest.fixture
def run(capsys, monkeypatch):
    """Return a function that calls the command line in process: its exit code, its output, its errors."""

    def call(*args, stdin=""):
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        try:
            status = main([str(arg) for arg in args])
        except SystemExit as error:
            status = error.code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return call
