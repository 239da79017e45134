"""Check, hint and solution: the functions that a learner calls for an exercise. And the learner's progress.

`check` compares the learner's value, or the results of the learner's function for the exercise's cases, with the
solution's. It prints a line that begins with the result (✓ passed, ✗ failed, ! error, · not attempted), and a sentence
about a mistake that learners often make. It stops a function that does not end (`limit_time`).

The solved exercises are kept in a file next to the lessons. The environment variable KAFKAGROUPS_PROGRESS names another
file. If it is empty, the progress is kept in memory only.
"""

from __future__ import annotations

import json
import os
import signal
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any

from kafkagroups.course.exercises.catalog import EXERCISES, EXERCISES_BY_LESSON
from kafkagroups.course.exercises.exercise import Exercise, define
from kafkagroups.errors import KafkagroupsError


class TookTooLong(BaseException):
    """The code did not end in time. It is no `Exception`, so an `except Exception` in the code cannot catch it."""


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Stop the `with` block with TookTooLong after some seconds of real time.

    The timer of Unix works only in the main thread, where a notebook runs its cells; elsewhere, the block has no limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TookTooLong

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


AnyFunction = Callable[..., Any]
_MAX_SHOWN_CHARACTERS = 90
_EXPECTED_BY_TYPE = {
    int: "a whole number is expected, without quotes",
    str: "a text in quotes is expected",
    tuple: "a tuple is expected, with parentheses and commas",
}
"""What learners read instead of the names of Python's types."""
_PASSED = "✓"
_SECONDS_FOR_ALL_CASES = 5


def check(name: str, attempt: Any) -> None:
    """Print one line that says whether an exercise is solved, and remember it in the learner's progress.

    `attempt` is the learner's function or value. `...` and None mean "not attempted yet".
    """
    exercise = _find_exercise(name)
    if exercise is None:
        return
    try:
        if attempt is ... or attempt is None:
            line = _format_not_attempted(exercise)
        elif callable(exercise.correct):
            line = _check_function(exercise, attempt)
        else:
            line = _check_value(exercise, attempt)
        print(line)
        if line.startswith(_PASSED):
            note_solved(name)
    except Exception as error:
        print(f"! {name}: your answer cannot be printed: {type(error).__name__}: {error}")


def hint(name: str, number: int = 1) -> None:
    """Print a hint for an exercise. The first hint is number 1, and helps least."""
    exercise = _find_exercise(name)
    if exercise is None:
        return
    hints = exercise.hints
    if not 1 <= number <= len(hints):
        print(f"{name} has {len(hints)} hints")
        return
    note = f'   (the next hint: course.hint("{name}", {number + 1}))' if number < len(hints) else ""
    print(f"hint {number} of {len(hints)}: {hints[number - 1]}{note}")


def solution(name: str) -> None:
    exercise = _find_exercise(name)
    if exercise is not None:
        print(exercise.solution)


def _find_exercise(name: str) -> Exercise | None:
    if name not in EXERCISES:
        print(f"there is no exercise {name!r}; the exercises are {', '.join(sorted(EXERCISES))}")
    return EXERCISES.get(name)


def _format_not_attempted(exercise: Exercise) -> str:
    return f'· {exercise.name}: not attempted yet. course.hint("{exercise.name}") helps'


def _check_value(exercise: Exercise, attempt: Any) -> str:
    expected_type = type(exercise.correct)
    if type(attempt) is not expected_type:
        expected = _EXPECTED_BY_TYPE.get(expected_type, f"a {expected_type.__name__} is expected")
        return f"✗ {exercise.name}: not {_shorten(attempt)}; {expected}."
    if attempt == exercise.correct:
        return f"{_PASSED} {exercise.name}: right"
    sentences = (sentence for sentence, value in exercise.known_mistakes.items() if value == attempt)
    return f"✗ {exercise.name}: not {_shorten(attempt)}." + _format_mistake(exercise, next(sentences, None))


def _check_function(exercise: Exercise, attempt: Any) -> str:
    if not callable(attempt):
        return f"✗ {exercise.name}: a function was expected"
    results = []
    arguments: tuple[Any, ...] = ()
    try:
        with limit_time(_SECONDS_FOR_ALL_CASES):
            for arguments in exercise.cases:
                results.append(attempt(*deepcopy(arguments)))  # The learner's function may change its arguments.
    except TookTooLong:
        line = f"! {exercise.name}: for {_format_arguments(arguments)} your code did not end. It was stopped after "
        return line + f"{_SECONDS_FOR_ALL_CASES} seconds. Does a loop forget to move on?"
    except (Exception, SystemExit) as error:
        message = f"{type(error).__name__}: {error}"
        tombstone_note = " (None is a tombstone: there is no value to read)" if None in arguments else ""
        return f"! {exercise.name}: for {_format_arguments(arguments)} your code raised {message}{tombstone_note}"
    if all(result is None or result is ... for result in results):
        return _format_not_attempted(exercise)
    solution_function = define(exercise.name, exercise.solution)
    for arguments, result in zip(exercise.cases, results, strict=True):
        expected = _call(solution_function, arguments)
        if not _are_same(expected, result):
            line = f"✗ {exercise.name}: for {_format_arguments(arguments)} it gives {_shorten(result)}, "
            line += f"but Kafka gives {_shorten(expected)}."
            return line + _format_mistake(exercise, _find_known_mistake(exercise, results, arguments, result))
    return f"{_PASSED} {exercise.name}: right on all {len(exercise.cases)} cases"


def _find_known_mistake(
    exercise: Exercise, results: list[Any], failed_case: tuple[Any, ...], failed_result: Any
) -> str | None:
    def count_agreements(function: AnyFunction) -> int:
        pairs = zip(exercise.cases, results, strict=True)
        return sum(_are_same(_call(function, arguments), result) for arguments, result in pairs)

    candidates = {
        sentence: function
        for sentence, function in exercise.known_mistakes.items()
        if _are_same(_call(function, failed_case), failed_result)
    }
    return max(candidates, key=lambda sentence: count_agreements(candidates[sentence]), default=None)


def _format_mistake(exercise: Exercise, sentence: str | None) -> str:
    return f" Likely mistake: {sentence}" if sentence else f' course.hint("{exercise.name}") helps'


def _call(function: AnyFunction, arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except (KafkagroupsError, ValueError, IndexError, ArithmeticError) as error:
        return type(error)


def _are_same(expected: Any, result: Any) -> bool:
    """Compare more strictly than `==`, for which 1, 1.0 and True are equal."""
    return _represent(expected) == _represent(result)


def _represent(value: Any) -> str:
    return repr(sorted(value.items(), key=repr)) if isinstance(value, dict) else repr(value)


def _format_arguments(arguments: tuple[Any, ...]) -> str:
    return ", ".join(_shorten(argument) for argument in arguments)


def _shorten(value: Any) -> str:
    text = f'bytes.fromhex("{value.hex()}")' if isinstance(value, bytes) else repr(value)
    if " " in text:
        return textwrap.shorten(text, _MAX_SHOWN_CHARACTERS, placeholder="…")
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else text[:_MAX_SHOWN_CHARACTERS] + "…"


FILE_NAME = ".progress.json"
VARIABLE = "KAFKAGROUPS_PROGRESS"
_solved_in_memory: set[str] = set()


def progress() -> None:
    solved = read_solved()
    print(f"{len(solved)} of {len(EXERCISES)} exercises solved")
    for lesson, exercises in EXERCISES_BY_LESSON.items():
        done = sum(exercise.name in solved for exercise in exercises)
        bar = "■" * done + "□" * (len(exercises) - done)
        print(f"lesson {lesson}  {bar:<5} {done} of {len(exercises)}")


def reset() -> None:
    """Forget the progress. The notebooks keep the learner's answers."""
    _solved_in_memory.clear()
    path = _find_file()
    if path is not None:
        path.unlink(missing_ok=True)
    print(f"0 of {len(EXERCISES)} exercises solved")


def read_solved() -> set[str]:
    """A file that cannot be read counts as no progress."""
    path = _find_file()
    try:
        names = json.loads(path.read_text(encoding="utf-8"))["solved"] if path else _solved_in_memory
        return {name for name in names if name in EXERCISES}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def note_solved(name: str) -> None:
    """A folder that cannot be written is no reason to stop a lesson."""
    path = _find_file()
    solved = read_solved() | {name}
    if path is None:
        _solved_in_memory.add(name)
        return
    # Replaced in one step, so that a crash leaves the old file or the new file.
    new = path.with_name(path.name + ".new")
    with suppress(OSError):
        new.write_text(json.dumps({"solved": sorted(solved)}, indent=1) + "\n", encoding="utf-8")
        new.replace(path)


def _find_file() -> Path | None:
    """A notebook runs in its own folder, so the solved notebooks, in `solutions/`, do not count as the learner's
    progress.
    """
    named = os.environ.get(VARIABLE)
    if named is None:
        return Path(FILE_NAME)
    return Path(named) if named else None
