"""`stats` gives the same answer with both engines: the compiled one counts while it folds a log."""

import os
import random

import pytest

from kafkagroups.api import stats
from kafkagroups.cli.stats import to_json
from kafkagroups.history.stats import ROW_KINDS
from kafkagroups.kernels import arrays, fate_arrays, open_keys, second_reading
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from tests.captured import captured
from tests.cases import case
from tests.history.counting import count_results
from tests.history.test_group_fates import RULES
from tests.kernels.random_logs import random_log
from tests.kernels.test_equal import some_folders
from tests.releases.sequences import encode_log, random_sequence

LONG = os.environ.get("KG_PROFILE") == "long"


def count_both(path, by, coordinator, kafka):
    """Return what `stats --json` prints with the readable engine, and with the compiled one."""
    options = {"coordinator": coordinator, "kafka": kafka}
    return [to_json(stats(path, by, engine=engine, **options), None) for engine in ("python", "compiled")]


@pytest.fixture
def count_followed(monkeypatch):
    """Count the logs that the compiled engine could follow."""
    return count_results(monkeypatch, "follow_if_possible")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["runs", "crafted", "cleaner", "releases"])
def test_captured_logs_have_the_same_statistics(family, count_followed):
    """Every captured log, for both coordinators and every kind of row."""
    for folder in some_folders(family):
        for coordinator, kafka in (("classic", "3.9.2"), ("new", "4.3.1")):
            for by in ROW_KINDS:
                with case((folder.relative_to(captured(family)), coordinator, by)):
                    readable, compiled = count_both(folder, by, coordinator, kafka)
                    assert compiled == readable
    assert count_followed


@pytest.mark.slow
def test_random_logs_have_the_same_statistics(tmp_path, count_followed):
    """1,000 random logs (20,000 in the long profile) of offsets or of all record types."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    for seed in range(20_000 if LONG else 1_000):
        rnd = random.Random(seed)
        log = random_log(seed) if seed % 2 else encode_log(random_sequence(seed))
        (folder / f"{0:020}.log").write_bytes(log)
        coordinator, kafka = rnd.choice(RULES)
        with case((seed, coordinator, kafka)):
            readable, compiled = count_both(folder, rnd.choice(ROW_KINDS), coordinator, kafka)
            assert compiled == readable
    assert len(count_followed) > 200


def commit(offset, group, partition=0, topic="orders", value_size=2):
    key = OffsetCommitKey(group, topic, partition)
    value = OffsetCommitValue(offset=offset, metadata="m" * value_size, commit_timestamp=5)
    return LogRecord(offset, offset, *encode(Record(1, key, value, 3)))


@pytest.mark.parametrize("attributes", [0, 1, 4])
def test_a_log_of_many_pieces_segments_and_producers(attributes, tmp_path, monkeypatch, count_followed):
    """Small arrays that grow and drop keys, batches that cross the pieces of a file, open transactions, two codecs."""
    for module, name, size in (
        (arrays, "INITIAL_KEYS", 8),
        (arrays, "INITIAL_NAMES", 8),
        (arrays, "INITIAL_NODES", 8),
        (arrays, "INITIAL_ARENA_BYTES", 256),
        (fate_arrays, "INITIAL_TRANSACTIONS", 2),
        (second_reading, "PIECE_BYTES", 1000),
        (open_keys, "INITIAL_KEY_ROWS", 2),
    ):
        monkeypatch.setattr(module, name, size)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    batches = {}
    for offset in range(0, 1200, 4):
        records = [
            commit(offset, f"group {offset % 7}", offset % 11),
            commit(offset + 1, f"group {offset % 5}", 1, f"topic {offset}"),
        ]
        if offset % 3 == 0:
            deleted = commit(offset + 2, f"group {offset % 5}", 1, f"topic {offset - 12}")
            records.append(deleted._replace(value=None))
        bits = attributes | (0x10 if offset % 8 else 0)
        producer_id = offset if offset % 8 else -1
        batches[offset] = encode_batch(records, attributes=bits, producer_id=producer_id, producer_epoch=0)
        if offset % 5 == 0:
            ending = LogRecord(offset + 3, 5, b"\0\0\0\1" if offset % 3 else b"\0\0\0\0", b"\0\0\0\0\0\0")
            batches[offset + 3] = encode_batch([ending], attributes=0x30, producer_id=offset, producer_epoch=0)
    for base in range(0, 1200, 300):
        content = b"".join(batch for offset, batch in batches.items() if base <= offset < base + 300)
        (folder / f"{base:020}.log").write_bytes(content)
    for coordinator, kafka in (("new", "4.3.1"), ("classic", "3.9.2")):
        for by in ROW_KINDS:
            readable, compiled = count_both(folder, by, coordinator, kafka)
            assert compiled == readable
            assert compiled["partitions"]["0"]["open_transactions"]
    assert len(count_followed) == 2 * len(ROW_KINDS)
