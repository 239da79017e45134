"""Groups of the newer protocols, as their records build them: consumer, share and streams groups.

All three follow one pattern, and so does their replay here; each record takes the place of what it said before:

                          consumer   share   streams   value                             tombstone
    the group                3         11      17      group epoch                       the group is gone
    a member                 5         10      19      what it is and asked for          it is gone
    target assignment        6         12      20      assignment epoch                  epoch -1
    a member's target        7         13      21      what it is to have                nothing
    a member's assignment    8         14      22      what it has, its epoch, state     epoch -1, nothing
    others                   4, 16     15      23      23: the topology                  23: no topology

Any value creates the group, a tombstone never does (tombstones of what is unknown are passed over). A group that a
kept commit made before (a simple one) becomes a consumer or streams group; any other group of that name fails the
load. So do tombstones that come too early: of a group with members, of a member with an assignment, and so on. What
was not replayed stands at its default: epochs 1, before 4.3 0; a member's epoch 0.

In a consumer group no partition may have two owners in one epoch. The owner with the higher epoch wins, a second one
with the same or a lower epoch fails the load.

Simpler than Kafka: metadata hashes, resolved patterns, assignors' settings and the epoch of each single partition are
read and not kept, for no answer depends on them.
Source: GroupMetadataManager.replay, ConsumerGroup, ShareGroup, StreamsGroup (4.0.2 to 4.3.1, read in the jars).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kafkagroups.errors import LoadFailed
from kafkagroups.groups.group import Group
from kafkagroups.groups.offsets import PartitionOffsets
from kafkagroups.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)
from kafkagroups.records.dialect import Dialect
from kafkagroups.records.fields import Message
from kafkagroups.records.group_keys import GroupIdKey, MemberIdKey
from kafkagroups.records.serde import Record
from kafkagroups.records.streams_group import StreamsGroupTopologyValue
from kafkagroups.records.text import java_hash

GROUP_TYPES = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), "consumer"),
    **dict.fromkeys((10, 11, 12, 13, 14, 15, 9), "share"),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), "streams"),
}
"""The type of group that a record type belongs to."""

LEFT = -1
"""The epoch of a member whose assignment was deleted, and of a target assignment that was."""


class ModernState(Enum):
    """The value is Kafka's name of the state. It follows from the records, nothing writes it.

    EMPTY has no members. NOT_READY (streams) waits for its topology, or for the topics that it needs. ASSIGNING: the
    group changed since its target was computed. RECONCILING: some members are on their way to the target. STABLE:
    all are there; of a share group with members nothing else is ever said.
    """

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass
class ModernMember:
    """A member: the values of its records, None where there is none.

    `member_epoch` and `state` (the number in the record) are those of its last assignment.
    """

    member_id: str
    metadata: Any = None
    assignment: Any = None
    member_epoch: int = 0
    state: int | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether it is a classic member of a consumer group: its record has the tag, or none and so the default."""
        return (
            isinstance(self.metadata, ConsumerGroupMemberMetadataValue)
            and self.metadata.classic_member_metadata is not None
        )


@dataclass
class ModernGroup:
    """A consumer, share or streams group. `members` and `targets` (values of target records) are by member id."""

    group_id: str
    partition: int | None
    type: str
    group_epoch: int = 1
    assignment_epoch: int = 1
    members: dict[str, ModernMember] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)
    topology: StreamsGroupTopologyValue | None = None
    validated_topology_epoch: int | None = 0
    """None in a Kafka that does not write it (4.1): there a group with members is not ready after a load."""
    partition_epochs: dict[tuple[str, int], int] = field(default_factory=dict)
    """Of a consumer group: in which epoch each (topic id, partition) has an owner."""
    offsets: PartitionOffsets = field(default_factory=dict)
    pending: dict[int, PartitionOffsets] = field(default_factory=dict)

    @property
    def state(self) -> ModernState:
        if not self.members:
            return ModernState.EMPTY
        if self.type == "share":
            return ModernState.STABLE
        stable = 0
        if self.type == "streams":
            stable = 1
            if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
                return ModernState.NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return ModernState.ASSIGNING
        default = None if self.type == "streams" else stable
        for member in self.members.values():
            state = default if member.state is None else member.state
            if state != stable or member.member_epoch != self.assignment_epoch:
                return ModernState.RECONCILING
        return ModernState.STABLE

    @property
    def assignor(self) -> str | None:
        """The assignor that most members ask for, else the broker's first. A streams group has none."""
        if self.type != "consumer":
            return "simple" if self.type == "share" else None
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.metadata is not None and member.metadata.server_assignor is not None:
                votes[member.metadata.server_assignor] = votes.get(member.metadata.server_assignor, 0) + 1
        if not votes:
            return "uniform"
        return max(_as_a_timeline_map(votes), key=lambda name: votes[name])


AnyGroup = Group | ModernGroup
"""What a coordinator may know under a group id."""


def new_group(group_id: str, partition: int | None, type: str, rules: Dialect) -> ModernGroup:
    """An empty group, as that Kafka makes it when the first of its records comes."""
    epoch = 1 if rules.version >= (4, 3) else 0
    group = ModernGroup(group_id, partition, type, epoch, epoch)
    if rules.version < (4, 2):
        group.validated_topology_epoch = None
    return group


def replay(group: ModernGroup, record: Record, rules: Dialect) -> bool:
    """Applies a record of its own types to a group. False when the group is gone after it.

    LoadFailed where Kafka's coordinator would refuse it.
    """
    key, value = record.key, record.value
    assert isinstance(key, GroupIdKey) and (value is None or isinstance(value, Message))
    member_id = key.member_id if isinstance(key, MemberIdKey) else ""
    match record.type:
        case 3 | 11 | 17:
            return _replay_group(group, value)
        case 5 | 10 | 19:
            _replay_member(group, member_id, value, rules)
        case 6 | 12 | 20:
            if value is None and group.targets:
                raise LoadFailed(f"{_of(group)} has a target assignment for {len(group.targets)} members")
            group.assignment_epoch = _field(value, "assignment_epoch", LEFT)
        case 7 | 13 | 21:
            if value is None:
                group.targets.pop(member_id, None)
            else:
                _no_doubles(group, value)
                group.targets[member_id] = value
        case 8 | 14 | 22:
            _replay_assignment(group, member_id, value, rules)
        case 15:
            if rules.version < (4, 1):
                raise LoadFailed(f"Kafka {rules.kafka} does not replay record type 15")
        case 23:
            assert value is None or isinstance(value, StreamsGroupTopologyValue)
            _only_once(group, (part.subtopology_id for part in value.subtopologies) if value else ())
            group.topology = value
    return True


def _replay_group(group: ModernGroup, value: Message | None) -> bool:
    if value is not None:
        group.group_epoch = _field(value, "epoch", 0)
        if group.type == "streams":
            configs = _field(value, "last_assignment_configs", None)
            _only_once(group, (config.key for config in configs or ()))
            if group.validated_topology_epoch is not None:
                group.validated_topology_epoch = _field(value, "validated_topology_epoch", LEFT)
        return True
    if group.members:
        raise LoadFailed(f"a tombstone ends {_of(group)}, which has {len(group.members)} members")
    if group.targets and group.type != "streams":
        raise LoadFailed(
            f"a tombstone ends {_of(group)}, which has a target assignment for {len(group.targets)} members"
        )
    if group.assignment_epoch != LEFT:
        raise LoadFailed(f"a tombstone ends {_of(group)} before that of its target assignment")
    return False


def _replay_member(group: ModernGroup, member_id: str, value: Message | None, rules: Dialect) -> None:
    if value is not None:
        if group.type == "streams":
            _only_once(group, (tag.key for tag in _field(value, "client_tags", ())))
        member = group.members.setdefault(member_id, ModernMember(member_id))
        _own(group, member, member)
        member.metadata = value
        return
    known = group.members.get(member_id)
    if known is None:
        if group.type == "share" and rules.version < (4, 1):
            raise LoadFailed(f"{_of(group)} has no member {member_id!r}")
        return
    if known.member_epoch != LEFT:
        raise LoadFailed(f"a tombstone ends member {member_id!r} of {_of(group)} before that of its assignment")
    if member_id in group.targets:
        raise LoadFailed(f"a tombstone ends member {member_id!r} of {_of(group)} before that of its target")
    _own(group, known, None)
    del group.members[member_id]


def _replay_assignment(group: ModernGroup, member_id: str, value: Message | None, rules: Dialect) -> None:
    if group.type == "share" and rules.version < (4, 1) and member_id not in group.members:
        raise LoadFailed(f"{_of(group)} has no member {member_id!r}")
    if value is None:
        if (known := group.members.get(member_id)) is None:
            return
        after = ModernMember(member_id, known.metadata, None, LEFT, known.state)
    else:
        if group.type == "share" or rules.version < ((4, 3) if group.type == "consumer" else (4, 2)):
            _no_doubles(group, value)
        known = group.members.get(member_id) or ModernMember(member_id)
        after = ModernMember(
            member_id, known.metadata, value, _field(value, "member_epoch", 0), _field(value, "state", 0)
        )
    _own(group, known, after)
    group.members[member_id] = after


def _own(group: ModernGroup, before: ModernMember, after: ModernMember | None) -> None:
    """Takes a member's partitions from it and gives it those that it has afterwards. LoadFailed for a second owner.

    Source: ConsumerGroup.maybeUpdatePartitionEpoch, maybeRemovePartitionEpoch.
    """
    for owned in _owned(before):
        for partition in owned:
            if group.partition_epochs.get(partition) == before.member_epoch:
                del group.partition_epochs[partition]
    for owned in _owned(after) if after else ():
        for partition in owned:
            epoch = group.partition_epochs.get(partition)
            if epoch is not None and epoch >= after.member_epoch:  # type: ignore[union-attr]
                topic_id, number = partition
                raise LoadFailed(
                    f"partition {number} of topic id {topic_id} has an owner in {_of(group)} since epoch {epoch}"
                )
            group.partition_epochs[partition] = after.member_epoch  # type: ignore[union-attr]


def _owned(member: ModernMember) -> tuple[set[tuple[str, int]], ...]:
    """The partitions of a member of a consumer group: assigned, and still to be revoked."""
    value = member.assignment
    if not isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        return ()
    return tuple(
        {(topic_id, partition) for topic_id, partitions in assignment.items() for partition in partitions}
        for assignment in (by_topic(value.assigned_partitions), by_topic(value.partitions_pending_revocation))
    )


def by_topic(topics: Iterable[Any]) -> dict[str, list[int]]:
    """{topic id: its partitions, sorted}; of a topic that stands twice the last counts."""
    return {topic.topic_id: sorted(set(topic.partitions)) for topic in topics}


def by_subtopology(tasks: Iterable[Any]) -> dict[str, list[int]]:
    """{subtopology: its tasks' numbers, sorted}, in the order of the subtopologies."""
    found = {ids.subtopology_id: sorted(set(ids.partitions)) for ids in tasks}
    return {name: found[name] for name in sorted(found)}


def _no_doubles(group: ModernGroup, value: Message) -> None:
    for name in ("topic_partitions", "assigned_partitions", "partitions_pending_revocation"):
        _only_once(group, (topic.topic_id for topic in _field(value, name, ())))
    for kind in ("active", "standby", "warmup"):
        for name in (f"{kind}_tasks", f"{kind}_tasks_pending_revocation"):
            _only_once(group, (ids.subtopology_id for ids in _field(value, name, ())))


def _only_once(group: ModernGroup, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise LoadFailed(f"{name!r} stands twice in a record of {_of(group)}")
        seen.add(name)


def _field(value: Message | None, name: str, default: Any) -> Any:
    return getattr(value, name, default)


def _of(group: ModernGroup) -> str:
    return f"{group.type} group {group.group_id!r}"


def _as_a_timeline_map(names: Iterable[str]) -> list[str]:
    """Names in the order in which Kafka's TimelineHashMap goes through them: of equal votes the first wins.

    Source: BaseHashTable.findSlot, SnapshottableHashTable.CurrentIterator (4.3.1).
    """
    names = list(names)
    bits = 1
    while len(names) * 0.75 > 2**bits:
        bits += 1
    slots: dict[int, list[str]] = {}
    for name in names:
        slots.setdefault((java_hash(name) * -7046029254386353131 & 2**64 - 1) >> 64 - bits, []).append(name)
    return [name for slot in sorted(slots) for name in reversed(slots[slot])]
