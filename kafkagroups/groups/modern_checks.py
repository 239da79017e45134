"""Checks of single values of consumer, share and streams groups that can fail a load.

Source: GroupMetadataManager.replay of 3.9.2 to 4.4.0, TopicMetadata (up to 4.0), TasksTupleWithEpochs (4.2.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkagroups.errors import LoadFailed
from kafkagroups.records.refusals import (
    ASSIGNMENT_EPOCH_COUNT,
    DOUBLE_ASSIGNED_SUBTOPOLOGY,
    DOUBLE_ASSIGNED_TOPIC,
    DOUBLE_ENTRY,
    INCOMPLETE_TOPIC,
    NEGATIVE_ASSIGNMENT_EPOCH,
    NEGATIVE_TOPOLOGY_EPOCH,
    Refusal,
)
from kafkagroups.records.versions import Version
from kafkagroups.records.wire import UUID

_TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")

UNIQUE_FIELDS: dict[int, tuple[str, Refusal, tuple[str, ...]]] = {
    7: ("topic_id", DOUBLE_ENTRY, ("topic_partitions",)),
    8: ("topic_id", DOUBLE_ASSIGNED_TOPIC, ("assigned_partitions", "partitions_pending_revocation")),
    13: ("topic_id", DOUBLE_ENTRY, ("topic_partitions",)),
    14: ("topic_id", DOUBLE_ENTRY, ("assigned_partitions",)),
    15: ("topic_id", DOUBLE_ENTRY, ("initializing_topics", "initialized_topics")),
    17: ("key", DOUBLE_ENTRY, ("last_assignment_configs",)),
    19: ("key", DOUBLE_ENTRY, ("client_tags",)),
    21: ("subtopology_id", DOUBLE_ENTRY, _TASKS),
    22: ("subtopology_id", DOUBLE_ASSIGNED_SUBTOPOLOGY, (*_TASKS, *(f"{name}_pending_revocation" for name in _TASKS))),
    23: ("subtopology_id", DOUBLE_ENTRY, ("subtopologies",)),
}
"""For each record type: the name of a field, a refusal, and the names of lists in the record's value.

The refusal (records/refusals.py) tells which releases fail if two elements of a list have the same value in the field.
The reason: Kafka builds a map from each list, and the field is the key of the map."""


def check_value(group: str, record_type: int, value: Any, kafka: Version) -> None:
    """Raise LoadFailed if the coordinator of version `kafka` refuses the value.

    The messages contain `group`, the group's type and id.
    """
    if record_type in UNIQUE_FIELDS:
        name, refusal, lists = UNIQUE_FIELDS[record_type]
        if refusal.holds(kafka):
            _check_unique(group, value, name, lists)
    if record_type == 22 and ASSIGNMENT_EPOCH_COUNT.holds(kafka):
        _check_epochs(group, value.active_tasks)
        _check_epochs(group, value.active_tasks_pending_revocation)
    if record_type in (6, 12, 20) and NEGATIVE_ASSIGNMENT_EPOCH.holds(kafka):
        _check_assignment_epoch(group, value.assignment_epoch, value.assignment_timestamp)
    if record_type == 23 and NEGATIVE_TOPOLOGY_EPOCH.holds(kafka) and value.epoch < 0:
        raise LoadFailed(f"{group} has a topology of epoch {value.epoch}: expected 0 or above")
    if record_type in (4, 9) and INCOMPLETE_TOPIC.holds(kafka):
        for topic in value.topics:
            if topic.topic_id == UUID.default or not topic.topic_name or topic.num_partitions < 0:
                raise LoadFailed(f"{group}: topic {topic.topic_name!r} has no id, name or partition count")


def _check_unique(group: str, value: Any, name: str, lists: Sequence[str]) -> None:
    for field_name in lists:
        names = [getattr(element, name) for element in getattr(value, field_name) or ()]
        if len(set(names)) < len(names):
            raise LoadFailed(f"{field_name} of {group} contains a {name} twice")


def _check_assignment_epoch(group: str, epoch: int, timestamp: int) -> None:
    if epoch < -1:
        raise LoadFailed(f"{group} has assignment epoch {epoch}: expected -1 or above")
    if timestamp < 0:
        raise LoadFailed(f"{group} has assignment timestamp {timestamp}: expected 0 or above")


def _check_epochs(group: str, active_tasks: Sequence[Any]) -> None:
    for tasks in active_tasks:
        if tasks.assignment_epochs and len(tasks.assignment_epochs) != len(tasks.partitions):
            raise LoadFailed(
                f"{group}: expected {len(tasks.partitions)} assignment epochs for the active tasks of subtopology "
                f"{tasks.subtopology_id!r}, found {len(tasks.assignment_epochs)}"
            )
