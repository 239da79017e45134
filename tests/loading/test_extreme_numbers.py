"""Every number that a log can contain fits into the tables, whichever engine reads the log."""

import pytest
from hypothesis import given, strategies as st

import kafkagroups as kg
from tests.fuzz.odd_logs import mend
from tests.handmade import HEADER, LogRecord, encode_batch
from tests.spark.tables import TABLES, load_table, read, write_tables

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1


def extremes(bits):
    """The smallest, the largest and a few other integers of a size."""
    largest = 2 ** (bits - 1) - 1
    return st.sampled_from([-largest - 1, -2, -1, 0, 1, 5, largest - 1, largest])


HEADER_FIELDS = {
    0: extremes(64),  # base offset
    2: extremes(32),  # leader epoch
    6: extremes(32),  # last offset delta
    7: extremes(64),  # base timestamp
    8: extremes(64),  # max timestamp
    9: extremes(64),  # producer id
    10: extremes(16),  # producer epoch
    11: extremes(32),  # base sequence
    12: extremes(32),  # count
}
"""The fields of a batch's header that contain a free number, by their position in the header."""


def replace_fields(batch, fields):
    """Return a batch with other values in its header, and with the right checksum."""
    header = list(HEADER.unpack_from(batch))
    for index, value in fields.items():
        header[index] = value
    return mend(HEADER.pack(*header) + batch[HEADER.size :])


def commit(offset, partition=0, committed=1, time=1, expire=None, epoch=-1):
    data = {"offset": committed, "metadata": "", "commitTimestamp": time}
    data |= {"leaderEpoch": epoch} if expire is None else {"expireTimestamp": expire}
    key = {"type": "1", "data": {"group": "g", "topic": "t", "partition": partition}}
    value = {"version": "3" if expire is None else "1", "data": data}
    return LogRecord(offset, 1, *kg.encode(kg.from_json({"key": key, "value": value})))


def write_log(folder, *batches):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder


def read_all_tables(folder, engine):
    log = kg.open_log(folder)
    return {
        table: sorted(map(str, load_table(log, table=table, engine=engine).read_all().to_pylist())) for table in TABLES
    }


def test_counts_of_records_beyond_int32(tmp_path):
    """Two batches that each announce 2^31 - 1 records: the table `partitions` has the sum, in files and in Spark."""
    batch = replace_fields(encode_batch([commit(0)]), {12: MAX_INT32})
    folder = write_log(tmp_path / "__consumer_offsets-7", batch, batch)
    groups = kg.load(folder)
    assert groups.partitions[7].records == 2 * MAX_INT32 and "expected 2147483647 records" in groups.failed[7]
    write_tables(groups, str(tmp_path / "tables"))
    for engine in ("python", "auto"):
        (row,) = read(folder, table="partitions", engine=engine)
        assert (row["batches"], row["records"]) == (2, 2 * MAX_INT32)


@given(
    headers=st.lists(st.fixed_dictionaries({}, optional=HEADER_FIELDS), min_size=1, max_size=3),
    commits=st.lists(
        st.builds(
            commit,
            offset=st.integers(0, 3),
            partition=extremes(32),
            committed=extremes(64),
            time=extremes(64),
            expire=st.none() | extremes(64),
            epoch=extremes(32),
        ),
        max_size=3,
    ),
)
def test_every_number_fits_into_every_table(tmp_path_factory, headers, commits):
    """Header fields and commits with the smallest and largest numbers, under right checksums: both engines agree."""
    batches = [replace_fields(encode_batch([commit(0), *commits]), fields) for fields in headers]
    folder = write_log(tmp_path_factory.mktemp("log") / "__consumer_offsets-7", *batches)
    assert read_all_tables(folder, "python") == read_all_tables(folder, "auto")
    for coordinator in ("classic", "new"):
        groups = kg.load(folder, coordinator)
        write_tables(groups, str(folder.parent / coordinator))
        groups.offsets_frame()


@pytest.mark.parametrize("number", ["9" * 10, "9" * 30, str(2**31)])
def test_a_partition_number_that_is_no_int32(tmp_path, number):
    """Such a folder is not named like a partition: its log has no partition number, and a parent does not list it."""
    folder = write_log(tmp_path / f"__consumer_offsets-{number}", encode_batch([commit(0)]))
    assert kg.open_log(folder).partition is None
    assert [row["partition"] for row in read(folder, table="partitions")] == [-1]
    with pytest.raises(kg.UsageError, match="expected a segment or a folder"):
        kg.load(tmp_path)


def test_a_segment_name_that_is_no_int64(tmp_path):
    """An offset is an int64, so a file with a larger number is not named like a segment."""
    folder = write_log(tmp_path / "__consumer_offsets-7", encode_batch([commit(0)]))
    large = folder / f"{MAX_INT64 + 1:020}.log"
    large.write_bytes(b"something else")
    assert kg.load(folder).partitions[7].segments == 1
    (row,) = read(large, table="partitions", failOnDamage="false")
    assert row["start_offset"] == 0
