"""A state file that somebody has changed: what kernels would run into is refused."""

import random

import numpy as np
import pytest

import kafkagroups as kg
from kafkagroups.kernels import layout
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.records.dialect import dialect
from kafkagroups.snapshots import Snapshot, advanced, files
from tests.kernels.random_logs import passing_keys, random_log

RULES = dialect("classic", None)
NUMBERS = (-(1 << 63), -(1 << 40), -2, -1, 0, 1, 3, 1 << 20, 1 << 32, 1 << 52, (1 << 63) - 1)


def saved(tmp_path, data):
    """The file of a state after this log, and its arrays."""
    path = tmp_path / "3.1.state"
    files.write_state(path, advanced(None, log_of_buffers([("s.log", data)], 3), RULES, True))
    with np.load(path) as arrays:
        return path, {name: arrays[name] for name in arrays.files}


def read(path, arrays):
    with open(path, "wb") as file:
        np.savez(file, **arrays)
    return files.read_state(path, RULES)


@pytest.mark.parametrize("log", ["random", "passing"])
def test_changed_numbers_are_refused_or_harmless(log, tmp_path):
    """One number of an array is another: no state can be read, or one that answers and goes on."""
    data = passing_keys(300) if log == "passing" else b""
    seed = 0
    while not data:
        data = random_log(seed, 120)
        state = advanced(None, log_of_buffers([("s.log", data)], 3), RULES, True)
        seed, data = seed + 1, data if state.fold is not None and state.fold.pending() else b""
    path, arrays = saved(tmp_path, data[: len(data) // 2])
    assert read(path, arrays).fold is not None
    whole = log_of_buffers([("s.log", data)], 3)
    rnd, refused = random.Random(log), 0
    names = [name for name, array in arrays.items() if array.dtype == np.int64 and array.size]
    for _ in range(400):
        changed = {name: array.copy() for name, array in arrays.items()}
        there = changed[rnd.choice(names)].reshape(-1)
        there[rnd.randrange(len(there))] = rnd.choice(NUMBERS)
        try:
            state = read(path, changed)
        except kg.InvalidLog:
            refused += 1
            continue
        Snapshot(RULES, {3: state}).groups()
        Snapshot(RULES, {3: advanced(state, whole, RULES, True)}).groups()
    assert 20 < refused < 380


@pytest.mark.parametrize("name", ["counts", "entries", "names", "arena", "nodes", "producers"])
def test_arrays_of_another_shape_are_refused(name, tmp_path):
    """An array that is missing, too short, of another type or turned."""
    path, arrays = saved(tmp_path, passing_keys(300))
    for wrong in (arrays[name][:1], arrays[name].astype(np.int32), np.array([arrays[name]])):
        with pytest.raises(kg.InvalidLog, match="expected"):
            read(path, {**arrays, name: wrong})
    with pytest.raises(kg.InvalidLog, match="arrays"):
        read(path, {other: array for other, array in arrays.items() if other != name})


def test_lists_that_do_not_end_are_refused(tmp_path):
    """A pending commit that follows itself would be followed for ever."""
    path, arrays = saved(tmp_path, passing_keys(300))
    node = arrays["producers"][arrays["producers"][:, 2] != 0, 1].max()
    arrays["nodes"][node, layout.NEXT] = node
    with pytest.raises(kg.InvalidLog, match="that end"):
        read(path, arrays)
