"""The exercises of lesson 07: the batch of a deletion, what expires, and a weekend; how the weekend went."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafkagroups.coordinator import (
    Clock,
    GroupMetadataManager,
    NewBatch,
    Settings,
    TopicPartition,
)
from kafkagroups.coordinator.logs import Appended
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.expiration import expired_offsets
from kafkagroups.groups.group_offsets import GroupOffsets
from kafkagroups.groups.offsets import OffsetAndMetadata
from kafkagroups.groups.states import ClassicState
from kafkagroups.log.batch import Batch
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.serde import decode


class Sleeper(NamedTuple):
    """A group as a sweep finds it. `reads` are the topics of its members, `since` the day on which its state began;
    `offsets`: by partition the day of the commit and the day until which it was asked to last (None: not asked)."""

    state: str
    type: str
    reads: tuple[str, ...]
    since: int
    offsets: dict[str, tuple[int, int | None]]

    def __repr__(self) -> str:
        said = ", ".join(f"{name}: {days}" for name, days in self.offsets.items())
        return f"{self.state} {self.type!r} reads {','.join(self.reads) or '-'} since {self.since} {{{said}}}"


class _Batches:
    """Logs that keep the records of what is appended."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []

    def magic(self, partition: int) -> int | None:
        return 2

    def append(self, partition: int, batch: NewBatch, appended: Appended) -> None:
        self.records += batch.records

    def read(self, partition: int) -> Iterable[Batch]:
        return ()


def _split(name: str) -> TopicPartition:
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _offset(committed: int = 0, expires: int | None = None) -> OffsetAndMetadata:
    return OffsetAndMetadata(1, "", committed, -1, expires, None, -1, -1)


def _tombstones(state: str, generation: int, offsets: list[str], doomed: list[str]) -> list[str]:
    logs = _Batches()
    manager = GroupMetadataManager(Settings("3.9.2"), logs, Clock(0))
    committed = {_split(name): _offset() for name in offsets}
    group = ClassicGroup("g", (3, 9, 2), 0, ClassicState(state), generation, offsets=GroupOffsets(committed))
    manager.add_group(group)
    manager.cleanup([group], lambda _: [_split(name) for name in doomed])
    keys = [decode(key, None).key for key, _ in logs.records]
    return [f"{key.topic}-{key.partition}" if isinstance(key, OffsetCommitKey) else "group" for key in keys]


def _expired(group: Sleeper, now: int, retention: int) -> list[str]:
    living = ClassicGroup("g", (3, 9, 2), group.since, ClassicState(group.state), protocol_type=group.type or None)
    living.offsets.committed = {_split(name): _offset(*days) for name, days in group.offsets.items()}
    living.subscribed_topics = frozenset(group.reads) if group.type == "consumer" else None
    return [str(each) for each in expired_offsets(living, now, retention)]


def _by(
    counts: Callable[[Sleeper, int], int],
    spares: Callable[[Sleeper, str], bool],
    asked: bool = True,
    exactly: bool = True,
) -> Callable[[Sleeper, int, int], list[str]]:
    """A rule: from when the retention counts, what is spared, and whether what was asked for counts."""

    def expired(group: Sleeper, now: int, retention: int) -> list[str]:
        out = []
        for name, (committed, expires) in group.offsets.items():
            due = expires if expires is not None and asked else counts(group, committed) + retention
            if not spares(group, name.rpartition("-")[0]) and (now >= due if exactly else now > due):
                out.append(name)
        return out

    return expired


def _counts(group: Sleeper, committed: int) -> int:
    return group.since if group.state == "Empty" and group.type else committed


def _spares(group: Sleeper, topic: str) -> bool:
    if not group.type or group.state == "Empty":
        return False
    return group.state != "Stable" or group.type != "consumer" or topic in group.reads


TOMBSTONES = """\
def tombstones(state, generation, offsets, doomed):
    batch = [name for name in doomed if name in offsets]
    left = [name for name in offsets if name not in doomed]
    if state == "Empty" and not left and generation > 0:
        batch.append("group")
    return batch"""

EXPIRED = """\
def expired(group, now, retention):
    due = []
    for name, (committed, until) in group.offsets.items():
        topic = name.rpartition("-")[0]
        begins = committed                                      # simple groups, and living ones
        if group.type and group.state == "Empty":
            begins = group.since
        elif group.type:
            if group.state != "Stable" or group.type != "consumer" or topic in group.reads:
                continue                                        # rebalancing, unknown readers, or somebody reads it
        if now >= (begins + retention if until is None else until):
            due.append(name)
    return due"""

EXERCISES = (
    Exercise(
        "tombstones",
        _tombstones,
        TOMBSTONES,
        (
            "First those of `doomed` that are in `offsets`, in that order: nothing else can get a tombstone.",
            'Then "group", if three things hold: the state is Empty, no offset is left, the generation is above 0.',
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
            "an offset is left: the group stays": lambda state, generation, offsets, doomed: [
                *_tombstones(state, generation, offsets, doomed),
                *["group"] * (len(doomed) > 0 and set(doomed) < set(offsets) and state == "Empty"),
            ],
            "a simple group (generation 0) never had a record: there is nothing to delete": (
                lambda state, generation, offsets, doomed: _tombstones(state, max(generation, 1), offsets, doomed)
            ),
            "a group with members stays, also without offsets": lambda state, generation, offsets, doomed: _tombstones(
                "Empty", generation, offsets, doomed
            ),
            "only what is committed gets a tombstone": lambda state, generation, offsets, doomed: [
                *doomed,
                *_tombstones(state, generation, offsets, doomed)[len(set(doomed) & set(offsets)) :],
            ],
            "the group's tombstone stands last": lambda state, generation, offsets, doomed: sorted(
                _tombstones(state, generation, offsets, doomed), key=lambda name: name != "group"
            ),
            "an Empty group without offsets goes, too": lambda state, generation, offsets, doomed: (
                _tombstones(state, generation, offsets, doomed) if offsets else []
            ),
        },
    ),
    Exercise(
        "expired",
        _expired,
        EXPIRED,
        (
            "From when does the retention count? group.since for an Empty group that has a type, else the commit.",
            "Spared is all of a typed group that is not Empty, but for what a Stable consumer group does not read.",
            "An offset with an `until` of its own goes by that alone: now >= until. It is spared like the others.",
        ),
        cases=(
            (Sleeper("Empty", "", (), 0, {"a-0": (1, None), "a-1": (5, None)}), 8, 7),
            (Sleeper("Empty", "consumer", (), 4, {"a-0": (0, None)}), 8, 7),
            (Sleeper("Empty", "consumer", (), 4, {"a-0": (0, None)}), 11, 7),
            (Sleeper("Stable", "consumer", ("a",), 0, {"a-0": (0, None), "b-0": (0, None)}), 20, 7),
            (Sleeper("PreparingRebalance", "consumer", ("a",), 6, {"b-0": (0, None)}), 20, 7),
            (Sleeper("Stable", "connect", (), 0, {"a-0": (0, None)}), 20, 7),
            (Sleeper("Empty", "", (), 0, {"a-0": (0, 2), "a-1": (0, 30)}), 9, 7),
            (Sleeper("Stable", "consumer", ("b",), 5, {"a-0": (0, None)}), 8, 7),
            (Sleeper("Stable", "consumer", ("a",), 0, {"a-0": (0, 2), "b-0": (0, 30)}), 20, 7),
        ),
        known_mistakes={
            "of an Empty group the time counts since it became Empty, not since the commit": _by(
                lambda group, committed: committed, _spares
            ),
            "at the very end of the retention it goes: >=, not >": _by(_counts, _spares, exactly=False),
            "what a living consumer group reads stays": _by(
                _counts, lambda group, topic: _spares(group, topic) and group.state != "Stable"
            ),
            "nothing goes while the group rebalances": _by(
                _counts,
                lambda group, topic: (
                    _spares(group, topic) and not (group.state == "PreparingRebalance" and topic not in group.reads)
                ),
            ),
            "nobody can tell what a living group of another type reads: all of it stays": _by(
                _counts, lambda group, topic: _spares(group, topic) and group.type != "connect"
            ),
            "an offset that was asked to last until a day goes by that day": _by(_counts, _spares, asked=False),
            "first which may go at all: a day of its own does not end an offset that the group reads": (
                lambda group, now, retention: [
                    name
                    for name, (_, until) in group.offsets.items()
                    if (name in _expired(group, now, retention) if until is None else now >= until)
                ]
            ),
            "a living group counts from the commit; only an Empty one has an end that counts": _by(
                lambda group, committed: group.since if group.type else committed, _spares
            ),
            "a living group loses what it does not read": _by(
                _counts, lambda group, topic: bool(group.type) and group.state != "Empty"
            ),
        },
    ),
    Exercise(
        "weekend",
        "dashboard",
        'weekend = "dashboard"',
        (
            "Two of the three groups have members, at least at night. From when does their retention count?",
            "A group that chooses its partitions itself has no members, however busy it is.",
        ),
        known_mistakes={
            "it is Stable all the time and reads letters: since 2.1 nothing of it goes": "mailer",
            "it is never Empty for a whole day: each night it joins again": "nightly",
        },
    ),
)
