"""A consumer, share or streams group in a coordinator: members, targets, epochs, state.

In this package, modern groups are consumer, share and streams groups. The target of a member is the assignment that the
coordinator has computed for the member. The member's own assignment follows the target step by step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from kafkagroups.groups.group import Group
from kafkagroups.groups.map_orders import Version, timeline_map_order
from kafkagroups.groups.offsets import PartitionOffsets
from kafkagroups.groups.owners import Owners
from kafkagroups.records.consumer_group import ConsumerGroupMemberMetadataValue, ConsumerGroupRegularExpressionValue
from kafkagroups.records.streams_group import StreamsGroupMemberMetadataValue, StreamsGroupTopologyValue
from kafkagroups.records.versions import AFTER_ALL_VERSIONS

DELETED_EPOCH = -1
"""An epoch that a tombstone has deleted:

- a member's epoch, after a tombstone of the member's assignment record (types 8, 14, 22),
- a group's assignment epoch, after a tombstone of the record of this epoch (types 6, 12, 20).
"""


MEMBER_STATES = {
    "consumer": {0: "Stable", 1: "UnrevokedPartitions", 2: "UnreleasedPartitions"},
    "streams": {1: "Stable", 2: "UnrevokedTasks", 3: "UnreleasedTasks"},
}
"""Kafka's names of the states in a member's assignment record (types 8, 22), by type of group.

A stable member has reached its target. An unrevoked member has to give partitions or tasks back. An unreleased member
waits for partitions or tasks of other members.
Source (4.3.1): MemberState.java in modern/ and in streams/.
"""
_UNKNOWN_STATE = "Unknown"
"""Kafka's name of every other number: a later release may add states."""


class ModernState(Enum):
    """The state of a modern group. Each value is Kafka's name. No record contains the state, so it is computed.

    EMPTY: the group has no members.
    NOT_READY: a streams group waits for its topology, or for the topics in its topology.
    ASSIGNING: the group changed after its targets were computed.
    RECONCILING: the assignment of some members is not their target yet.
    STABLE: the assignment of each member is its target. A share group with members is always Stable.
    """

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True)
class ModernMember:
    """A member of a consumer, share or streams group.

    `metadata` is the value of the member's record (consumer: type 5, share: 10, streams: 19). `assignment` is the value
    of the member's assignment record (8, 14, 22). None means that the log does not contain the record. `member_epoch`
    and `state` come from the assignment record. records/consumer_group.py, records/share_group.py and
    records/streams_group.py explain the numbers of `state`.
    """

    member_id: str
    metadata: Any = None
    assignment: Any = None
    member_epoch: int = 0
    state: int | None = None

    @property
    def process_id(self) -> str | None:
        """The id of a streams member's process; None if no record contains the id."""
        return self.metadata.process_id if isinstance(self.metadata, StreamsGroupMemberMetadataValue) else None

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether this member of a consumer group uses the classic protocol (JoinGroup instead of the new heartbeat).

        If the member uses the new protocol, the field `classic_member_metadata` of its record is null.
        """
        return (
            isinstance(self.metadata, ConsumerGroupMemberMetadataValue)
            and self.metadata.classic_member_metadata is not None
        )


@dataclass
class ModernGroup:
    """A consumer, share or streams group.

    `partition` is the partition of `__consumer_offsets` that stores the group; None if the log's folder has no number.
    `group_epoch` increases when members, subscriptions or topics change, and `assignment_epoch` is the one for which
    the targets were computed. `members` and `targets` are by member id; a target is the value of the member's target
    record. Only a streams group has a `topology`, and `validated_topology_epoch`, the epoch of the last one that the
    coordinator validated. `offsets` are the committed offsets, and `pending` those of open transactions, by producer
    id.

    Only a consumer group has `metadata_hash`, the hash of the subscribed topics; `assignment_timestamp`, when the
    targets were computed, in ms since the epoch; and `resolved`, the value of each regular expression that was
    resolved.
    """

    group_id: str
    partition: int | None
    type: str
    group_epoch: int = 1
    assignment_epoch: int = 1
    members: dict[str, ModernMember] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)
    topology: StreamsGroupTopologyValue | None = None
    validated_topology_epoch: int = 0
    metadata_hash: int = 0
    assignment_timestamp: int = 0
    resolved: dict[str, ConsumerGroupRegularExpressionValue] = field(default_factory=dict)
    largest_size: int = field(default=0, compare=False)
    """The largest number of members for which the map of the members had to have room. It decides their order."""
    kafka: Version = AFTER_ALL_VERSIONS
    """The version of the coordinator that loaded the group."""
    owners: Owners = field(default_factory=Owners)
    """The owner of each partition in a consumer group, and of each task in a streams group."""
    offsets: PartitionOffsets = field(default_factory=dict)
    pending: dict[int, PartitionOffsets] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.type} group {self.group_id!r}"

    def ordered_member_ids(self) -> list[str]:
        """Return the ids of the members in the order of Kafka's map."""
        return timeline_map_order(self.members, largest_size=self.largest_size)

    @property
    def state(self) -> ModernState:
        if not self.members:
            return ModernState.EMPTY
        if self.type == "share":
            return ModernState.STABLE
        # A member of a consumer group is stable if its `state` is 0, a member of a streams group if its `state` is 1.
        stable_state = 0
        if self.type == "streams":
            stable_state = 1
            # The records of Kafka 4.1 do not contain the validated epoch, so no topology counts as validated.
            validated_epoch = self.validated_topology_epoch if self.kafka >= (4, 2) else None
            if self.topology is None or self.topology.epoch != validated_epoch:
                return ModernState.NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return ModernState.ASSIGNING
        # Without an assignment record, a consumer member counts as stable, but a streams member does not.
        state_without_record = None if self.type == "streams" else stable_state
        for member in self.members.values():
            state = state_without_record if member.state is None else member.state
            if state != stable_state or member.member_epoch != self.assignment_epoch:
                return ModernState.RECONCILING
        return ModernState.STABLE

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The topics to which the members subscribe, by name, by a resolved pattern or by the topology."""
        metadata = [member.metadata for member in self.members.values() if member.metadata is not None]
        if self.type == "streams":
            return frozenset(self.subtopologies_by_topic() if metadata else ())
        by_name = frozenset(topic for each in metadata for topic in each.subscribed_topic_names)
        return by_name.union(*(value.topics for value in self.resolved.values()))

    def subtopologies_by_topic(self) -> dict[str, str]:
        """Return the id of the subtopology that reads each topic of a streams group."""
        parts = () if self.topology is None else self.topology.subtopologies
        return {
            topic: part.subtopology_id
            for part in parts
            for topic in (*part.source_topics, *(each.name for each in part.repartition_source_topics))
        }

    def name_state(self, member: ModernMember) -> str | None:
        """Return Kafka's name of a member's state; None for a streams member without an assignment record.

        A consumer member without this record is Stable. A member whose record was deleted keeps its last state.
        """
        names = MEMBER_STATES[self.type]
        if member.state is None:
            return "Stable" if self.type == "consumer" else None
        return names.get(member.state, _UNKNOWN_STATE)

    def find_previous_epoch(self, member: ModernMember) -> int | None:
        """Return the epoch before the member's epoch; -1 if the member has none, or if its record was deleted.

        A streams member without an assignment record has no previous epoch at all: None.
        """
        if member.assignment is not None:
            return int(member.assignment.previous_member_epoch)
        is_new = self.type == "streams" and member.member_epoch != DELETED_EPOCH
        return None if is_new else -1

    @property
    def assignor(self) -> str | None:
        """The assignor that brokers return.

        - Consumer group: the assignor that most members ask for. If no member asks for one, the default assignor.
        - Share group: always the same assignor.
        - Streams group: always the same assignor. None before Kafka 4.4, because older brokers do not return it.
        """
        if self.type == "share":
            return "simple"
        if self.type == "streams":
            return "sticky" if self.kafka >= (4, 4) else None
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.metadata is not None and member.metadata.server_assignor is not None:
                votes[member.metadata.server_assignor] = votes.get(member.metadata.server_assignor, 0) + 1
        if not votes:
            return "uniform"
        return max(timeline_map_order(votes, largest_size=len(votes) + 1), key=lambda name: votes[name])


AnyGroup = Group | ModernGroup
"""A group that a coordinator has loaded."""


def copy_group(group: AnyGroup) -> AnyGroup:
    """Return a copy of a group. A change of the copy does not change the group."""
    offsets = dict(group.offsets)
    pending = {producer: dict(partitions) for producer, partitions in group.pending.items()}
    if isinstance(group, Group):
        return replace(group, members=dict(group.members), offsets=offsets, pending=pending)
    return replace(
        group,
        members=dict(group.members),
        targets=dict(group.targets),
        resolved=dict(group.resolved),
        owners=group.owners.copy(),
        offsets=offsets,
        pending=pending,
    )


def partitions_by_topic(topics: Iterable[Any]) -> dict[str, list[int]]:
    """Return the sorted partition numbers of each topic id. If an id occurs twice, use its last entry."""
    return {topic.topic_id: sorted(set(topic.partitions)) for topic in topics}


def tasks_by_subtopology(tasks: Iterable[Any]) -> dict[str, list[int]]:
    """Return the sorted task numbers by subtopology (a part of a topology). The subtopology ids are sorted, too."""
    numbers = {entry.subtopology_id: sorted(set(entry.partitions)) for entry in tasks}
    return {subtopology: numbers[subtopology] for subtopology in sorted(numbers)}
