"""What an exercise is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    `right` is the function to match, or the answer itself. `cases` are the arguments to try it on; `slips` map a
    sentence to the wrong function or answer behind it; `text` is the solution as a learner would write it. Where many
    answers are right, `judge` says what is wrong with one, None if nothing is; `right` is then an example.
    """

    name: str
    right: Any
    text: str
    hints: tuple[str, ...]
    cases: Sequence[tuple[Any, ...]] = ()
    slips: dict[str, Any] = field(default_factory=dict)
    judge: Callable[[Any], str | None] | None = None
