"""The exercises of lesson 12."""

from __future__ import annotations

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.log_parts import NewestLine, PartResult, merge_results

# Exercise `merge`: functions that contain mistakes of learners.


def _prefer_right(left: PartResult, right: PartResult) -> PartResult:
    return {**left, **right}


def _prefer_left(left: PartResult, right: PartResult) -> PartResult:
    return {**right, **left}


def _prefer_larger_offset(left: PartResult, right: PartResult) -> PartResult:
    merged = dict(left)
    for key, line in right.items():
        merged[key] = max(left.get(key, line), line, key=_read_offset_or_0)
    return merged


def _read_offset_or_0(line: NewestLine) -> int:
    _, offset = line
    return offset or 0


def _drop_tombstones(result: PartResult) -> PartResult:
    return {key: (position, offset) for key, (position, offset) in result.items() if offset is not None}


def _drop_tombstones_after_merge(left: PartResult, right: PartResult) -> PartResult:
    return _drop_tombstones(merge_results(left, right))


def _drop_tombstones_before_merge(left: PartResult, right: PartResult) -> PartResult:
    return merge_results(_drop_tombstones(left), _drop_tombstones(right))


def _keep_only_keys_of_left(left: PartResult, right: PartResult) -> PartResult:
    merged = merge_results(left, right)
    return {key: merged[key] for key in left}


_MERGE_SOLUTION = """\
def merge(left, right):
    both = dict(left)
    for key, (at, value) in right.items():
        if key not in both or both[key][0] < at:
            both[key] = at, value                  # also a tombstone: a third part may contain an older line
    return both"""

# The keys of the cases.
_A = ("a", "orders-0")
_B = ("b", "orders-0")

EXERCISES = (
    Exercise(
        name="merge",
        correct=merge_results,
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
            "`right` can be the earlier part: the larger `at` wins": _prefer_right,
            "`left` can be the earlier part: the larger `at` wins": _prefer_left,
            "a newer offset may be smaller: the larger `at` decides, not the larger offset": _prefer_larger_offset,
            "keep a tombstone in the result, because a third part may have an older line": _drop_tombstones_after_merge,
            "a tombstone has a position too: compare it like every other line": _drop_tombstones_before_merge,
            "the result also contains the keys that only `right` has": _keep_only_keys_of_left,
        },
    ),
    # Exercise `equal_at`: n / 10 = 9 + n / 100.
    Exercise(
        name="equal_at",
        correct=100,
        solution="equal_at = 100   # n / 10 = 9 + n / 100",
        hints=(
            "Write down the seconds of each way for n million records.",
            "One process needs n / 10 seconds. Spark needs its 9 seconds, and then time for the records.",
        ),
        known_mistakes={
            "One process has loaded 90 million when Spark begins. Spark needs time for its records, too": 90,
            "900 million records are what Spark loads in 9 seconds. Compare the total times of both ways": 900,
            "Spark reads 10 times as fast, but it also needs 9 seconds before it reads anything": 10,
            "10 million records take one process 1 second. Spark is then still starting": 9,
        },
    ),
    Exercise(
        name="for_spark",
        correct="C",
        solution='for_spark = "C"   # many machines can read, and the result is needed in Spark',
        hints=(
            "What does Spark add? Many machines that read at the same time.",
            "One machine loads some million records per second. Which of the three is too much for it?",
        ),
        known_mistakes={
            "One task reads the large partition, and 19 machines wait for it. One process takes as long": "A",
            "One process loads 3 GB in seconds. Only the new records of each minute are needed: use a snapshot": "B",
        },
    ),
)
