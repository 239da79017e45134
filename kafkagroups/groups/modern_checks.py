"""Checks of single values of consumer, share and streams groups that can fail a load.

modern.py lists the numbers of the record types. A task is a unit of work in a streams group. A subtopology is a part of
the group's topology.
Source: GroupMetadataManager.replay (3.9.2 to 4.4.0); TopicMetadata (up to 4.0); TasksTupleWithEpochs (4.2.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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

_TASK_LISTS = ("active_tasks", "standby_tasks", "warmup_tasks")
_REVOKED_TASK_LISTS = tuple(f"{name}_pending_revocation" for name in _TASK_LISTS)


class UniqueField(NamedTuple):
    """A field that must be unique in lists of a record's value, because Kafka builds a map with the field as the key.

    `field` is the name of the field. `lists` are the names of the lists. `refusal` (records/refusals.py) says which
    releases refuse a list in which two elements have the same field value.
    """

    field: str
    refusal: Refusal
    lists: tuple[str, ...]


UNIQUE_FIELD_BY_RECORD_TYPE: dict[int, UniqueField] = {
    7: UniqueField("topic_id", DOUBLE_ENTRY, ("topic_partitions",)),
    8: UniqueField("topic_id", DOUBLE_ASSIGNED_TOPIC, ("assigned_partitions", "partitions_pending_revocation")),
    13: UniqueField("topic_id", DOUBLE_ENTRY, ("topic_partitions",)),
    14: UniqueField("topic_id", DOUBLE_ENTRY, ("assigned_partitions",)),
    15: UniqueField("topic_id", DOUBLE_ENTRY, ("initializing_topics", "initialized_topics")),
    17: UniqueField("key", DOUBLE_ENTRY, ("last_assignment_configs",)),
    19: UniqueField("key", DOUBLE_ENTRY, ("client_tags",)),
    21: UniqueField("subtopology_id", DOUBLE_ENTRY, _TASK_LISTS),
    22: UniqueField("subtopology_id", DOUBLE_ASSIGNED_SUBTOPOLOGY, _TASK_LISTS + _REVOKED_TASK_LISTS),
    23: UniqueField("subtopology_id", DOUBLE_ENTRY, ("subtopologies",)),
}


def check_value(group: str, record_type: int, value: Any, kafka: Version) -> None:
    """Raise LoadFailed if the coordinator of version `kafka` refuses the value.

    `group` is the group's type and id as text, for the message.
    """
    unique = UNIQUE_FIELD_BY_RECORD_TYPE.get(record_type)
    if unique is not None and unique.refusal.applies_to(kafka):
        _check_unique(group, value, unique)
    if record_type == 22 and ASSIGNMENT_EPOCH_COUNT.applies_to(kafka):
        _check_epoch_counts(group, value.active_tasks)
        _check_epoch_counts(group, value.active_tasks_pending_revocation)
    if record_type in (6, 12, 20) and NEGATIVE_ASSIGNMENT_EPOCH.applies_to(kafka):
        _check_assignment_epoch(group, value.assignment_epoch, value.assignment_timestamp)
    if record_type == 23 and NEGATIVE_TOPOLOGY_EPOCH.applies_to(kafka) and value.epoch < 0:
        raise LoadFailed(f"{group} has a topology of epoch {value.epoch}: expected 0 or above")
    if record_type in (4, 9) and INCOMPLETE_TOPIC.applies_to(kafka):
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


def _check_assignment_epoch(group: str, epoch: int, timestamp: int) -> None:
    if epoch < -1:
        raise LoadFailed(f"{group} has assignment epoch {epoch}: expected -1 or above")
    if timestamp < 0:
        raise LoadFailed(f"{group} has assignment timestamp {timestamp}: expected 0 or above")


def _check_epoch_counts(group: str, active_tasks: Sequence[Any]) -> None:
    for tasks in active_tasks:
        if tasks.assignment_epochs and len(tasks.assignment_epochs) != len(tasks.partitions):
            raise LoadFailed(
                f"{group}: expected {len(tasks.partitions)} assignment epochs for the active tasks of subtopology "
                f"{tasks.subtopology_id!r}, found {len(tasks.assignment_epochs)}"
            )
