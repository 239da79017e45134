"""Who has each partition of a consumer group and each task of a streams group: a second owner fails the load.

A member's record replaces the member's previous one: the coordinator takes away what the member had, and then gives it
what the record says. Releases differ in what they check (refusals.py):

    SECOND_OWNER holds         each partition has at most one owner; taking it away fails if the member is not the owner
    later releases             a higher epoch takes a partition over; taking it away from another owner does nothing
    SECOND_TASK_OWNER holds    as in the first line for active tasks, with the member's process instead of its epoch;
                               standby and warm-up tasks may have several processes
    later releases             tasks are not checked

Source: ConsumerGroup.addPartitionEpochs and removePartitionEpochs (3.9.2, 4.0.1, 4.0.2, 4.4.0),
StreamsGroup.addTaskProcessId and removeTaskProcessIds (4.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.errors import LoadFailed
from kafkagroups.records.consumer_group import ConsumerGroupCurrentMemberAssignmentValue
from kafkagroups.records.refusals import SECOND_OWNER, SECOND_TASK_OWNER
from kafkagroups.records.streams_group import StreamsGroupCurrentMemberAssignmentValue
from kafkagroups.records.versions import Version


@dataclass
class Owners:
    """The owners in one group.

    `epochs` is of a consumer group: by topic id and partition, the epoch of the owner. The others are of a streams
    group, by subtopology and task: the process that runs it, and the processes that copy or prepare it.
    """

    epochs: dict[str, dict[int, int]] = field(default_factory=dict)
    active: dict[str, dict[int, str]] = field(default_factory=dict)
    standby: dict[str, dict[int, frozenset[str]]] = field(default_factory=dict)
    warmup: dict[str, dict[int, frozenset[str]]] = field(default_factory=dict)

    def copy(self) -> Owners:
        """Return owners that change independently of these."""
        return Owners(
            {name: dict(parts) for name, parts in self.epochs.items()},
            {name: dict(parts) for name, parts in self.active.items()},
            {name: dict(parts) for name, parts in self.standby.items()},
            {name: dict(parts) for name, parts in self.warmup.items()},
        )

    def add_assignment(self, assignment: Any, epoch: int, process: str | None, kafka: Version) -> None:
        """Give a member what its record of type 8 or 22 says. Raise LoadFailed for a second owner."""
        if isinstance(assignment, ConsumerGroupCurrentMemberAssignmentValue):
            strict = SECOND_OWNER.holds(kafka)
            for topics in (assignment.assigned_partitions, assignment.partitions_pending_revocation):
                self._give_partitions(topics, epoch, strict)
        elif process is None:
            return  # Kafka gives no tasks to a member without a record of type 19.
        elif isinstance(assignment, StreamsGroupCurrentMemberAssignmentValue) and SECOND_TASK_OWNER.holds(kafka):
            for active, standby, warmup in _task_lists(assignment):
                self._give_tasks(active, process)
                _give_copies(self.standby, standby, process)
                _give_copies(self.warmup, warmup, process)

    def remove_assignment(self, assignment: Any, epoch: int, process: str | None, kafka: Version) -> None:
        """Take away from a member what its previous record says. Raise LoadFailed if it is not the owner."""
        if isinstance(assignment, ConsumerGroupCurrentMemberAssignmentValue):
            strict = SECOND_OWNER.holds(kafka)
            for topics in (assignment.assigned_partitions, assignment.partitions_pending_revocation):
                self._take_partitions(topics, epoch, strict)
        elif isinstance(assignment, StreamsGroupCurrentMemberAssignmentValue) and SECOND_TASK_OWNER.holds(kafka):
            for active, standby, warmup in _task_lists(assignment):
                self._take_tasks(active, process)
                _take_copies(self.standby, standby, process)
                _take_copies(self.warmup, warmup, process)

    def _give_partitions(self, topics: Iterable[Any], epoch: int, strict: bool) -> None:
        for topic_id, partitions in _by_name(topics, "topic_id").items():
            epochs = self.epochs.setdefault(topic_id, {})
            for partition in partitions:
                previous = epochs.get(partition)
                if previous is not None and (strict or previous >= epoch):
                    raise LoadFailed(
                        f"partition {partition} of topic id {topic_id} cannot get an owner in epoch {epoch}, "
                        f"because it already has one in epoch {previous}"
                    )
                epochs[partition] = epoch

    def _take_partitions(self, topics: Iterable[Any], epoch: int, strict: bool) -> None:
        for topic_id, partitions in _by_name(topics, "topic_id").items():
            epochs = self.epochs.get(topic_id)
            if epochs is None:
                if strict:
                    raise LoadFailed(f"no partition of topic id {topic_id} has an owner, expected one in epoch {epoch}")
                continue
            for partition in partitions:
                previous = epochs.get(partition)
                if previous == epoch:
                    del epochs[partition]
                elif strict:
                    raise LoadFailed(
                        f"partition {partition} of topic id {topic_id} has an owner in epoch {previous}, "
                        f"expected one in epoch {epoch}"
                    )
            if not epochs:
                del self.epochs[topic_id]

    def _give_tasks(self, tasks: Iterable[Any], process: str) -> None:
        for subtopology, numbers in _by_name(tasks, "subtopology_id").items():
            processes = self.active.setdefault(subtopology, {})
            for number in numbers:
                if number in processes:
                    raise LoadFailed(
                        f"task {subtopology}_{number} cannot get the process {process!r}, "
                        f"because {processes[number]!r} has it"
                    )
                processes[number] = process

    def _take_tasks(self, tasks: Iterable[Any], process: str | None) -> None:
        for subtopology, numbers in _by_name(tasks, "subtopology_id").items():
            if subtopology not in self.active:
                raise LoadFailed(f"no task of subtopology {subtopology} has a process, expected {process!r}")
            processes = self.active[subtopology]
            for number in numbers:
                previous = processes.pop(number, None)
                if previous != process:
                    raise LoadFailed(f"task {subtopology}_{number} has the process {previous!r}, expected {process!r}")
            if not processes:
                del self.active[subtopology]


def _give_copies(copies: dict[str, dict[int, frozenset[str]]], tasks: Iterable[Any], process: str) -> None:
    for subtopology, numbers in _by_name(tasks, "subtopology_id").items():
        processes = copies.setdefault(subtopology, {})
        for number in numbers:
            processes[number] = processes.get(number, frozenset()) | {process}


def _take_copies(copies: dict[str, dict[int, frozenset[str]]], tasks: Iterable[Any], process: str | None) -> None:
    for subtopology, numbers in _by_name(tasks, "subtopology_id").items():
        if subtopology not in copies:
            raise LoadFailed(f"no copy of a task of subtopology {subtopology} has a process, expected {process!r}")
        processes = copies[subtopology]
        for number in numbers:
            if process not in processes.get(number, ()):
                raise LoadFailed(f"no copy of task {subtopology}_{number} has the process {process!r}")
            processes[number] = frozenset(other for other in processes[number] if other != process)
        if not processes:
            del copies[subtopology]


def _task_lists(value: StreamsGroupCurrentMemberAssignmentValue) -> tuple[tuple[Any, Any, Any], ...]:
    """Return the tasks that a member has, and those that it has to give back: active, standby and warm-up tasks."""
    return (
        (value.active_tasks, value.standby_tasks, value.warmup_tasks),
        (
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        ),
    )


def _by_name(parts: Iterable[Any], name: str) -> dict[str, set[int]]:
    """Return the different partitions of each topic or subtopology. The last entry of a name counts."""
    return {getattr(part, name): set(part.partitions) for part in parts}
