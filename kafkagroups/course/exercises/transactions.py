"""The exercises of lesson 08."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.course.exercises.exercise import Exercise, make_commit
from kafkagroups.course.log_lines import Line, Lines
from kafkagroups.groups.offsets import Offsets, TopicPartition

CommittedOffsets = dict[Any, Any]
"""Committed offsets by (group, partition)."""
_OffsetPairs = dict[Any, Any]
"""Pairs (record offset, committed offset) by (group, partition)."""
Replay = Callable[[Lines], CommittedOffsets]


def make_key(line: Line) -> tuple[str | None, str | None]:
    return line.group, line.partition


# The correct function of the exercise `replay_transactions`.


def _replay_transactions(lines: Lines) -> CommittedOffsets:
    return replay_lines(lines, ignores_transactions=False)


def replay_lines(lines: Lines, *, ignores_transactions: bool) -> CommittedOffsets:
    """Return the committed offsets by the rules of the new coordinator.

    If `ignores_transactions` is true, an offset of a transaction is committed immediately.
    """
    offsets = Offsets()
    for record_offset, record_type, group, partition_name, value, producer in lines:
        if record_type in ("commit", "abort") and producer is not None:
            # The newer of a pending and a committed offset wins. Lines do not contain the offsets of batches, so the
            # record offsets decide which offset is newer.
            offsets.end_transaction(producer, commits=record_type == "commit", by=record_offset, compares_batches=False)
        if record_type == "group" and group is not None and value is None:
            for deleted_partition in list(offsets.committed.get(group, ())):
                offsets.remove(group, deleted_partition, record_offset)
        if record_type != "offset" or group is None or partition_name is None:
            continue
        partition = TopicPartition.parse(partition_name)
        if value is None:
            offsets.remove(group, partition, record_offset)
            continue
        offset = make_commit(value, record_offset=record_offset)
        if producer is None or ignores_transactions:
            offsets.put(group, partition, offset)
        else:
            offsets.put_pending(producer, group, partition, offset)
    return {
        (group, str(partition)): offset.offset
        for group, committed in offsets.committed.items()
        for partition, offset in committed.items()
    }


# Exercise `replay_transactions`: functions that contain mistakes of learners.


def _make_wrong_replay_transactions(mistake: str) -> Replay:
    def wins(pending_record_offset: int, committed: tuple[int, int] | None) -> bool:
        if committed is None or mistake == "marker decides":
            return True
        if mistake == "plain commit wins":
            return False
        committed_record_offset, _ = committed
        return committed_record_offset < pending_record_offset

    def replay(lines: Lines) -> CommittedOffsets:
        offsets: _OffsetPairs = {}
        # The pending offsets of each producer. The keys are producer ids.
        pending: dict[int | None, _OffsetPairs] = {}
        for line in lines:
            key = make_key(line)
            # With this mistake, all producers have the key None, so a marker ends the transactions of all producers.
            producer = None if mistake == "one transaction for all" else line.producer
            if line.record_type == "offset":
                if line.value is None:
                    offsets.pop(key, None)
                elif line.producer is None or mistake == "counts without marker":
                    offsets[key] = line.record_offset, line.value
                else:
                    pending.setdefault(producer, {})[key] = line.record_offset, line.value
            elif line.record_type in ("commit", "abort"):
                is_commit = line.record_type == "commit"
                if is_commit or mistake == "abort counts":
                    for pending_key, (record_offset, value) in pending.get(producer, {}).items():
                        if wins(record_offset, offsets.get(pending_key)):
                            offsets[pending_key] = record_offset, value
                if is_commit or mistake != "abort stays pending":
                    pending.pop(producer, None)
        return {key: value for key, (_, value) in offsets.items()}

    return replay


def make_case(*lines: Line) -> tuple[Lines]:
    return (Lines(lines),)


def make_offset_line(
    record_offset: int,
    value: int | None,
    *,
    producer: int | None = None,
    partition: str = "orders-0",
    group: str = "a",
) -> Line:
    return Line(record_offset, "offset", group, partition, value, producer)


def make_marker_line(record_offset: int, record_type: str, producer: int = 7) -> Line:
    return Line(record_offset, record_type, producer=producer)


_AFTER_TWO_MARKERS = _replay_transactions(
    Lines(
        (
            make_offset_line(10, 5),
            make_offset_line(11, 9, producer=4),
            make_offset_line(12, 7, producer=8),
            make_offset_line(13, 6),
            make_marker_line(14, "commit", producer=8),
            make_marker_line(15, "abort", producer=4),
        )
    )
)

_REPLAY_TRANSACTIONS_SOLUTION = """\
def replay_transactions(lines):
    offsets = {}                                   # key → (at, value)
    pending = {}                                   # producer → key → (at, value)
    for line in lines:
        key = line.group, line.partition
        if line.record_type == "offset":
            if line.value is None:
                offsets.pop(key, None)
            elif line.producer is None:
                offsets[key] = line.record_offset, line.value
            else:
                pending.setdefault(line.producer, {})[key] = line.record_offset, line.value
        elif line.record_type in ("commit", "abort"):
            waiting = pending.pop(line.producer, {})
            if line.record_type == "commit":
                for key, (at, value) in waiting.items():
                    if key not in offsets or offsets[key][0] < at:
                        offsets[key] = at, value
    return {key: value for key, (at, value) in offsets.items()}"""


EXERCISES = (
    Exercise(
        name="replay_transactions",
        correct=_replay_transactions,
        solution=_REPLAY_TRANSACTIONS_SOLUTION,
        hints=(
            "Keep a second dictionary: the pending offsets of each producer. A marker removes its producer's entry.",
            "Store line.record_offset with each value in both dictionaries. The larger record_offset is newer.",
            "At a commit marker, a pending offset counts if no offset of its key has a larger record_offset.",
        ),
        cases=(
            make_case(make_offset_line(0, 10, producer=7), make_marker_line(1, "commit")),
            make_case(make_offset_line(0, 10, producer=7), make_marker_line(1, "abort")),
            make_case(make_offset_line(0, 5), make_offset_line(1, 10, producer=7)),
            make_case(make_offset_line(0, 30, producer=7), make_offset_line(1, 25), make_marker_line(2, "commit")),
            make_case(make_offset_line(0, 25), make_offset_line(1, 30, producer=7), make_marker_line(2, "commit")),
            make_case(
                make_offset_line(0, 10, producer=7),
                make_offset_line(1, 20, producer=8, partition="orders-1"),
                make_marker_line(2, "commit", producer=8),
            ),
            make_case(
                make_offset_line(0, 10, producer=7),
                make_marker_line(1, "abort"),
                make_offset_line(2, 20, producer=7, partition="orders-1"),
                make_marker_line(3, "commit"),
            ),
            make_case(
                make_offset_line(0, 10, producer=7),
                make_offset_line(1, 20, producer=7),
                make_marker_line(2, "commit"),
                make_offset_line(3, None),
            ),
        ),
        known_mistakes={
            "an offset of a transaction counts only after the commit marker": _make_wrong_replay_transactions(
                "counts without marker"
            ),
            "an abort marker removes the pending offsets of its producer": _make_wrong_replay_transactions(
                "abort counts"
            ),
            "the position of the record decides, not the position of the marker": _make_wrong_replay_transactions(
                "marker decides"
            ),
            "an offset of a transaction counts if it comes after the plain commit": _make_wrong_replay_transactions(
                "plain commit wins"
            ),
            "a marker ends only the transaction of its own producer": _make_wrong_replay_transactions(
                "one transaction for all"
            ),
            "after an abort marker, the next commit marker of the producer must not commit the aborted offsets": (
                _make_wrong_replay_transactions("abort stays pending")
            ),
        },
    ),
    Exercise(
        name="after_two_markers",
        correct=_AFTER_TWO_MARKERS["a", "orders-0"],
        solution="after_two_markers = 6   # record 13 is later than record 12",
        hints=(
            "An abort marker drops the offsets of its producer. Which offsets remain?",
            "Of two offsets that count, the one later in the log is newer. The place of the marker does not matter.",
        ),
        known_mistakes={
            "Marker 14 commits record 12, but record 13 is later in the log": 7,
            "Producer 4 aborted its transaction, so 9 never counts": 9,
            "Record 13 is a plain commit and newer than record 10": 5,
        },
    ),
    Exercise(
        name="which_hangs",
        correct="B",
        solution='which_hangs = "B"   # its transaction had ended before, so no marker will follow',
        hints=(
            "Who will write the marker of each transaction?",
            "The transaction coordinator ends each transaction that it knows as Ongoing, at its timeout or before.",
        ),
        known_mistakes={
            "The transaction coordinator knows this transaction. It will abort it at its timeout": "A",
            "Its marker is in the log. Nothing of it is pending": "C",
        },
    ),
)
