"""The owner of each partition and each task in a group: a second owner fails the load.

A record with a member's assignment replaces the member's previous assignment. The coordinator first removes the member
as the owner of the previous partitions or tasks, and then makes it the owner of the new ones. What the coordinator
checks depends on the release (SECOND_OWNER and SECOND_TASK_OWNER in records/refusals.py):

    SECOND_OWNER holds         a partition has at most one owner; the removal fails if the member is not the owner
    later releases             a member with a higher epoch replaces the owner; the removal is ignored if the member is
                               not the owner
    SECOND_TASK_OWNER holds    an active task has at most one process; the removal fails if the process of the member
                               does not have the task; standby and warm-up tasks may have several processes
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
    """The owners of the partitions or tasks in one group.

    `epochs` is only used in a consumer group. It contains the member epoch of the owner for each topic id and
    partition. As in Kafka, the epoch identifies the owner. The other fields are only used in a streams group. For each
    subtopology and task number, they contain the id of the process that runs the task (`active`), the ids of the
    processes that copy the task's state (`standby`), and the ids of the processes that prepare to run the task
    (`warmup`).
    """

    epochs: dict[str, dict[int, int]] = field(default_factory=dict)
    active: dict[str, dict[int, str]] = field(default_factory=dict)
    standby: dict[str, dict[int, frozenset[str]]] = field(default_factory=dict)
    warmup: dict[str, dict[int, frozenset[str]]] = field(default_factory=dict)

    def copy(self) -> Owners:
        """Return a copy. Changes of the copy do not change the original."""
        return Owners(
            {name: dict(parts) for name, parts in self.epochs.items()},
            {name: dict(parts) for name, parts in self.active.items()},
            {name: dict(parts) for name, parts in self.standby.items()},
            {name: dict(parts) for name, parts in self.warmup.items()},
        )

    def add_assignment(self, assignment: Any, epoch: int, process: str | None, kafka: Version) -> None:
        """Make a member the owner of its assignment, i.e. of a value of type 8 or 22.

        `epoch` is the member's epoch. `process` is the id of a streams member's process. `kafka` is the version of the
        coordinator. Raises LoadFailed if the coordinator refuses the member as a second owner.
        """
        if isinstance(assignment, ConsumerGroupCurrentMemberAssignmentValue):
            refuses_second_owner = SECOND_OWNER.holds(kafka)
            for topics in (assignment.assigned_partitions, assignment.partitions_pending_revocation):
                self._add_partitions(topics, epoch, refuses_second_owner)
        elif process is None:
            return  # Kafka stores no owner of a task if the member has no record of type 19.
        elif isinstance(assignment, StreamsGroupCurrentMemberAssignmentValue) and SECOND_TASK_OWNER.holds(kafka):
            for active, standby, warmup in _task_lists(assignment):
                self._add_tasks(active, process)
                _add_copies(self.standby, standby, process)
                _add_copies(self.warmup, warmup, process)

    def remove_assignment(self, assignment: Any, epoch: int, process: str | None, kafka: Version) -> None:
        """Remove a member as the owner of its previous assignment. The parameters are those of `add_assignment`.

        Raises LoadFailed if the member is not the owner and the coordinator checks this.
        """
        if isinstance(assignment, ConsumerGroupCurrentMemberAssignmentValue):
            refuses_second_owner = SECOND_OWNER.holds(kafka)
            for topics in (assignment.assigned_partitions, assignment.partitions_pending_revocation):
                self._remove_partitions(topics, epoch, refuses_second_owner)
        elif isinstance(assignment, StreamsGroupCurrentMemberAssignmentValue) and SECOND_TASK_OWNER.holds(kafka):
            for active, standby, warmup in _task_lists(assignment):
                self._remove_tasks(active, process)
                _remove_copies(self.standby, standby, process)
                _remove_copies(self.warmup, warmup, process)

    def _add_partitions(self, topics: Iterable[Any], epoch: int, refuses_second_owner: bool) -> None:
        for topic_id, partitions in _partitions_by_name(topics, "topic_id").items():
            epochs = self.epochs.setdefault(topic_id, {})
            for partition in partitions:
                previous = epochs.get(partition)
                if previous is not None and (refuses_second_owner or previous >= epoch):
                    raise LoadFailed(
                        f"partition {partition} of topic id {topic_id} cannot get an owner in epoch {epoch}, "
                        f"because it already has one in epoch {previous}"
                    )
                epochs[partition] = epoch

    def _remove_partitions(self, topics: Iterable[Any], epoch: int, refuses_second_owner: bool) -> None:
        for topic_id, partitions in _partitions_by_name(topics, "topic_id").items():
            epochs = self.epochs.get(topic_id)
            if epochs is None:
                if refuses_second_owner:
                    raise LoadFailed(f"no partition of topic id {topic_id} has an owner, expected one in epoch {epoch}")
                continue
            for partition in partitions:
                previous = epochs.get(partition)
                if previous == epoch:
                    del epochs[partition]
                elif refuses_second_owner:
                    raise LoadFailed(
                        f"partition {partition} of topic id {topic_id} has an owner in epoch {previous}, "
                        f"expected one in epoch {epoch}"
                    )
            if not epochs:
                del self.epochs[topic_id]

    def _add_tasks(self, tasks: Iterable[Any], process: str) -> None:
        for subtopology, numbers in _partitions_by_name(tasks, "subtopology_id").items():
            processes = self.active.setdefault(subtopology, {})
            for number in numbers:
                if number in processes:
                    raise LoadFailed(
                        f"task {subtopology}_{number} cannot get the process {process!r}, "
                        f"because {processes[number]!r} has it"
                    )
                processes[number] = process

    def _remove_tasks(self, tasks: Iterable[Any], process: str | None) -> None:
        for subtopology, numbers in _partitions_by_name(tasks, "subtopology_id").items():
            if subtopology not in self.active:
                raise LoadFailed(f"no task of subtopology {subtopology} has a process, expected {process!r}")
            processes = self.active[subtopology]
            for number in numbers:
                previous = processes.pop(number, None)
                if previous != process:
                    raise LoadFailed(f"task {subtopology}_{number} has the process {previous!r}, expected {process!r}")
            if not processes:
                del self.active[subtopology]


def _add_copies(copies: dict[str, dict[int, frozenset[str]]], tasks: Iterable[Any], process: str) -> None:
    for subtopology, numbers in _partitions_by_name(tasks, "subtopology_id").items():
        processes = copies.setdefault(subtopology, {})
        for number in numbers:
            processes[number] = processes.get(number, frozenset()) | {process}


def _remove_copies(copies: dict[str, dict[int, frozenset[str]]], tasks: Iterable[Any], process: str | None) -> None:
    for subtopology, numbers in _partitions_by_name(tasks, "subtopology_id").items():
        if subtopology not in copies:
            raise LoadFailed(f"no copy of a task of subtopology {subtopology} has a process, expected {process!r}")
        processes = copies[subtopology]
        for number in numbers:
            if process not in processes.get(number, ()):
                raise LoadFailed(f"no copy of task {subtopology}_{number} has the process {process!r}")
            processes[number] = processes[number] - {process}
        if not processes:
            del copies[subtopology]


def _task_lists(value: StreamsGroupCurrentMemberAssignmentValue) -> tuple[tuple[Any, Any, Any], ...]:
    """Return the lists (active tasks, standby tasks, warm-up tasks) twice.

    The first three lists are the tasks that the member keeps, the other three are the tasks that it has to give back.
    """
    return (
        (value.active_tasks, value.standby_tasks, value.warmup_tasks),
        (
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        ),
    )


def _partitions_by_name(entries: Iterable[Any], name: str) -> dict[str, set[int]]:
    """Return the set of partitions of each topic, or the set of task numbers of each subtopology.

    `name` is the field with the id: "topic_id" or "subtopology_id". If an id occurs twice, its last entry is used.
    """
    return {getattr(entry, name): set(entry.partitions) for entry in entries}
