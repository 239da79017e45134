"""A consumer, share or streams group in a coordinator: members, targets, epochs, state, and who owns what.

In this package, these are the modern groups. The target of a member is the assignment that the coordinator has
computed; the member's own assignment follows it step by step.

Partitions belong to members of consumer groups; tasks are the units of work in a streams group, and belong to the
processes of its members. A record with a member's assignment replaces the previous one: the coordinator first takes the
previous partitions or tasks from the member and then gives it the new ones. In some releases (records/releases.py), a
second owner makes the load fail:

    with SECOND_OWNER          A partition has at most one owner. The load fails if the coordinator removes a member
                               that is not the owner.
    without SECOND_OWNER       A member with a higher epoch replaces the owner. With any other epoch the load fails. A
                               member that is not the owner is removed without an error.
    with SECOND_TASK_OWNER     An active task has at most one process. The load fails if the coordinator removes a
                               process that does not have the task. Standby and warm-up tasks may have several
                               processes.
    without SECOND_TASK_OWNER  Tasks are not checked.

Source: ConsumerGroup.addPartitionEpochs and removePartitionEpochs (3.9.2, 4.0.1, 4.0.2, 4.4.0);
StreamsGroup.addTaskProcessId and removeTaskProcessIds (4.1.1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kafkagroups.errors import LoadFailed
from kafkagroups.groups.group import Group
from kafkagroups.groups.map_orders import timeline_map_order
from kafkagroups.groups.offsets import PartitionOffsets
from kafkagroups.records import consumer_group, streams_group
from kafkagroups.records.releases import AFTER_ALL_VERSIONS, SECOND_OWNER, SECOND_TASK_OWNER, Version
from kafkagroups.records.streams_group import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTopologyValue,
)

Processes = dict[str, dict[int, set[str]]]
"""For each subtopology and task number, the ids of the processes that have the task."""


@dataclass
class Owners:
    """The owners of the partitions or tasks in one group.

    In a consumer group, `epochs` has the owner's member epoch, by which Kafka identifies it, for each topic id and
    partition.

    In a streams group, the other fields have process ids: those of the one process that runs an active task, of those
    that copy its state, and of those that prepare to run it.
    """

    epochs: dict[str, dict[int, int]] = field(default_factory=dict)
    active: Processes = field(default_factory=dict)
    standby: Processes = field(default_factory=dict)
    warmup: Processes = field(default_factory=dict)

    def change(self, member: ModernMember, kafka: Version, *, adds: bool) -> None:
        """Make a member the owner of the partitions or tasks in its assignment, or take them from it.

        If no record contains the process id of a streams member, Kafka stores no owner. Raises LoadFailed if it refuses
        a second owner, or if the member that is removed is not the owner.
        """
        assignment = member.assignment
        if isinstance(assignment, consumer_group.ConsumerGroupCurrentMemberAssignmentValue):
            change_partitions = self._add_partitions if adds else self._remove_partitions
            for topics in (assignment.assigned_partitions, assignment.partitions_pending_revocation):
                change_partitions(topics, member.member_epoch, SECOND_OWNER.applies_to(kafka))
        elif isinstance(assignment, StreamsGroupCurrentMemberAssignmentValue) and SECOND_TASK_OWNER.applies_to(kafka):
            for processes, tasks in self._pair_tasks(assignment):
                if not adds:
                    _remove_process(processes, tasks, member.process_id, is_exclusive=processes is self.active)
                elif member.process_id is not None:
                    _add_process(processes, tasks, member.process_id, is_exclusive=processes is self.active)

    def _add_partitions(self, topics: Iterable[Any], epoch: int, refuses_second_owner: bool) -> None:
        for topic_id, partitions in _numbers_by_id(topics, "topic_id").items():
            epochs = self.epochs.setdefault(topic_id, {})
            for partition in partitions:
                owner_epoch = epochs.get(partition)
                if owner_epoch is not None and (refuses_second_owner or owner_epoch >= epoch):
                    raise LoadFailed(
                        f"partition {partition} of topic id {topic_id} cannot get an owner in epoch {epoch}, "
                        f"because it already has one in epoch {owner_epoch}"
                    )
                epochs[partition] = epoch

    def _remove_partitions(self, topics: Iterable[Any], epoch: int, refuses_second_owner: bool) -> None:
        for topic_id, partitions in _numbers_by_id(topics, "topic_id").items():
            epochs = self.epochs.get(topic_id)
            if epochs is None:
                if refuses_second_owner:
                    raise LoadFailed(f"no partition of topic id {topic_id} has an owner, expected one in epoch {epoch}")
                continue
            for partition in partitions:
                owner_epoch = epochs.get(partition)
                if owner_epoch == epoch:
                    del epochs[partition]
                elif refuses_second_owner:
                    raise LoadFailed(
                        f"partition {partition} of topic id {topic_id} has an owner in epoch {owner_epoch}, "
                        f"expected one in epoch {epoch}"
                    )
            if not epochs:
                del self.epochs[topic_id]

    def _pair_tasks(self, value: StreamsGroupCurrentMemberAssignmentValue) -> list[tuple[Processes, Any]]:
        """Return the tasks that a member keeps, and then those that it must give back, each with the processes that
        have such tasks.
        """
        return [
            (getattr(self, role), getattr(value, f"{role}_tasks{suffix}"))
            for suffix in ("", "_pending_revocation")
            for role in ("active", "standby", "warmup")
        ]


def _add_process(processes: Processes, tasks: Iterable[Any], process_id: str, *, is_exclusive: bool) -> None:
    for subtopology, numbers in _numbers_by_id(tasks, "subtopology_id").items():
        ids_by_number = processes.setdefault(subtopology, {})
        for number in numbers:
            ids = ids_by_number.setdefault(number, set())
            if is_exclusive and ids:
                raise LoadFailed(
                    f"task {subtopology}_{number} cannot get the process {process_id!r}, because {min(ids)!r} has it"
                )
            ids.add(process_id)


def _remove_process(processes: Processes, tasks: Iterable[Any], process_id: str | None, *, is_exclusive: bool) -> None:
    """Kafka's map of exclusive tasks forgets a task without a process, and so a member without one can remove it."""
    for subtopology, numbers in _numbers_by_id(tasks, "subtopology_id").items():
        if subtopology not in processes:
            raise LoadFailed(f"no task of subtopology {subtopology} has a process, expected {process_id!r}")
        ids_by_number = processes[subtopology]
        for number in numbers:
            ids = ids_by_number.get(number, set())
            is_forgotten = is_exclusive and not ids and process_id is None
            if process_id not in ids and not is_forgotten:
                raise LoadFailed(
                    f"task {subtopology}_{number} has the processes {sorted(ids)}, expected {process_id!r}"
                )
            ids -= {process_id}
            if is_exclusive:
                ids_by_number.pop(number, None)
        if not ids_by_number:
            del processes[subtopology]


def _numbers_by_id(entries: Iterable[Any], id_field: str) -> dict[str, set[int]]:
    """If an id occurs twice, its last entry is used."""
    return {getattr(entry, id_field): set(entry.partitions) for entry in entries}


DELETED_EPOCH = -1
"""An epoch that a tombstone has deleted:

- a member's epoch, after a tombstone of the member's assignment record (types 8, 14, 22),
- a group's assignment epoch, after a tombstone of the record of this epoch (types 6, 12, 20).
"""


MEMBER_STATES = {"consumer": consumer_group.MEMBER_STATES, "streams": streams_group.MEMBER_STATES}
"""Kafka's names of the states in a member's assignment record (types 8, 22), by type of group.

A stable member has reached its target. An unrevoked member has to give partitions or tasks back. An unreleased member
waits for partitions or tasks of other members.
Source (4.3.1): MemberState.java in modern/ and in streams/.
"""
_UNKNOWN_STATE = "Unknown"


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

    `metadata` and `assignment` are the values of the member's records; None means that the log does not contain the
    record. The assignment record has `member_epoch` and `state`, whose numbers the modules of these records explain.
    """

    member_id: str
    metadata: Any = None
    assignment: Any = None
    member_epoch: int = 0
    state: int | None = None

    @property
    def process_id(self) -> str | None:
        return self.metadata.process_id if isinstance(self.metadata, StreamsGroupMemberMetadataValue) else None

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether the record of a consumer group's member has `classic_member_metadata`."""
        return (
            isinstance(self.metadata, consumer_group.ConsumerGroupMemberMetadataValue)
            and self.metadata.classic_member_metadata is not None
        )


@dataclass
class ModernGroup:
    """A consumer, share or streams group.

    `group_epoch` increases when members, subscriptions or topics change, and `assignment_epoch` is the one for which
    the targets were computed. `members` and `targets` are by member id; a target is the value of the member's target
    record. Only a streams group has a `topology`, and `validated_topology_epoch`, the epoch of the last one that the
    coordinator validated.

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
    resolved: dict[str, consumer_group.ConsumerGroupRegularExpressionValue] = field(default_factory=dict)
    changed_patterns: dict[str, consumer_group.ConsumerGroupRegularExpressionValue | None] = field(
        default_factory=dict, compare=False
    )
    """The patterns that were resolved or deleted since the newest record of a member, with the value before."""
    largest_size: int = field(default=0, compare=False)
    """The largest number of members for which the map of the members had to have room."""
    kafka: Version = AFTER_ALL_VERSIONS
    owners: Owners = field(default_factory=Owners)
    offsets: PartitionOffsets = field(default_factory=dict)
    pending: dict[int, PartitionOffsets] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.type} group {self.group_id!r}"

    @property
    def protocol_type(self) -> str:
        return self.type

    @property
    def earlier_resolved(self) -> dict[str, consumer_group.ConsumerGroupRegularExpressionValue]:
        """What was resolved at the newest record of a member, when Kafka stores whether all members read the same."""
        values = self.resolved | self.changed_patterns
        return {pattern: value for pattern, value in values.items() if value is not None}

    def ordered_member_ids(self) -> list[str]:
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
        metadata = [member.metadata for member in self.members.values() if member.metadata is not None]
        if self.type == "streams":
            return frozenset(self.subtopologies_by_topic() if metadata else ())
        by_name = frozenset(topic for each in metadata for topic in each.subscribed_topic_names)
        return by_name.union(*(value.topics for value in self.resolved.values()))

    def subtopologies_by_topic(self) -> dict[str, str]:
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
        """Return the epoch before the member's epoch; -1 if it has none, or if its record was deleted.

        A streams member without an assignment record has no previous epoch at all: None.
        """
        if member.assignment is not None:
            return int(member.assignment.previous_member_epoch)
        is_new = self.type == "streams" and member.member_epoch != DELETED_EPOCH
        return None if is_new else -1

    @property
    def assignor(self) -> str | None:
        """The assignor that brokers return.

        A consumer group has the one that most members ask for, or else the default. That of a share or streams group
        never changes, and brokers before Kafka 4.4 do not return that of a streams group: None.
        """
        if self.type == "share":
            return "simple"
        if self.type == "streams":
            return "sticky" if self.kafka >= (4, 4) else None
        votes = self.assignor_votes
        return max(votes, key=votes.__getitem__, default="uniform")

    @property
    def assignor_votes(self) -> dict[str, int]:
        """How many members of a consumer group ask for each assignor, in the order of Kafka's map."""
        metadata = [member.metadata for member in self.members.values() if member.metadata is not None]
        votes = Counter(each.server_assignor for each in metadata if each.server_assignor is not None)
        return {name: votes[name] for name in timeline_map_order(votes, largest_size=len(votes) + 1)}


AnyGroup = Group | ModernGroup
"""A group that a coordinator has loaded."""


def copy_group(group: AnyGroup) -> AnyGroup:
    """Copy a group with its dicts and sets. What these contain is never changed."""
    copied = copy(group)
    vars(copied).update(_copy_containers(vars(group)))
    return copied


def _copy_containers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy_containers(content) for key, content in value.items()}
    if isinstance(value, Owners):
        return Owners(**_copy_containers(vars(value)))
    return set(value) if isinstance(value, set) else value


def partitions_by_topic(topics: Iterable[Any]) -> dict[str, list[int]]:
    return {topic.topic_id: sorted(set(topic.partitions)) for topic in topics}


def tasks_by_subtopology(tasks: Iterable[Any]) -> dict[str, list[int]]:
    numbers = {entry.subtopology_id: sorted(set(entry.partitions)) for entry in tasks}
    return {subtopology: numbers[subtopology] for subtopology in sorted(numbers)}
