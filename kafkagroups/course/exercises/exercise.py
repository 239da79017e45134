"""One exercise: correct answer, solution, hints, cases and known mistakes; and the pages that contain the texts.

A page is Markdown, for people. `05_fetching.md` has the exercises and the predictions of lesson 05, one section each.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from kafkagroups.groups.offsets import OffsetAndMetadata

_ROW = re.compile(r"^\| (?!---)(.*?) \| ?(.*?) ?\|$", re.MULTILINE)
_CASE = re.compile(r"^- `(.+)`$", re.MULTILINE)
_HINT = re.compile(r"^\d\. (.+)$", re.MULTILINE)
_SOLUTION = re.compile(r"^```\n(.+?)\n```$", re.MULTILINE | re.DOTALL)
_ANSWER = re.compile(r"^Answer: `(.+)`$", re.MULTILINE)


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


class ExerciseFunction(NamedTuple):
    """The code of an exercise whose answer is a function.

    The page has the cases, which `read_case` reads, and names each mistake. `answer_wrongly` has this name as its first
    argument. Without it, a mistake is a function of the same module.
    """

    correct: Callable[..., Any]
    answer_wrongly: Callable[..., Any] | None = None
    read_case: Callable[[str], tuple[Any, ...]] = literal_eval


def read_sections(page: Path) -> tuple[str, dict[str, str]]:
    """Return the head of a page, and the text of each section by its title."""
    head, *parts = page.read_text(encoding="utf-8").split("\n## ")
    return head, {title: text.strip() for title, text in (part.split("\n", 1) for part in parts)}


def read_rows(section: str) -> list[tuple[str, str]]:
    """Return the rows of a table with two columns, without its head."""
    return _ROW.findall(section)[1:]


def read_values(section: str) -> list[tuple[Any, str]]:
    """Return the rows of a table whose first column has values of Python."""
    return [(literal_eval(value.strip("`")), why) for value, why in read_rows(section)]


def read_hints(section: str) -> tuple[str, ...]:
    return tuple(_HINT.findall(section))


def read_exercise(name: str, section: str, module: ModuleType | None = None) -> Exercise:
    """Read a section with the answer or the code of a solution, a table of wrong answers, and perhaps hints.

    `module` has the code of an exercise whose answer is a function.
    """
    hints = read_hints(section)
    found = _SOLUTION.search(section)
    if module is not None:
        assert found is not None, name
        code: ExerciseFunction = module.FUNCTIONS[name]
        mistakes = {why: _find_mistake(code, module, wrong.strip("`")) for wrong, why in read_rows(section)}
        cases = tuple(map(code.read_case, _CASE.findall(section)))
        return Exercise(name, code.correct, found[1], hints, cases, mistakes)
    answer = _ANSWER.search(section)
    assert answer is not None, name
    solution = found[1] if found else f"{name} = {answer[1]}"
    mistakes = {why: value for value, why in read_values(section)}
    return Exercise(name, literal_eval(answer[1]), solution, hints, known_mistakes=mistakes)


def _find_mistake(code: ExerciseFunction, module: ModuleType, name: str) -> Callable[..., Any]:
    if code.answer_wrongly is None:
        return getattr(module, name)  # type: ignore[no-any-return]
    return partial(code.answer_wrongly, name)


def make_commit(
    offset: int, *, commit_time: int = 0, expire_time: int | None = None, record_offset: int = 0
) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, "", commit_time, -1, expire_time, None, record_offset, record_offset)
