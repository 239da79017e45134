"""Exercises of lesson 09: the tombstones of a deletion, and an incident over a weekend.

A tombstone is a record without a value. The key of a tombstone says which committed offset or group is deleted.

The keys of `known_mistakes` are the corrections that the learner sees. The values are the wrong answers.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkagroups.coordinator import Clock, GroupMetadataManager, NewBatch, Settings
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
    """Logs that store the key and the value of each appended record in `records`. `read` returns no batches."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []

    def magic(self, partition: int) -> int | None:
        return 2  # The message format since Kafka 0.11.

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        self.records += batch.records

    def read(self, partition: int) -> Iterable[Batch]:
        return ()


# Exercise `tombstones`: which tombstones does the coordinator write when it deletes offsets of a group? The functions
# return a text for each tombstone: the name of a partition, or "group" for the tombstone of the group.
# `committed` (in the lesson: `offsets`) contains the partitions that have a committed offset before the deletion.
# `to_delete` contains the partitions whose offsets are deleted.
# `_list_tombstones` is correct. The functions after it contain mistakes of learners.


def _list_tombstones(state: str, generation: int, committed: list[str], to_delete: list[str]) -> list[str]:
    logs = _RecordingLogs()
    manager = GroupMetadataManager(Settings("3.9.2"), logs, Clock(0))
    group = ClassicGroup(
        group_id="g",
        kafka=(3, 9, 2),
        state_timestamp=0,
        state=ClassicState(state),
        generation=generation,
        offsets=GroupOffsets({parse_partition(name): make_commit() for name in committed}),
    )
    manager.add_group(group)
    manager.delete_offsets_and_empty_groups([group], lambda _: [parse_partition(name) for name in to_delete])
    keys = [decode(key, None).key for key, _ in logs.records]
    return [f"{key.topic}-{key.partition}" if isinstance(key, OffsetCommitKey) else "group" for key in keys]


def _delete_group_with_offsets_left(
    state: str, generation: int, committed: list[str], to_delete: list[str]
) -> list[str]:
    tombstones = _list_tombstones(state, generation, committed, to_delete)
    remaining = set(committed) - set(to_delete)
    if state == "Empty" and remaining:
        tombstones.append("group")
    return tombstones


def _delete_simple_group(state: str, generation: int, committed: list[str], to_delete: list[str]) -> list[str]:
    # A simple group (generation 0, no group record) is treated like a group with a group record.
    return _list_tombstones(state, max(generation, 1), committed, to_delete)


def _delete_group_with_members(state: str, generation: int, committed: list[str], to_delete: list[str]) -> list[str]:
    # The group is treated as Empty, even if it has members.
    return _list_tombstones("Empty", generation, committed, to_delete)


def _delete_uncommitted(state: str, generation: int, committed: list[str], to_delete: list[str]) -> list[str]:
    """Return a tombstone for each partition of `to_delete`, also for partitions without an offset."""
    correct_tombstones = _list_tombstones(state, generation, committed, to_delete)
    group_tombstone = [name for name in correct_tombstones if name == "group"]
    return to_delete + group_tombstone


def _delete_group_first(state: str, generation: int, committed: list[str], to_delete: list[str]) -> list[str]:
    tombstones = _list_tombstones(state, generation, committed, to_delete)
    # False is sorted before True.
    return sorted(tombstones, key=lambda name: name != "group")


def _keep_group_without_offsets(state: str, generation: int, committed: list[str], to_delete: list[str]) -> list[str]:
    return _list_tombstones(state, generation, committed, to_delete) if committed else []


_TOMBSTONES_SOLUTION = """\
def tombstones(state, generation, offsets, to_delete):
    batch = [name for name in to_delete if name in offsets]
    remaining = [name for name in offsets if name not in to_delete]
    if state == "Empty" and not remaining and generation > 0:
        batch.append("group")
    return batch"""

EXERCISES = (
    Exercise(
        name="tombstones",
        correct=_list_tombstones,
        solution=_TOMBSTONES_SOLUTION,
        hints=(
            "First list the partitions of `to_delete` that are also in `offsets`, in the order of `to_delete`.",
            'Then add "group" if the state is Empty, no offset is left, and the generation is above 0.',
        ),
        # Each case is the group's state and generation, the partitions with an offset, and the partitions to delete.
        cases=(
            ("Empty", 2, ["a-0"], ["a-0"]),
            ("Empty", 2, ["a-0", "a-1"], ["a-1"]),
            ("Empty", 0, ["a-0", "a-1"], ["a-0", "a-1"]),
            ("Stable", 3, ["a-0"], ["a-0"]),
            ("Empty", 1, ["a-0"], ["a-0", "b-0"]),
            ("Empty", 2, [], []),
        ),
        known_mistakes={
            "the group is not deleted while it has an offset": _delete_group_with_offsets_left,
            "a simple group (generation 0) has no group record, so it gets no group tombstone": _delete_simple_group,
            "a group with members is not deleted, even if it has no offsets": _delete_group_with_members,
            "only a partition with a committed offset gets a tombstone": _delete_uncommitted,
            "the tombstone of the group is the last tombstone": _delete_group_first,
            "an Empty group without offsets is deleted too": _keep_group_without_offsets,
        },
    ),
    EXPIRED_EXERCISE,
    # Exercise `weekend`: which of three groups loses its offsets from Friday to Monday, with a retention of one day?
    Exercise(
        name="weekend",
        correct="dashboard",
        solution='weekend = "dashboard"',
        hints=(
            "Two of the three groups have a member, at least at night. When does the retention of these groups start?",
            "A consumer that assigns its partitions itself is never a member, no matter how often it commits.",
        ),
        known_mistakes={
            "mailer is Stable all the time and reads its topic: since Kafka 2.1 its offsets do not expire": "mailer",
            "nightly is never Empty for a whole day: a member joins each night": "nightly",
        },
    ),
)
