"""The exercises of lesson 08: which records survive a pass of the cleaner, and where the cleaner stops."""

from __future__ import annotations

from typing import Any

from kafkagroups.course.exercises.exercise import Exercise

Records = list[tuple[int, Any, Any]]


def _survivors(records: Records, active: int) -> list[int]:
    newest = {key: offset for offset, key, _ in records if offset < active}
    return [offset for offset, key, _ in records if offset >= active or newest[key] == offset]


def _first_wins(records: Records, active: int) -> list[int]:
    first = {key: offset for offset, key, _ in reversed(records) if offset < active}
    return [offset for offset, key, _ in records if offset >= active or first[key] == offset]


def _no_tombstones(records: Records, active: int) -> list[int]:
    values = {offset: value for offset, _, value in records}
    return [offset for offset in _survivors(records, active) if values[offset] is not None]


def _map_of_all(records: Records, active: int) -> list[int]:
    newest = {key: offset for offset, key, _ in records}
    return [offset for offset, key, _ in records if offset >= active or newest[key] == offset]


def _removed_by(passes: list[int], retention: int) -> int | None:
    later = enumerate(passes[1:], 2)
    return next((number for number, time in later if time >= passes[0] + retention), None)


def _removed_at_once(passes: list[int], retention: int) -> int | None:
    return next((number for number, time in enumerate(passes, 1) if time >= passes[0] + retention), None)


def _removed_after(passes: list[int], retention: int) -> int | None:
    return next((number for number, time in enumerate(passes[1:], 2) if time > passes[0] + retention), None)


def _horizon_moves(passes: list[int], retention: int) -> int | None:
    later = zip(range(2, len(passes) + 1), passes, passes[1:], strict=False)
    return next((number for number, before, time in later if time >= before + retention), None)


def _counted_from_0(passes: list[int], retention: int) -> int | None:
    number = _removed_by(passes, retention)
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
    horizon = passes[0] + retention                # set by the first pass, never changed
    for number, time in enumerate(passes[1:], 2):
        if time >= horizon:
            return number
    return None"""

EXERCISES = (
    Exercise(
        "survivors",
        _survivors,
        SURVIVORS,
        (
            "Two walks. The first fills a dict: for each key the offset of its newest record below `active`.",
            "The second keeps what stands at `active` or above, and each record that the dict names for its key.",
            "A tombstone is a record like any other here: value is None, and nobody looks at it.",
        ),
        cases=(
            ([(0, "a", "1"), (1, "b", "1"), (2, "a", "2")], 3),
            ([(4, "a", "1"), (9, "b", "1"), (12, "a", "2"), (13, "a", "3")], 14),
            ([(0, "a", "1"), (1, "a", None), (2, "b", "1")], 3),
            ([(0, "a", "1"), (1, "b", "1"), (2, "a", "2"), (3, "a", "3")], 2),
            ([], 0),
        ),
        known_mistakes={
            "the newest record of a key stays, not the first": _first_wins,
            "a tombstone is the newest record of its key, so this pass keeps it": _no_tombstones,
            "the map ends at `active`: what stands behind it supersedes nothing yet": _map_of_all,
            "the active segment is left alone: all its records stay": lambda records, active: [
                offset for offset in _survivors(records, active) if offset < active
            ],
            "the offsets are wanted, not their places in the list": lambda records, active: [
                [offset for offset, _, _ in records].index(offset) for offset in _survivors(records, active)
            ],
        },
    ),
    Exercise(
        "removed_by",
        _removed_by,
        REMOVED_BY,
        (
            "The first pass sets the horizon, passes[0] + retention, and removes nothing.",
            "Of the passes from the second on, the first whose time is at or after the horizon removes it.",
        ),
        cases=(
            ([0, 100, 200], 60),
            ([0, 50, 60, 100], 60),
            ([10, 20], 0),
            ([0, 50, 100, 150], 60),
            ([0, 10], 60),
        ),
        known_mistakes={
            "a pass that sets the horizon removes nothing, even if the horizon is now": _removed_at_once,
            "at the horizon itself it goes: >=, not >": _removed_after,
            "the horizon is set once; later passes leave it as it is": _horizon_moves,
            "the first pass is number 1": _counted_from_0,
        },
    ),
    Exercise(
        "cleaner_stops_at",
        207,
        "cleaner_stops_at = 207",
        (
            "Neither the last stable offset itself nor the active segment: a pass takes whole segments.",
            "Which segment holds the last stable offset? The pass ends where that one begins.",
        ),
        known_mistakes={
            "that is the last stable offset. A pass takes whole segments: where does the one that holds it begin?": 216,
            "there the active segment begins. Something else stops the cleaner earlier": 474,
            "the log ends there; the open transaction stops the cleaner long before": 500,
        },
    ),
)
