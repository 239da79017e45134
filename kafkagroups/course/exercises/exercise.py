"""The class `Exercise`: correct answer, solution, hints, cases and known mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.groups.offsets import OffsetAndMetadata


@dataclass(frozen=True)
class Exercise:
    """One exercise, whose answer is a function or a value.

    Attributes
    ----------
    correct
        The correct answer: a function of this package that follows Kafka's rules, or a value.
    solution
        The answer as a learner would write it. `course.check` compares the learner's results for all `cases` with it,
        and the tests compare it with `correct`.
    hints
        The hints, from the one that helps least to the one that helps most.
    cases
        One tuple of arguments for each call of the learner's function.
    known_mistakes
        Wrong answers, by the text that `course.check` prints if the learner's answer gives the same results.
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
    """Return a committed offset without metadata, leader epoch and topic id, in a batch of its own."""
    return OffsetAndMetadata(offset, "", commit_time, -1, expire_time, None, record_offset, record_offset)
