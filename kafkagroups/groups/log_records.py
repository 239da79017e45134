"""The parts of one log record that a load needs: group, topic partition, type of a marker."""

from __future__ import annotations

from collections.abc import Callable

from kafkagroups.errors import BadBytes
from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.batch import LogRecord
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.group_keys import GroupIdKey
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkagroups.records.serde import Record, UnknownContent
from kafkagroups.records.structs import reader

OFFSET_KEYS = (OffsetCommitKey, LegacyOffsetCommitKey)
OFFSET_VALUES = (OffsetCommitValue, LegacyOffsetCommitValue)
_RECORD_TYPE_BYTES = 2
"""The size, in bytes, of the record type at the start of each key."""

_read_group_key: Callable[[bytes, int], tuple[GroupMetadataKey, int]] = reader(GroupMetadataKey, 0)


def find_group_id(record: Record) -> str | None:
    """Return the id of the group that a record belongs to.

    Return None if no Kafka version has the record type, or if the key is too short. The chosen Kafka version need not
    have the record type, because the group id is the first field of every key.
    """
    if isinstance(record.key, (*OFFSET_KEYS, GroupMetadataKey)):
        return record.key.group
    if isinstance(record.key, GroupIdKey):
        return record.key.group_id
    if isinstance(record.key, UnknownContent) and record.type in GROUP_TYPE_BY_RECORD_TYPE:
        try:
            return _read_group_key(record.key.data, _RECORD_TYPE_BYTES)[0].group
        except BadBytes:
            return None
    return None


def get_topic_partition(record: Record) -> TopicPartition:
    """Return the topic partition in the key of an offset record."""
    key = record.key
    assert isinstance(key, OFFSET_KEYS)
    return TopicPartition(key.topic, key.partition)


def read_control_type(log_record: LogRecord) -> ControlType:
    """Return the type of a control record. Raises BadBytes, with the record's offset, if the key cannot be read."""
    try:
        return decode_control_key(log_record.key)
    except BadBytes as error:
        error.offset = log_record.offset
        raise
