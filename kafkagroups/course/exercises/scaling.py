"""Exercises of lesson 12: merge parts of a log, find a counterexample, estimate a time.

A log can be loaded in parts, and the results of the parts can be merged. The counterexample is a log from which the
classic and the new coordinator load different offsets.

Each key of `known_mistakes` is the correction that the learner sees. Its value is the wrong answer.
"""

from __future__ import annotations

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.small_logs import load_small_log

Key = tuple[str, str]
"""A group id and a partition such as "orders-0"."""
NewestLine = tuple[int, int | None]
"""The position of a line in the log, and the committed offset. The committed offset is None for a tombstone."""
NewestLines = dict[Key, NewestLine]
"""For each key: the newest line in one part of the log."""
Measurement = tuple[int, int]
"""A number of records, and the time in which these records were loaded, in milliseconds."""
_LETTERS = "CXTMA"
"""C: commit, X: commit in a transaction, T: tombstone, M: commit marker, A: abort marker (see small_logs.py)."""
_MAX_LETTERS = 4

# Exercise `merge`: what are the newest lines of two parts of a log? `left` and `right` are the newest lines of each
# part. `left` or `right` can be the older part. In the lesson, the position of a line is named `at`.
# `_merge_parts` is correct. The functions after it contain mistakes of learners, or are helpers.


def _merge_parts(left: NewestLines, right: NewestLines) -> NewestLines:
    merged = dict(left)
    for key, line in right.items():
        merged[key] = max(left.get(key, line), line, key=_read_position)
    return merged


def _read_position(line: NewestLine) -> int:
    position, _ = line
    return position


def _prefer_right(left: NewestLines, right: NewestLines) -> NewestLines:
    return {**left, **right}


def _prefer_left(left: NewestLines, right: NewestLines) -> NewestLines:
    return {**right, **left}


def _prefer_larger_offset(left: NewestLines, right: NewestLines) -> NewestLines:
    merged = dict(left)
    for key, line in right.items():
        merged[key] = max(left.get(key, line), line, key=_read_offset_or_0)
    return merged


def _read_offset_or_0(line: NewestLine) -> int:
    _, offset = line
    return offset or 0


def _drop_tombstones(lines: NewestLines) -> NewestLines:
    return {key: (position, offset) for key, (position, offset) in lines.items() if offset is not None}


def _drop_tombstones_after_merge(left: NewestLines, right: NewestLines) -> NewestLines:
    return _drop_tombstones(_merge_parts(left, right))


def _drop_tombstones_before_merge(left: NewestLines, right: NewestLines) -> NewestLines:
    return _merge_parts(_drop_tombstones(left), _drop_tombstones(right))


def _keep_only_keys_of_left(left: NewestLines, right: NewestLines) -> NewestLines:
    merged = _merge_parts(left, right)
    return {key: merged[key] for key in left}


# Exercise `counterexample`: from which log do the classic and the new coordinator load different offsets? The answer is
# the letters of the log.


def _find_mistake_in_letters(letters: str) -> str | None:
    """Return a sentence that explains the mistake in an answer, or None if the answer is correct."""
    if not set(letters) <= set(_LETTERS):
        return f"use only the letters {', '.join(_LETTERS)}"
    if len(letters) > _MAX_LETTERS:
        return f"use at most {_MAX_LETTERS} letters"
    [classic_offset] = load_small_log(letters, "classic", passes=0)
    [new_offset] = load_small_log(letters, "new", passes=0)
    if classic_offset != new_offset:
        return None
    if "M" not in letters or "X" not in letters:
        return "without a committed transaction, both coordinators load the same offset: use X, and M after X"
    if "T" not in letters:
        return "two commits are not enough: both coordinators load the newer one. Let T delete the plain commit"
    return f"both coordinators load {classic_offset}. Put T between X and M: which coordinator deletes X at T?"


# Exercise `milliseconds`: how many milliseconds does the load of a log with `records` records take? `small` and `large`
# are the measurements of a small and of a large log. A load takes a start time, which is the same for every log, and a
# time for each record.
# `_estimate_milliseconds` is correct. The functions after it contain mistakes of learners.


def _compute_milliseconds_per_record(small: Measurement, large: Measurement) -> float:
    small_records, small_milliseconds = small
    large_records, large_milliseconds = large
    return (large_milliseconds - small_milliseconds) / (large_records - small_records)


def _estimate_milliseconds(small: Measurement, large: Measurement, records: int) -> int:
    small_records, small_milliseconds = small
    return round(small_milliseconds + _compute_milliseconds_per_record(small, large) * (records - small_records))


def _scale_large_log(small: Measurement, large: Measurement, records: int) -> int:
    large_records, large_milliseconds = large
    return round(large_milliseconds / large_records * records)


def _scale_small_log(small: Measurement, large: Measurement, records: int) -> int:
    small_records, small_milliseconds = small
    return round(small_milliseconds / small_records * records)


def _leave_out_start_time(small: Measurement, large: Measurement, records: int) -> int:
    return round(_compute_milliseconds_per_record(small, large) * records)


def _add_whole_time_of_small_log(small: Measurement, large: Measurement, records: int) -> int:
    _, small_milliseconds = small
    return _leave_out_start_time(small, large, records) + small_milliseconds


_MERGE_SOLUTION = """\
def merge(left, right):
    both = dict(left)
    for key, (at, value) in right.items():
        if key not in both or both[key][0] < at:
            both[key] = at, value                  # also a tombstone: a third part may contain an older line
    return both"""

_COUNTEREXAMPLE_SOLUTION = 'counterexample = "CXTM"'

_MILLISECONDS_SOLUTION = """\
def milliseconds(small, large, records):
    per_record = (large[1] - small[1]) / (large[0] - small[0])
    start = small[1] - per_record * small[0]
    return round(start + per_record * records)"""

# The keys of the cases.
_A = ("a", "orders-0")
_B = ("b", "orders-0")

EXERCISES = (
    Exercise(
        name="merge",
        correct=_merge_parts,
        solution=_MERGE_SOLUTION,
        hints=(
            "Begin with a copy of one part, dict(left), and loop over the other part.",
            "If both parts have a key, keep the line with the larger `at`, also if its value is None.",
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
            "`right` can be the older part: the larger `at` wins": _prefer_right,
            "`left` can be the older part: the larger `at` wins": _prefer_left,
            "a newer offset may be smaller: the larger `at` decides, not the larger offset": _prefer_larger_offset,
            "keep a tombstone in the result, because a third part may have an older line": _drop_tombstones_after_merge,
            "a tombstone has a position too: compare it like every other line": _drop_tombstones_before_merge,
            "the result also contains the keys that only `right` has": _keep_only_keys_of_left,
        },
    ),
    Exercise(
        name="counterexample",
        correct="CXTM",
        solution=_COUNTEREXAMPLE_SOLUTION,
        hints=(
            "A merge compares the positions of all lines. When does the classic coordinator compare an X?",
            "At M. The coordinator then compares X with the cached offset. After a tombstone, no offset is cached.",
        ),
        # Only the tests use these: for each value, `find_mistake` must return its key.
        known_mistakes={
            "use only the letters C, X, T, M, A": "CXKM",
            "use at most 4 letters": "CXXTM",
            "without a committed transaction, both coordinators load the same offset: use X, and M after X": "CXTA",
            "two commits are not enough: both coordinators load the newer one. Let T delete the plain commit": "CXCM",
            "both coordinators load None. Put T between X and M: which coordinator deletes X at T?": "XMT",
        },
        find_mistake=_find_mistake_in_letters,
    ),
    Exercise(
        name="milliseconds",
        correct=_estimate_milliseconds,
        solution=_MILLISECONDS_SOLUTION,
        hints=(
            "Divide the difference of the two times by the difference of the two numbers of records.",
            "The start time is the time of `small` minus the time for the records of `small`.",
        ),
        cases=(
            ((1, 400), (10, 1300), 100),
            ((1, 300), (4, 600), 10),
            ((2, 1000), (4, 1000), 50),
            ((1, 250), (10, 2500), 40),
        ),
        known_mistakes={
            "the start time is the same for every log: it does not grow with the number of records": _scale_large_log,
            "most of the time of `small` is the start time: use both measurements": _scale_small_log,
            "also add the start time": _leave_out_start_time,
            "add only the start time of `small`, not its whole time": _add_whole_time_of_small_log,
        },
    ),
)
