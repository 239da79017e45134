"""The package as a zip, as Spark's executors get it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups.spark.session import _zip_package

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
