"""The record types of the topic: number, name, classes of key and value, Kafka versions.

The number of a record type is in the first two bytes of a key. offset_commit.py and group_metadata.py declare the
messages of classic groups. consumer_group.py, share_group.py and streams_group.py declare the messages of the new
protocols.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.records import consumer_group as consumer, share_group as share, streams_group as streams
from kafkagroups.records.dialects import READ_TYPES, Dialect
from kafkagroups.records.fields import Message
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkagroups.records.versions import EVERY_VERSION, VersionRange


class RecordType(NamedTuple):
    """A record type.

    `id` is its number, and `name` is its name in Kafka. `key` and `value` are the classes of the decoded key and value.
    `highest_version` is the highest value version in any Kafka version.
    """

    id: int
    name: str
    key: type[Message]
    value: type[Message]
    highest_version: int = 0

    @property
    def read_by(self) -> VersionRange:
        """The Kafka versions whose new coordinator reads the type. Every new coordinator reads types 0 to 2."""
        return READ_TYPES.get(self.id, EVERY_VERSION)


def _declare(number: int, key: type[Message], value: type[Message]) -> RecordType:
    return RecordType(number, key.__name__.removesuffix("Key"), key, value)


_TYPES = (
    RecordType(0, "LegacyOffsetCommit", LegacyOffsetCommitKey, LegacyOffsetCommitValue, 0),
    RecordType(1, "OffsetCommit", OffsetCommitKey, OffsetCommitValue, 4),
    RecordType(2, "GroupMetadata", GroupMetadataKey, GroupMetadataValue, 4),
    _declare(3, consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
    _declare(4, consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue),
    _declare(5, consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
    _declare(6, consumer.ConsumerGroupTargetAssignmentMetadataKey, consumer.ConsumerGroupTargetAssignmentMetadataValue),
    _declare(7, consumer.ConsumerGroupTargetAssignmentMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue),
    _declare(8, consumer.ConsumerGroupCurrentMemberAssignmentKey, consumer.ConsumerGroupCurrentMemberAssignmentValue),
    _declare(9, share.ShareGroupPartitionMetadataKey, share.ShareGroupPartitionMetadataValue),
    _declare(10, share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue),
    _declare(11, share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
    _declare(12, share.ShareGroupTargetAssignmentMetadataKey, share.ShareGroupTargetAssignmentMetadataValue),
    _declare(13, share.ShareGroupTargetAssignmentMemberKey, share.ShareGroupTargetAssignmentMemberValue),
    _declare(14, share.ShareGroupCurrentMemberAssignmentKey, share.ShareGroupCurrentMemberAssignmentValue),
    _declare(15, share.ShareGroupStatePartitionMetadataKey, share.ShareGroupStatePartitionMetadataValue),
    _declare(16, consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
    _declare(17, streams.StreamsGroupMetadataKey, streams.StreamsGroupMetadataValue),
    _declare(19, streams.StreamsGroupMemberMetadataKey, streams.StreamsGroupMemberMetadataValue),
    _declare(20, streams.StreamsGroupTargetAssignmentMetadataKey, streams.StreamsGroupTargetAssignmentMetadataValue),
    _declare(21, streams.StreamsGroupTargetAssignmentMemberKey, streams.StreamsGroupTargetAssignmentMemberValue),
    _declare(22, streams.StreamsGroupCurrentMemberAssignmentKey, streams.StreamsGroupCurrentMemberAssignmentValue),
    _declare(23, streams.StreamsGroupTopologyKey, streams.StreamsGroupTopologyValue),
)

RECORD_TYPES = {record_type.id: record_type for record_type in _TYPES}
"""All record types by their number, in ascending order. Only Kafka 4.0 has type 9. There is no type 18."""


def has_type(dialect: Dialect, type_id: int) -> bool:
    """Return whether the coordinator of a dialect reads a record type.

    A dialect is the reading rules of one coordinator and one Kafka version (dialects.py).
    """
    if type_id not in RECORD_TYPES:
        return False
    if type_id == 1:
        return dialect.since(0, 9)
    if type_id == 2:
        return dialect.max_group_value_version >= 0
    if type_id > 2:
        read_by = RECORD_TYPES[type_id].read_by
        return dialect.coordinator == "new" and dialect.version in read_by
    return True


def newest_value_version(dialect: Dialect, type_id: int) -> int:
    """Return the newest value version of a record type that the coordinator of a dialect reads."""
    version_by_classic_type = {
        0: dialect.max_type0_value_version,
        1: dialect.max_offset_value_version,
        2: dialect.max_group_value_version,
    }
    return version_by_classic_type.get(type_id, RECORD_TYPES[type_id].highest_version)
