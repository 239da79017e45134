"""The records with which a coordinator deletes a group.

The tombstones of the committed offsets come first, then those of the group's other records, in the order of Kafka's
code. † is a tombstone:

    classic coordinator   offsets†, 2† (only if a group record exists)
    new coordinator       offsets† (also those that are only pending), then by type of group:
        classic           2† (also if no group record exists)
        consumer          8† and 7† of each member, 6†, 5† of each member, 16†, 4†, 3†
        share             14† and 13† of each member, 12†, 10† of each member, 15†, 11†
        streams           22† and 21† of each member, 20†, 19† of each member, 17†, 23†

A running coordinator deletes only a group without members. This module also deletes a group with members, with the
tombstones that Kafka writes when it converts such a group to another type.

Three parts are different from Kafka's:

- Kafka deletes a resolved regular expression (type 16) when its last member leaves. Here, a group with members is
  deleted as a whole, so the tombstone follows those of the members.
- The classic coordinator deletes a group with pending commits, and a later load of its log fails. Here, this is
  refused. The new coordinator deletes pending commits, too.
- Before Kafka deletes a share group, it writes a value of type 15, and the share coordinator deletes the state of the
  group's partitions. That state is in another topic, and it stays.

The order of the offsets and of the members has no meaning: it follows hash maps in Kafka.
Source (4.3.1): GroupCoordinatorShard.deleteGroups; OffsetMetadataManager.deleteAllOffsets;
createGroupTombstoneRecords of ConsumerGroup, ShareGroup, StreamsGroup.
Source (3.9): GroupMetadataManager.cleanupGroupMetadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkagroups.errors import UsageError
from kafkagroups.groups.log_records import LogKeys, read_keys
from kafkagroups.groups.map_orders import hash_map_order, timeline_map_order, topic_partition_hash
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.segments import Log
from kafkagroups.records.consumer_group import ConsumerGroupRegularExpressionKey
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.serde import RECORD_TYPES, Record, encode
from kafkagroups.records.structs import Message
from kafkagroups.repair.edited_log import KeyAndValue

_REGULAR_EXPRESSION = 16
_DELETED_TYPES = {
    "consumer": (8, 7, 6, 5, _REGULAR_EXPRESSION, 4, 3),
    "share": (14, 13, 12, 10, 15, 11),
    "streams": (22, 21, 20, 19, 17, 23),
}
"""The record types of the tombstones, in their order, by type of group."""
_TARGETS = (7, 13, 21)
"""The record types about the target of a member."""
_MEMBERS = (5, 8, 10, 14, 19, 22)
"""The other record types about a member."""


def plan_deletion(log: Log, group_id: str, dialect: Dialect) -> tuple[AnyGroup, list[KeyAndValue]]:
    """Return a group of this log, and the tombstones with which the dialect's coordinator deletes it.

    Raises UsageError if the load of the log fails, or if the log has no such group.
    """
    groups = OpenTopic([log], dialect, engine="auto").load()
    error = groups.partitions[log.partition].error
    if error is not None:
        raise UsageError(f"group {group_id} cannot be deleted, because the load of the log fails: {error}")
    if group_id not in groups:
        coordinator = f"{dialect.coordinator} coordinator of Kafka {dialect.kafka}"
        raise UsageError(f"the log has no group {group_id}, as the {coordinator} loads it")
    group = groups[group_id]
    tombstones = [_encode(1, OffsetCommitKey(group_id, *key)) for key in _find_offsets(group, dialect)]
    if isinstance(group, ModernGroup):
        tombstones += _delete_modern_group(group, log, dialect)
    elif dialect.coordinator == "new" or group.generation > 0:
        _check_pending(group, dialect)
        tombstones.append(_encode(2, GroupMetadataKey(group_id)))
    return group, tombstones


def _check_pending(group: AnyGroup, dialect: Dialect) -> None:
    """Raise UsageError if the classic coordinator could not load the log after the tombstone of the group's record.

    The load creates a group for the pending commits, and fails at a group that it creates and that has a tombstone.
    Source: GroupMetadataManager.doLoadGroupsAndOffsets (3.9).
    """
    if dialect.coordinator == "classic" and group.pending:
        producers = ", ".join(map(str, sorted(group.pending)))
        raise UsageError(
            f"group {group.group_id} has pending commits of producer {producers}: after a tombstone of the group, the "
            "load of the classic coordinator would fail (Unexpected unload of active group); end the transaction first "
            "with a marker"
        )


def _find_offsets(group: AnyGroup, dialect: Dialect) -> list[TopicPartition]:
    """Return the partitions whose offsets get a tombstone. The new coordinator also deletes pending offsets."""
    if dialect.coordinator == "classic":
        return hash_map_order(group.offsets, dialect.version, topic_partition_hash)
    pending = {partition: None for partitions in group.pending.values() for partition in partitions}
    only_pending = [partition for partition in pending if partition not in group.offsets]
    return _order_by_topic(group.offsets) + _order_by_topic(only_pending)


def _order_by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the order of the new coordinator's maps: a map of topics, each with a map of partition numbers."""
    numbers_by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        numbers_by_topic.setdefault(partition.topic, []).append(partition.partition)
    return [
        TopicPartition(topic, number)
        for topic in timeline_map_order(numbers_by_topic)
        # The hash of a java.lang.Integer is its number.
        for number in timeline_map_order(numbers_by_topic[topic], lambda number: number)
    ]


def _delete_modern_group(group: ModernGroup, log: Log, dialect: Dialect) -> list[KeyAndValue]:
    # A target of a member that does not exist would make the load fail at the tombstone of the epoch.
    with_targets = dict.fromkeys([*group.members, *group.targets])
    tombstones: list[KeyAndValue] = []
    for record_type in _DELETED_TYPES[group.type]:
        make_key: Callable[..., Message] = RECORD_TYPES[record_type].key
        keys: Iterable[Message]
        if record_type == _REGULAR_EXPRESSION:
            keys = _find_expressions(log, group.group_id, dialect) if group.members else ()
        elif record_type in (*_TARGETS, *_MEMBERS):
            member_ids = with_targets if record_type in _TARGETS else group.members
            keys = [make_key(group.group_id, member_id) for member_id in member_ids]
        else:
            keys = [make_key(group.group_id)]
        tombstones += [_encode(record_type, key) for key in keys]
    return tombstones


def _find_expressions(log: Log, group_id: str, dialect: Dialect) -> Iterable[Message]:
    """Return the keys of the group's resolved regular expressions that no tombstone has deleted."""
    expressions: dict[bytes | None, Message] = {}
    keys = LogKeys(dialect)
    for batch in log:
        for name, key, record in read_keys(batch, keys):
            content = key.decoded.content
            if name == group_id and isinstance(content, ConsumerGroupRegularExpressionKey):
                expressions.pop(record.key, None)
                if record.value is not None:
                    expressions[record.key] = content
    return expressions.values()


def _encode(record_type: int, key: Message) -> KeyAndValue:
    return encode(Record(record_type, key, None, None))
