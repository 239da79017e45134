"""Which engine answers: the native one where it fits, and in any case with the same output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafkagroups as kg

ROOT = Path(__file__).parents[2]
LOG = "data/harbour/4.3.1"
OTHER_INTERFACE = "INTERFACE = 1000\n"
REBUILD = "pip install ./engine"
COMMANDS = (
    ("load", LOG, "--json"),
    ("stats", LOG, "--json"),
    ("explain", LOG, "--group", "billing", "--json"),
    ("timeline", LOG, "--group", "billing"),
    ("check", LOG),
    ("load", LOG),
)


def run(*arguments, path=(), switch=None):
    """Run a command in a process of its own. `path` comes before the installed packages."""
    env = {name: value for name, value in os.environ.items() if name != "KAFKAGROUPS_ENGINE"}
    env |= {"PYTHONPATH": os.pathsep.join(map(str, [*path, *sys.path]))}
    if switch:
        env["KAFKAGROUPS_ENGINE"] = switch
    command = [sys.executable, "-m", "kafkagroups", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def other_engine(tmp_path):
    """Return a folder with an engine of another interface, which must never be called."""
    (tmp_path / "kafkagroups_engine.py").write_text(OTHER_INTERFACE)
    return tmp_path


def test_an_unknown_engine_is_the_callers_mistake():
    """UsageError names the engines."""
    with pytest.raises(kg.UsageError, match="auto, python, compiled"):
        kg.load(LOG, engine="fast")


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_output_depends_on_the_engine(command):
    """Exit code, output and errors are the same to the byte, whether the engine answers or is switched off."""
    wanted = run(*command, switch="off")
    assert run(*command) == wanted
    assert wanted[0] == 0 and wanted[1]
    if command[0] not in ("check",):
        assert run(*command, "--engine", "compiled") == run(*command, "--engine", "python") == wanted


def test_an_engine_that_is_switched_off_counts_as_not_installed():
    """`--engine compiled` is then bad usage, with what to install."""
    status, out, err = run("load", LOG, "--engine", "compiled", switch="off")
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "pip install ./engine" in err


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (OTHER_INTERFACE, "has interface 1000, and this kafkagroups needs "),
        ("raise ImportError('GLIBC_9.99 not found')\n", "GLIBC_9.99 not found"),
    ],
    ids=["another interface", "another C library"],
)
def test_auto_goes_on_without_an_engine_that_does_not_work(module, reason, tmp_path):
    """The readable engine answers, and one line on stderr says why and how to build the engine again."""
    (tmp_path / "kafkagroups_engine.py").write_text(module)
    status, out, err = run("load", LOG, "--json", path=[tmp_path])
    assert (status, out) == run("load", LOG, "--json", switch="off")[:2]
    (line,) = err.splitlines()
    assert reason in line and REBUILD in line


def test_an_engine_of_another_interface_is_refused_by_name(other_engine):
    """`--engine compiled` with it is exit code 2 with the command that builds it again."""
    status, out, err = run("load", LOG, "--engine", "compiled", path=[other_engine])
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert REBUILD in err


def test_one_line_for_all_partitions_and_processes(other_engine):
    """`check` loads several times, and the line about the engine stands there once."""
    status, _, err = run("check", LOG, path=[other_engine])
    assert status == 0 and len(err.splitlines()) == 1
