"""The records of consumer groups, as the coordinator writes them.

Source: GroupCoordinatorRecordHelpers, ConsumerGroup.createGroupTombstoneRecords (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkagroups.coordinator.consumer_members import ConsumerMember, Partitions
from kafkagroups.groups.map_orders import java_map_order, uuid_hash
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)
from kafkagroups.records.group_keys import GroupIdKey
from kafkagroups.records.serde import Record
from kafkagroups.records.share_group import (
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from kafkagroups.records.streams_group import (
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)

_EMPTY_GROUP_KEYS: dict[str, dict[int, type[GroupIdKey]]] = {
    "share": {
        12: ShareGroupTargetAssignmentMetadataKey,
        15: ShareGroupStatePartitionMetadataKey,
        11: ShareGroupMetadataKey,
    },
    "streams": {20: StreamsGroupTargetAssignmentMetadataKey, 17: StreamsGroupMetadataKey, 23: StreamsGroupTopologyKey},
}
"""The keys of the tombstones that delete an Empty group, in Kafka's order, by type of group and record type."""


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return Record(3, ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash), 0)


def member_record(group_id: str, member: ConsumerMember) -> Record:
    return Record(5, ConsumerGroupMemberMetadataKey(group_id, member.member_id), member.metadata, 0)


def assignment_epoch_record(group_id: str, epoch: int, timestamp: int) -> Record:
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp)
    return Record(6, ConsumerGroupTargetAssignmentMetadataKey(group_id), value, 0)


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    topics = tuple(
        TopicPartition(topic_id, tuple(sorted(target[topic_id]))) for topic_id in java_map_order(target, uuid_hash)
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
    return Record(7, key, ConsumerGroupTargetAssignmentMemberValue(topics), 0)


def assignment_record(group_id: str, member: ConsumerMember) -> Record:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id)
    return Record(8, key, member.assignment_value(), 0)


def pattern_record(group_id: str, pattern: str, value: ConsumerGroupRegularExpressionValue | None) -> Record:
    """Return the record of a pattern's topics; its tombstone if `value` is None."""
    key = ConsumerGroupRegularExpressionKey(group_id, pattern)
    return Record(16, key, value, None if value is None else 0)


def member_tombstones(group_id: str, member_ids: Iterable[str], record_type: int) -> list[Record]:
    """Return tombstones of one kind of the members' records: 5, 7 or 8."""
    keys = {
        5: ConsumerGroupMemberMetadataKey,
        7: ConsumerGroupTargetAssignmentMemberKey,
        8: ConsumerGroupCurrentMemberAssignmentKey,
    }
    return [Record(record_type, keys[record_type](group_id, member_id), None, None) for member_id in member_ids]


def removal_records(group_id: str, member_id: str) -> list[Record]:
    """Return the tombstones that remove a member from a group that stays."""
    return [record for type in (8, 7, 5) for record in member_tombstones(group_id, [member_id], type)]


def deletion_records(group: ModernGroup, renamed: Mapping[str, str] | None = None) -> list[Record]:
    """Return the tombstones that delete a consumer group, or an Empty share or streams group.

    `renamed` are the new ids of members that were replaced.
    """
    group_id = group.group_id
    if group.type in _EMPTY_GROUP_KEYS:
        return [Record(type, key(group_id), None, None) for type, key in _EMPTY_GROUP_KEYS[group.type].items()]
    member_ids = [(renamed or {}).get(member_id, member_id) for member_id in group.ordered_member_ids()]
    return [
        *member_tombstones(group_id, member_ids, 8),
        *member_tombstones(group_id, member_ids, 7),
        Record(6, ConsumerGroupTargetAssignmentMetadataKey(group_id), None, None),
        *member_tombstones(group_id, member_ids, 5),
        *(pattern_record(group_id, pattern, None) for pattern in group.resolved),
        Record(4, ConsumerGroupPartitionMetadataKey(group_id), None, None),
        Record(3, ConsumerGroupMetadataKey(group_id), None, None),
    ]
