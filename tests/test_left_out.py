"""A run ends with a list of the tests it left out and why; in CI that list must be empty."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """\
import pytest

@pytest.mark.browser
def test_marked(): pass

def test_skips_itself(): pytest.skip("it rains")

def test_runs(): pass
"""


@pytest.fixture
def run(tmp_path):
    """Runs pytest with this project's conftest.py over other tests, on a machine without Chromium."""
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    browser:\n")

    def run(tests: str, *options: str, ci: bool) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(tests)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST"))}
        env |= {"PATH": "/nowhere"} | ({"CI": "true"} if ci else {})
        command = [sys.executable, "-m", "pytest", "-p", "no:nbval", *options, str(tmp_path)]  # nbval loads slowly
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        return done.returncode, done.stdout

    return run


@pytest.mark.parametrize(("ci", "options"), [(False, ()), (True, ()), (True, ("-n", "2"))])
def test_what_is_left_out_is_listed(run, ci, options):
    """A missing program and a test that skips itself are both listed; only CI fails for them."""
    code, output = run(TESTS, *options, ci=ci)
    assert code == (1 if ci else 0)
    assert "1 left out: no Chromium" in output
    assert "1 left out: it rains" in output
    assert "1 passed, 2 skipped" in output.splitlines()[-1]


def test_nothing_left_out(run):
    """When everything ran, the list says so."""
    code, output = run("def test_runs(): pass", ci=True)
    assert code == 0
    assert "nothing was left out" in output
