"""Exercises of lesson 10: merging parts of a log, a counterexample, a straight line."""

from __future__ import annotations

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.small_logs import load_small_log

Key = tuple[str, str]
Newest = dict[Key, tuple[int, int | None]]
"""For each key of a part of a log: where its newest line is, and its offset (None for a tombstone)."""
Point = tuple[int, int]
"""A number of records and the milliseconds that they took."""
_LETTERS = "CXTMA"
_MOST_LETTERS = 4

# Exercise `merge`: first the correct function, then wrong ones that learners write.


def _merge(left: Newest, right: Newest) -> Newest:
    both = dict(left)
    for key, newest in right.items():
        if key not in both or both[key][0] < newest[0]:
            both[key] = newest
    return both


def _prefer_right(left: Newest, right: Newest) -> Newest:
    return {**left, **right}


def _prefer_left(left: Newest, right: Newest) -> Newest:
    return {**right, **left}


def _prefer_larger_offset(left: Newest, right: Newest) -> Newest:
    both = dict(left)
    for key, newest in right.items():
        if key not in both or (both[key][1] or 0) < (newest[1] or 0):
            both[key] = newest
    return both


def _drop_tombstones(left: Newest, right: Newest) -> Newest:
    return {key: newest for key, newest in _merge(left, right).items() if newest[1] is not None}


def _ignore_tombstones(left: Newest, right: Newest) -> Newest:
    return _merge(_drop_tombstones(left, {}), _drop_tombstones(right, {}))


def _keep_keys_of_left(left: Newest, right: Newest) -> Newest:
    return {key: newest for key, newest in _merge(left, right).items() if key in left}


# Exercise `counterexample`: the function that finds a mistake.


def _find_mistake_in_log(letters: str) -> str | None:
    """Return why the classic coordinator and the merge agree on this log, or None if they disagree."""
    if not set(letters) <= set(_LETTERS):
        return f"use only the letters {', '.join(_LETTERS)}"
    if len(letters) > _MOST_LETTERS:
        return f"{_MOST_LETTERS} letters are enough"
    classic = load_small_log(letters, "classic", passes=0)[0]
    newest = load_small_log(letters, "new", passes=0)[0]
    if classic != newest:
        return None
    if "M" not in letters or "X" not in letters:
        return "without a committed transaction both give the same answer: use X, and M after it"
    if "T" not in letters:
        return "two commits are not enough, because both choose the newer one: a tombstone must remove the newer one"
    return f"both answer {classic}. Put the tombstone between X and its M: does it remove X there?"


# Exercise `milliseconds`: first the correct function, then wrong ones that learners write.


def _milliseconds(small: Point, large: Point, records: int) -> int:
    slope = (large[1] - small[1]) / (large[0] - small[0])
    return round(small[1] + slope * (records - small[0]))


def _scale_large(small: Point, large: Point, records: int) -> int:
    return round(large[1] / large[0] * records)


def _scale_small(small: Point, large: Point, records: int) -> int:
    return round(small[1] / small[0] * records)


def _forget_start(small: Point, large: Point, records: int) -> int:
    return round((large[1] - small[1]) / (large[0] - small[0]) * records)


def _count_start_twice(small: Point, large: Point, records: int) -> int:
    return _forget_start(small, large, records) + small[1]


MERGE = """\
def merge(left, right):
    both = dict(left)
    for key, (at, value) in right.items():
        if key not in both or both[key][0] < at:
            both[key] = at, value                  # also a tombstone: a third part may hold something older
    return both"""

COUNTEREXAMPLE = 'counterexample = "CXTM"'

MILLISECONDS = """\
def milliseconds(small, large, records):
    each = (large[1] - small[1]) / (large[0] - small[0])
    start = small[1] - each * small[0]
    return round(start + each * records)"""

_A = ("a", "orders-0")
_B = ("b", "orders-0")

EXERCISES = (
    Exercise(
        "merge",
        _merge,
        MERGE,
        (
            "Begin with a copy of one part, dict(left), and loop over the other.",
            "If both have a key, the larger `at` wins, no matter what the values are. None is a value like any other.",
        ),
        cases=(
            ({_A: (3, 30)}, {_B: (5, 50)}),
            ({_A: (3, 30)}, {_A: (5, 50)}),
            ({_A: (5, 50)}, {_A: (3, 30)}),
            ({_A: (3, 30)}, {_A: (5, 25)}),
            ({_A: (3, 30)}, {_A: (5, None)}),
            ({_A: (5, None), _B: (1, 10)}, {_A: (3, 30)}),
            ({}, {_A: (5, None)}),
        ),
        known_mistakes={
            "the parts come in any order: the larger `at` wins, not the right part": _prefer_right,
            "the parts come in any order: the larger `at` wins, not the left part": _prefer_left,
            "an offset may go back: the larger `at` decides, not the larger offset": _prefer_larger_offset,
            "a tombstone must stay, because a third part may hold something older": _drop_tombstones,
            "a tombstone is newer or older like any other line": _ignore_tombstones,
            "keys that only the right part has belong to the answer": _keep_keys_of_left,
        },
    ),
    Exercise(
        "counterexample",
        "CXTM",
        COUNTEREXAMPLE,
        (
            "The maximum compares the positions of all commits and tombstones. When does the classic one look at an X?",
            "At M. It compares X with the offset that it has *then*. If a tombstone removed that offset, it has none.",
        ),
        known_mistakes={
            "use only the letters C, X, T, M, A": "CXKM",
            "4 letters are enough": "CXXTM",
            "without a committed transaction both give the same answer: use X, and M after it": "CXTA",
            "two commits are not enough, because both choose the newer one: a tombstone must remove the newer one": (
                "CXCM"
            ),
            "both answer None. Put the tombstone between X and its M: does it remove X there?": "XMT",
        },
        find_mistake=_find_mistake_in_log,
    ),
    Exercise(
        "milliseconds",
        _milliseconds,
        MILLISECONDS,
        (
            "How many more records and how many more milliseconds has `large`? Divide: that is the time of one record.",
            "Subtract the time of its records from `small`. The rest is the start, which every log has once.",
        ),
        cases=(
            ((1, 400), (10, 1300), 100),
            ((1, 300), (4, 600), 10),
            ((2, 1000), (4, 1000), 50),
            ((1, 250), (10, 2500), 40),
        ),
        known_mistakes={
            "the start costs the same for every log, so it must not grow with the number of records": _scale_large,
            "the small log's time is mostly its start: use both points": _scale_small,
            "add the time of the start": _forget_start,
            "the time of `small` already contains its records": _count_start_twice,
        },
    ),
)
