"""Replays the records of consumer, share and streams groups onto a group.

All three types follow one pattern. Each record replaces the record that had its key before:

                          consumer   share   streams   value                             tombstone
    the group                3         11      17      group epoch                       deletes the group
    a member                 5         10      19      what the member is and wants      deletes the member
    target assignment        6         12      20      assignment epoch                  epoch -1
    a member's target        7         13      21      what the member should have       deletes the target
    a member's assignment    8         14      22      what it has, its epoch, state     epoch -1, no assignment
    others                   4, 16     9, 15   23      23: the topology                  23: deletes the topology

Any value creates the group. A tombstone never does; a tombstone of something unknown is ignored. A simple group, which
a commit made before, becomes a consumer or streams group. Any other group with that name fails the load. A tombstone
that comes too early fails the load too: of a group with members, of a member with an assignment, and so on. So does a
value that contains a topic or a subtopology twice (`UNIQUE`). Without a record, the group's epochs are 1 (before 4.3:
0), and a member's epoch is 0.

In a consumer group no partition may have two owners in one epoch. The owner with the higher epoch wins. A second owner
with the same or a lower epoch fails the load.

Simpler than Kafka: metadata hashes, resolved patterns, assignors' settings and the epoch of each single partition are
read and not kept, because no answer depends on them.
Source: GroupMetadataManager.replay, ConsumerGroup, ShareGroup, StreamsGroup (4.0.2 to 4.3.1, read in the jars).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from kafkagroups.errors import LoadFailed
from kafkagroups.groups.map_orders import Version
from kafkagroups.groups.modern_group import LEFT, ModernGroup, ModernMember, by_topic
from kafkagroups.records.consumer_group import ConsumerGroupCurrentMemberAssignmentValue
from kafkagroups.records.group_keys import MemberIdKey
from kafkagroups.records.serde import Record
from kafkagroups.records.versions import NEWEST, Dialect
from kafkagroups.records.wire import UUID

GROUP_TYPES = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), "consumer"),
    **dict.fromkeys((10, 11, 12, 13, 14, 15, 9), "share"),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), "streams"),
}
"""The type of group that a record type belongs to."""


def new_group(group_id: str, partition: int | None, type: str, rules: Dialect) -> ModernGroup:
    """Return an empty group, as that Kafka version makes it at the group's first record."""
    epoch = 1 if rules.version >= (4, 3) else 0
    return ModernGroup(group_id, partition, type, epoch, epoch, kafka=rules.version)


def replay(group: ModernGroup, record: Record) -> bool:
    """Apply a record of the group's type to a group. Return False if the record deletes the group.

    Raise LoadFailed if Kafka's coordinator refuses the record.
    """
    key = record.key
    value = cast(Any, record.value)
    member_id = key.member_id if isinstance(key, MemberIdKey) else ""
    if value is not None:
        _check(group, record.type, value)
    match record.type:
        case 3 | 11 | 17:
            return _replay_group(group, value)
        case 5 | 10 | 19:
            _replay_member(group, member_id, value)
        case 6 | 12 | 20:
            if value is None and group.targets:
                raise LoadFailed(f"{_name(group)} has a target assignment for {len(group.targets)} members")
            group.assignment_epoch = LEFT if value is None else value.assignment_epoch
        case 7 | 13 | 21:
            if value is None:
                group.targets.pop(member_id, None)
            else:
                group.targets[member_id] = value
        case 8 | 14 | 22:
            _replay_assignment(group, member_id, value)
        case 23:
            group.topology = value
    return True


_TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")
UNIQUE: dict[int, tuple[str, Version, tuple[str, ...]]] = {
    7: ("topic_id", NEWEST, ("topic_partitions",)),
    8: ("topic_id", (4, 3), ("assigned_partitions", "partitions_pending_revocation")),
    13: ("topic_id", NEWEST, ("topic_partitions",)),
    14: ("topic_id", NEWEST, ("assigned_partitions",)),
    15: ("topic_id", NEWEST, ("initializing_topics", "initialized_topics")),
    17: ("key", NEWEST, ("last_assignment_configs",)),
    19: ("key", NEWEST, ("client_tags",)),
    21: ("subtopology_id", NEWEST, _TASKS),
    22: ("subtopology_id", (4, 2), (*_TASKS, *(f"{kind}_pending_revocation" for kind in _TASKS))),
    23: ("subtopology_id", NEWEST, ("subtopologies",)),
}
"""By record type: the field that must be unique in some lists, the version that no longer checks it, and the lists.

Kafka makes maps of these lists, and refuses a key that occurs twice."""


def _check(group: ModernGroup, record_type: int, value: Any) -> None:
    """Raise LoadFailed for a well-formed value that Kafka's coordinator refuses."""
    name, until, lists = UNIQUE.get(record_type, ("", NEWEST, ()))
    for field_name in lists if group.kafka < until else ():
        names = [getattr(element, name) for element in getattr(value, field_name) or ()]
        if len(set(names)) < len(names):
            raise LoadFailed(f"{field_name} of {_name(group)} contains a {name} twice")
    if record_type == 15 and group.kafka < (4, 1):
        raise LoadFailed(f"{_name(group)}: Kafka 4.0 reads record type 15, but cannot replay it")
    if record_type == 23 and value.epoch < 0:
        raise LoadFailed(f"{_name(group)} has a topology of epoch {value.epoch}: expected 0 or above")
    if record_type in (4, 9) and group.kafka < (4, 1):
        for topic in value.topics:
            if topic.topic_id == UUID.default or not topic.topic_name or topic.num_partitions < 0:
                raise LoadFailed(f"{_name(group)}: topic {topic.topic_name!r} has no id, name or partition count")


def _replay_group(group: ModernGroup, value: Any) -> bool:
    if value is not None:
        group.group_epoch = value.epoch
        if group.type == "streams":
            group.validated_topology_epoch = value.validated_topology_epoch
        return True
    if group.members:
        raise LoadFailed(f"a tombstone deletes {_name(group)}, which has {len(group.members)} members")
    if group.targets and group.type != "streams":
        raise LoadFailed(
            f"a tombstone deletes {_name(group)}, which has a target assignment for {len(group.targets)} members"
        )
    if group.assignment_epoch != LEFT:
        raise LoadFailed(f"a tombstone deletes {_name(group)} before its target assignment was deleted")
    return False


def _replay_member(group: ModernGroup, member_id: str, value: Any) -> None:
    known = group.members.get(member_id)
    if value is not None:
        member = replace(known or ModernMember(member_id), metadata=value)
        _put(group, member)
        return
    if known is None:
        if group.type == "share" and group.kafka < (4, 1):
            raise LoadFailed(f"{_name(group)} has no member {member_id!r}")
        return
    if known.member_epoch != LEFT:
        raise LoadFailed(
            f"a tombstone deletes member {member_id!r} of {_name(group)} before its assignment was deleted"
        )
    if member_id in group.targets:
        raise LoadFailed(f"a tombstone deletes member {member_id!r} of {_name(group)} before its target was deleted")
    _disown(group, known)
    del group.members[member_id]


def _replay_assignment(group: ModernGroup, member_id: str, value: Any) -> None:
    known = group.members.get(member_id)
    if known is None and group.type == "share" and group.kafka < (4, 1):
        raise LoadFailed(f"{_name(group)} has no member {member_id!r}")
    if value is not None:
        member = replace(known or ModernMember(member_id), assignment=value, member_epoch=value.member_epoch)
        _put(group, replace(member, state=value.state))
    elif known is not None:
        _put(group, replace(known, assignment=None, member_epoch=LEFT))


def _put(group: ModernGroup, member: ModernMember) -> None:
    """Give a member its partitions, and take its old ones away. Raise LoadFailed for a second owner.

    Source: ConsumerGroup.maybeUpdatePartitionEpoch.
    """
    if (known := group.members.get(member.member_id)) is not None:
        _disown(group, known)
    for owned in _owned(member):
        for topic_id, number in owned:
            epoch = group.partition_epochs.get((topic_id, number))
            if epoch is not None and epoch >= member.member_epoch:
                owner = f"has an owner in {_name(group)} since epoch {epoch}"
                raise LoadFailed(f"partition {number} of topic id {topic_id} {owner}")
            group.partition_epochs[topic_id, number] = member.member_epoch
    group.members[member.member_id] = member


def _disown(group: ModernGroup, member: ModernMember) -> None:
    for owned in _owned(member):
        for partition in owned:
            if group.partition_epochs.get(partition) == member.member_epoch:
                del group.partition_epochs[partition]


def _owned(member: ModernMember) -> tuple[set[tuple[str, int]], ...]:
    """Return the partitions of a member of a consumer group: the assigned ones, and those still to be revoked."""
    value = member.assignment
    if not isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        return ()
    return tuple(
        {(topic_id, partition) for topic_id, partitions in assignment.items() for partition in partitions}
        for assignment in (by_topic(value.assigned_partitions), by_topic(value.partitions_pending_revocation))
    )


def check_loaded(group: ModernGroup) -> None:
    """Check what Kafka checks only at the end: raise LoadFailed for a streams member without a rebalance timeout.

    Source: GroupMetadataManager.onLoaded, which schedules that timeout.
    """
    for member in group.members.values():
        if group.type == "streams" and member.state == 2 and member.metadata is None:
            raise LoadFailed(
                f"member {member.member_id!r} of {_name(group)} has to give tasks back, but has no member record"
            )


def _name(group: ModernGroup) -> str:
    return f"{group.type} group {group.group_id!r}"
