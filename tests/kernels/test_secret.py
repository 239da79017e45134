"""The secret in the hashes: no log can be prepared that collides, and no answer depends on the secret."""

import json
import subprocess
import sys

import numpy as np
import pytest

import kafkagroups as kg
from kafkagroups.api import load_table
from kafkagroups.cli.load import to_json
from kafkagroups.kernels import layout, secret, state
from kafkagroups.kernels.other_records import OtherRecords
from kafkagroups.kernels.saved import save_arrays
from kafkagroups.kernels.secret import create_secret
from kafkagroups.kernels.unpack import as_array
from kafkagroups.loading.engines import choose_engine
from kafkagroups.loading.load import load_logs
from kafkagroups.loading.snapshots import Snapshot, take_snapshot
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL, LogRecord
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.records.dialects import dialect
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from tests.kernels.random_logs import random_log
from tests.kernels.same import shape

COMPILED = choose_engine("compiled", 0)
COUNT = 3000
# A product of 0 hides the other factor. So names that begin with the first number of a secret have the same hash.
STOLEN = create_secret(b"\0\x0aattack" + b"12345678")
STOLEN_FOR_IDS = create_secret(b"attacked" + b"12345678")
STOLEN_FOR_PRODUCERS = create_secret(b"12345678" + bytes(8))
OTHERS = [create_secret(bytes([number]) * 7 + b"z123456789") for number in (1, 77, 200)]


@pytest.fixture
def use(monkeypatch):
    return lambda value: monkeypatch.setattr(secret, "_secret", value)


def commits(names, producer_id=lambda number: -1):
    """Return a log of commits of (group, topic) names, each in a batch of its producer."""
    value = OffsetCommitValue(5, -1, "", 9, -1)
    batches = []
    for number, (group, topic) in enumerate(names):
        record = LogRecord(number, 5, *encode(Record(1, OffsetCommitKey(group, topic, 0), value, 3)))
        producer = producer_id(number)
        attributes = TRANSACTIONAL if producer >= 0 else 0
        batches.append(encode_batch([record], attributes=attributes, producer_id=producer, producer_epoch=0))
    return b"".join(batches)


def fold(data):
    folded = state.FoldState(dialect("new", None), log_size=len(data))
    assert folded.fold_segment(as_array(data))
    return folded


def probe_count(used, homes, size, distance=1):
    """Return how many slots a search of each key tries in sum. The arrays are the used slots and the hashes' slots."""
    steps = (used - homes) * pow(distance, -1, size) % size
    return int((steps + 1).sum())


def name_probes(folded):
    used = np.flatnonzero(folded.name_slots >= 0)
    hashes = folded.names[folded.name_slots[used] & layout.ENTRY_MASK, layout.NAME_HASH]
    return probe_count(used, hashes & len(folded.name_slots) - 1, len(folded.name_slots))


def test_names_that_collide_under_one_secret_do_not_under_another(use):
    """With a known secret, a search compares a name with all others. With any other secret, it tries two slots."""
    ordinary = [(f"group-{number}", "orders") for number in range(COUNT)]
    colliding = [(f"attack{number:04}", "") for number in range(COUNT)]
    use(STOLEN)
    assert name_probes(fold(commits(colliding))) > COUNT**2 / 3, "this is the attack"
    for other in OTHERS:
        use(other)
        probes = name_probes(fold(commits(colliding)))
        assert probes < 2 * name_probes(fold(commits(ordinary))) < 4 * COUNT


def longest_run(used):
    """Return how many used slots of a hash table are next to each other at most."""
    return max(len(run) for run in np.split(used, np.flatnonzero(np.diff(used) > 1) + 1))


def test_producers_that_collide_under_one_secret_do_not_under_another(use):
    """The producers with open transactions are in a hash table, too."""

    def producer_run():
        folded = fold(commits([("g", "t")] * COUNT, lambda number: 1000 + number))
        return longest_run(np.flatnonzero(folded.producers[:, layout.IS_USED]))

    use(STOLEN_FOR_PRODUCERS)
    assert producer_run() == COUNT, "this is the attack"
    for other in OTHERS:
        use(other)
        assert producer_run() < 40


def test_group_ids_that_collide_under_one_secret_do_not_under_another(use):
    """The groups with group records are in a hash table, too."""
    keys = [encode(Record(2, GroupMetadataKey(f"attacked{number:04}"), None, None))[0] for number in range(COUNT)]
    data = as_array(b"".join(keys))
    positions = np.array([(at, at * len(keys[0]), len(keys[0]), 0, -1) for at in range(COUNT)], np.int64)

    def group_run():
        records = OtherRecords(3)
        records.add(data, positions)
        return longest_run(np.flatnonzero(records._slots >= 0))

    use(STOLEN_FOR_IDS)
    assert group_run() == COUNT, "this is the attack"
    for other in OTHERS:
        use(other)
        assert group_run() < 40


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_no_answer_and_no_order_depends_on_the_secret(coordinator, use):
    """Groups, tables and saved arrays are the same, in the same order, whatever the secret is."""
    logs = [random_log(seed, batches=40) for seed in range(60)]
    logs.append(commits([(f"g{number % 7}", f"t{number}") for number in range(200)], lambda number: 7**number % 1009))
    rules = dialect(coordinator, None)
    for data in logs:
        answers = []
        for one in [STOLEN, *OTHERS]:
            use(one)
            groups = load_logs([log_of_buffers([("s.log", data)], 3)], rules, engine=COMPILED)
            tables = [
                load_table([("s.log", data)], table=table, coordinator=coordinator, engine="compiled", partition=3)
                for table in ("offsets", "pending", "groups", "members", "ids")
            ]
            shard = COMPILED.fold_if_possible(log_of_buffers([("s.log", data)], 3), rules)
            arrays = {} if shard is None else save_arrays(shard)
            answers.append(
                (
                    json.dumps(to_json(groups)),
                    list(groups),
                    list(groups.orphans),
                    list(groups.partitions_of),
                    [table.read_all().to_pylist() for table in tables],
                    {name: array.tobytes() for name, array in arrays.items()},
                )
            )
        assert all(answer == answers[0] for answer in answers)


def test_every_process_has_its_own_secret():
    """Two processes do not have the same secret."""
    program = "from kafkagroups.kernels.secret import process_secret\nprint(process_secret().tobytes().hex())"
    first, second = (subprocess.run([sys.executable, "-c", program], capture_output=True, text=True) for _ in "12")
    assert len(first.stdout.strip()) == 32 and first.stdout != second.stdout


def test_a_snapshot_loads_under_another_secret(use, tmp_path):
    """A snapshot of one process goes on in another process, with open transactions of many producers."""
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    data = commits([(f"g{number % 7}", f"t{number}") for number in range(200)], lambda number: number * 2**40)
    use(STOLEN_FOR_PRODUCERS)
    (folder / f"{0:020}.log").write_bytes(data)
    take_snapshot(folder, engine="compiled").save(tmp_path / "state")
    commit = LogRecord(200, 9, b"\0\0\0\1", bytes(6))
    marker = dict(attributes=CONTROL | TRANSACTIONAL, producer_id=3 * 2**40, producer_epoch=0)
    (folder / f"{0:020}.log").write_bytes(data + encode_batch([commit], **marker))
    use(OTHERS[0])
    resumed = Snapshot.read(tmp_path / "state").advance(folder, engine="compiled").groups()
    assert shape(resumed) == shape(kg.load(folder, engine="python"))
    assert sum(len(group.pending) for group in resumed.values()) == 199
