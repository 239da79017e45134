"""Exercises of lesson 07: the tombstones of a deletion, and an incident over a weekend.

A tombstone is a record without a value. It deletes the committed offset or the group that its key names.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkagroups.coordinator import (
    Clock,
    GroupMetadataManager,
    NewBatch,
    Settings,
)
from kafkagroups.coordinator.logs import AppendCallback
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.expiration import EXPIRED_EXERCISE, make_commit
from kafkagroups.course.log_lines import parse_partition
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.group_offsets import GroupOffsets
from kafkagroups.groups.states import ClassicState
from kafkagroups.log.batch import Batch
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.serde import decode


class _RecordingLogs:
    """Logs that store the appended records in a list. A read of these logs returns no batches."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []

    def magic(self, partition: int) -> int | None:
        return 2

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        self.records += batch.records

    def read(self, partition: int) -> Iterable[Batch]:
        return ()


# Exercise `tombstones`: first the correct function, then wrong functions that learners write. They return the
# tombstones that the coordinator writes when it deletes the offsets of the partitions `to_delete`: the name of each
# partition, or "group" for the group's tombstone. `offsets` are the partitions that have a committed offset before the
# deletion.


def _list_tombstones(state: str, generation: int, offsets: list[str], to_delete: list[str]) -> list[str]:
    logs = _RecordingLogs()
    manager = GroupMetadataManager(Settings("3.9.2"), logs, Clock(0))
    committed = {parse_partition(name): make_commit() for name in offsets}
    group = ClassicGroup("g", (3, 9, 2), 0, ClassicState(state), generation, offsets=GroupOffsets(committed))
    manager.add_group(group)
    manager.delete_offsets_and_empty_groups([group], lambda _: [parse_partition(name) for name in to_delete])
    keys = [decode(key, None).key for key, _ in logs.records]
    return [f"{key.topic}-{key.partition}" if isinstance(key, OffsetCommitKey) else "group" for key in keys]


def _delete_group_with_offsets_left(state: str, generation: int, offsets: list[str], to_delete: list[str]) -> list[str]:
    batch = _list_tombstones(state, generation, offsets, to_delete)
    if state == "Empty" and to_delete and set(to_delete) < set(offsets):
        batch.append("group")
    return batch


# A group with generation 0 is a simple group, which has no group record. With generation 1, the group is deleted like
# a group that has a record.
def _delete_simple_group(state: str, generation: int, offsets: list[str], to_delete: list[str]) -> list[str]:
    return _list_tombstones(state, max(generation, 1), offsets, to_delete)


def _delete_group_with_members(state: str, generation: int, offsets: list[str], to_delete: list[str]) -> list[str]:
    return _list_tombstones("Empty", generation, offsets, to_delete)


def _delete_uncommitted(state: str, generation: int, offsets: list[str], to_delete: list[str]) -> list[str]:
    """Add a tombstone for each partition of `to_delete`, also for partitions without an offset."""
    deleted_count = len(set(to_delete) & set(offsets))
    return [*to_delete, *_list_tombstones(state, generation, offsets, to_delete)[deleted_count:]]


def _delete_group_first(state: str, generation: int, offsets: list[str], to_delete: list[str]) -> list[str]:
    return sorted(_list_tombstones(state, generation, offsets, to_delete), key=lambda name: name != "group")


def _keep_group_without_offsets(state: str, generation: int, offsets: list[str], to_delete: list[str]) -> list[str]:
    return _list_tombstones(state, generation, offsets, to_delete) if offsets else []


TOMBSTONES = """\
def tombstones(state, generation, offsets, to_delete):
    batch = [name for name in to_delete if name in offsets]
    remaining = [name for name in offsets if name not in to_delete]
    if state == "Empty" and not remaining and generation > 0:
        batch.append("group")
    return batch"""

EXERCISES = (
    Exercise(
        "tombstones",
        _list_tombstones,
        TOMBSTONES,
        (
            "First list the partitions of `to_delete` that are also in `offsets`, in the order of `to_delete`.",
            'Then add "group" if the state is Empty, no offset is left, and the generation is above 0.',
        ),
        cases=(
            ("Empty", 2, ["a-0"], ["a-0"]),
            ("Empty", 2, ["a-0", "a-1"], ["a-1"]),
            ("Empty", 0, ["a-0", "a-1"], ["a-0", "a-1"]),
            ("Stable", 3, ["a-0"], ["a-0"]),
            ("Empty", 1, ["a-0"], ["a-0", "b-0"]),
            ("Empty", 2, [], []),
        ),
        known_mistakes={
            "the group stays while it has an offset": _delete_group_with_offsets_left,
            "a simple group (generation 0) has no group record, so it gets no group tombstone": _delete_simple_group,
            "a group with members stays, even without offsets": _delete_group_with_members,
            "only a partition with a committed offset gets a tombstone": _delete_uncommitted,
            "the group's tombstone comes last": _delete_group_first,
            "an Empty group without offsets is deleted too": _keep_group_without_offsets,
        },
    ),
    EXPIRED_EXERCISE,
    Exercise(
        "weekend",
        "dashboard",
        'weekend = "dashboard"',
        (
            "Two of the three groups have members, at least at night. When does the retention of these groups start?",
            "A consumer that assigns its partitions itself is never a member, no matter how often it commits.",
        ),
        known_mistakes={
            "mailer is Stable all the time and reads its topic: since Kafka 2.1 its offsets do not expire": "mailer",
            "nightly is never Empty for a whole day: a member joins each night": "nightly",
        },
    ),
)
