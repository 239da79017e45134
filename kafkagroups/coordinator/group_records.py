"""The records that a coordinator writes for groups, and the order of the tombstones that delete one.

The names are those of the record types: `member_record` builds type 5, `target_record` type 7.
Source: GroupCoordinatorRecordHelpers, OffsetMetadataManager.deleteAllOffsets, ConsumerGroup, ShareGroup and
StreamsGroup.createGroupTombstoneRecords (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkagroups.coordinator.consumer_members import ConsumerMember, Partitions
from kafkagroups.groups.living_shard import LivingGroup, LivingShard
from kafkagroups.groups.map_orders import java_map_order, timeline_map_order, uuid_hash
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.records import consumer_group
from kafkagroups.records.consumer_group import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.serde import RECORD_TYPES, Record

OFFSET_RECORD_TYPE = 1
GROUP_RECORD_TYPE = 2
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
        consumer_group.TopicPartition(topic_id, tuple(sorted(target[topic_id])))
        for topic_id in java_map_order(target, uuid_hash)
    )
    return _build(7, (group_id, member_id), ConsumerGroupTargetAssignmentMemberValue(topics))


def assignment_record(group_id: str, member: ConsumerMember) -> Record:
    return _build(8, (group_id, member.member_id), member.assignment_value())


def pattern_record(group_id: str, pattern: str, value: ConsumerGroupRegularExpressionValue | None) -> Record:
    return _build(16, (group_id, pattern), value)


def removal_records(group_id: str, member_id: str) -> list[Record]:
    return [_build(record_type, (group_id, member_id), None) for record_type in (8, 7, 5)]


def build_modern_tombstones(group: ModernGroup, renamed: Mapping[str, str] | None = None) -> list[Record]:
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


def build_offset_tombstone(group_id: str, partition: TopicPartition) -> Record:
    return Record(OFFSET_RECORD_TYPE, OffsetCommitKey(group_id, partition.topic, partition.partition), None, None)


def build_group_tombstone(group_id: str) -> Record:
    return Record(GROUP_RECORD_TYPE, GroupMetadataKey(group_id), None, None)


def order_offsets(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions in the order of Kafka's maps: by topic, then by number."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return [
        TopicPartition(topic, number)
        for topic in timeline_map_order(numbers)
        for number in timeline_map_order(numbers[topic], lambda number: number)
    ]


def build_group_deletion(shard: LivingShard, group_id: str) -> list[Record]:
    """Return the tombstones of a group: of its committed, then its other pending offsets, and of the group."""
    committed = shard.offsets.committed.get(group_id, {})
    pending = [each for each in shard.offsets.pending_partitions(group_id) if each not in committed]
    partitions = [*order_offsets(committed), *order_offsets(pending)]
    tombstones = [build_offset_tombstone(group_id, partition) for partition in partitions]
    return [*tombstones, *build_group_tombstones(shard.groups[group_id])]


def build_group_tombstones(group: LivingGroup) -> list[Record]:
    return build_modern_tombstones(group) if isinstance(group, ModernGroup) else [build_group_tombstone(group.group_id)]
