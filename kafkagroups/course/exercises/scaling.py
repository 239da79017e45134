"""The exercises of lesson 10: joining what two machines folded, a log that must not be split, and a straight line."""

from __future__ import annotations

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.small_logs import load_small_log

Key = tuple[str, str]
Newest = dict[Key, tuple[int, int | None]]
"""What a part of a log says: of each key the newest line's place and offset, None for a tombstone."""
Point = tuple[int, int]
LETTERS, MOST = "CXTMA", 4


def _merge(left: Newest, right: Newest) -> Newest:
    both = dict(left)
    for key, there in right.items():
        if key not in both or both[key][0] < there[0]:
            both[key] = there
    return both


def _larger_offset(left: Newest, right: Newest) -> Newest:
    both = dict(left)
    for key, there in right.items():
        if key not in both or (both[key][1] or 0) < (there[1] or 0):
            both[key] = there
    return both


def _without_tombstones(left: Newest, right: Newest) -> Newest:
    return {key: there for key, there in _merge(left, right).items() if there[1] is not None}


def _tombstones_lose(left: Newest, right: Newest) -> Newest:
    return _merge(_without_tombstones(left, {}), _without_tombstones(right, {}))


def _common(left: Newest, right: Newest) -> Newest:
    return {key: there for key, there in _merge(left, right).items() if key in left}


def _disagreement(letters: str) -> str | None:
    """What is wrong with a log that should tell the classic coordinator from the maximum; None: nothing."""
    if not set(letters) <= set(LETTERS):
        return f"a log of the letters {', '.join(LETTERS)} is wanted"
    if len(letters) > MOST:
        return f"it can be done with {MOST} letters, and with fewer"
    classic, newest = (load_small_log(letters, coordinator, passes=0)[0] for coordinator in ("classic", "new"))
    if classic != newest:
        return None
    if "M" not in letters or "X" not in letters:
        return "without a transaction that is committed both see the same: X and, somewhere behind it, M"
    if "T" not in letters:
        return "two commits do not suffice, the newer one wins for both: something must take the newer one away"
    return f"both answer {classic}. Between X and its M the tombstone must find something that it can't see"


def _milliseconds(small: Point, large: Point, records: int) -> int:
    slope = (large[1] - small[1]) / (large[0] - small[0])
    return round(small[1] + slope * (records - small[0]))


def _through_zero(small: Point, large: Point, records: int) -> int:
    return round(large[1] / large[0] * records)


def _small_through_zero(small: Point, large: Point, records: int) -> int:
    return round(small[1] / small[0] * records)


def _slope_only(small: Point, large: Point, records: int) -> int:
    return round((large[1] - small[1]) / (large[0] - small[0]) * records)


def _start_counted_twice(small: Point, large: Point, records: int) -> int:
    return _slope_only(small, large, records) + small[1]


MERGE = """\
def merge(left, right):
    both = dict(left)
    for key, (at, value) in right.items():
        if key not in both or both[key][0] < at:
            both[key] = at, value                  # a tombstone too: a third part may hold something older
    return both"""

COUNTEREXAMPLE = 'counterexample = "CXTM"'

MILLISECONDS = """\
def milliseconds(small, large, records):
    each = (large[1] - small[1]) / (large[0] - small[0])
    start = small[1] - each * small[0]
    return round(start + each * records)"""

_A, _B = ("a", "orders-0"), ("b", "orders-0")

EXERCISES = (
    Exercise(
        "merge",
        _merge,
        MERGE,
        (
            "Begin with a copy of one, dict(left), and walk through the other.",
            "A key that both know: the larger `at` wins, whatever the values are. None is a value like any other.",
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
            "the parts come in any order: the larger `at` wins, not the right one": lambda a, b: {**a, **b},
            "the parts come in any order: the larger `at` wins, not the left one": lambda a, b: {**b, **a},
            "an offset may go back: the larger `at` decides, not the larger offset": _larger_offset,
            "a tombstone must stay, for a third part may hold something older": _without_tombstones,
            "a tombstone is newer or older like any line": _tombstones_lose,
            "keys that only the right part knows belong to the answer": _common,
        },
    ),
    Exercise(
        "counterexample",
        "CXTM",
        COUNTEREXAMPLE,
        (
            "The maximum knows where each commit and each tombstone stands. When does the classic one look at an X?",
            "At M. It compares X with what is there *then*. If a tombstone took that away, nothing is there.",
        ),
        known_mistakes={
            "a log of the letters C, X, T, M, A is wanted": "CXKM",
            "it can be done with 4 letters, and with fewer": "CXXTM",
            "without a transaction that is committed both see the same: X and, somewhere behind it, M": "CXTA",
            "two commits do not suffice, the newer one wins for both: something must take the newer one away": "CXCM",
            "both answer None. Between X and its M the tombstone must find something that it can't see": "XMT",
        },
        find_mistake=_disagreement,
    ),
    Exercise(
        "milliseconds",
        _milliseconds,
        MILLISECONDS,
        (
            "From small to large: how many records more, how many milliseconds more? That is what a record costs.",
            "What is left of `small` when its records are paid for is the start; it is paid once.",
        ),
        cases=(
            ((1, 400), (10, 1300), 100),
            ((1, 300), (4, 600), 10),
            ((2, 1000), (4, 1000), 50),
            ((1, 250), (10, 2500), 40),
        ),
        known_mistakes={
            "what is paid once, however long the log is, must not grow with it": _through_zero,
            "the small log's time is mostly its start: take both": _small_through_zero,
            "what is paid once must be paid": _slope_only,
            "the records of `small` are in its time already": _start_counted_twice,
        },
    ),
)
