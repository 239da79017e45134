"""The class `Exercise`: correct answer, solution, hints, cases and known mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Exercise:
    """One exercise. The learner's answer is a function or a value.

    Attributes
    ----------
    name
        The name that the learner gives to `course.check`.
    correct
        The correct answer: a function of this package that follows Kafka's rules, or a value.
    solution
        The code of the answer as a learner would write it. `course.solution` prints it, the solved notebook contains
        it, and `course.check` runs it: a learner's function must return the same results for all `cases`. The tests
        compare it with `correct`.
    hints
        The hints. The first hint helps least, and the last hint helps most.
    cases
        One tuple of arguments for each call of the learner's function. If the answer is a value, there are no cases.
    known_mistakes
        Wrong answers, by the text that corrects them. A wrong answer is a function if `correct` is a function.
        `course.check` prints the text if the learner's answer gives the same results as the wrong answer.
    """

    name: str
    correct: Any
    solution: str
    hints: tuple[str, ...]
    cases: Sequence[tuple[Any, ...]] = ()
    known_mistakes: dict[str, Any] = field(default_factory=dict)
