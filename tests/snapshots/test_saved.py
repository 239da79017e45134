"""A state file that was changed is refused if its arrays would lead the kernels out of bounds."""

import random

import numpy as np
import pytest

import kafkagroups as kg
from kafkagroups.groups.offsets import Offsets
from kafkagroups.kernels import layout
from kafkagroups.loading.engines import choose_engine
from kafkagroups.loading.snapshots import Snapshot, advance_shard, files
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.records.dialects import dialect
from tests.kernels.random_logs import passing_keys, random_log

NUMBERS = (-(1 << 63), -(1 << 40), -2, -1, 0, 1, 3, 20, 1 << 20, 40 << 20 | 20, 1 << 32, 1 << 52, (1 << 63) - 1)


def log_of(data):
    return log_of_buffers([("s.log", data)], 3)


def saved(tmp_path, data, rules):
    """Return the file of the state after this log, and its arrays."""
    path = tmp_path / "3.1.state"
    files.write_shard(path, advance_shard(None, log_of(data), rules, choose_engine("compiled", 0)))
    with np.load(path) as arrays:
        return path, {name: arrays[name] for name in arrays.files}


def read(path, arrays, rules):
    with open(path, "wb") as file:
        np.savez(file, **arrays)
    return files.read_shard(path, 3, rules)


def with_pending(rules):
    """Return a random log whose first half leaves commits pending."""
    for seed in range(1000):
        data = random_log(seed, 120)
        state = advance_shard(None, log_of(data[: len(data) // 2]), rules, choose_engine("compiled", 0))
        if not isinstance(state.offsets, Offsets) and state.offsets.pending:
            return data
    raise AssertionError


@pytest.mark.parametrize("coordinator", ["classic", "new"])
@pytest.mark.parametrize("log", ["random", "passing"])
def test_changed_numbers_are_refused_or_harmless(log, coordinator, tmp_path):
    """If one number of an array is changed, the state is refused, or it answers and advances without a crash."""
    rules = dialect(coordinator, None)
    data = passing_keys(300) if log == "passing" else with_pending(rules)
    path, arrays = saved(tmp_path, data[: len(data) // 2], rules)
    assert not isinstance(read(path, arrays, rules).offsets, Offsets)
    rnd = random.Random(log)
    refused = 0
    names = [name for name, array in arrays.items() if name != "rest" and array.size]
    for _ in range(400):
        changed = {name: array.copy() for name, array in arrays.items()}
        there = changed[rnd.choice(names)].reshape(-1)
        number = rnd.choice(NUMBERS)
        there[rnd.randrange(len(there))] = number if there.dtype == np.int64 else number & 0xFF
        if rnd.random() < 0.3:
            changed["counts"][layout.UNUSED_BYTES] = 1 << 40  # Dead keys are then dropped as early as possible.
        try:
            state = read(path, changed, rules)
        except kg.InvalidLog:
            refused += 1
            continue
        Snapshot(rules, {3: state}).groups()
        Snapshot(rules, {3: advance_shard(state, log_of(data), rules, choose_engine("compiled", 0))}).groups()
    assert 20 < refused < 380


@pytest.mark.parametrize("name", ["counts", "entries", "extras", "tombstones", "names", "arena", "nodes", "producers"])
def test_arrays_of_another_shape_are_refused(name, tmp_path):
    """An array that is missing, too short, or of another type or shape is refused."""
    rules = dialect("classic", None)
    path, arrays = saved(tmp_path, passing_keys(300), rules)
    for wrong in (arrays[name][:1], arrays[name].astype(np.int32), np.array([arrays[name]])):
        with pytest.raises(kg.InvalidLog, match="expected"):
            read(path, {**arrays, name: wrong}, rules)
    with pytest.raises(kg.InvalidLog, match="arrays"):
        read(path, {other: array for other, array in arrays.items() if other != name}, rules)


def test_lists_that_do_not_end_are_refused(tmp_path):
    """A pending commit that follows itself would be followed forever."""
    rules = dialect("classic", None)
    path, arrays = saved(tmp_path, passing_keys(300), rules)
    node = arrays["producers"][arrays["producers"][:, 2] != 0, 1].max()
    arrays["nodes"][node, layout.NEXT_NODE] = node
    with pytest.raises(kg.InvalidLog, match="no loop"):
        read(path, arrays, rules)


def test_texts_that_overlap_are_refused(tmp_path):
    """A copy of them would not fit into the arena, and a change of one would change the other."""
    rules = dialect("classic", None)
    path, arrays = saved(tmp_path, passing_keys(300), rules)
    arrays["entries"][0, layout.METADATA] = arrays["names"][0, layout.NAME_TEXT]
    with pytest.raises(kg.InvalidLog, match="not to overlap"):
        read(path, arrays, rules)
