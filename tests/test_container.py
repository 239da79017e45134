"""The container files have the steps of make, and name no package registry."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# The step that installs Debian's packages, and makes the user without rights, consists of these commands.
DEBIAN_COMMANDS = (
    r"apt-get update",
    r"apt-get install -y --no-install-recommends [a-z0-9 -]+",
    r"rm -rf /var/lib/apt/lists/\*",
    r"useradd --create-home \w+",
    r"install -d -o \w+ -g \w+ [\w/]+",
)


def parse(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a container file, each with its arguments. A `\\` continues a line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    logical = re.sub(r"\\\n\s*", "", "\n".join(lines))
    instructions = []
    for line in logical.splitlines():
        name, _, arguments = line.partition(" ")
        instructions.append((name, arguments.strip()))
    return instructions


INSTRUCTIONS = parse((ROOT / "Containerfile").read_text())
MAX_TOOL_BYTES = 25_000_000
KAFKAGROUPS = Path(sys.executable).with_name("kafkagroups")
OUTPUT = {"capture_output": True, "text": True, "check": True}


def arguments_of(name: str) -> list[str]:
    return [arguments for instruction, arguments in INSTRUCTIONS if instruction == name]


def is_debian_step(command: str) -> bool:
    """Return whether a RUN step only installs packages of Debian and makes the user."""
    return all(any(re.fullmatch(pattern, part.strip()) for pattern in DEBIAN_COMMANDS) for part in command.split("&&"))


def make_steps() -> list[str]:
    """Return the RUN steps that are not the installation of Debian's packages."""
    return [command for command in arguments_of("RUN") if not is_debian_step(command)]


def copy_repository(folder: Path) -> None:
    """Copy the files that a clone would have, with the changes that are not committed yet."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def test_no_package_registry_is_named():
    """The files name no host, so the settings of the machine decide where packages come from."""
    for name in ("Containerfile", "Containerfile.tool", ".devcontainer/devcontainer.json"):
        assert not re.search(r"https?://|\w\.(org|com|io|net)\b|index-url", (ROOT / name).read_text())


@pytest.mark.setup
def test_the_steps_run_in_a_fresh_copy():
    """The steps of the container file work in a folder that has only the files of the repository."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "VIRTUAL_ENV"))}
    env["CARGO_TARGET_DIR"] = str(ROOT / "engine" / "target")  # The engine's crates are compiled there already.
    # The folder has 1 GB, so it is removed at the end, unlike pytest's own folders.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_repository(folder)
        for step in make_steps():
            done = subprocess.run(step.split(), cwd=folder, env=env, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        command = [".venv/bin/kafkagroups", "load", "data/harbour/4.3.1", "--group", "billing"]
        loaded = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
        assert loaded.returncode == 0, loaded.stderr
        assert "billing" in loaded.stdout
        # The set-up is complete: make has nothing to do for its stamps. In CI there is a Rust, so the engine is built.
        stamps = [".venv/.learn", *([".venv/.engine"] if os.environ.get("CI") == "true" else [])]
        again = subprocess.run(["make", "-q", *stamps], cwd=folder, env=env, capture_output=True)
        assert again.returncode == 0


@pytest.mark.setup
def test_the_tool_alone_is_installed_from_two_wheels(tmp_path):
    """The steps of Containerfile.tool, in an empty environment without an index: small, and with the native engine."""
    env = {**os.environ, "CARGO_TARGET_DIR": str(ROOT / "engine" / "target"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    copy_repository(tmp_path / "src")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    packages = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    before = set(packages.iterdir())
    steps = [step for name, step in parse((ROOT / "Containerfile.tool").read_text()) if step.startswith("pip")]
    assert [step.split()[1] for step in steps] == ["wheel", "install"]
    for step in steps:
        command = re.sub(r"(?<=\s)/(src|wheels)", lambda place: f"{tmp_path}{place[0]}", step)
        subprocess.run([tmp_path / "env" / "bin" / command.split()[0], *command.split()[1:]], env=env, check=True)
    files = [file for new in set(packages.iterdir()) - before for file in [new, *new.rglob("*")] if file.is_file()]
    assert sum(file.stat().st_size for file in files if file.suffix != ".pyc") < MAX_TOOL_BYTES
    loads = [
        subprocess.run([program, "load", ROOT / "data" / "harbour" / "4.3.1", "--json", "--engine", engine], **OUTPUT)
        for program, engine in ((tmp_path / "env" / "bin" / "kafkagroups", "compiled"), (KAFKAGROUPS, "python"))
    ]
    assert loads[0].stdout == loads[1].stdout and "billing" in loads[0].stdout
