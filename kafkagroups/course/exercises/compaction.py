"""Exercises of lesson 08: which records remain after a pass, and where the cleaner stops.

The log cleaner compacts a log in passes. In a pass, it first fills the offset map: the newest offset of each key. Then
it removes the records that have a newer record with the same key. A segment is one file of a log. The last segment of a
log is the active segment, which the cleaner does not change.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.course.exercises.exercise import Exercise

Records = list[tuple[int, Any, Any]]
"""The offset, key and value of each record. The value of a tombstone (a record that deletes) is None."""


# Exercise `survivors`: first the correct function, then wrong functions that learners write. They return the offsets of
# the records that one pass keeps. `active` is the base offset of the active segment, at which this segment begins.


def _list_survivors(records: Records, active: int) -> list[int]:
    newest_offsets = {key: offset for offset, key, _ in records if offset < active}
    return [offset for offset, key, _ in records if offset >= active or newest_offsets[key] == offset]


def _keep_first(records: Records, active: int) -> list[int]:
    first_offsets = {key: offset for offset, key, _ in reversed(records) if offset < active}
    return [offset for offset, key, _ in records if offset >= active or first_offsets[key] == offset]


def _remove_tombstones(records: Records, active: int) -> list[int]:
    values = {offset: value for offset, _, value in records}
    return [offset for offset in _list_survivors(records, active) if values[offset] is not None]


def _map_active_segment(records: Records, active: int) -> list[int]:
    """Put the records of the active segment into the offset map too, which is the mistake."""
    newest_offsets = {key: offset for offset, key, _ in records}
    return [offset for offset, key, _ in records if offset >= active or newest_offsets[key] == offset]


def _leave_out_active_segment(records: Records, active: int) -> list[int]:
    return [offset for offset in _list_survivors(records, active) if offset < active]


def _return_list_positions(records: Records, active: int) -> list[int]:
    offsets = [offset for offset, _, _ in records]
    return [offsets.index(offset) for offset in _list_survivors(records, active)]


# Exercise `removed_by`: first the correct function, then wrong functions that learners write. They return the number of
# the pass that removes a tombstone, or None if no pass removes it. The first pass has the number 1. `passes` are the
# times of the passes, and `retention` is Kafka's setting delete.retention.ms, in the same unit. The first pass sets the
# delete horizon: its own time plus `retention`. From the horizon on, a later pass removes the tombstone.


def _find_removing_pass(passes: list[int], retention: int) -> int | None:
    later_passes = enumerate(passes[1:], 2)
    return next((number for number, time in later_passes if time >= passes[0] + retention), None)


def _remove_in_first_pass(passes: list[int], retention: int) -> int | None:
    return next((number for number, time in enumerate(passes, 1) if time >= passes[0] + retention), None)


def _remove_after_horizon(passes: list[int], retention: int) -> int | None:
    later_passes = enumerate(passes[1:], 2)
    return next((number for number, time in later_passes if time > passes[0] + retention), None)


def _move_horizon(passes: list[int], retention: int) -> int | None:
    """Let each pass set the horizon again, which is the mistake."""
    later_passes = zip(range(2, len(passes) + 1), passes, passes[1:], strict=False)
    return next((number for number, previous, time in later_passes if time >= previous + retention), None)


def _count_from_0(passes: list[int], retention: int) -> int | None:
    number = _find_removing_pass(passes, retention)
    return None if number is None else number - 1


SURVIVORS = """\
def survivors(records, active):
    newest = {}                                    # the offset map
    for offset, key, value in records:
        if offset < active:
            newest[key] = offset
    return [offset for offset, key, value in records if offset >= active or newest[key] == offset]"""

REMOVED_BY = """\
def removed_by(passes, retention):
    horizon = passes[0] + retention                # the first pass sets the horizon, and no pass changes it
    for number, time in enumerate(passes[1:], 2):
        if time >= horizon:
            return number
    return None"""

EXERCISES = (
    Exercise(
        "survivors",
        _list_survivors,
        SURVIVORS,
        (
            "Use two loops. The first loop fills a dict: for each key, the offset of its newest record below `active`.",
            "The second loop keeps each record at `active` or above, and each record whose offset is in the dict.",
            "Treat a tombstone like every other record: its value is None, but the value does not matter here.",
        ),
        cases=(
            ([(0, "a", "1"), (1, "b", "1"), (2, "a", "2")], 3),
            ([(4, "a", "1"), (9, "b", "1"), (12, "a", "2"), (13, "a", "3")], 14),
            ([(0, "a", "1"), (1, "a", None), (2, "b", "1")], 3),
            ([(0, "a", "1"), (1, "b", "1"), (2, "a", "2"), (3, "a", "3")], 2),
            ([], 0),
        ),
        known_mistakes={
            "the newest record of a key stays, not the oldest record": _keep_first,
            "a tombstone is the newest record of its key, so this pass keeps it": _remove_tombstones,
            "the map ends at `active`: records of the active segment supersede no record yet": _map_active_segment,
            "the cleaner does not touch the active segment: all its records stay": _leave_out_active_segment,
            "return the offsets, not their positions in the list": _return_list_positions,
        },
    ),
    Exercise(
        "removed_by",
        _find_removing_pass,
        REMOVED_BY,
        (
            "The first pass sets the horizon, passes[0] + retention, and removes nothing.",
            "The tombstone is removed by the first later pass whose time is at or after the horizon.",
        ),
        cases=(
            ([0, 100, 200], 60),
            ([0, 50, 60, 100], 60),
            ([10, 20], 0),
            ([0, 50, 100, 150], 60),
            ([0, 10], 60),
        ),
        known_mistakes={
            "the pass that sets the horizon removes nothing, even if the retention is 0": _remove_in_first_pass,
            "a pass at the time of the horizon removes the tombstone: >=, not >": _remove_after_horizon,
            "the first pass sets the horizon; later passes do not change it": _move_horizon,
            "the first pass is number 1": _count_from_0,
        },
    ),
    Exercise(
        "cleaner_stops_at",
        207,
        "cleaner_stops_at = 207",
        (
            "A pass cleans whole segments, so the answer is an offset at which a segment begins.",
            "Which segment contains the last stable offset? The pass ends where that segment begins.",
        ),
        known_mistakes={
            "that is the last stable offset. A pass cleans whole segments: where does this segment begin?": 216,
            "the active segment begins there. An open transaction stops the cleaner earlier": 474,
            "the log ends there; an open transaction stops the cleaner much earlier": 500,
        },
    ),
)
