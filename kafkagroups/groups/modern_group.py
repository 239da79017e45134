"""A consumer, share or streams group as a coordinator holds it: members, targets, epochs, and the state they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from kafkagroups.groups.group import Group
from kafkagroups.groups.map_orders import Version, timeline_map_order
from kafkagroups.groups.offsets import PartitionOffsets
from kafkagroups.records.consumer_group import ConsumerGroupMemberMetadataValue
from kafkagroups.records.streams_group import StreamsGroupTopologyValue
from kafkagroups.records.versions import NEWEST

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


@dataclass(frozen=True)
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
    validated_topology_epoch: int = 0
    kafka: Version = NEWEST
    """Whose coordinator knows it."""
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
            # 4.1 did not write which topology it had checked: after a load it has checked none.
            checked = self.validated_topology_epoch if self.kafka >= (4, 2) else None
            if self.topology is None or self.topology.epoch != checked:
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
        return max(timeline_map_order(votes), key=lambda name: votes[name])


AnyGroup = Group | ModernGroup
"""A group that a coordinator knows."""


def copy_group(group: AnyGroup) -> AnyGroup:
    """Return a group with maps of its own. Members and offsets are frozen, so both groups share them."""
    offsets = dict(group.offsets)
    pending = {producer: dict(partitions) for producer, partitions in group.pending.items()}
    if isinstance(group, Group):
        return replace(group, members=dict(group.members), offsets=offsets, pending=pending)
    return replace(
        group,
        members=dict(group.members),
        targets=dict(group.targets),
        partition_epochs=dict(group.partition_epochs),
        offsets=offsets,
        pending=pending,
    )


def by_topic(topics: Iterable[Any]) -> dict[str, list[int]]:
    """{topic id: its partitions, sorted}; of a topic that stands twice the last counts."""
    return {topic.topic_id: sorted(set(topic.partitions)) for topic in topics}


def by_subtopology(tasks: Iterable[Any]) -> dict[str, list[int]]:
    """{subtopology: its tasks' numbers, sorted}, in the order of the subtopologies."""
    found = {ids.subtopology_id: sorted(set(ids.partitions)) for ids in tasks}
    return {name: found[name] for name in sorted(found)}
