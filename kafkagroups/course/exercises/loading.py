"""Exercises of lesson 11: replay a log, replay it with transactions, and find a lost record.

To replay a log means to compute the committed offsets from the lines of the log. A line is a record without its bytes
(`Line` in log_lines.py).

An offset of a transaction is pending until the marker of the transaction. A commit marker commits the pending offsets
of its producer. An abort marker drops these offsets.

The keys of `known_mistakes` are the corrections that the learner sees. The values are the wrong answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.log_lines import Line, Lines, parse_partition
from kafkagroups.groups.offsets import OffsetAndMetadata, Offsets

CommittedOffsets = dict[Any, Any]
"""The keys are pairs (group, partition), and the values are committed offsets."""
_OffsetPairs = dict[Any, Any]
"""The keys are pairs (group, partition). The values are pairs (record offset, committed offset)."""
Replay = Callable[[Lines], CommittedOffsets]
"""A function for the exercises `replay` and `replay_transactions`."""


def _make_key(line: Line) -> tuple[str | None, str | None]:
    return line.group, line.partition


# The correct functions of the exercises `replay` and `replay_transactions`.


def _replay(lines: Lines) -> CommittedOffsets:
    return _replay_lines(lines, ignores_transactions=True)


def _replay_transactions(lines: Lines) -> CommittedOffsets:
    return _replay_lines(lines, ignores_transactions=False)


def _replay_lines(lines: Lines, *, ignores_transactions: bool) -> CommittedOffsets:
    """Return the committed offsets by Kafka's rules.

    If `ignores_transactions` is true, an offset of a transaction is committed immediately.
    """
    offsets = Offsets()
    for record_offset, record_type, group, partition_name, value, producer in lines:
        if record_type in ("commit", "abort") and producer is not None:
            # The newer of a pending and a committed offset wins. Lines do not contain the offsets of batches, so the
            # record offsets decide which offset is newer.
            offsets.end_transaction(producer, commits=record_type == "commit", by=record_offset, compares_batches=False)
        if record_type != "offset" or group is None or partition_name is None:
            continue
        partition = parse_partition(partition_name)
        if value is None:
            offsets.remove(group, partition, record_offset)
            continue
        offset = OffsetAndMetadata(
            offset=value,
            metadata="",
            commit_timestamp=0,
            leader_epoch=-1,
            expire_timestamp=None,
            topic_id=None,
            record_offset=record_offset,
            batch_offset=record_offset,
        )
        if producer is None or ignores_transactions:
            offsets.put(group, partition, offset)
        else:
            offsets.put_pending(producer, group, partition, offset)
    return {
        (group, str(partition)): offset.offset
        for group, committed in offsets.committed.items()
        for partition, offset in committed.items()
    }


# Exercise `replay`: functions that contain mistakes of learners.


def _make_wrong_replay(apply_line: Callable[[CommittedOffsets, Line], None]) -> Replay:
    """Return a function for `replay` that calls `apply_line` with the committed offsets and each line of an offset."""

    def replay(lines: Lines) -> CommittedOffsets:
        offsets: CommittedOffsets = {}
        for line in lines:
            if line.record_type == "offset":
                apply_line(offsets, line)
        return offsets

    return replay


def _forget_group(offsets: CommittedOffsets, line: Line) -> None:
    offsets.pop(line.partition, None)
    if line.value is not None:
        offsets[line.partition] = line.value


def _keep_largest(offsets: CommittedOffsets, line: Line) -> None:
    if line.value is None:
        offsets.pop(_make_key(line), None)
    else:
        offsets[_make_key(line)] = max(line.value, offsets.get(_make_key(line), line.value))


def _keep_oldest(offsets: CommittedOffsets, line: Line) -> None:
    if line.value is None:
        offsets.pop(_make_key(line), None)
    else:
        offsets.setdefault(_make_key(line), line.value)


def _ignore_tombstone(offsets: CommittedOffsets, line: Line) -> None:
    if line.value is not None:
        offsets[_make_key(line)] = line.value


def _store_none_for_tombstone(offsets: CommittedOffsets, line: Line) -> None:
    offsets[_make_key(line)] = line.value


def _use_lines_of_every_type(lines: Lines) -> CommittedOffsets:
    offsets: CommittedOffsets = {}
    for line in lines:
        offsets.pop(_make_key(line), None)
        if line.value is not None:
            offsets[_make_key(line)] = line.value
    return offsets


# Exercise `replay_transactions`: functions that contain mistakes of learners.


def _make_wrong_replay_transactions(mistake: str) -> Replay:
    """Return a function for `replay_transactions` that contains the mistake `mistake`.

    The possible values of `mistake` are the texts in the conditions below.
    """

    def wins(pending_record_offset: int, committed: tuple[int, int] | None) -> bool:
        """Return whether the pending offset in the record at `pending_record_offset` replaces the committed offset.

        `committed` is a pair (record offset, committed offset), or None if no offset is committed.
        """
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
            key = _make_key(line)
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


_REPLAY_SOLUTION = """\
def replay(lines):
    offsets = {}
    for line in lines:
        if line.record_type != "offset":
            continue
        key = line.group, line.partition
        if line.value is None:
            offsets.pop(key, None)                 # a tombstone; the key may be absent
        else:
            offsets[key] = line.value
    return offsets"""

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


def _make_case(*lines: Line) -> tuple[Lines]:
    """Return the arguments of a case: the lines of a log."""
    return (Lines(lines),)


def _make_offset_line(
    record_offset: int,
    value: int | None,
    *,
    producer: int | None = None,
    partition: str = "orders-0",
    group: str = "a",
) -> Line:
    return Line(record_offset, "offset", group, partition, value, producer)


def _make_marker_line(record_offset: int, record_type: str, producer: int = 7) -> Line:
    return Line(record_offset, record_type, producer=producer)


EXERCISES = (
    Exercise(
        name="replay",
        correct=_replay,
        solution=_REPLAY_SOLUTION,
        hints=(
            "Use a dictionary with the keys (line.group, line.partition). Later lines overwrite earlier lines.",
            "offsets.pop(key, None) removes a key. It raises no error if the key is absent.",
        ),
        cases=(
            _make_case(_make_offset_line(0, 5), _make_offset_line(1, 9)),
            _make_case(_make_offset_line(0, 5), _make_offset_line(1, 7, group="b")),
            _make_case(_make_offset_line(0, 30), _make_offset_line(1, 25)),
            _make_case(
                _make_offset_line(0, 5), _make_offset_line(1, 6, partition="orders-1"), _make_offset_line(2, None)
            ),
            _make_case(_make_offset_line(0, None), Line(1, "group", "a", value=1), _make_offset_line(2, 5)),
            _make_case(_make_offset_line(0, 5), _make_offset_line(1, None), _make_offset_line(2, 3)),
        ),
        known_mistakes={
            "two groups may commit offsets of the same partition: the key is (group, partition)": _make_wrong_replay(
                _forget_group
            ),
            "the newest line of a key counts, not the oldest line": _make_wrong_replay(_keep_oldest),
            "a newer offset may be smaller: the newest line counts, not the largest number": _make_wrong_replay(
                _keep_largest
            ),
            "a line without a value is a tombstone: remove the offset": _make_wrong_replay(_ignore_tombstone),
            "after a tombstone the key is absent; the key does not have the value None": _make_wrong_replay(
                _store_none_for_tombstone
            ),
            "use only the lines whose record_type is offset": _use_lines_of_every_type,
        },
    ),
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
            _make_case(_make_offset_line(0, 10, producer=7), _make_marker_line(1, "commit")),
            _make_case(_make_offset_line(0, 10, producer=7), _make_marker_line(1, "abort")),
            _make_case(_make_offset_line(0, 5), _make_offset_line(1, 10, producer=7)),
            _make_case(_make_offset_line(0, 30, producer=7), _make_offset_line(1, 25), _make_marker_line(2, "commit")),
            _make_case(_make_offset_line(0, 25), _make_offset_line(1, 30, producer=7), _make_marker_line(2, "commit")),
            _make_case(
                _make_offset_line(0, 10, producer=7),
                _make_offset_line(1, 20, producer=8, partition="orders-1"),
                _make_marker_line(2, "commit", producer=8),
            ),
            _make_case(
                _make_offset_line(0, 10, producer=7),
                _make_marker_line(1, "abort"),
                _make_offset_line(2, 20, producer=7, partition="orders-1"),
                _make_marker_line(3, "commit"),
            ),
            _make_case(
                _make_offset_line(0, 10, producer=7),
                _make_offset_line(1, 20, producer=7),
                _make_marker_line(2, "commit"),
                _make_offset_line(3, None),
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
    # Exercise `taken_away`: the lesson's board (a program that replays the log wrongly) shows another offset after the
    # cleaner has run. Which record did the cleaner remove? The answer is a record offset in partition 9.
    Exercise(
        name="taken_away",
        correct=29,
        solution="taken_away = 29",
        hints=(
            "The cleaner keeps the newest record of each key, also if the record is in a committed transaction.",
            "Marker 31 commits record 29. So the board shows the offset in record 29, not in record 30.",
        ),
        known_mistakes={
            "record 30 is the newest record of its key, so it stays": 30,
            "record 31 is the marker; it stays, but it does not contain the offset": 31,
            "record 28 is the newest record of payments-1, so it stays": 28,
            "the cleaner removes record 23 too, but record 29 had already replaced record 23": 23,
        },
    ),
)
