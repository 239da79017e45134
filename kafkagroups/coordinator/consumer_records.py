"""The records of consumer groups, as the coordinator writes them.

Source: GroupCoordinatorRecordHelpers, ConsumerGroup.createGroupTombstoneRecords (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkagroups.coordinator.consumer_members import ConsumerMember, Partitions
from kafkagroups.groups.map_orders import java_map_order, uuid_hash
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.records.consumer_group import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.serde import Record

_TYPES_OF_EMPTY_GROUP = {"share": (12, 15, 11), "streams": (20, 17, 23)}
"""The types of the tombstones that delete an Empty group, in Kafka's order."""


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return _build(3, (group_id,), ConsumerGroupMetadataValue(epoch, metadata_hash))


def member_record(group_id: str, member: ConsumerMember) -> Record:
    return _build(5, (group_id, member.member_id), member.metadata)


def assignment_epoch_record(group_id: str, epoch: int, timestamp: int) -> Record:
    return _build(6, (group_id,), ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp))


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    topics = tuple(
        TopicPartition(topic_id, tuple(sorted(target[topic_id]))) for topic_id in java_map_order(target, uuid_hash)
    )
    return _build(7, (group_id, member_id), ConsumerGroupTargetAssignmentMemberValue(topics))


def assignment_record(group_id: str, member: ConsumerMember) -> Record:
    return _build(8, (group_id, member.member_id), member.assignment_value())


def pattern_record(group_id: str, pattern: str, value: ConsumerGroupRegularExpressionValue | None) -> Record:
    """Return the record of a pattern's topics; its tombstone if `value` is None."""
    return _build(16, (group_id, pattern), value)


def removal_records(group_id: str, member_id: str) -> list[Record]:
    """Return the tombstones that remove a member from a group that stays."""
    return [_build(record_type, (group_id, member_id), None) for record_type in (8, 7, 5)]


def deletion_records(group: ModernGroup, renamed: Mapping[str, str] | None = None) -> list[Record]:
    """Return the tombstones that delete a consumer group, or an Empty share or streams group.

    `renamed` are the new ids of members that were replaced.
    """
    group_id = group.group_id
    if group.type != "consumer":
        return [_build(record_type, (group_id,), None) for record_type in _TYPES_OF_EMPTY_GROUP[group.type]]
    member_ids = [(renamed or {}).get(member_id, member_id) for member_id in group.ordered_member_ids()]

    def of_members(record_type: int) -> Iterable[Record]:
        return (_build(record_type, (group_id, member_id), None) for member_id in member_ids)

    return [
        *of_members(8),
        *of_members(7),
        _build(6, (group_id,), None),
        *of_members(5),
        *(pattern_record(group_id, pattern, None) for pattern in group.resolved),
        _build(4, (group_id,), None),
        _build(3, (group_id,), None),
    ]


def _build(record_type: int, key: tuple[str, ...], value: Any) -> Record:
    key_class: Any = RECORD_TYPES[record_type].key
    return Record(record_type, key_class(*key), value, None if value is None else 0)
