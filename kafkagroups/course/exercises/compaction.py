"""Exercises of lesson 10: which records remain after a pass, and where the cleaner stops.

The log cleaner compacts a log in passes. A pass first fills the offset map, which contains the newest offset of each
key. Then the pass removes every record that has a newer record with the same key.

A segment is one file of a log. The last segment of a log is the active segment, which the cleaner does not change. The
last stable offset is the first offset of the oldest open transaction.

The keys of `known_mistakes` are the corrections that the learner sees. The values are the wrong answers.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.course.exercises.exercise import Exercise

Records = list[tuple[int, Any, Any]]
"""The offset, key and value of each record. The value of a tombstone (a record that deletes) is None."""


# Exercise `survivors`: which records remain after one pass? The functions return the offsets of these records.
# `active_offset` is the offset at which the active segment begins.
# `_list_survivors` is correct. The functions after it contain mistakes of learners.


def _list_survivors(records: Records, active_offset: int) -> list[int]:
    newest_offsets = {key: offset for offset, key, _ in records if offset < active_offset}
    return [offset for offset, key, _ in records if offset >= active_offset or newest_offsets[key] == offset]


def _keep_oldest_records(records: Records, active_offset: int) -> list[int]:
    oldest_offsets = {key: offset for offset, key, _ in reversed(records) if offset < active_offset}
    return [offset for offset, key, _ in records if offset >= active_offset or oldest_offsets[key] == offset]


def _remove_tombstones(records: Records, active_offset: int) -> list[int]:
    values = {offset: value for offset, _, value in records}
    return [offset for offset in _list_survivors(records, active_offset) if values[offset] is not None]


def _add_active_segment_to_map(records: Records, active_offset: int) -> list[int]:
    newest_offsets = {key: offset for offset, key, _ in records}
    return [offset for offset, key, _ in records if offset >= active_offset or newest_offsets[key] == offset]


def _remove_active_segment(records: Records, active_offset: int) -> list[int]:
    return [offset for offset in _list_survivors(records, active_offset) if offset < active_offset]


def _return_list_positions(records: Records, active_offset: int) -> list[int]:
    offsets = [offset for offset, _, _ in records]
    return [offsets.index(offset) for offset in _list_survivors(records, active_offset)]


# Exercise `removed_by`: which pass removes a tombstone? The functions return the number of this pass (the first pass is
# number 1), or None if no pass removes the tombstone.
# `pass_times` (in the lesson: `passes`) contains the times of the passes after the tombstone was written.
# `retention` is Kafka's setting delete.retention.ms.
# The first pass sets the delete horizon: the time of the first pass plus `retention`. The first later pass at or after
# the delete horizon removes the tombstone.
# `_find_removing_pass` is correct. The functions after it contain mistakes of learners.


def _find_removing_pass(pass_times: list[int], retention: int) -> int | None:
    horizon = pass_times[0] + retention
    return next((number for number, time in enumerate(pass_times[1:], 2) if time >= horizon), None)


def _remove_in_first_pass(pass_times: list[int], retention: int) -> int | None:
    horizon = pass_times[0] + retention
    return next((number for number, time in enumerate(pass_times, 1) if time >= horizon), None)


def _remove_after_horizon(pass_times: list[int], retention: int) -> int | None:
    horizon = pass_times[0] + retention
    return next((number for number, time in enumerate(pass_times[1:], 2) if time > horizon), None)


def _set_horizon_in_each_pass(pass_times: list[int], retention: int) -> int | None:
    horizon = pass_times[0] + retention
    for number, time in enumerate(pass_times[1:], 2):
        if time >= horizon:
            return number
        horizon = time + retention
    return None


def _count_from_0(pass_times: list[int], retention: int) -> int | None:
    number = _find_removing_pass(pass_times, retention)
    return None if number is None else number - 1


_SURVIVORS_SOLUTION = """\
def survivors(records, active_offset):
    newest = {}                                    # the offset map
    for offset, key, value in records:
        if offset < active_offset:
            newest[key] = offset
    return [offset for offset, key, value in records if offset >= active_offset or newest[key] == offset]"""

_REMOVED_BY_SOLUTION = """\
def removed_by(passes, retention):
    horizon = passes[0] + retention                # the first pass sets the horizon, and no pass changes it
    for number, time in enumerate(passes[1:], 2):
        if time >= horizon:
            return number
    return None"""

EXERCISES = (
    Exercise(
        name="survivors",
        correct=_list_survivors,
        solution=_SURVIVORS_SOLUTION,
        hints=(
            "Use two loops. The first loop fills a dict: for each key, its newest offset below `active_offset`.",
            "The second loop keeps each record at `active_offset` or above, and each record whose offset is the value "
            "of its key in the dict.",
            "Treat a tombstone like every other record. Its value is None, but this exercise does not need the values.",
        ),
        # Each case is the records, and the offset at which the active segment begins.
        cases=(
            ([(0, "a", "1"), (1, "b", "1"), (2, "a", "2")], 3),
            ([(4, "a", "1"), (9, "b", "1"), (12, "a", "2"), (13, "a", "3")], 14),
            ([(0, "a", "1"), (1, "a", None), (2, "b", "1")], 3),
            ([(0, "a", "1"), (1, "b", "1"), (2, "a", "2"), (3, "a", "3")], 2),
            ([], 0),
        ),
        known_mistakes={
            "the newest record of a key stays, not the oldest record": _keep_oldest_records,
            "this pass keeps a tombstone that is the newest record of its key": _remove_tombstones,
            "the offset map contains only records below `active_offset`": _add_active_segment_to_map,
            "the cleaner does not change the active segment: all records of this segment stay": _remove_active_segment,
            "return the offsets, not their positions in the list": _return_list_positions,
        },
    ),
    Exercise(
        name="removed_by",
        correct=_find_removing_pass,
        solution=_REMOVED_BY_SOLUTION,
        hints=(
            "The first pass sets the horizon, passes[0] + retention, and removes nothing.",
            "The tombstone is removed by the first later pass whose time is at or after the horizon.",
        ),
        # Each case is the times of the passes, and the retention.
        cases=(
            ([0, 100, 200], 60),
            ([0, 50, 60, 100], 60),
            ([10, 20], 0),
            ([0, 50, 100, 150], 60),
            ([0, 10], 60),
        ),
        known_mistakes={
            "the pass that sets the horizon removes nothing, even if the retention is 0": _remove_in_first_pass,
            "a pass at the time of the horizon removes the tombstone: use >=, not >": _remove_after_horizon,
            "the first pass sets the horizon; later passes do not change it": _set_horizon_in_each_pass,
            "the first pass has the number 1, not 0": _count_from_0,
        },
    ),
    # Exercise `cleaner_stops_at`: what is the first offset that a pass leaves unchanged? The log comes from
    # `course.write_log_with_hanging_transaction`.
    Exercise(
        name="cleaner_stops_at",
        correct=207,
        solution="cleaner_stops_at = 207",
        hints=(
            "A pass cleans whole segments, so the answer is an offset at which a segment begins.",
            "Which segment contains the last stable offset? The pass ends where that segment begins.",
        ),
        known_mistakes={
            "216 is the last stable offset. A pass cleans whole segments: which segment contains offset 216?": 216,
            "the active segment begins at 474; an open transaction stops the cleaner earlier": 474,
            "the log ends at 500; an open transaction stops the cleaner much earlier": 500,
        },
    ),
)
