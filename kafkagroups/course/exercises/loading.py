"""Exercises of lesson 09: replay a log, replay it with transactions, and find a lost record.

To replay a log means to compute the committed offsets from the lines of the log. There is one line for each record
(`Line` in log_lines.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.log_lines import Line, Lines, parse_partition
from kafkagroups.groups.offsets import OffsetAndMetadata, Offsets

CommittedOffsets = dict[Any, Any]
"""The keys are pairs (group, partition), and the values are committed offsets."""


def _key_of(line: Line) -> tuple[str | None, str | None]:
    return line.group, line.partition


# Exercise `replay`: first the correct function, then wrong functions that learners write.


def _replay(lines: Lines) -> CommittedOffsets:
    return _replay_lines(lines, transactions=False)


def _replay_transactions(lines: Lines) -> CommittedOffsets:
    return _replay_lines(lines, transactions=True)


def _replay_lines(lines: Lines, transactions: bool) -> CommittedOffsets:
    """Return the committed offsets by Kafka's rules.

    If `transactions` is false, an offset in a transaction counts immediately, because the exercise `replay` ignores
    transactions.
    """
    offsets = Offsets()
    for record_offset, record_type, group, name, value, producer in lines:
        if record_type in ("commit", "abort") and producer is not None:
            offsets.end_transaction(producer, commits=record_type == "commit", by=record_offset, whole_batches=False)
        if record_type != "offset" or group is None or name is None:
            continue
        partition = parse_partition(name)
        if value is None:
            offsets.remove(group, partition, record_offset)
            continue
        offset = OffsetAndMetadata(value, "", 0, -1, None, None, record_offset, record_offset)
        if producer is None or not transactions:
            offsets.put(group, partition, offset)
        else:
            offsets.put_pending(producer, group, partition, offset)
    return {
        (group, str(partition)): offset.offset
        for group, committed in offsets.committed.items()
        for partition, offset in committed.items()
    }


def _make_replay(put: Callable[[CommittedOffsets, Line], None]) -> Callable[[Lines], CommittedOffsets]:
    """Return a function for `replay` that calls `put` for each line about an offset, and ignores transactions.

    `put` changes the dict of committed offsets.
    """

    def replay(lines: Lines) -> CommittedOffsets:
        offsets: CommittedOffsets = {}
        for line in lines:
            if line.record_type == "offset":
                put(offsets, line)
        return offsets

    return replay


def _put(offsets: CommittedOffsets, line: Line) -> None:
    offsets.pop(_key_of(line), None)
    if line.value is not None:
        offsets[_key_of(line)] = line.value


def _put_by_partition(offsets: CommittedOffsets, line: Line) -> None:
    offsets.pop(line.partition, None)
    if line.value is not None:
        offsets[line.partition] = line.value


def _put_largest(offsets: CommittedOffsets, line: Line) -> None:
    if line.value is None:
        offsets.pop(_key_of(line), None)
    else:
        offsets[_key_of(line)] = max(line.value, offsets.get(_key_of(line), line.value))


def _put_oldest(offsets: CommittedOffsets, line: Line) -> None:
    if line.value is None:
        offsets.pop(_key_of(line), None)
    else:
        offsets.setdefault(_key_of(line), line.value)


def _put_no_tombstone(offsets: CommittedOffsets, line: Line) -> None:
    if line.value is not None:
        offsets[_key_of(line)] = line.value


def _put_none_for_tombstone(offsets: CommittedOffsets, line: Line) -> None:
    offsets[_key_of(line)] = line.value


def _replay_every_line(lines: Lines) -> CommittedOffsets:
    offsets: CommittedOffsets = {}
    for line in lines:
        _put(offsets, line)
    return offsets


# Exercise `replay_transactions`: first the correct function, then wrong functions that learners write.


def _make_wrong_replay_transactions(mistake: str) -> Callable[[Lines], CommittedOffsets]:
    """Return a function for `replay_transactions` that makes one mistake.

    `mistake` is one of the texts that the function compares.
    """

    def is_newer(at: int, committed: tuple[int, int] | None) -> bool:
        """Return whether a waiting offset replaces the committed offset.

        `at` is the log offset of the waiting record. `committed` contains the log offset of the committed record, and
        the committed offset.
        """
        if committed is None or mistake == "marker decides":
            return True
        return mistake != "plain commit wins" and committed[0] < at

    def replay(lines: Lines) -> CommittedOffsets:
        offsets: CommittedOffsets = {}
        pending: dict[Any, CommittedOffsets] = {}
        for line in lines:
            if line.record_type == "offset":
                if line.value is None:
                    offsets.pop(_key_of(line), None)
                elif line.producer is None or mistake == "counts without marker":
                    offsets[_key_of(line)] = line.record_offset, line.value
                else:
                    producer = None if mistake == "one transaction for all" else line.producer
                    pending.setdefault(producer, {})[_key_of(line)] = line.record_offset, line.value
            elif line.record_type in ("commit", "abort"):
                producer = None if mistake == "one transaction for all" else line.producer
                waiting_offsets = pending.get(producer, {})
                if line.record_type == "commit" or mistake == "abort counts":
                    for key, (at, value) in waiting_offsets.items():
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


def _make_offset(
    record_offset: int, value: int | None, producer: int | None = None, partition: str = "orders-0", group: str = "a"
) -> Line:
    return Line(record_offset, "offset", group, partition, value, producer)


def _make_marker(record_offset: int, record_type: str, producer: int = 7) -> Line:
    return Line(record_offset, record_type, producer=producer)


EXERCISES = (
    Exercise(
        "replay",
        _replay,
        REPLAY,
        (
            "Use a dictionary with the keys (line.group, line.partition). Later lines overwrite earlier lines.",
            "offsets.pop(key, None) removes a key. It raises no error if the key is absent.",
        ),
        cases=(
            (Lines([_make_offset(0, 5), _make_offset(1, 9)]),),
            (Lines([_make_offset(0, 5), _make_offset(1, 7, group="b")]),),
            (Lines([_make_offset(0, 30), _make_offset(1, 25)]),),
            (Lines([_make_offset(0, 5), _make_offset(1, 6, partition="orders-1"), _make_offset(2, None)]),),
            (Lines([_make_offset(0, None), Line(1, "group", "a", value=1), _make_offset(2, 5)]),),
            (Lines([_make_offset(0, 5), _make_offset(1, None), _make_offset(2, 3)]),),
        ),
        known_mistakes={
            "two groups may read the same partition: the key is (group, partition)": _make_replay(_put_by_partition),
            "the newest line counts, not the oldest line": _make_replay(_put_oldest),
            "a newer offset may be smaller: the newest line counts, not the largest number": _make_replay(_put_largest),
            "a line without a value removes the offset": _make_replay(_put_no_tombstone),
            "after a tombstone the key is absent; the key does not have the value None": _make_replay(
                _put_none_for_tombstone
            ),
            "only lines about an offset count": _replay_every_line,
        },
    ),
    Exercise(
        "replay_transactions",
        _replay_transactions,
        REPLAY_TRANSACTIONS,
        (
            "Keep a second dictionary for waiting offsets, by producer. A marker removes its producer's offsets.",
            "Store line.record_offset with each value in both dictionaries. The larger record_offset is newer.",
            "At a commit, a waiting (at, value) counts if its key has no offset, or an offset with a smaller `at`.",
        ),
        cases=(
            (Lines([_make_offset(0, 10, 7), _make_marker(1, "commit")]),),
            (Lines([_make_offset(0, 10, 7), _make_marker(1, "abort")]),),
            (Lines([_make_offset(0, 5), _make_offset(1, 10, 7)]),),
            (Lines([_make_offset(0, 30, 7), _make_offset(1, 25), _make_marker(2, "commit")]),),
            (Lines([_make_offset(0, 25), _make_offset(1, 30, 7), _make_marker(2, "commit")]),),
            (Lines([_make_offset(0, 10, 7), _make_offset(1, 20, 8, "orders-1"), _make_marker(2, "commit", 8)]),),
            (
                Lines(
                    [
                        _make_offset(0, 10, 7),
                        _make_marker(1, "abort"),
                        _make_offset(2, 20, 7, "orders-1"),
                        _make_marker(3, "commit"),
                    ]
                ),
            ),
            (
                Lines(
                    [_make_offset(0, 10, 7), _make_offset(1, 20, 7), _make_marker(2, "commit"), _make_offset(3, None)]
                ),
            ),
        ),
        known_mistakes={
            "an offset in a transaction waits for its marker": _make_wrong_replay_transactions("counts without marker"),
            "an abort removes the waiting offsets of its producer": _make_wrong_replay_transactions("abort counts"),
            "the position of the offset's line decides, not the marker's": _make_wrong_replay_transactions(
                "marker decides"
            ),
            "a transaction's offset counts if it is newer than the plain commit": _make_wrong_replay_transactions(
                "plain commit wins"
            ),
            "a marker ends only the transaction of its own producer": _make_wrong_replay_transactions(
                "one transaction for all"
            ),
            "after an abort, the next commit of that producer must not find the aborted offsets": (
                _make_wrong_replay_transactions("abort stays pending")
            ),
        },
    ),
    Exercise(
        "taken_away",
        29,
        "taken_away = 29",
        (
            "The cleaner keeps the newest line of each key. This rule is the same for committed transactions.",
            "The board's answer comes from the line before 30. The marker at 31 commits that line.",
        ),
        known_mistakes={
            "that is the newest line of its key, so it stays": 30,
            "that is the marker; it stays, but it does not contain the offset": 31,
            "that line is the newest line of payments-1, so it stays": 28,
            "line 23 is removed too, but line 29 had already replaced it": 23,
        },
    ),
)
