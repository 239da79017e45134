"""Segments that real brokers wrote, read as Kafka's own classes read them; and damaged segments."""

import struct

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

import kafkagroups as kg
from tests.captured import captured, rows
from tests.fuzz.odd_logs import mend
from tests.handmade import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    CompressionType,
    LogRecord,
    encode_batch,
    read_batches,
)

RUNS = sorted(path.parent.name for path in (captured("runs") / "runs").glob("*/records.jsonl"))


@pytest.mark.parametrize("run", RUNS)
def test_records_of_a_run_are_those_that_kafka_reads(run):
    """records.jsonl: every record as Kafka 2.3.1's record classes gave it, of magic 0 to 2 and every codec."""
    expected = {}
    for row in rows("runs", f"runs/{run}/records.jsonl"):
        expected.setdefault(row["file"], []).append(row)
    for file, wanted in expected.items():
        log = kg.open_log(captured("runs") / "runs" / run / "log" / file)
        found = [(batch, record) for batch in log for record in batch.records]
        assert log.damage is None and len(found) == len(wanted)
        for (batch, record), row in zip(found, wanted, strict=True):
            assert (batch.position, batch.magic, batch.last_offset) == (row["pos"], row["magic"], row["last"])
            assert (batch.compression.name, batch.timestamp_type) == (row["codec"], row["tsType"])
            assert (record.offset, record.timestamp) == (row["offset"], row["ts"])
            assert [None if part is None else part.hex() for part in (record.key, record.value)] == [
                row["key"],
                row["value"],
            ]
            if batch.magic == 2:
                assert (batch.base_offset, record.sequence) == (row["base"], row["seq"])
                assert (batch.producer_id, batch.producer_epoch) == (row["pid"], row["epoch"])
                assert (batch.is_transactional, batch.is_control) == (row["txn"], row["control"])


keys = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.binary(max_size=5), keys), max_size=2).map(tuple)
times = st.integers(0, 2**45)


@st.composite
def record_lists(draw):
    offset = draw(st.integers(0, 2**40))
    out = []
    for _ in range(draw(st.integers(1, 6))):
        out.append(LogRecord(offset, draw(times), draw(keys), draw(keys), draw(headers)))
        offset += draw(st.integers(1, 3))
    return out


@given(record_lists(), st.sampled_from(CompressionType), st.sampled_from([0, TRANSACTIONAL, CONTROL | TRANSACTIONAL]))
def test_a_batch_that_is_written_is_read_back(records, codec, bits):
    """Offsets, times, keys, values, headers and every header field survive, compressed or not."""
    data = encode_batch(
        records, attributes=bits | codec, producer_id=7, producer_epoch=3, base_sequence=-1, partition_leader_epoch=9
    )
    (batch,) = read_batches(data)
    read = [replace(record, size=0, sequence=-1) for record in batch.records]
    assert read == [replace(record, size=0) for record in records]
    assert (batch.base_offset, batch.last_offset) == (records[0].offset, records[-1].offset)
    assert (batch.producer_id, batch.producer_epoch, batch.partition_leader_epoch) == (7, 3, 9)
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert (batch.is_transactional, batch.is_control) == (bool(bits & TRANSACTIONAL), bool(bits & CONTROL))


def test_an_empty_batch_keeps_its_producer_and_its_offsets():
    """The cleaner keeps a producer's last batch like this."""
    data = encode_batch(
        [], base_offset=5, last_offset=9, base_timestamp=-1, max_timestamp=100, producer_id=4, producer_epoch=1
    )
    (batch,) = read_batches(data)
    assert (batch.records, batch.count, batch.base_offset, batch.next_offset) == ((), 0, 5, 10)


def test_a_delete_horizon_is_the_base_of_the_records_times():
    """Bit 6: the header's base timestamp is the horizon, and the records' timestamps are deltas from it."""
    record = LogRecord(3, 1000, b"k", None)
    data = encode_batch([record], attributes=DELETE_HORIZON, base_timestamp=86_401_000, max_timestamp=1000)
    (batch,) = read_batches(data)
    assert batch.delete_horizon_ms == 86_401_000 and batch.records[0].timestamp == 1000


def test_log_append_time_is_the_time_of_every_record():
    (batch,) = read_batches(encode_batch([LogRecord(0, 5, b"k", b"v")], attributes=LOG_APPEND_TIME, max_timestamp=77))
    assert batch.records[0].timestamp == 77


GOOD = encode_batch([LogRecord(0, 5, b"k", b"v"), LogRecord(1, 6, b"k", None)])


def test_a_tail_of_zeros_is_the_end():
    """Brokers preallocate files. Bytes that were never written are not damage."""
    assert len(list(read_batches(GOOD + bytes(4096)))) == 1


def test_iterations_over_one_log_do_not_disturb_each_other(tmp_path):
    """Each loop sees every batch, and `damage` is what the log has, whether or not a loop has reached its end."""
    (tmp_path / "00000000000000000000.log").write_bytes(GOOD * 2 + bytes([1]) * 40)
    log = kg.open_log(tmp_path)
    for outer, _ in enumerate(log):
        assert log.damage.position == 2 * len(GOOD)
        assert [batch.position for batch in log] == [0, len(GOOD)]
        if outer == 1:
            break
    assert outer == 1 and log.damage.position == 2 * len(GOOD)
    log = kg.open_log(tmp_path).skip_damage()
    for _ in log:
        assert (log.notes.gaps, log.notes.zeros, log.damage.offset) == ([], None, 2)


@given(st.binary(max_size=60), st.integers(-2, 2**31 - 1), st.integers(0, 7))
def test_any_payload_under_a_right_checksum_is_read_or_refused(payload, count, codec):
    """Wrong fields under a correct checksum raise InvalidLog when the records are read, fast and in little memory."""
    out = bytearray(GOOD[:HEADER_SIZE] + payload)
    struct.pack_into(">i", out, 8, len(out) - 12)
    struct.pack_into(">h", out, 21, codec)
    struct.pack_into(">i", out, 57, count)
    (batch,) = read_batches(mend(bytes(out)))
    try:
        assert len(batch.records) == count
    except kg.InvalidLog as error:
        assert error.offset == 0


@given(st.binary(min_size=4, max_size=60), st.integers(0, 1), st.integers(0, 7))
def test_any_message_under_a_right_checksum_is_read_or_refused(body, magic, attributes):
    """The same for magic 0 and 1."""
    data = struct.pack(">qiIbb", 3, len(body) + 6, 0, magic, attributes) + body
    try:
        for batch in read_batches(mend(data)):
            assert all(record.magic in (0, 1) for record in batch.records)
    except kg.InvalidLog as error:
        assert error.reason


def test_paths_without_a_log_are_a_callers_mistake(tmp_path):
    picture = tmp_path / "cat.jpeg"
    picture.write_bytes(b"\xff\xd8\xff\xe0")
    for path in (tmp_path / "nowhere", tmp_path, picture):
        with pytest.raises(kg.UsageError, match=path.name):
            kg.open_log(path)


@pytest.mark.parametrize(
    ("name", "number"),
    [("base_offset", 2**63), ("last_offset", 2**31), ("attributes", 2**15), ("base_timestamp", -(2**63) - 1)],
)
def test_a_header_cannot_hold_every_number(name, number):
    """A number that does not fit into the header of a batch is refused with the name of its field."""
    field = "last_offset_delta" if name == "last_offset" else name
    with pytest.raises(kg.UsageError, match=f"^{field}: expected an int"):
        encode_batch([LogRecord(0, 5, b"k", b"v")], **{name: number})
