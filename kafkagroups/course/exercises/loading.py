"""Exercises of lesson 11: replay a log, and find a lost record.

To replay a log means to compute the committed offsets from the lines of the log. A line is a record without its bytes
(`Line` in log_lines.py).

The keys of `known_mistakes` are the corrections that the learner sees. The values are the wrong answers.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.transactions import (
    CommittedOffsets,
    Replay,
    make_case,
    make_key,
    make_offset_line,
    replay_lines,
)
from kafkagroups.course.log_lines import Line, Lines

# The correct function of the exercise `replay`.


def _replay(lines: Lines) -> CommittedOffsets:
    return replay_lines(lines, ignores_transactions=True)


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
        offsets.pop(make_key(line), None)
    else:
        offsets[make_key(line)] = max(line.value, offsets.get(make_key(line), line.value))


def _keep_oldest(offsets: CommittedOffsets, line: Line) -> None:
    if line.value is None:
        offsets.pop(make_key(line), None)
    else:
        offsets.setdefault(make_key(line), line.value)


def _ignore_tombstone(offsets: CommittedOffsets, line: Line) -> None:
    if line.value is not None:
        offsets[make_key(line)] = line.value


def _store_none_for_tombstone(offsets: CommittedOffsets, line: Line) -> None:
    offsets[make_key(line)] = line.value


def _use_lines_of_every_type(lines: Lines) -> CommittedOffsets:
    offsets: CommittedOffsets = {}
    for line in lines:
        offsets.pop(make_key(line), None)
        if line.value is not None:
            offsets[make_key(line)] = line.value
    return offsets


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
            make_case(make_offset_line(0, 5), make_offset_line(1, 9)),
            make_case(make_offset_line(0, 5), make_offset_line(1, 7, group="b")),
            make_case(make_offset_line(0, 30), make_offset_line(1, 25)),
            make_case(make_offset_line(0, 5), make_offset_line(1, 6, partition="orders-1"), make_offset_line(2, None)),
            make_case(make_offset_line(0, None), Line(1, "group", "a", value=1), make_offset_line(2, 5)),
            make_case(make_offset_line(0, 5), make_offset_line(1, None), make_offset_line(2, 3)),
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
