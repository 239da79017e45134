"""The class `Exercise`: correct answer, solution, hints, cases and known mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.groups.offsets import OffsetAndMetadata


@dataclass(frozen=True)
class Exercise:
    """One exercise, whose answer is a function or a value.

    `correct` is the answer of this package, which follows Kafka's rules, and `solution` the answer as a learner would
    write it. `course.check` compares the learner's results for all `cases`, each a tuple of arguments, with those of
    the solution, and the tests compare these with `correct`. The first of the `hints` helps least. `known_mistakes` are
    wrong answers, by the text that `course.check` prints for the same results.
    """

    name: str
    correct: Any
    solution: str
    hints: tuple[str, ...]
    cases: Sequence[tuple[Any, ...]] = ()
    known_mistakes: dict[str, Any] = field(default_factory=dict)


def make_commit(
    offset: int, *, commit_time: int = 0, expire_time: int | None = None, record_offset: int = 0
) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", commit_time, -1, expire_time, None, record_offset, record_offset)
