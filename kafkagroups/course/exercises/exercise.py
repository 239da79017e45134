"""The class `Exercise`: correct answer, solution, hints, cases and known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Exercise:
    """One exercise. The learner writes a function or a value.

    Attributes
    ----------
    name
        The name that the learner gives to `course.check`.
    correct
        The correct function or the correct value. The learner's function must return the same results as the correct
        function in all cases. If several values are correct, `correct` is one of these values.
    solution
        The solution as a learner would write it. `course.solution` prints it, and the solved notebook contains it.
    hints
        The hints. The first hint helps least, and the last hint helps most.
    cases
        Only if the answer is a function: one tuple of arguments for each case. `course.check` calls the learner's
        function and the correct function with these arguments, and compares their results.
    known_mistakes
        The keys are sentences that explain a mistake. The value of a sentence is the wrong function or the wrong value
        that a learner with this mistake writes.
        If a case fails, `course.check` looks for a wrong function that returns the learner's result in this case, and
        prints the sentence of this function. `course.check` compares a learner's value with the wrong values only if
        the learner's value has the same type as `correct`. For a value of another type, `course.check` prints a message
        about the type instead.
    find_mistake
        Only for an exercise with several correct values: a function of the learner's value. It returns a sentence that
        explains the mistake, or None if the value is correct. `course.check` calls this function only if the value has
        the same type as `correct`. `course.check` then does not use `known_mistakes`, but the tests use
        `known_mistakes` to check this function.
    """

    name: str
    correct: Any
    solution: str
    hints: tuple[str, ...]
    cases: Sequence[tuple[Any, ...]] = ()
    known_mistakes: dict[str, Any] = field(default_factory=dict)
    find_mistake: Callable[[Any], str | None] | None = None
