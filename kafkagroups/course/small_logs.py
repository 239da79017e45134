"""Batches for the small logs of figures and lessons: commits, transactional commits and markers."""

from __future__ import annotations

from kafkagroups.course.lesson_clock import START_MS
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL, LogRecord, encode_batch
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode

KeyAndValue = tuple[bytes, bytes | None]
"""The bytes of a record's key and value. The value of a tombstone is None."""


def encode_commit(group: str, offset: int | None, topic: str = "t") -> KeyAndValue:
    """Return the key and the value of a commit for partition 0 of a topic, or of a tombstone if `offset` is None."""
    commit_value = None if offset is None else OffsetCommitValue(offset, -1, "", START_MS)
    value_version = None if offset is None else 3
    record_type = 1  # A committed offset.
    key, value = encode(Record(record_type, OffsetCommitKey(group, topic, 0), commit_value, value_version))
    assert key is not None
    return key, value


def encode_records(
    offset: int, timestamp_ms: int, pairs: list[KeyAndValue], attributes: int = 0, producer_id: int = -1
) -> bytes:
    """Return a batch of these keys and values, all with the same timestamp. `offset` is that of its first record.

    `attributes` are the flags `TRANSACTIONAL` and `CONTROL`.
    """
    records = [LogRecord(offset + index, timestamp_ms, key, value) for index, (key, value) in enumerate(pairs)]
    producer_epoch = -1 if producer_id == -1 else 0
    return encode_batch(records, attributes=attributes, producer_id=producer_id, producer_epoch=producer_epoch)


def encode_marker(offset: int, timestamp_ms: int, control_type: ControlType, producer_id: int) -> bytes:
    pairs: list[KeyAndValue] = [(encode_control_key(control_type), encode_end_transaction_marker(coordinator_epoch=0))]
    return encode_records(offset, timestamp_ms, pairs, TRANSACTIONAL | CONTROL, producer_id)
