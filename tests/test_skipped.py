"""A run ends with a list of the skipped tests and the reasons. In CI a skipped test fails the run."""

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
    """Run pytest with this project's conftest.py on other tests, on a machine without Chromium."""
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    browser:\n    engine:\n    slow:\n")

    def run(*options: str, ci: bool) -> tuple[int, str]:
        (tmp_path / "test_it.py").write_text(TESTS)
        others = ("CI", "PYTEST", "KAFKAGROUPS")
        env = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        env |= {"PATH": "/nowhere"} | ({"CI": "true"} if ci else {})
        command = [sys.executable, "-m", "pytest", "-p", "no:nbval", *options, str(tmp_path)]  # nbval is slow to import
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        return done.returncode, done.stdout

    return run


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(("ci", "options"), [(False, ()), (True, ()), (True, ("-n", "2"))])
def test_skipped_tests_are_listed_and_fail_ci(run, ci, options):
    """A missing program and a test that skips itself are both listed. They fail the run only in CI."""
    code, output = run(*options, ci=ci)
    assert code == (1 if ci else 0)
    assert "1 skipped: no Chromium" in output
    assert "1 skipped: it rains" in output
    assert "1 passed, 2 skipped" in output.splitlines()[-1]
