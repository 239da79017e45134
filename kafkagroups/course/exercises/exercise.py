"""What an exercise consists of: correct answer, solution, hints, cases, known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Exercise:
    """One exercise. The learner writes either a function or one value.

    Attributes
    ----------
    name
        The name that the learner gives to `course.check`.
    correct
        The function that the learner's function must agree with, or the correct value. If several values are correct,
        it is one of them.
    solution
        The solution as a learner would write it. `course.solution` prints it, and the solved notebook contains it.
    hints
        From the smallest to the largest.
    cases
        Only for a function: the arguments of each call that is compared.
    known_mistakes
        A sentence that explains a mistake, with the wrong function or the wrong value that the mistake leads to.
        For a function, `course.check` reads this after a case failed: it prints the sentence of a function that gives
        the learner's result in that case. For a value, `course.check` reads this only if the learner's value has the
        same type as `correct`. A value of another type gets a message about its type instead.
    find_mistake
        Only for an exercise with several correct values: a function of the learner's value. It returns a sentence that
        explains the mistake, or None if the value is correct. `course.check` calls it only if the value has the same
        type as `correct`. It then does not read `known_mistakes`; the tests do.
    """

    name: str
    correct: Any
    solution: str
    hints: tuple[str, ...]
    cases: Sequence[tuple[Any, ...]] = ()
    known_mistakes: dict[str, Any] = field(default_factory=dict)
    find_mistake: Callable[[Any], str | None] | None = None
