"""The effect of each record of a consumer, share or streams group on the group.

Their records have the same pattern, in which the numbers are record types. Each record replaces the previous record
with the same key:

                          consumer   share   streams   value                             tombstone
    the group                3         11      17      group epoch                       deletes the group
    a member                 5         10      19      the member's client and topics    deletes the member
    epoch of the targets     6         12      20      assignment epoch                  epoch -1
    a member's target        7         13      21      what the member should have       deletes the target
    a member's assignment    8         14      22      what the member has, the          epoch -1, no assignment
                                                       member's epoch and state
    other records            4, 16     9, 15   23      16: topics of a pattern           16: deletes the pattern
                                                       23: the topology                  23: deletes the topology

A record with a value creates the group if the group does not exist. A tombstone is ignored if its group does not exist
or its member does not exist. A record of a consumer or streams group converts a simple group (a group that only an
offset commit created). In all other cases, the load fails if the record belongs to another type of group than the
existing group. The load also fails if a tombstone comes too early, for example if a deleted group still has members.

Before a record sets an epoch, a group's epoch and assignment epoch are 1 (before 4.3: 0), and a member's epoch is 0.

Simpler than Kafka: parts that no response about a loaded group contains are not stored: metadata hashes of share and
streams groups, the topics in records of types 4, 9 and 15, and settings of assignors.
Source: GroupMetadataManager.replay, ConsumerGroup, ShareGroup, StreamsGroup (3.9.2 to 4.4.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from kafkagroups.errors import LoadFailed
from kafkagroups.groups.modern_group import DELETED_EPOCH, ModernGroup, ModernMember
from kafkagroups.records import releases
from kafkagroups.records.consumer_group import MemberIdKey
from kafkagroups.records.releases import Dialect, Refusal, Version
from kafkagroups.records.serde import Record
from kafkagroups.records.wire import UUID

_TASK_LISTS = ("active_tasks", "standby_tasks", "warmup_tasks")
_REVOKED_TASK_LISTS = tuple(f"{name}_pending_revocation" for name in _TASK_LISTS)


class UniqueField(NamedTuple):
    """A field that must be unique in lists of a record's value, because Kafka builds a map with it as the key.

    `refusal` says which releases refuse two elements with the same value.
    """

    field: str
    refusal: Refusal
    lists: tuple[str, ...]


UNIQUE_FIELD_BY_RECORD_TYPE: dict[int, UniqueField] = {
    7: UniqueField("topic_id", releases.DOUBLE_ENTRY, ("topic_partitions",)),
    8: UniqueField(
        "topic_id", releases.DOUBLE_ASSIGNED_TOPIC, ("assigned_partitions", "partitions_pending_revocation")
    ),
    13: UniqueField("topic_id", releases.DOUBLE_ENTRY, ("topic_partitions",)),
    14: UniqueField("topic_id", releases.DOUBLE_ENTRY, ("assigned_partitions",)),
    15: UniqueField("topic_id", releases.DOUBLE_ENTRY, ("initializing_topics", "initialized_topics")),
    17: UniqueField("key", releases.DOUBLE_ENTRY, ("last_assignment_configs",)),
    19: UniqueField("key", releases.DOUBLE_ENTRY, ("client_tags",)),
    21: UniqueField("subtopology_id", releases.DOUBLE_ENTRY, _TASK_LISTS),
    22: UniqueField("subtopology_id", releases.DOUBLE_ASSIGNED_SUBTOPOLOGY, _TASK_LISTS + _REVOKED_TASK_LISTS),
    23: UniqueField("subtopology_id", releases.DOUBLE_ENTRY, ("subtopologies",)),
}


def check_value(group: str, record_type: int, value: Any, kafka: Version) -> None:
    unique = UNIQUE_FIELD_BY_RECORD_TYPE.get(record_type)
    if unique is not None and unique.refusal.applies_to(kafka):
        _check_unique(group, value, unique)
    if record_type == 22 and releases.ASSIGNMENT_EPOCH_COUNT.applies_to(kafka):
        _check_epoch_counts(group, (*value.active_tasks, *value.active_tasks_pending_revocation))
    if record_type in (6, 12, 20) and releases.NEGATIVE_ASSIGNMENT_EPOCH.applies_to(kafka):
        if value.assignment_epoch < -1:
            raise LoadFailed(f"{group} has assignment epoch {value.assignment_epoch}: expected -1 or above")
        if value.assignment_timestamp < 0:
            raise LoadFailed(f"{group} has assignment timestamp {value.assignment_timestamp}: expected 0 or above")
    if record_type == 23 and releases.NEGATIVE_TOPOLOGY_EPOCH.applies_to(kafka) and value.epoch < 0:
        raise LoadFailed(f"{group} has a topology of epoch {value.epoch}: expected 0 or above")
    if record_type in (4, 9) and releases.INCOMPLETE_TOPIC.applies_to(kafka):
        for topic in value.topics:
            is_incomplete = topic.topic_id == UUID.default or not topic.topic_name or topic.num_partitions < 0
            if is_incomplete:
                raise LoadFailed(f"{group}: topic {topic.topic_name!r} must have an id, a name and a partition count")


def _check_unique(group: str, value: Any, unique: UniqueField) -> None:
    for list_name in unique.lists:
        elements = getattr(value, list_name) or ()
        field_values = [getattr(element, unique.field) for element in elements]
        if len(set(field_values)) < len(field_values):
            raise LoadFailed(f"{list_name} of {group} contains a {unique.field} twice")


def _check_epoch_counts(group: str, active_tasks: Sequence[Any]) -> None:
    for tasks in active_tasks:
        if tasks.assignment_epochs and len(tasks.assignment_epochs) != len(tasks.partitions):
            raise LoadFailed(
                f"{group}: expected {len(tasks.partitions)} assignment epochs for the active tasks of subtopology "
                f"{tasks.subtopology_id!r}, found {len(tasks.assignment_epochs)}"
            )


GROUP_TYPE_BY_RECORD_TYPE = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), "consumer"),
    **dict.fromkeys((10, 11, 12, 13, 14, 15, 9), "share"),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), "streams"),
}
_UNREVOKED_TASKS_STATE = 2


def create_group(group_id: str, partition: int | None, type: str, dialect: Dialect) -> ModernGroup:
    epoch = 1 if dialect.version >= (4, 3) else 0
    validated_epoch = -1 if dialect.version >= (4, 4) else 0
    return ModernGroup(
        group_id, partition, type, epoch, epoch, validated_topology_epoch=validated_epoch, kafka=dialect.version
    )


def apply_record(group: ModernGroup, record: Record) -> bool:
    """Apply a record to a group of its type, and return False if it deletes the group.

    Raises LoadFailed if Kafka's coordinator refuses the record.
    """
    key = cast(Any, record.key)
    value = cast(Any, record.value)
    member_id = key.member_id if isinstance(key, MemberIdKey) else ""
    if value is not None:
        check_value(str(group), record.type, value, group.kafka)
    match record.type:
        case 3 | 11 | 17:
            return _replay_group(group, value)
        case 5 | 10 | 19:
            _replay_member(group, member_id, value)
        case 6 | 12 | 20:
            if value is None and group.targets:
                raise LoadFailed(f"{group} has a target assignment for {len(group.targets)} members")
            group.assignment_epoch = DELETED_EPOCH if value is None else value.assignment_epoch
            if group.type == "consumer":
                group.assignment_timestamp = 0 if value is None else value.assignment_timestamp
        case 7 | 13 | 21:
            if value is None:
                group.targets.pop(member_id, None)
            else:
                group.targets[member_id] = value
        case 8 | 14 | 22:
            _replay_assignment(group, member_id, value)
        case 16:
            group.changed_patterns.setdefault(key.regular_expression, group.resolved.get(key.regular_expression))
            if value is None:
                group.resolved.pop(key.regular_expression, None)
            else:
                group.resolved[key.regular_expression] = value
        case 23:
            group.topology = value
    return True


def _replay_group(group: ModernGroup, value: Any) -> bool:
    if value is not None:
        group.group_epoch = value.epoch
        if group.type == "consumer":
            group.metadata_hash = value.metadata_hash
        if group.type == "streams":
            group.validated_topology_epoch = value.validated_topology_epoch
        return True
    if group.members:
        members = "1 member" if len(group.members) == 1 else f"{len(group.members)} members"
        raise LoadFailed(f"a tombstone deletes {group}, which has {members}")
    if group.targets and group.type != "streams":
        members = "1 member" if len(group.targets) == 1 else f"{len(group.targets)} members"
        raise LoadFailed(f"a tombstone deletes {group}, which has a target assignment for {members}")
    if group.assignment_epoch != DELETED_EPOCH:
        raise LoadFailed(f"a tombstone deletes {group} before its target assignment was deleted")
    return False


def _replay_member(group: ModernGroup, member_id: str, value: Any) -> None:
    previous = group.members.get(member_id)
    if value is not None:
        member = replace(previous or ModernMember(member_id), metadata=value)
        _put_member(group, member)
        return
    if previous is None:
        _check_unknown_member(group, member_id)
        return
    if previous.member_epoch != DELETED_EPOCH:
        raise LoadFailed(f"a tombstone deletes member {member_id!r} of {group} before its assignment was deleted")
    if member_id in group.targets:
        raise LoadFailed(f"a tombstone deletes member {member_id!r} of {group} before its target was deleted")
    _change_owners(group, previous, adds=False)
    del group.members[member_id]
    group.changed_patterns = {}


def _replay_assignment(group: ModernGroup, member_id: str, value: Any) -> None:
    previous = group.members.get(member_id)
    if previous is None:
        _check_unknown_member(group, member_id)
    if value is not None:
        member = replace(previous or ModernMember(member_id), assignment=value, member_epoch=value.member_epoch)
        _put_member(group, replace(member, state=value.state))
    elif previous is not None:
        _put_member(group, replace(previous, assignment=None, member_epoch=DELETED_EPOCH))


def _check_unknown_member(group: ModernGroup, member_id: str) -> None:
    refusals = {"consumer": releases.CONSUMER_RECORD_WITHOUT_MEMBER, "share": releases.SHARE_RECORD_WITHOUT_MEMBER}
    if group.type in refusals and refusals[group.type].applies_to(group.kafka):
        raise LoadFailed(f"{group} has no member {member_id!r}")


def _put_member(group: ModernGroup, member: ModernMember) -> None:
    previous = group.members.get(member.member_id)
    if previous is not None:
        _change_owners(group, previous, adds=False)
    _change_owners(group, member, adds=True)
    # Kafka makes room for one more before it finds out that the member is there already.
    group.largest_size = max(group.largest_size, len(group.members) + 1)
    group.members[member.member_id] = member
    group.changed_patterns = {}


def _change_owners(group: ModernGroup, member: ModernMember, *, adds: bool) -> None:
    try:
        group.owners.change(member, group.kafka, adds=adds)
    except LoadFailed as error:
        raise LoadFailed(f"{group}: {error.reason}") from None


def check_loaded(group: ModernGroup) -> None:
    """Raise LoadFailed if Kafka cannot start the timers of a streams group after the load.

    Source: GroupMetadataManager.onLoaded.
    """
    for member in group.members.values():
        gives_tasks_back = group.type == "streams" and member.state == _UNREVOKED_TASKS_STATE
        if gives_tasks_back and member.metadata is None:
            raise LoadFailed(f"member {member.member_id!r} of {group} has to give tasks back, but has no member record")
