"""A state file that was changed is refused if its arrays would lead the kernels out of bounds."""

import os
import random

import numpy as np
import pytest

import kafkagroups as kg
from kafkagroups.groups.offsets import Offsets
from kafkagroups.kernels import layout
from kafkagroups.kernels.saved import save_arrays
from kafkagroups.loading.engines import choose_engine
from kafkagroups.loading.snapshots import Snapshot, advance_shard
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.records.dialects import dialect
from tests.kernels.random_logs import passing_keys, random_log
from tests.snapshots import forged

ROUNDS = 400 if os.environ.get("KG_PROFILE") == "long" else 120
NUMBERS = (-(1 << 63), -(1 << 40), -2, -1, 0, 1, 3, 20, 1 << 20, 40 << 20 | 20, 1 << 32, 1 << 52, (1 << 63) - 1)


def log_of(data):
    return log_of_buffers([("s.log", data)], 3)


def saved(folder, data, rules):
    """Save the state after this log, and return the JSON and the arrays of its file."""
    state = advance_shard(None, log_of(data), rules, choose_engine("compiled", 0))
    Snapshot(rules, {3: state}).save(folder)
    return forged.read_state(folder, 3)


def read(folder, content, arrays):
    forged.write_state(folder, 3, content, arrays)
    return Snapshot.read(folder).shards[3]


def with_pending(rules):
    """Return a random log whose first half leaves commits pending."""
    for seed in range(1000):
        data = random_log(seed, 120)
        state = advance_shard(None, log_of(data[: len(data) // 2]), rules, choose_engine("compiled", 0))
        if not isinstance(state.offsets, Offsets) and state.offsets.pending:
            return data
    raise AssertionError


@pytest.mark.slow
@pytest.mark.parametrize("coordinator", ["classic", "new"])
@pytest.mark.parametrize("log", ["random", "passing"])
def test_changed_numbers_are_refused_or_harmless(log, coordinator, tmp_path):
    """If one number of an array is changed, the state is refused, or it answers and advances without a crash."""
    rules = dialect(coordinator, None)
    data = passing_keys(300) if log == "passing" else with_pending(rules)
    content, arrays = saved(tmp_path, data[: len(data) // 2], rules)
    assert not isinstance(read(tmp_path, content, arrays).offsets, Offsets)
    rnd = random.Random(log)
    refused = 0
    names = [name for name, array in arrays.items() if array.size]
    for _ in range(ROUNDS):
        changed = {name: array.copy() for name, array in arrays.items()}
        there = changed[rnd.choice(names)].reshape(-1)
        number = rnd.choice(NUMBERS)
        there[rnd.randrange(len(there))] = number if there.dtype == np.int64 else number & 0xFF
        try:
            state = read(tmp_path, content, changed)
        except kg.InvalidLog:
            refused += 1
            continue
        Snapshot(rules, {3: state}).groups()
        Snapshot(rules, {3: advance_shard(state, log_of(data), rules, choose_engine("compiled", 0))}).groups()
    assert ROUNDS / 20 < refused < ROUNDS * 0.95


@pytest.mark.parametrize(
    "name",
    [
        *("entries", "extras", "producers", "nodes", "node_extras", "group_records", "tombstones", "names", "arena"),
        "group_record_bytes",
    ],
)
def test_arrays_of_another_shape_are_refused(name, tmp_path):
    """An array that is missing, too short, or of another type or shape is refused."""
    rules = dialect("classic", None)
    content, arrays = saved(tmp_path, with_group_records(rules), rules)
    assert len(arrays[name]) > 1
    for wrong in (arrays[name][:1], arrays[name].astype(np.int32), np.array([arrays[name]])):
        with pytest.raises(kg.InvalidLog, match="expected"):
            read(tmp_path, content, {**arrays, name: wrong})
    with pytest.raises(kg.InvalidLog, match="arrays"):
        read(tmp_path, content, {other: array for other, array in arrays.items() if other != name})


def with_group_records(rules):
    """Return a log that leaves pending commits and plain group records."""
    for seed in range(1000):
        data = random_log(seed, 120)
        state = advance_shard(None, log_of(data), rules, choose_engine("compiled", 0))
        if isinstance(state.offsets, Offsets):
            continue
        kept = save_arrays(state)
        if min(len(kept["producers"]), len(kept["group_records"])) > 1:
            return data
    raise AssertionError


def test_names_keys_and_producers_that_occur_twice_are_refused(tmp_path):
    """If one of them occurred many times, the hash tables would become slow."""
    rules = dialect("classic", None)
    content, arrays = saved(tmp_path, passing_keys(300), rules)
    keys = arrays["entries"].copy()
    keys[1, layout.NAME_AND_PARTITION] = keys[0, layout.NAME_AND_PARTITION]
    with pytest.raises(kg.InvalidLog, match="each key to have one entry"):
        read(tmp_path, content, arrays | {"entries": keys})
    producers = arrays["producers"].copy()
    producers[1, 0] = producers[0, 0]
    with pytest.raises(kg.InvalidLog, match="each producer to have one row"):
        read(tmp_path, content, arrays | {"producers": producers})
    # A second name with the same bytes, and an entry for it.
    start, size = divmod(int(arrays["names"][0]), 1 << layout.SIZE_BITS)
    entry = np.zeros((1, 8), np.int64)
    entry[0, layout.NAME_AND_PARTITION] = len(arrays["names"]) << layout.PARTITION_BITS
    added = {
        "names": [len(arrays["arena"]) << layout.SIZE_BITS | size],
        "arena": arrays["arena"][start : start + size],
        "entries": entry,
        "extras": np.zeros((1, 4), np.int64),
        "tombstones": [-1],
    }
    with pytest.raises(kg.InvalidLog, match="each name to be valid UTF-8 and to occur once"):
        read(tmp_path, content, arrays | {name: np.concatenate([arrays[name], more]) for name, more in added.items()})


@pytest.mark.parametrize("size", [-1, 0, 1 << 40, (1 << 63) - 1])
def test_pending_commits_that_belong_to_no_producer_are_refused(size, tmp_path):
    """The producers' numbers of pending commits must have the right sum."""
    rules = dialect("classic", None)
    content, arrays = saved(tmp_path, passing_keys(300), rules)
    arrays["producers"][0, 1] = size
    with pytest.raises(kg.InvalidLog, match=r"pending commit|belong to one producer"):
        read(tmp_path, content, arrays)


def test_texts_that_overlap_are_refused(tmp_path):
    """A copy of them would not fit into the arena, and a change of one would change the other."""
    rules = dialect("classic", None)
    content, arrays = saved(tmp_path, passing_keys(300), rules)
    arrays["entries"][0, layout.METADATA] = arrays["names"][0]
    with pytest.raises(kg.InvalidLog, match="not to overlap"):
        read(tmp_path, content, arrays)
