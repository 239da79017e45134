"""tools/setup.sh: if a machine cannot be set up, one line names the problem and the fix."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.scripts import copy_files, write_program

pytestmark = pytest.mark.slow


@pytest.fixture
def fresh(tmp_path):
    """A project folder without .venv."""
    return copy_files(tmp_path, "Makefile", "pyproject.toml", "locks/learn.txt", "tools/setup.sh")


def make_lab(fresh: Path, python: str | None) -> tuple[int, str]:
    env = {"PATH": f"{fresh}:/usr/bin:/bin"}
    arguments = [f"PYTHON={python}"] if python else []
    done = subprocess.run(["make", "lab", *arguments], cwd=fresh, env=env, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def assert_one_line(result: tuple[int, str], *words: str) -> None:
    code, output = result
    assert code == 2
    assert len(output.splitlines()) == 1, output
    for word in words:
        assert word in output


def test_another_python(fresh):
    """The line names the version that was found and the versions that are supported."""
    old = write_program(fresh / "old", 'case "$2" in *print*) echo 3.9 ;; *) exit 1 ;; esac')
    result = make_lab(fresh, str(old))
    assert_one_line(result, "needs Python 3.11, 3.12 or 3.13", f"{old} is Python 3.9", "PYTHON=")


def test_python_without_venv(fresh):
    """Debian's python3 cannot make environments without the package python3-venv, so the line names it."""
    bare = write_program(fresh / "bare", f'case "$2" in *ensurepip*) exit 1 ;; *) exec "{sys.executable}" "$@" ;; esac')
    assert_one_line(make_lab(fresh, str(bare)), "apt install python3-venv")


def test_a_full_disk(fresh):
    """With less than 3 GB of free disk the set-up does not start."""
    write_program(fresh / "df", "echo header; echo dev 9 9 2097152 1% /")
    assert_one_line(make_lab(fresh, sys.executable), "needs 3 GB", "2 GB are free")
    assert not (fresh / ".venv").exists()


def test_the_pythons_on_the_path(fresh):
    """Without PYTHON, each python on the path is tried. A version manager's shim that does not run is ignored."""
    for name in ("python3.13", "python3.12", "python3.11", "python3"):
        write_program(fresh / name, "echo not selected >&2; exit 127")
    assert_one_line(make_lab(fresh, None), "needs Python 3.11, 3.12 or 3.13", "python3 is not a Python")


def test_the_environment_of_another_folder_stays_as_it_is(fresh):
    """If `.venv` is a link, the set-up makes an environment in its place and touches nothing behind the link."""
    other = fresh / "other"
    write_program(other / "bin" / "activate", "")
    (fresh / ".venv").symlink_to(other)
    # This Python makes a folder and ends the set-up.
    script = f'case "$2" in venv) mkdir "$4"; exit 3 ;; *) exec "{sys.executable}" "$@" ;; esac'
    python = write_program(fresh / "one", script)
    assert make_lab(fresh, str(python))[0] == 2
    assert (other / "bin" / "activate").exists() and not (fresh / ".venv").is_symlink()
