"""Exercises of lesson 10: merge parts of a log, find a counterexample, estimate a time.

A log can be loaded in parts, and the results of the parts are then merged. The counterexample is a log for which the
classic and the new coordinator load different offsets.
"""

from __future__ import annotations

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.small_logs import load_small_log

Key = tuple[str, str]
NewestLines = dict[Key, tuple[int, int | None]]
"""For each key: the position of its newest line in the log, and the committed offset (None for a tombstone)."""
Point = tuple[int, int]
"""A number of records, and the milliseconds in which these records were loaded."""
_LETTERS = "CXTMA"
"""C: commit, X: commit in a transaction, T: tombstone, M: commit marker, A: abort marker (see small_logs.py)."""
_MAX_LETTERS = 4

# Exercise `merge`: first the correct function, then wrong functions that learners write. `left` and `right` are the
# results of two parts of a log. Either can come from the older part.


def _merge_parts(left: NewestLines, right: NewestLines) -> NewestLines:
    both = dict(left)
    for key, line in right.items():
        if key not in both or both[key][0] < line[0]:
            both[key] = line
    return both


def _prefer_right(left: NewestLines, right: NewestLines) -> NewestLines:
    return {**left, **right}


def _prefer_left(left: NewestLines, right: NewestLines) -> NewestLines:
    return {**right, **left}


def _prefer_larger_offset(left: NewestLines, right: NewestLines) -> NewestLines:
    both = dict(left)
    for key, line in right.items():
        if key not in both or (both[key][1] or 0) < (line[1] or 0):
            both[key] = line
    return both


def _drop_tombstones_after_merge(left: NewestLines, right: NewestLines) -> NewestLines:
    return {key: line for key, line in _merge_parts(left, right).items() if line[1] is not None}


def _drop_tombstones_before_merge(left: NewestLines, right: NewestLines) -> NewestLines:
    return _merge_parts(_drop_tombstones_after_merge(left, {}), _drop_tombstones_after_merge(right, {}))


def _keep_only_keys_of_left(left: NewestLines, right: NewestLines) -> NewestLines:
    return {key: line for key, line in _merge_parts(left, right).items() if key in left}


# Exercise `counterexample`: the function that finds a mistake.


def _find_mistake_in_letters(letters: str) -> str | None:
    """Return None if the classic and the new coordinator load different offsets from the log of these letters.

    Otherwise return a sentence that says what is wrong with the letters, or why both coordinators load the same offset.
    """
    if not set(letters) <= set(_LETTERS):
        return f"use only the letters {', '.join(_LETTERS)}"
    if len(letters) > _MAX_LETTERS:
        return f"use at most {_MAX_LETTERS} letters"
    classic_offset = load_small_log(letters, "classic", passes=0)[0]
    new_offset = load_small_log(letters, "new", passes=0)[0]
    if classic_offset != new_offset:
        return None
    if "M" not in letters or "X" not in letters:
        return "without a committed transaction, both coordinators give the same answer: use X, and M after X"
    if "T" not in letters:
        return "two commits are not enough: both coordinators choose the newer commit. Let T remove that commit"
    return f"both coordinators answer {classic_offset}. Put T between X and M: which coordinator removes X at T?"


# Exercise `milliseconds`: first the correct function, then wrong functions that learners write. They estimate how many
# milliseconds the load of a log with `records` records takes. `small` and `large` are the measurements of a small and
# of a large log. The time of a load is the start time, which is the same for every log, plus a time for each record.


def _estimate_milliseconds(small: Point, large: Point, records: int) -> int:
    slope = (large[1] - small[1]) / (large[0] - small[0])
    return round(small[1] + slope * (records - small[0]))


def _scale_large_log(small: Point, large: Point, records: int) -> int:
    return round(large[1] / large[0] * records)


def _scale_small_log(small: Point, large: Point, records: int) -> int:
    return round(small[1] / small[0] * records)


def _leave_out_start_time(small: Point, large: Point, records: int) -> int:
    return round((large[1] - small[1]) / (large[0] - small[0]) * records)


def _count_start_time_twice(small: Point, large: Point, records: int) -> int:
    return _leave_out_start_time(small, large, records) + small[1]


MERGE = """\
def merge(left, right):
    both = dict(left)
    for key, (at, value) in right.items():
        if key not in both or both[key][0] < at:
            both[key] = at, value                  # also a tombstone: a third part may contain an older line
    return both"""

COUNTEREXAMPLE = 'counterexample = "CXTM"'

MILLISECONDS = """\
def milliseconds(small, large, records):
    per_record = (large[1] - small[1]) / (large[0] - small[0])
    start = small[1] - per_record * small[0]
    return round(start + per_record * records)"""

_A = ("a", "orders-0")
_B = ("b", "orders-0")

EXERCISES = (
    Exercise(
        "merge",
        _merge_parts,
        MERGE,
        (
            "Begin with a copy of one part, dict(left), and loop over the other part.",
            "If both parts have a key, the line with the larger `at` wins. The value does not matter, not even None.",
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
            "the parts have no fixed order: the larger `at` wins, not always `right`": _prefer_right,
            "the parts have no fixed order: the larger `at` wins, not always `left`": _prefer_left,
            "a newer offset may be smaller: the larger `at` decides, not the larger offset": _prefer_larger_offset,
            "a tombstone must stay, because a third part may contain an older line": _drop_tombstones_after_merge,
            "a tombstone has a position too: compare it like every other line": _drop_tombstones_before_merge,
            "the result also contains the keys that only `right` has": _keep_only_keys_of_left,
        },
    ),
    Exercise(
        "counterexample",
        "CXTM",
        COUNTEREXAMPLE,
        (
            "The merge compares positions of commits and tombstones. When does the classic coordinator look at an X?",
            "At M. It compares X with the offset that is cached at that moment. After a tombstone there is none.",
        ),
        known_mistakes={
            "use only the letters C, X, T, M, A": "CXKM",
            "use at most 4 letters": "CXXTM",
            "without a committed transaction, both coordinators give the same answer: use X, and M after X": "CXTA",
            "two commits are not enough: both coordinators choose the newer commit. Let T remove that commit": ("CXCM"),
            "both coordinators answer None. Put T between X and M: which coordinator removes X at T?": "XMT",
        },
        find_mistake=_find_mistake_in_letters,
    ),
    Exercise(
        "milliseconds",
        _estimate_milliseconds,
        MILLISECONDS,
        (
            "How many more records and milliseconds does `large` have than `small`? Divide these numbers.",
            "Subtract the time of the records of `small` from its total time. The difference is the start time.",
        ),
        cases=(
            ((1, 400), (10, 1300), 100),
            ((1, 300), (4, 600), 10),
            ((2, 1000), (4, 1000), 50),
            ((1, 250), (10, 2500), 40),
        ),
        known_mistakes={
            "the start time does not grow with the number of records, it is the same for every log": _scale_large_log,
            "most of the small log's time is the start time: use both points": _scale_small_log,
            "add the start time": _leave_out_start_time,
            "the time of `small` already contains its records": _count_start_time_twice,
        },
    ),
)
