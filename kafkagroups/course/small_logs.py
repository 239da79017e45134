"""The times and batches of the small logs in lessons and figures: commits, transactional commits and markers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kafkagroups.course.lesson_folders import find_data, make_scratch_folder
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL, LogRecord, encode_batch
from kafkagroups.log.folders import open_log
from kafkagroups.log.segment_file import segment_name
from kafkagroups.log.writer import LogWriter
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import ControlType, Record, encode, encode_control_key, encode_end_transaction_marker

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
START_MS = 1_700_000_000_000
"""The time at which the clocks of the lessons start, in milliseconds since 1970."""
KeyAndValue = tuple[bytes, bytes | None]
"""The bytes of a record's key and value. The value of a tombstone is None."""
_FAILING_PARTITION = "__consumer_offsets-9"


class SmallRecord(NamedTuple):
    """A commit of partition 0 of a topic (None: a tombstone), or a marker, which ends a producer's transaction.

    The producer is 0 if the commit is not in a transaction.
    """

    topic: str = ""
    value: int | None = None
    producer: int = 0
    ends: ControlType | None = None
    group: str = "shop"

    def encode(self) -> tuple[KeyAndValue | ControlType, int]:
        """Return the record as `write_small_log` takes it."""
        if self.ends is not None:
            return self.ends, self.producer
        return encode_commit(self.group, self.value, self.topic), self.producer


def encode_pair(record: Record) -> KeyAndValue:
    key, value = encode(record)
    assert key is not None
    return key, value


def encode_commit(group: str, offset: int | None, topic: str = "t") -> KeyAndValue:
    key = OffsetCommitKey(group, topic, 0)
    if offset is None:
        return encode_pair(Record(1, key, None, None))
    return encode_pair(Record(1, key, OffsetCommitValue(offset, -1, "", START_MS), 3))


def encode_records(
    offset: int, timestamp_ms: int, pairs: list[KeyAndValue], attributes: int = 0, producer_id: int = -1
) -> bytes:
    """Return a batch of these keys and values, all with the same timestamp. `offset` is that of its first record."""
    records = [LogRecord(offset + index, timestamp_ms, key, value) for index, (key, value) in enumerate(pairs)]
    producer_epoch = -1 if producer_id == -1 else 0
    return encode_batch(records, attributes=attributes, producer_id=producer_id, producer_epoch=producer_epoch)


def write_small_log(
    folder: Path,
    records: Iterable[tuple[KeyAndValue | ControlType, int]],
    segment_starts: Sequence[int] = (0,),
    timestamp_ms: int | None = None,
) -> None:
    """Write a log with one record in each batch, from offset 0, and a segment from each offset of `segment_starts`.

    A record is a key and a value, or the end of a transaction; with it stands its producer id, or 0 outside a
    transaction. Without `timestamp_ms` for all records, they are a millisecond apart, from `START_MS` on.
    """
    segments: dict[int, bytes] = {}
    for offset, (record, producer_id) in enumerate(records):
        time_ms = START_MS + offset if timestamp_ms is None else timestamp_ms
        attributes = TRANSACTIONAL if producer_id else 0
        if isinstance(record, ControlType):
            attributes |= CONTROL
            record = (encode_control_key(record), encode_end_transaction_marker(coordinator_epoch=0))
        batch = encode_records(offset, time_ms, [record], attributes, producer_id or -1)
        base = max(start for start in segment_starts if start <= offset)
        segments[base] = segments.get(base, b"") + batch
    folder.mkdir(parents=True, exist_ok=True)
    for base, data in segments.items():
        (folder / segment_name(base)).write_bytes(data)


def copy_failing_partition() -> Path:
    """Return a new folder with a partition that does not load: `copy/__consumer_offsets-9`.

    To the log of the shop's broker (Kafka 4.3.1), two records are added:

    - 45: a record with the key of an offset of `fraud-check` and a value of zero bytes
    - 46: a commit of `billing` for orders-0
    """
    folder = make_scratch_folder()
    copy = folder / "copy" / _FAILING_PARTITION
    shutil.copytree(find_data(f"harbour/4.3.1/{_FAILING_PARTITION}"), copy)
    *_, last_batch = open_log(copy)
    key, _ = encode_commit("fraud-check", None, "payments")
    with LogWriter(copy) as log:
        for seconds, record in enumerate([(key, b""), encode_commit("billing", 60, "orders")], 1):
            log.append(encode_records(log.next_offset, last_batch.max_timestamp + seconds * 1000, [record]))
    return folder
