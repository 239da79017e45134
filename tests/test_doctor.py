"""`kafkagroups doctor`: each thing that can be wrong is named, with the command that repairs it."""

import importlib.metadata
import json
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafkagroups.loading import native
from tests.command import main

NO_JAVA = "no java on the PATH, and JAVA_HOME is not set"


def run(*arguments: str) -> int:
    return main(["doctor", *arguments])


@pytest.fixture
def check(capsys):
    """A function that returns one line of the command's JSON."""

    def find(name: str) -> SimpleNamespace:
        capsys.readouterr()
        run("--json")
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return next(SimpleNamespace(**line) for line in lines if line["check"] == name)

    return find


@pytest.fixture
def fake_java(tmp_path, monkeypatch):
    """Makes a Java home whose java tells a version, as Java does, on stderr."""

    def make(version_line: str):
        home = tmp_path / "a java home"
        java = home / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
        java.chmod(java.stat().st_mode | stat.S_IXUSR)
        monkeypatch.delenv("JAVA_HOME", raising=False)
        return home

    return make


@pytest.fixture
def fake_engine(monkeypatch):
    """Installs a native engine with a version and an interface; this kafkagroups needs interface 7."""

    def install(version: str, interface: int) -> None:
        native.find_module.cache_clear()
        engine = SimpleNamespace(__version__=version, INTERFACE=interface)
        monkeypatch.setitem(sys.modules, "kafkagroups_engine", engine)
        monkeypatch.setattr("kafkagroups.loading.native.INTERFACE", 7)
        monkeypatch.delenv("KAFKAGROUPS_ENGINE", raising=False)

    yield install
    native.find_module.cache_clear()


@pytest.fixture
def healthy(monkeypatch, fake_java, fake_engine):
    """A machine on which everything is ok."""
    fake_engine("0.3.0", 7)
    monkeypatch.setenv("JAVA_HOME", str(fake_java('openjdk version "17.0.15" 2025-04-15')))


def test_a_healthy_machine(healthy, capsys):
    """When all is well the exit code is 0, and no check has a fix."""
    assert run("--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["check"] for line in lines] == [
        "python",
        "packages",
        "engine",
        "kernel",
        "java",
        "spark worker",
    ]
    for line in lines:
        assert line == {"check": line["check"], "ok": True, "found": line["found"], "fix": ""}


def test_the_table_uses_words(healthy, monkeypatch, capsys):
    """For people there is a table; ok and NOT OK are words, and a file or a pipe gets no colour codes."""
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    assert run() == 1
    out = capsys.readouterr().out
    text = " ".join(out.split())
    assert {"python", "ok", "NOT", "OK"} <= set(text.split()) and "unset JAVA_HOME" in text
    assert "\x1b" not in out


def test_wrong_java_home(check, healthy, monkeypatch, capsys):
    """A JAVA_HOME without a java is named even when a good java is on the PATH, since Spark would use it."""
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    assert run("--json") == 1
    java = check("java")
    assert not java.ok
    assert java.found.startswith("JAVA_HOME is /no/such/java, and ")
    assert "unset JAVA_HOME" in java.fix


@pytest.mark.parametrize(
    ("line", "ok", "version"),
    [
        ('java version "1.8.0_402"', False, "8.0_402"),
        ('openjdk version "11.0.22" 2024-01-16', False, "11.0.22"),
        ('openjdk version "17" 2021-09-14', True, "17"),
        ('openjdk version "25.0.2" 2026-01-20 LTS', True, "25.0.2"),
        ('openjdk version "26-ea" 2026-03-17', True, "26-ea"),
        ("Unable to locate a Java Runtime.", False, None),  # macOS has a java that only says that there is none.
    ],
)
@pytest.mark.parametrize("variable", ["PATH", "JAVA_HOME"])
def test_a_java(check, fake_java, monkeypatch, line, ok, version, variable):
    """Spark 4 needs Java 17. Without JAVA_HOME the java on the PATH counts, however it writes its version."""
    home = fake_java(line)
    monkeypatch.setenv(variable, str(home / "bin" if variable == "PATH" else home))
    java = check("java")
    assert java.ok == ok
    assert version is None or java.found == f"{version} ({home}/bin/java)"
    if version is not None and not ok:
        assert "Spark needs Java 17 or newer" in java.fix
        assert ("JAVA_HOME" in java.fix) == (variable == "JAVA_HOME")


def test_no_java(check, monkeypatch, tmp_path):
    """Without any Java the fix is the command that installs one, and the lessons that need none are no worse off."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    java = check("java")
    assert (java.ok, java.found) == (False, NO_JAVA)
    assert "apt install openjdk-17-jre-headless" in java.fix
    lessons = Path(__file__).parents[1] / "notebooks" / "source"
    with_java = [path.name[:2] for path in sorted(lessons.glob("*.py")) if 'tags=["java"]' in path.read_text()]
    assert f"only the Spark cells of {' and '.join(with_java)} and the real broker of 14 need Java" in java.fix


@pytest.mark.parametrize(
    ("package", "version", "found"),
    [("pandas", "3.1.1", "pandas 3.1.1 is not <3,>=2.3"), ("crc32c", None, "crc32c is missing")],
)
def test_a_package_that_is_missing_or_out_of_range(check, monkeypatch, package, version, found):
    """It is named with its version and the range in pyproject.toml."""
    real = importlib.metadata.version

    def installed(name):
        if name == package and version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version if name == package else real(name)

    monkeypatch.setattr(importlib.metadata, "version", installed)
    packages = check("packages")
    assert (packages.ok, packages.found) == (False, found) and "make lab" in packages.fix


def test_the_native_engine(check, fake_engine, monkeypatch):
    """The engine is shown with its version, also where it is switched off."""
    fake_engine("0.3.0", 7)
    engine = check("engine")
    assert (engine.ok, engine.found, engine.fix) == (True, "kafkagroups_engine 0.3.0", "")
    monkeypatch.setenv("KAFKAGROUPS_ENGINE", "off")
    engine = check("engine")
    assert (engine.ok, engine.found) == (True, "switched off")
    assert "unset KAFKAGROUPS_ENGINE" in engine.fix


def test_no_native_engine(check, healthy, monkeypatch, capsys):
    """All works without the engine, so that is ok; the fix is how to get it."""
    monkeypatch.setitem(sys.modules, "kafkagroups_engine", None)
    engine = check("engine")
    assert (engine.ok, engine.found) == (True, "no native engine is installed, so large logs load slowly")
    assert "install Rust" in engine.fix and "make lab" in engine.fix and "pip install ./engine" in engine.fix
    assert run() == 0
    assert f"Not needed, but faster, engine: {engine.fix}." in capsys.readouterr().out


def test_a_native_engine_of_another_kafkagroups(check, fake_engine):
    """An engine that speaks another interface is not used, so the doctor names both numbers and the repair."""
    fake_engine("0.2.0", 6)
    engine = check("engine")
    assert not engine.ok
    assert "kafkagroups_engine has interface 6, and this kafkagroups needs 7" in engine.found
    assert "pip install ./engine" in engine.fix


def test_a_native_engine_that_does_not_load(check, fake_engine, monkeypatch, tmp_path):
    """A library of another machine is a problem, and not a missing engine."""
    fake_engine("0.3.0", 7)
    (tmp_path / "kafkagroups_engine.py").write_text("raise ImportError('wrong ELF class')")
    monkeypatch.delitem(sys.modules, "kafkagroups_engine", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    engine = check("engine")
    assert (engine.ok, engine.found) == (False, engine.found) and "(wrong ELF class)" in engine.found


def test_a_kernel_of_another_python(check, monkeypatch, tmp_path):
    """A kernel named python3 that starts another interpreter would run the lessons without the package."""
    kernel = tmp_path / "kernels" / "python3"
    kernel.mkdir(parents=True)
    spec = {"argv": ["/another/python", "-m", "ipykernel"], "display_name": "x", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    found = check("kernel")
    assert (found.ok, found.found) == (False, "python3 starts /another/python")
    assert "ipykernel install" in found.fix
