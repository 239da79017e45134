"""Checks: a learner's function or answer against the package's own, on bytes that a broker wrote.

`check` prints one of four outcomes and never raises: passed, failed (the input, what came, the likely slip), error
(what the code raised), not attempted. A slip is a wrong function or answer that people write; when a learner's result
equals it, its sentence is shown. The checks are tested with starters, solutions and slips (tests/course).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from kafkagroups.course import (
    compaction,
    deleting,
    fetching,
    group_life,
    loading,
    log,
    partitions,
    records,
    scaling,
    storing,
)
from kafkagroups.course.exercise import Exercise
from kafkagroups.errors import KafkagroupsError

LESSONS = (records, partitions, log, storing, fetching, group_life, deleting, compaction, loading, scaling)
EXERCISES = {exercise.name: exercise for lesson in LESSONS for exercise in lesson.EXERCISES}


def check(name: str, attempt: Any) -> None:
    """Prints how an attempt at an exercise stands."""
    exercise = _find(name)
    if exercise is None:
        return
    try:
        print((_check_function if callable(exercise.right) else _check_answer)(exercise, attempt))
    except Exception as error:
        print(f"! {name}: your answer cannot be looked at: {type(error).__name__}: {error}")


def hint(name: str, number: int = 1) -> None:
    """Prints a hint: 1 is the smallest."""
    exercise = _find(name)
    if exercise is None:
        return
    hints = exercise.hints
    if not 1 <= number <= len(hints):
        print(f"{name} has {len(hints)} hints")
        return
    more = f'   (the next one: course.hint("{name}", {number + 1}))' if number < len(hints) else ""
    print(f"hint {number} of {len(hints)}: {hints[number - 1]}{more}")


def provided(name: str, attempt: Any) -> Any:
    """The learner's own function where it is right, else the package's; prints which."""
    exercise = _find(name)
    if exercise is None or _check_function(exercise, attempt).startswith("✓"):
        print(f"the lesson goes on with your {name}")
        return attempt
    print(f"your {name} is not ready; the lesson goes on with the package's")
    return exercise.right


def solution(name: str) -> None:
    """Prints a solution."""
    exercise = _find(name)
    if exercise is not None:
        print(exercise.text)


def _find(name: str) -> Exercise | None:
    if name not in EXERCISES:
        print(f"there is no exercise {name!r}; there are {', '.join(sorted(EXERCISES))}")
    return EXERCISES.get(name)


def _not_attempted(exercise: Exercise) -> str:
    return f'· {exercise.name}: not attempted yet. course.hint("{exercise.name}") helps'


def _check_answer(exercise: Exercise, attempt: Any) -> str:
    if attempt is ... or attempt is None:
        return _not_attempted(exercise)
    if type(attempt) is not type(exercise.right):
        wanted = {int: "a whole number", str: "a text"}.get(type(exercise.right), type(exercise.right).__name__)
        return f"✗ {exercise.name}: not {_short(attempt)}; {wanted} is wanted, without quotes or dots."
    if exercise.judge is None:
        slip = next((sentence for sentence, wrong in exercise.slips.items() if wrong == attempt), None)
        is_right = attempt == exercise.right
    else:
        slip = exercise.judge(attempt)
        is_right = slip is None
    if is_right:
        return f"✓ {exercise.name}: right"
    return f"✗ {exercise.name}: not {_short(attempt)}." + (f" Likely slip: {slip}" if slip else "")


def _check_function(exercise: Exercise, attempt: Any) -> str:
    if not callable(attempt):
        return _not_attempted(exercise) if attempt in (..., None) else f"✗ {exercise.name}: a function was expected"
    results = []
    for arguments in exercise.cases:
        try:
            results.append(attempt(*deepcopy(arguments)))  # it may change what it is given
        except (Exception, SystemExit) as error:
            said = f"{type(error).__name__}: {error}"
            tomb = " (None is a tombstone: there is no value to read)" if None in arguments else ""
            return f"! {exercise.name}: for {_shown(arguments)} your code raised {said}{tomb}"
    if all(result is None or result is ... for result in results):
        return _not_attempted(exercise)
    for arguments, result in zip(exercise.cases, results, strict=True):
        wanted = _result(exercise.right, arguments)
        if _told(wanted) != _told(result):
            line = f"✗ {exercise.name}: for {_shown(arguments)} it gives {_short(result)}, Kafka {_short(wanted)}."
            return line + _likely(exercise, results, arguments, result)
    return f"✓ {exercise.name}: right on all {len(exercise.cases)} cases"


def _likely(exercise: Exercise, results: list[Any], failing: tuple[Any, ...], given: Any) -> str:
    """The slip that gives the same at the first failing case; of several the one that agrees most often."""

    def agreement(wrong: Callable[..., Any]) -> int:
        return sum(
            _told(_result(wrong, case)) == _told(result) for case, result in zip(exercise.cases, results, strict=True)
        )

    slips = {s: wrong for s, wrong in exercise.slips.items() if _told(_result(wrong, failing)) == _told(given)}
    return f" Likely slip: {max(slips, key=lambda sentence: agreement(slips[sentence]))}" if slips else ""


def _result(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except (KafkagroupsError, ValueError, IndexError, ArithmeticError) as error:
        return type(error)


def _told(value: Any) -> str:
    """What is compared. 1 and 1.0 and True are equal to Python, and not the same answer; a dict has no order."""
    return repr(sorted(value.items(), key=repr)) if isinstance(value, dict) else repr(value)


def _shown(arguments: tuple[Any, ...]) -> str:
    return ", ".join(_short(argument) for argument in arguments)


def _short(value: Any) -> str:
    text = f'bytes.fromhex("{value.hex()}")' if isinstance(value, bytes) else repr(value)
    return textwrap.shorten(text, 90, placeholder="…") if " " in text else text[:90] + "…" * (len(text) > 90)
