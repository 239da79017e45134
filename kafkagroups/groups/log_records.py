"""The parts of one log record that a load needs: group, topic partition, type of a marker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.groups.modern_replay import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.batch import Batch, LogRecord, record_count
from kafkagroups.log.damage import Damage
from kafkagroups.log.segments import Log
from kafkagroups.records.consumer_group import GroupIdKey
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import LegacyOffsetCommitKey, OffsetCommitKey
from kafkagroups.records.serde import DecodedKey, Record, UnknownContent, decode_key
from kafkagroups.records.structs import Message, read_message

OFFSET_KEYS = (OffsetCommitKey, LegacyOffsetCommitKey)
MAX_KEPT_KEYS = 100_000
"""The largest number of decoded keys in memory."""
_RECORD_TYPE_BYTES = 2


def find_group_id(record: Record) -> str | None:
    """Return the group id; None if no Kafka version has the record type, or if the key is too short.

    It is the first field of every key, so the chosen Kafka version need not have the record type.
    """
    return _find_group_id(record.type, record.key)


def _find_group_id(record_type: int, key: Message | UnknownContent) -> str | None:
    if isinstance(key, (*OFFSET_KEYS, GroupMetadataKey)):
        return key.group
    if isinstance(key, GroupIdKey):
        return key.group_id
    if isinstance(key, UnknownContent) and record_type in GROUP_TYPE_BY_RECORD_TYPE:
        try:
            return read_message(GroupMetadataKey, key.data, _RECORD_TYPE_BYTES, 0)[0].group
        except BadBytes:
            return None
    return None


def get_topic_partition(record: Record) -> TopicPartition:
    key = record.key
    assert isinstance(key, OFFSET_KEYS)
    return TopicPartition(key.topic, key.partition)


class LogKey(NamedTuple):
    decoded: DecodedKey
    group_id: str | None
    partition: TopicPartition | None


class LogKeys(dict[bytes | None, LogKey]):
    """The decoded keys of a log, by their bytes, each of which is decoded only once."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self._dialect = dialect

    def __missing__(self, key: bytes | None) -> LogKey:
        if len(self) == MAX_KEPT_KEYS:
            self.clear()
        decoded = decode_key(key, self._dialect)
        content = decoded.content
        partition = TopicPartition(content.topic, content.partition) if isinstance(content, OFFSET_KEYS) else None
        log_key = LogKey(decoded, _find_group_id(decoded.type, content), partition)
        self[key] = log_key
        return log_key


def read_keys(batch: Batch, keys: LogKeys) -> Iterator[tuple[str, LogKey, LogRecord]]:
    """Markers, keys that cannot be read, and the records of a batch that cannot be read are left out."""
    if batch.is_control:
        return
    try:
        records = batch.records
    except BadBytes:
        return
    for record in records:
        try:
            key = keys[record.key]
        except BadBytes:
            continue
        if key.group_id is not None:
            yield key.group_id, key, record


def find_group_ids(batch: Batch, keys: LogKeys) -> Iterator[str]:
    return (group_id for group_id, _, _ in read_keys(batch, keys))


def read_control_type(log_record: LogRecord) -> ControlType:
    try:
        return decode_control_key(log_record.key)
    except BadBytes as error:
        error.offset = log_record.offset
        raise


def describe_rest(log: Log, damage: Damage | None, dialect: Dialect) -> Damage | None:
    """Return the damage of a log, with the batches that a reader with `Log.skip_damage` finds after it."""
    if damage is None:
        return None
    batch_count = 0
    total_records = 0
    group_ids: set[str] = set()
    rest = log.select_after(damage)
    if rest is not None:
        keys = LogKeys(dialect)
        for batch in rest.skip_damage():
            batch_count += 1
            total_records += record_count(batch)
            group_ids.update(find_group_ids(batch, keys))
    return replace(
        damage,
        bytes_after=log.count_bytes_from(damage),
        readable_batches_after=batch_count,
        readable_records_after=total_records,
        groups_after=tuple(sorted(group_ids)),
    )
