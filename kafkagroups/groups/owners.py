"""The owner of each partition and each task in a group. In some releases a second owner makes the load fail.

Partitions belong to members of consumer groups. Tasks are the units of work in a streams group, and belong to the
processes of its members. A record with a member's assignment replaces the member's previous assignment. The coordinator
first removes the member as the owner of the previous partitions or tasks. Then the member becomes the owner of the new
partitions or tasks. records/refusals.py lists the releases that refuse a second owner:

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

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.errors import LoadFailed
from kafkagroups.records.consumer_group import ConsumerGroupCurrentMemberAssignmentValue
from kafkagroups.records.refusals import SECOND_OWNER, SECOND_TASK_OWNER
from kafkagroups.records.streams_group import StreamsGroupCurrentMemberAssignmentValue
from kafkagroups.records.versions import Version

Copies = dict[str, dict[int, set[str]]]
"""For each subtopology and task number, the ids of the processes that copy the task's state or prepare to run it."""


@dataclass
class Owners:
    """The owners of the partitions or tasks in one group.

    `epochs` is only used in a consumer group. For each topic id and partition, `epochs` contains the owner's member
    epoch. As in Kafka, the epoch identifies the owner.

    The other fields are only used in a streams group. Their keys are the subtopology (a part of the topology) and the
    task number. `active` contains the id of the process that runs the task. `standby` contains the ids of the processes
    that copy the task's state. `warmup` contains the ids of the processes that prepare to run the task.
    """

    epochs: dict[str, dict[int, int]] = field(default_factory=dict)
    active: dict[str, dict[int, str]] = field(default_factory=dict)
    standby: Copies = field(default_factory=dict)
    warmup: Copies = field(default_factory=dict)

    def copy(self) -> Owners:
        """Return a copy. A change of the copy does not change this object."""
        return Owners(
            {topic_id: dict(epochs) for topic_id, epochs in self.epochs.items()},
            {subtopology: dict(processes) for subtopology, processes in self.active.items()},
            _copy_processes(self.standby),
            _copy_processes(self.warmup),
        )

    def add_assignment(self, assignment: Any, epoch: int, process_id: str | None, kafka: Version) -> None:
        """Make a member the owner of the partitions or tasks in its assignment.

        `assignment` is the value of a record of type 8 (consumer group) or 22 (streams group), or None. `epoch` is the
        member's epoch. `process_id` is the id of a streams member's process; None if no record contains the id, and
        then Kafka stores no owner. `kafka` is the version of the coordinator. Raises LoadFailed if it refuses a second
        owner.
        """
        if isinstance(assignment, ConsumerGroupCurrentMemberAssignmentValue):
            for topics in (assignment.assigned_partitions, assignment.partitions_pending_revocation):
                self._add_partitions(topics, epoch, SECOND_OWNER.applies_to(kafka))
        elif process_id is not None and _checks_tasks(assignment, kafka):
            for active, standby, warmup in _task_lists(assignment):
                self._add_tasks(active, process_id)
                _add_copies(self.standby, standby, process_id)
                _add_copies(self.warmup, warmup, process_id)

    def remove_assignment(self, assignment: Any, epoch: int, process_id: str | None, kafka: Version) -> None:
        """Remove a member as the owner of its previous assignment.

        The parameters have the same meaning as in `add_assignment`. Raises LoadFailed if the member is not the owner
        and the coordinator's release checks the owner.
        """
        if isinstance(assignment, ConsumerGroupCurrentMemberAssignmentValue):
            for topics in (assignment.assigned_partitions, assignment.partitions_pending_revocation):
                self._remove_partitions(topics, epoch, SECOND_OWNER.applies_to(kafka))
        elif _checks_tasks(assignment, kafka):
            for active, standby, warmup in _task_lists(assignment):
                self._remove_tasks(active, process_id)
                _remove_copies(self.standby, standby, process_id)
                _remove_copies(self.warmup, warmup, process_id)

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

    def _add_tasks(self, tasks: Iterable[Any], process_id: str) -> None:
        for subtopology, numbers in _numbers_by_id(tasks, "subtopology_id").items():
            processes = self.active.setdefault(subtopology, {})
            for number in numbers:
                if number in processes:
                    raise LoadFailed(
                        f"task {subtopology}_{number} cannot get the process {process_id!r}, "
                        f"because {processes[number]!r} has it"
                    )
                processes[number] = process_id

    def _remove_tasks(self, tasks: Iterable[Any], process_id: str | None) -> None:
        for subtopology, numbers in _numbers_by_id(tasks, "subtopology_id").items():
            if subtopology not in self.active:
                raise LoadFailed(f"no task of subtopology {subtopology} has a process, expected {process_id!r}")
            processes = self.active[subtopology]
            for number in numbers:
                previous = processes.pop(number, None)
                if previous != process_id:
                    raise LoadFailed(
                        f"task {subtopology}_{number} has the process {previous!r}, expected {process_id!r}"
                    )
            if not processes:
                del self.active[subtopology]


def _add_copies(copies: Copies, tasks: Iterable[Any], process_id: str) -> None:
    for subtopology, numbers in _numbers_by_id(tasks, "subtopology_id").items():
        processes = copies.setdefault(subtopology, {})
        for number in numbers:
            processes.setdefault(number, set()).add(process_id)


def _remove_copies(copies: Copies, tasks: Iterable[Any], process_id: str | None) -> None:
    for subtopology, numbers in _numbers_by_id(tasks, "subtopology_id").items():
        if subtopology not in copies:
            raise LoadFailed(f"no copy of a task of subtopology {subtopology} has a process, expected {process_id!r}")
        processes = copies[subtopology]
        for number in numbers:
            if process_id is None or process_id not in processes.get(number, ()):
                raise LoadFailed(f"no copy of task {subtopology}_{number} has the process {process_id!r}")
            processes[number].remove(process_id)
        if not processes:
            del copies[subtopology]


def _checks_tasks(assignment: Any, kafka: Version) -> bool:
    return isinstance(assignment, StreamsGroupCurrentMemberAssignmentValue) and SECOND_TASK_OWNER.applies_to(kafka)


def _copy_processes(copies: Copies) -> Copies:
    return {
        subtopology: {number: set(process_ids) for number, process_ids in processes.items()}
        for subtopology, processes in copies.items()
    }


def _task_lists(value: StreamsGroupCurrentMemberAssignmentValue) -> tuple[tuple[Any, Any, Any], ...]:
    """Return two triples of lists: active tasks, standby tasks, warm-up tasks.

    The first triple has the tasks that the member keeps. The second triple has the tasks that the member must
    give back.
    """
    return (
        (value.active_tasks, value.standby_tasks, value.warmup_tasks),
        (
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        ),
    )


def _numbers_by_id(entries: Iterable[Any], id_field: str) -> dict[str, set[int]]:
    """Return the partition numbers of each topic, or the task numbers of each subtopology.

    `id_field` is "topic_id" or "subtopology_id". If an id occurs twice, its last entry is used.
    """
    return {getattr(entry, id_field): set(entry.partitions) for entry in entries}
