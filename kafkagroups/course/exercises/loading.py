"""Exercises of lesson 09: replay, replay with transactions, and an incident."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.log_lines import Line, Lines, parse_partition
from kafkagroups.groups.offsets import OffsetAndMetadata, Offsets

State = dict[Any, Any]
"""The committed offset of each (group, partition)."""


def _key(line: Line) -> tuple[str | None, str | None]:
    return line.group, line.partition


# Exercise `replay`: first the correct function, then wrong ones that learners write.


def _replay(lines: Lines) -> State:
    return _replay_lines(lines, transactions=False)


def _replay_transactions(lines: Lines) -> State:
    return _replay_lines(lines, transactions=True)


def _replay_lines(lines: Lines, transactions: bool) -> State:
    offsets = Offsets()
    for at, about, group, name, value, producer in lines:
        if about in ("commit", "abort") and producer is not None:
            offsets.end_transaction(producer, commits=about == "commit", by=at, whole_batches=False)
        if about != "offset" or group is None or name is None:
            continue
        partition = parse_partition(name)
        if value is None:
            offsets.remove(group, partition, at)
            continue
        offset = OffsetAndMetadata(value, "", 0, -1, None, None, at, at)
        if producer is None or not transactions:
            offsets.put(group, partition, offset)
        else:
            offsets.put_pending(producer, group, partition, offset)
    return {
        (group, str(partition)): offset.offset
        for group, committed in offsets.committed.items()
        for partition, offset in committed.items()
    }


def _fold_offsets(put: Callable[[State, Line], None]) -> Callable[[Lines], State]:
    """Return a replay without transactions that calls `put` for each line about an offset."""

    def replay(lines: Lines) -> State:
        offsets: State = {}
        for line in lines:
            if line.record_type == "offset":
                put(offsets, line)
        return offsets

    return replay


def _put(offsets: State, line: Line) -> None:
    offsets.pop(_key(line), None)
    if line.value is not None:
        offsets[_key(line)] = line.value


def _put_by_partition(offsets: State, line: Line) -> None:
    offsets.pop(line.partition, None)
    if line.value is not None:
        offsets[line.partition] = line.value


def _put_largest(offsets: State, line: Line) -> None:
    if line.value is None:
        offsets.pop(_key(line), None)
    else:
        offsets[_key(line)] = max(line.value, offsets.get(_key(line), line.value))


def _put_oldest(offsets: State, line: Line) -> None:
    if line.value is None:
        offsets.pop(_key(line), None)
    else:
        offsets.setdefault(_key(line), line.value)


def _put_no_tombstone(offsets: State, line: Line) -> None:
    if line.value is not None:
        offsets[_key(line)] = line.value


def _put_none_for_tombstone(offsets: State, line: Line) -> None:
    offsets[_key(line)] = line.value


def _replay_group_lines_too(lines: Lines) -> State:
    offsets: State = {}
    for line in lines:
        _put(offsets, line)
    return offsets


# Exercise `replay_transactions`: first the correct function, then wrong ones that learners write.


def _replay_transactions_with(mistake: str) -> Callable[[Lines], State]:
    """Return a replay of transactions that makes one mistake."""

    def is_newer(at: int, committed: tuple[int, int] | None) -> bool:
        if committed is None or mistake == "marker decides":
            return True
        return mistake != "plain commit wins" and committed[0] < at

    def replay(lines: Lines) -> State:
        offsets: State = {}
        pending: dict[Any, State] = {}
        for line in lines:
            if line.record_type == "offset":
                if line.value is None:
                    offsets.pop(_key(line), None)
                elif line.producer is None or mistake == "counts without marker":
                    offsets[_key(line)] = line.record_offset, line.value
                else:
                    producer = None if mistake == "one transaction for all" else line.producer
                    pending.setdefault(producer, {})[_key(line)] = line.record_offset, line.value
            elif line.record_type in ("commit", "abort"):
                producer = None if mistake == "one transaction for all" else line.producer
                waiting = pending.get(producer, {})
                if line.record_type == "commit" or mistake == "abort counts":
                    for key, (at, value) in waiting.items():
                        if is_newer(at, offsets.get(key)):
                            offsets[key] = at, value
                if line.record_type == "commit" or mistake != "abort stays pending":
                    pending.pop(producer, None)
        return {key: value for key, (_, value) in offsets.items()}

    return replay


REPLAY = """\
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

REPLAY_TRANSACTIONS = """\
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


def _offset(
    at: int, value: int | None, producer: int | None = None, partition: str = "orders-0", group: str = "a"
) -> Line:
    return Line(at, "offset", group, partition, value, producer)


def _marker(at: int, about: str, producer: int = 7) -> Line:
    return Line(at, about, producer=producer)


EXERCISES = (
    Exercise(
        "replay",
        _replay,
        REPLAY,
        (
            "Use a dictionary by (line.group, line.partition): later lines overwrite earlier ones.",
            "offsets.pop(key, None) removes a key. It raises no error if the key is absent.",
        ),
        cases=(
            (Lines([_offset(0, 5), _offset(1, 9)]),),
            (Lines([_offset(0, 5), _offset(1, 7, group="b")]),),
            (Lines([_offset(0, 30), _offset(1, 25)]),),
            (Lines([_offset(0, 5), _offset(1, 6, partition="orders-1"), _offset(2, None)]),),
            (Lines([_offset(0, None), Line(1, "group", "a", value=1), _offset(2, 5)]),),
            (Lines([_offset(0, 5), _offset(1, None), _offset(2, 3)]),),
        ),
        known_mistakes={
            "two groups may read the same partition: the key is (group, partition)": _fold_offsets(_put_by_partition),
            "the newest line counts, not the oldest": _fold_offsets(_put_oldest),
            "an offset may go back: the newest line counts, not the largest number": _fold_offsets(_put_largest),
            "a line without a value removes the offset": _fold_offsets(_put_no_tombstone),
            "after a tombstone the key is absent; it does not have the value None": _fold_offsets(
                _put_none_for_tombstone
            ),
            "only lines about an offset count": _replay_group_lines_too,
        },
    ),
    Exercise(
        "replay_transactions",
        _replay_transactions,
        REPLAY_TRANSACTIONS,
        (
            "Keep a second dictionary for waiting offsets, by producer. A marker removes those of its producer.",
            "To find out which of two records is newer, keep line.record_offset with each value, in both dictionaries.",
            "At a commit, a waiting (at, value) counts if its key has no offset or an offset with a smaller at.",
        ),
        cases=(
            (Lines([_offset(0, 10, 7), _marker(1, "commit")]),),
            (Lines([_offset(0, 10, 7), _marker(1, "abort")]),),
            (Lines([_offset(0, 5), _offset(1, 10, 7)]),),
            (Lines([_offset(0, 30, 7), _offset(1, 25), _marker(2, "commit")]),),
            (Lines([_offset(0, 25), _offset(1, 30, 7), _marker(2, "commit")]),),
            (Lines([_offset(0, 10, 7), _offset(1, 20, 8, "orders-1"), _marker(2, "commit", 8)]),),
            (Lines([_offset(0, 10, 7), _marker(1, "abort"), _offset(2, 20, 7, "orders-1"), _marker(3, "commit")]),),
            (Lines([_offset(0, 10, 7), _offset(1, 20, 7), _marker(2, "commit"), _offset(3, None)]),),
        ),
        known_mistakes={
            "an offset in a transaction waits for its marker": _replay_transactions_with("counts without marker"),
            "an abort removes the offsets that wait": _replay_transactions_with("abort counts"),
            "the position of the offset's own line decides which is newer, not the marker's": _replay_transactions_with(
                "marker decides"
            ),
            "a committed transaction's offset counts if it is newer than the plain commit": _replay_transactions_with(
                "plain commit wins"
            ),
            "a marker ends the transaction of its own producer only": _replay_transactions_with(
                "one transaction for all"
            ),
            "after an abort, the next commit of that producer must not find the aborted offsets": (
                _replay_transactions_with("abort stays pending")
            ),
        },
    ),
    Exercise(
        "taken_away",
        29,
        "taken_away = 29",
        (
            "The cleaner keeps the newest line of each key. For committed transactions it has no other rule.",
            "The board's answer comes from the line *before* 30, which the marker at 31 commits.",
        ),
        known_mistakes={
            "that is the newest line of its key: it stays": 30,
            "that is the marker; without its offsets it commits nothing": 31,
            "that line is about payments-1, and it is the newest one": 28,
            "it is removed as well, but 29 had already replaced it": 23,
        },
    ),
)
