"""The machine code of the kernels is stored in a file. A file that is not right is never used."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from kafkagroups.kernels import stored_code
from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.stored_code import MachineCode, Store

ROOT = Path(__file__).parents[2]
CODE = MachineCode("none", b"code")
LOAD = """
import json, sys
import kafkagroups as kg
from kafkagroups.cli.load import to_json
groups = kg.load("data/harbour/3.9.2", engine="compiled")
from kafkagroups.kernels.stored_code import STORE
print(json.dumps([to_json(groups), "numba" in sys.modules, len(STORE.fetched), len(STORE.added)]))
"""
TWO_THREADS = """
import threading
import numpy as np
from kafkagroups.kernels import crc32c, stored_code
data = np.frombuffer(b"123456789", np.uint8)
both = threading.Barrier(2)
results = []

def compute():
    both.wait()
    results.append(crc32c.crc32c_by_tables(data, 0, 9))

threads = [threading.Thread(target=compute) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert results == [0xE3069283, 0xE3069283]
print(len(stored_code.STORE.added), len(stored_code.STORE.fetched))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The only folder for machine code in this test."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (folder,) = stored_code.list_folders()
    return folder


@pytest.fixture
def file(folder):
    """A file with the function "f"."""
    Store().add("f", CODE)
    (file,) = folder.iterdir()
    return file


def run(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_load_with_stored_code_does_not_import_numba():
    """The import of numba takes longer than the load of a million records."""
    run(LOAD)
    _, has_imported_numba, fetched, added = json.loads(run(LOAD))
    assert not has_imported_numba
    assert fetched >= 3
    assert not added


@pytest.mark.compiler
def test_stored_code_changes_no_result(tmp_path):
    """The process that compiles and the process that finds the stored code print the same."""
    compiled, compiler_has_numba, _, added = json.loads(run(LOAD, NUMBA_CACHE_DIR=str(tmp_path)))
    stored, *rest = json.loads(run(LOAD, NUMBA_CACHE_DIR=str(tmp_path)))
    assert stored == compiled
    assert compiler_has_numba
    assert rest == [False, added, 0]


@pytest.mark.compiler
def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path):
    """The kernels are then compiled by each process. A regular file in place of the folder also stops root."""
    (tmp_path / "file").write_text("no folder")
    for _ in range(2):
        assert run(TWO_THREADS, NUMBA_CACHE_DIR=str(tmp_path / "file")) == "1 0\n"


@pytest.mark.compiler
def test_two_threads_compile_a_kernel_once(tmp_path):
    """Two threads call a kernel for the first time: one thread prepares the machine code, and the other waits."""
    assert run(TWO_THREADS, NUMBA_CACHE_DIR=str(tmp_path)) == "1 0\n"
    assert run(TWO_THREADS, NUMBA_CACHE_DIR=str(tmp_path)) == "0 1\n"


@pytest.mark.compiler
def test_a_damaged_file_is_replaced(tmp_path):
    """The process that finds a damaged file compiles again, and the next process finds a good file."""
    run(TWO_THREADS, NUMBA_CACHE_DIR=str(tmp_path))
    (file,) = tmp_path.glob("*/*")
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    assert run(TWO_THREADS, NUMBA_CACHE_DIR=str(tmp_path)) == "1 0\n"
    assert run(TWO_THREADS, NUMBA_CACHE_DIR=str(tmp_path)) == "0 1\n"


def test_a_function_is_found_by_its_symbol(file):
    """A store finds what another store has added, and nothing else."""
    store = Store()
    assert store.find("f") == CODE
    assert store.find("g") is None
    assert store.fetched == ["f"]


def test_no_truncated_file_is_used(file):
    """A file that ends early is ignored, wherever it ends."""
    content = file.read_bytes()
    for size in range(len(content)):
        file.write_bytes(content[:size])
        assert not Store().functions


def test_no_file_with_a_changed_byte_is_used(file):
    """A file is ignored if any of its bytes has changed."""
    content = file.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1
        file.write_bytes(changed)
        assert not Store().functions


def test_no_longer_file_is_used(file):
    """A file with bytes after its end is ignored."""
    file.write_bytes(file.read_bytes() + b"\0")
    assert not Store().functions


def test_an_outdated_file_is_ignored_and_replaced(file, monkeypatch):
    """A new version of a source file, of numba or of LLVM has another key."""
    monkeypatch.setattr(stored_code, "KEY", "another key")
    assert not Store().functions
    Store().add("g", CODE)
    assert list(Store().functions) == ["g"]


def test_stores_keep_each_others_functions(file):
    """Two processes that compile different functions store both."""
    first = Store()
    second = Store()
    assert first.functions == second.functions
    first.add("g", CODE)
    second.add("h", CODE)
    assert set(Store().functions) == {"f", "g", "h"}


def test_a_save_leaves_no_other_file(file):
    """A save writes a new file and renames it."""
    Store().add("g", CODE)
    assert list(file.parent.iterdir()) == [file]


def test_stores_of_several_threads_are_always_readable(file):
    """A reader never sees a part of a file, because a save replaces the whole file."""

    def save():
        for number in range(50):
            Store().add(f"g{number}", MachineCode("none", bytes(10_000)))

    threads = [threading.Thread(target=save) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert "f" in Store().functions
    for thread in threads:
        thread.join()


class Pair(NamedTuple):
    numbers: Any
    rows: Any


@inlined
def _add_one(number: Any) -> Any:
    return number + 1


@kernel
def _sum_products(pair: Any, start: int, other: Any = None) -> int:
    if pair is None:
        return _add_one(start)
    if other is not None:
        return -start
    result = start
    for index in range(len(pair.numbers)):
        result += pair.numbers[index] * pair.rows[index, 0]
    return result


@kernel
def _divide(dividend: int, divisor: int) -> tuple[int, bool, Any]:
    return dividend // divisor, dividend > divisor, np.uint64(dividend)


def test_a_kernel_has_code_for_each_combination_of_types():
    """An argument can be None, a number, an array of any order, or a named tuple of arrays."""
    numbers = np.arange(5)
    rows = np.arange(20).reshape(5, 4)
    assert _sum_products(None, 3) == 4
    assert _sum_products(Pair(numbers, rows), np.int64(5)) == 5 + 120
    assert _sum_products(Pair(numbers, np.asfortranarray(rows)), 5) == 5 + 120
    assert _sum_products(Pair(numbers, rows[:, ::-2]), 5) == 5 + 150
    assert _sum_products(Pair(numbers, rows), 5, other=Pair(numbers, rows)) == -5
    assert _sum_products(Pair(numbers[::2], rows.astype(np.uint8)), 5) == 5 + 40


def test_results_are_python_objects():
    """A kernel returns an int for a number of any type, and a bool for a condition."""
    assert _divide(-7, 2) == (-4, False, 2**64 - 7)
    assert [type(each) for each in _divide(7, 2)] == [int, bool, int]


def test_an_error_in_a_kernel_is_raised():
    """Machine code returns a status, which must not go unnoticed."""
    with pytest.raises(RuntimeError, match="_divide"):
        _divide(1, 0)


@pytest.mark.parametrize("argument", [1.5, "text", (1, 2), np.zeros(3), np.zeros(3, ">i8"), np.array([None])])
def test_a_kernel_refuses_other_arguments(argument):
    """Machine code must never read an argument of a type that was not checked."""
    with pytest.raises(TypeError, match="cannot receive"):
        _sum_products(argument, 0)
