"""The exercises of lesson 11.

To replay a log means to compute the committed offsets from its lines (`Line` in log_lines.py).
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


def _make_wrong_replay(
    apply_line: Callable[[CommittedOffsets, Line], None],
    deletes_group: Callable[[Line], bool] = lambda line: False,
) -> Replay:

    def replay(lines: Lines) -> CommittedOffsets:
        offsets: CommittedOffsets = {}
        for line in lines:
            if line.record_type == "offset":
                apply_line(offsets, line)
            elif deletes_group(line):
                for key in [key for key in offsets if key[0] == line.group]:
                    del offsets[key]
        return offsets

    return replay


def _apply_offset(offsets: CommittedOffsets, line: Line) -> None:
    offsets.pop(make_key(line), None)
    if line.value is not None:
        offsets[make_key(line)] = line.value


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


def _forget_all_groups(lines: Lines) -> CommittedOffsets:
    offsets: CommittedOffsets = {}
    for line in lines:
        if line.record_type == "offset":
            _apply_offset(offsets, line)
        elif line.value is None:
            offsets.clear()
    return offsets


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
        key = line.group, line.partition
        if line.record_type == "offset" and line.value is not None:
            offsets[key] = line.value
        elif line.record_type == "offset":
            offsets.pop(key, None)                 # a tombstone; the key may be absent
    return offsets"""

EXERCISES = (
    Exercise(
        name="replay",
        correct=_replay,
        solution=_REPLAY_SOLUTION,
        hints=(
            "Use a dictionary with the keys (line.group, line.partition). Later lines overwrite earlier lines.",
            "offsets.pop(key, None) removes a key. It raises no error if the key is absent.",
            "A record of a group changes no offset, not even its tombstone: skip it.",
        ),
        cases=(
            make_case(make_offset_line(0, 5), make_offset_line(1, 9)),
            make_case(make_offset_line(0, 5), make_offset_line(1, 7, group="b")),
            make_case(make_offset_line(0, 30), make_offset_line(1, 25)),
            make_case(make_offset_line(0, 5), make_offset_line(1, 6, partition="orders-1"), make_offset_line(2, None)),
            make_case(make_offset_line(0, None), Line(1, "group", "a", value=1), make_offset_line(2, 5)),
            make_case(make_offset_line(0, 5), make_offset_line(1, None), make_offset_line(2, 3)),
            make_case(make_offset_line(0, 5), Line(1, "group", "a", value=3)),
            make_case(
                make_offset_line(0, 5),
                make_offset_line(1, 7, group="b"),
                make_offset_line(2, None),
                Line(3, "group", "a"),
            ),
            make_case(
                make_offset_line(0, 5),
                Line(1, "group", "a", value=3),
                make_offset_line(2, None),
                Line(3, "group", "a"),
                make_offset_line(4, 8),
            ),
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
            "the value of a group record is a generation, not an offset": _use_lines_of_every_type,
            "a group record with a generation deletes no offset": _make_wrong_replay(_apply_offset, lambda line: True),
            "the tombstone of a group does not touch the offsets of other groups": _forget_all_groups,
        },
    ),
    Exercise(
        name="which_log_loads",
        correct="A",
        solution='which_log_loads = "A"   # recovery removes the half batch before the load',
        hints=(
            "What does a broker do with the end of a log before it loads the log?",
            "A load reads every record, also records that a newer record replaces.",
            "Group records ignore transactions. Is a record of an aborted transaction read?",
        ),
        known_mistakes={
            "A value of zero bytes cannot be read. The load fails there, before it reaches the newer record": "B",
            "A load also reads records of an aborted transaction, and it cannot read version 7": "C",
        },
    ),
    # Exercise `seconds_to_load`: 12 million records, and 0.4 million records in a second.
    Exercise(
        name="seconds_to_load",
        correct=30,
        solution="seconds_to_load = 30   # 12 million / 0.4 million",
        hints=(
            "The number of records counts, not the number of bytes.",
            "The broker dies now, before any cleaning.",
        ),
        known_mistakes={
            "Divide by the records in a second: 12 / 0.4": 5,
            "The cleaner has not run, so the next broker reads all 12 million records": 0,
            "The next broker reads records. The number of bytes does not decide": 2250,
        },
    ),
)
