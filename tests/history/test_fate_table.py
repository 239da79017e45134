"""The tables `records` and `fates`: both engines give the same rows, and the fates are those of `explain`."""

import os
import random

import pytest

import kafkagroups as kg
from kafkagroups.api import load_table
from kafkagroups.errors import UsageError
from kafkagroups.kernels import read_records, second_reading
from kafkagroups.log.batch import LogRecord
from kafkagroups.log.checksums import crc32c
from kafkagroups.log.folders import open_logs
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.tables import record_arrays
from tests.captured import captured
from tests.cases import case
from tests.history.counting import count_results
from tests.history.test_compiled_stats import commit
from tests.history.test_group_fates import RULES
from tests.kernels.random_logs import random_log
from tests.kernels.test_equal import folders, some_folders
from tests.releases.sequences import encode_log, random_sequence

LONG = os.environ.get("KG_PROFILE") == "long"
TABLES = ("fates", "records")


def read_both(path, table, coordinator, kafka, **options):
    """Return the rows of a table that the readable engine gives, and those of the compiled one."""
    options |= {"coordinator": coordinator, "kafka": kafka}
    return [
        kg.record_table(path, table, engine=engine, **options).read_all().to_pylist()
        for engine in ("python", "compiled")
    ]


@pytest.fixture
def count_followed(monkeypatch):
    """Count the logs whose fates the compiled engine could follow."""
    return count_results(monkeypatch, "follow_fates_if_possible")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["runs", "crafted", "cleaner", "releases"])
def test_captured_logs_have_the_same_tables(family, count_followed):
    """Every captured log, for both coordinators: one broker's whole folder, and each partition alone."""
    for folder in some_folders(family):
        for coordinator, kafka in (("classic", "3.9.2"), ("new", "4.3.1")):
            for table in TABLES:
                with case((folder.relative_to(captured(family)), coordinator, table)):
                    readable, compiled = read_both(folder, table, coordinator, kafka)
                    assert compiled == readable
    assert count_followed


@pytest.mark.slow
def test_random_logs_have_the_same_tables(tmp_path, count_followed):
    """1,000 random logs (20,000 in the long profile) of offsets or of all record types."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    for seed in range(20_000 if LONG else 1_000):
        rnd = random.Random(seed)
        log = random_log(seed) if seed % 2 else encode_log(random_sequence(seed))
        (folder / f"{0:020}.log").write_bytes(log)
        coordinator, kafka = rnd.choice(RULES)
        with case((seed, coordinator, kafka)):
            for table in TABLES:
                readable, compiled = read_both(folder, table, coordinator, kafka)
                assert compiled == readable
    assert len(count_followed) > 200


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_the_fates_are_those_of_explain(coordinator):
    """Every group of the captured runs: the table has the records of `explain`, with the same fates.

    `explain` also shows a record that the coordinator cannot read, if its key names the group. The table has no group
    for such a record.
    """
    for folder in folders("runs"):
        with case(folder.relative_to(captured("runs"))):
            rows = kg.record_table(folder, coordinator=coordinator, engine="compiled").read_all().to_pylist()
            for group in sorted({row["group"] for row in rows if row["group"] is not None}):
                history = kg.explain(folder, group, coordinator=coordinator, engine="python").history
                wanted = [
                    (entry.partition, entry.offset, entry.fate.value, entry.by, entry.member_id, entry.committed)
                    for entry in history
                    if entry.group is not None
                ]
                given = [
                    (row["partition"], row["offset"], row["fate"], row["by"], row["member_id"], row["committed_offset"])
                    for row in rows
                    if row["group"] == group
                ]
                without_group = {(row["partition"], row["offset"]) for row in rows if row["error"] is not None}
                assert given == [row for row in wanted if row[:2] not in without_group], group


@pytest.mark.parametrize("attributes", [0, 1, 4])
def test_a_log_of_many_pieces_and_small_batches(attributes, tmp_path, monkeypatch, count_followed):
    """Batches that cross the pieces of a file and the record batches of Arrow, and two codecs."""
    monkeypatch.setattr(second_reading, "PIECE_BYTES", 1000)
    monkeypatch.setattr(record_arrays, "BATCH_ROWS", 2)
    monkeypatch.setattr(record_arrays, "BATCH_BYTES", 200)
    monkeypatch.setattr(read_records, "MAX_CACHED_KEYS", 1)
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    batches = []
    for offset in range(0, 300, 10):
        records = [commit(offset + index, f"group {(offset + index) % 7}", value_size=offset) for index in range(8)]
        producer_id = offset % 40
        batches.append(encode_batch(records, attributes=attributes | 0x10, producer_id=producer_id, producer_epoch=3))
        if offset % 20:
            ending = LogRecord(offset + 9, 5, b"\0\0\0\1" if offset % 30 else b"\0\0\0\0", b"\0\0\0\0\0\0")
            batches.append(encode_batch([ending], attributes=0x30, producer_id=producer_id, producer_epoch=3))
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    for coordinator, kafka in (("new", "4.3.1"), ("classic", "3.9.2")):
        for table in TABLES:
            readable, compiled = read_both(folder, table, coordinator, kafka)
            assert compiled == readable
        assert {row["fate"] for row in read_both(folder, "fates", coordinator, kafka)[1]} >= {"wins", "superseded"}
    assert len(count_followed) == 4


def test_one_partition_alone_has_the_rows_of_the_topic():
    """`load_table` gives the rows of one log; in the captured shop, no group is in two partitions."""
    folder = next(folder for folder in folders("runs") if any(folder.glob("__consumer_offsets-*")))
    whole = kg.record_table(folder, columns=["partition", "offset", "fate", "by"]).read_all().to_pylist()
    parts = []
    for log in open_logs(folder):
        reader = load_table(log, table="fates", columns=["partition", "offset", "fate", "by"])
        parts += reader.read_all().to_pylist()
    assert parts == whole


def test_a_table_that_does_not_exist():
    """Only the tables with a row for each record are tables of `record_table`."""
    with pytest.raises(UsageError, match="no table 'offsets' of records: choose one of fates, records"):
        kg.record_table("data/harbour/3.9.2", "offsets")
    with pytest.raises(UsageError, match="key"):
        kg.record_table("data/harbour/3.9.2", "fates", columns=["key"])


def test_a_batch_without_readable_records_and_a_record_with_its_offset(tmp_path):
    """The batch has a row of its own, which has nothing of the record at the same offset."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    good = encode_batch([commit(5, "g")])
    bad = bytearray(good)
    bad[57:61] = (2).to_bytes(4, "big")  # The number of records. The batch has one.
    bad[17:21] = crc32c(bytes(bad[21:])).to_bytes(4, "big")
    (folder / f"{0:020}.log").write_bytes(bytes(bad) + good)
    for rows in read_both(folder, "fates", "classic", "3.9.2"):
        assert [(row["offset"], row["group"], row["committed_offset"]) for row in rows] == [
            (5, None, None),
            (5, "g", 5),
        ]
