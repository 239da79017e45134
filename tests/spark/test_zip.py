"""The package as a zip, as Spark's executors get it: the kernels cache machine code, and never use a stale one."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from kafkagroups.kernels.stored_code import SOURCES_HASH
from kafkagroups.spark.session import _zip_package

pytestmark = pytest.mark.slow
PROGRAM = """
import json
import numpy as np
from kafkagroups.kernels import crc32c, stored_code
data = np.frombuffer(b"123456789", np.uint8)
crc = int(crc32c.crc32c_by_tables(data, 0, len(data)))
hits = len(stored_code.STORE.fetched)
print(json.dumps([stored_code.__file__, stored_code.SOURCES_HASH, crc, hits]))
"""


@pytest.fixture
def package(tmp_path):
    return shutil.copy(_zip_package(), tmp_path / "kafkagroups.zip")


def run(package, home):
    """Return the stamp of the kernels, and whether their machine code was cached."""
    env = {**os.environ, "PYTHONPATH": str(package), "XDG_CACHE_HOME": str(home)}
    env.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=home, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    file, stamp, crc, hits = json.loads(done.stdout)
    assert file.startswith(f"{package}/kafkagroups/") and crc == 0xE3069283  # the check value of CRC-32C
    return stamp, hits


def test_machine_code_of_a_zip_is_kept_until_a_kernel_changes(package, tmp_path):
    """Each Spark application has its zip in another folder, and finds what the previous one compiled.

    The cache is stale if any file of the kernels has changed, because a function is compiled with what it calls.
    """
    home = tmp_path / "home"
    elsewhere = tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    assert run(package, home) == (SOURCES_HASH, 0)
    moved = shutil.copy(package, elsewhere)
    assert run(moved, home) == (SOURCES_HASH, 1)
    with zipfile.ZipFile(package) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(moved, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data + b"# changed\n" if name.endswith("kernels/intrinsics.py") else data)
    stamp, hits = run(moved, home)
    assert stamp != SOURCES_HASH and hits == 0


def test_a_home_that_cannot_be_written_only_costs_time(package, tmp_path):
    """Then the kernels are compiled at every start."""
    (tmp_path / "file").write_text("no folder")
    env = {**os.environ, "PYTHONPATH": str(package), "XDG_CACHE_HOME": str(tmp_path / "file")}
    env.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)[2:] == [0xE3069283, 0], done.stderr
