"""The native engine is built by set-up where there is a Rust. Without it, one line says so, and all goes on.

No test compiles anything: `cargo`, the installer and the Python of `.venv` are scripts.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from runpy import run_path

import pytest

from tests.cases import case
from tests.scripts import copy_files, write_program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
TOOL = run_path(str(ROOT / "tools" / "engine.py"))
PINS = (ROOT / "locks" / "engine.txt").read_text()
SHELL_COMMANDS = ("sh", "dirname", "grep", "head", "make", "rm", "sed", "tail", "touch", "uname")

A_CARGO = """\
case $1 in
    --version|version) echo cargo 1.85.0 ;;
    metadata)
        echo '{"packages": [{"name": "kafkagroups-engine", "version": "9.9.9", "rust_version": "1.83",'
        echo '"dependencies": [{"source": "HERE"}]}]}' ;;
    *) exit 1 ;;
esac"""
A_CARGO_THAT_FAILS = """\
case $1 in
    --version) echo cargo 1.85.0 ;;
    *) echo 'warning: unused' >&2; echo 'error[E1]: linker `cc` not found' >&2; echo 'error: more' >&2; exit 101 ;;
esac"""


@pytest.fixture
def project(tmp_path):
    """A project that is set up but for the engine. Its `uv` notes its arguments, and its maturin writes a wheel."""
    copy_files(tmp_path, "Makefile", "pyproject.toml", "tools/setup.sh", "tools/engine.py")
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    shutil.copytree(ROOT / "engine", tmp_path / "engine", ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    for name in SHELL_COMMANDS:
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    write_program(tmp_path / "bin" / "rustc", "echo 'rustc 1.95.0 (59807616e 2026-04-14)'")
    write_program(tmp_path / ".venv" / "bin" / "uv", f'echo "$@" >>"{tmp_path}/uv.log"')
    maturin = f'touch "{tmp_path}/.venv/engine/kafkagroups_engine-9.9.9-cp311-abi3-linux_x86_64.whl"'
    run_python = f'exec "{sys.executable}" "$@"'
    fails = '"import kafkagroups_engine"|pip) exit 1'
    write_program(
        tmp_path / ".venv" / "bin" / "python", f'case "$2" in maturin) {maturin} ;; {fails} ;; *) {run_python} ;; esac'
    )
    (tmp_path / ".venv" / ".learn").write_text(str(tmp_path))
    # The tool starts its own interpreter again for maturin. It is the script here.
    tool = tmp_path / "tools" / "engine.py"
    tool.write_text(tool.read_text().replace("sys.executable", f'"{tmp_path}/.venv/bin/python"'))
    return tmp_path


def build(project: Path, **variables: str) -> str:
    """Run the rule of the Makefile, which must not fail, and return all that it prints."""
    env = {"PATH": f"{project}/bin", **variables}
    done = subprocess.run(["make", ".venv/.engine"], cwd=project, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def is_built(project: Path) -> bool:
    """Return whether make has nothing to do for the engine."""
    env = {"PATH": f"{project}/bin"}
    return subprocess.run(["make", "-q", ".venv/.engine"], cwd=project, env=env, capture_output=True).returncode == 0


@pytest.mark.parametrize("shim", [None, "exit 127"])
def test_without_rust_one_line_says_what_is_missing(project, shim):
    """The line names the command that installs a Rust. The next make says it again, or builds the engine."""
    if shim:
        write_program(project / "bin" / "cargo", shim)
    for _ in range(2):
        output = build(project)
        assert len(output.splitlines()) == 1
        assert "No Rust here" in output and "everything works without it" in output
        assert re.search(r"To get it: (apt install cargo|apt install cargo-web|brew install rust), then", output)
    write_program(project / "bin" / "cargo", A_CARGO)
    assert "building" in build(project)
    assert is_built(project)


def test_a_build_that_fails_is_one_line(project):
    """The line has the first error of the log, and set-up goes on. An older engine must not answer for new sources."""
    write_program(project / "bin" / "cargo", A_CARGO_THAT_FAILS)
    *_, line = build(project).splitlines()
    assert "could not be built" in line and "everything works without it" in line
    assert line.endswith(".venv/engine.log says why: linker `cc` not found")
    assert "warning: unused" in (project / ".venv" / "engine.log").read_text()
    assert "pip uninstall" in (project / "uv.log").read_text().splitlines()[-1]
    assert not is_built(project)


def test_the_engine_is_built_again_only_when_it_changed(project):
    """A change in the sources, the manifest or the pins builds it again."""
    write_program(project / "bin" / "cargo", A_CARGO)
    build(project)
    wheel = ".venv/engine/kafkagroups_engine-9.9.9-cp311-abi3-linux_x86_64.whl"
    assert (project / "uv.log").read_text().splitlines()[-1].endswith(wheel)
    assert is_built(project)
    os.utime(project / ".venv" / ".engine", (2_000_000_000, 2_000_000_000))
    for name in ("engine/src/lib.rs", "engine/Cargo.toml", "locks/engine.txt"):
        with case(name):
            os.utime(project / name, (3_000_000_000, 3_000_000_000))
            assert not is_built(project)
            os.utime(project / name, (1_000_000_000, 1_000_000_000))
            assert is_built(project)


def test_the_wheelhouse_brings_the_engine(project):
    """With WHEELHOUSE nothing is built. If the folder has no engine for this machine, one line says so."""
    folder = project / "wheelhouse"
    folder.mkdir()
    (folder / "wheelhouse.txt").write_text("any\n")
    output = build(project, WHEELHOUSE=str(folder))
    assert len(output.splitlines()) == 1 and "The wheelhouse has no native engine for this machine" in output
    (folder / "engine.txt").write_text("kafkagroups-engine==9.9.9 --hash=sha256:0\n")
    assert build(project, WHEELHOUSE=str(folder)) == ""
    command = (project / "uv.log").read_text().splitlines()[-1]
    assert command.endswith(f"-r {folder}/engine.txt --no-index --find-links {folder}")
    assert is_built(project)


def test_the_pins_become_a_cargo_lock_and_back(project, monkeypatch):
    """Cargo.lock has what the pins have, the version of Cargo.toml, and the address that cargo names."""
    write_program(project / "bin" / "cargo", A_CARGO)
    monkeypatch.setenv("PATH", f"{project}/bin")
    lock = project / "engine" / "Cargo.lock"
    for name, path in (("ENGINE", lock.parent), ("CARGO_LOCK", lock)):
        monkeypatch.setitem(TOOL["write_cargo_lock"].__globals__, name, path)
    TOOL["write_cargo_lock"]()
    packages = {package["name"]: package for package in tomllib.loads(lock.read_text())["package"]}
    engine = packages.pop("kafkagroups-engine")
    assert engine["version"] == "9.9.9" and not {"source", "checksum"} & engine.keys()
    assert {package["source"] for package in packages.values()} == {"HERE"}
    assert TOOL["read_cargo_lock"]() == PINS


def test_nothing_installs_an_engine_that_is_not_published():
    """Whoever installs an extra, a lock or environment.yml would look for it in vain, or find another one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for lines in (project["dependencies"], *project["optional-dependencies"].values()):
        assert not [line for line in lines if re.match(r"kafkagroups[-_]engine", line)]
    for path in [ROOT / "environment.yml", *(ROOT / "locks").iterdir()]:
        assert "kafkagroups-engine" not in path.read_text()
