"""The exercises of lesson 10."""

from __future__ import annotations

from typing import Any

from kafkagroups.course.exercises.exercise import Exercise

Records = list[tuple[int, Any, Any]]
"""The offset, key and value of each record. The value of a tombstone is None."""


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


def _ignore_active_segment(records: Records, active_offset: int) -> list[int]:
    newest_offsets = {key: offset for offset, key, _ in records}
    return [offset for offset, key, _ in records if newest_offsets[key] == offset]


def _remove_active_segment(records: Records, active_offset: int) -> list[int]:
    return [offset for offset in _list_survivors(records, active_offset) if offset < active_offset]


def _return_list_positions(records: Records, active_offset: int) -> list[int]:
    offsets = [offset for offset, _, _ in records]
    return [offsets.index(offset) for offset in _list_survivors(records, active_offset)]


# Exercise `removing_pass`: which pass removes a tombstone? Times are in hours.


def _find_removing_pass(pass_times: list[int], retention: int) -> int | None:
    """Return the number of the pass that removes a tombstone, from 1: the first later one at or after the delete
    horizon.
    """
    horizon = pass_times[0] + retention
    return next((number for number, time in enumerate(pass_times[1:], 2) if time >= horizon), None)


_SURVIVORS_SOLUTION = """\
def survivors(records, active_offset):
    newest = {}                                    # the offset map
    for offset, key, value in records:
        if offset < active_offset:
            newest[key] = offset
    return [offset for offset, key, value in records if offset >= active_offset or newest[key] == offset]"""

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
            "leave out the active segment: its records replace nothing, and all of them stay": _ignore_active_segment,
            "return the offsets, not their positions in the list": _return_list_positions,
        },
    ),
    Exercise(
        name="removing_pass",
        correct=_find_removing_pass([10, 20, 34, 50], 24),
        solution="removing_pass = 3   # the horizon is 10 + 24 = 34, and pass 3 is at 34",
        hints=(
            "The first pass sets the horizon: its own time plus 24 hours. It removes nothing.",
            "The first later pass at or after the horizon removes the tombstone. A pass exactly at the horizon counts.",
        ),
        known_mistakes={
            "A pass exactly at the horizon removes the tombstone": 4,
            "The horizon is 24 hours after the first pass, not after the tombstone was written": 2,
            "The first pass only sets the horizon": 1,
        },
    ),
    Exercise(
        name="needs_an_abort",
        correct="B",
        solution='needs_an_abort = "B"   # the cleaner stops at the old last stable offset, on every replica',
        hints=(
            "An open transaction is in the log, so all replicas have it.",
            "Which of the three has a last stable offset that is not the log end?",
        ),
        known_mistakes={
            "Only one broker is affected, and no transaction is open: the cleaner thread of this broker is dead": "A",
            "An active segment of up to 100 MB is normal (segment.bytes)": "C",
        },
    ),
)
