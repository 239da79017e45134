"""One exercise: correct answer, solution, hints, cases and known mistakes; and the pages that contain the texts.

A page is Markdown, for people. `05_fetching.md` has the exercises and the predictions of lesson 05, one section each.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import crc32c

import kafkagroups
from kafkagroups.course.exercises.functions import FUNCTIONS

_ROW = re.compile(r"^\| (?!---)(.*?) \| ?(.*?) ?\|$", re.MULTILINE)
_CHANGE = re.compile("`(.+?)` → `(.+?)`")
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


def read_exercise(name: str, section: str) -> Exercise:
    """Read a section with the answer or the code of a solution, a table of wrong answers, and perhaps hints.

    If the answer is a function, a wrong one is the solution with changes: "`>=` → `>`".
    """
    hints = tuple(_HINT.findall(section))
    found = _SOLUTION.search(section)
    if name in FUNCTIONS:
        assert found is not None, name
        solution = found[1]
        wrong_answers = {why: partial(_run, name, _change(solution, row)) for row, why in read_rows(section)}
        cases = tuple(map(FUNCTIONS[name].read_case, _CASE.findall(section)))
        return Exercise(name, FUNCTIONS[name].correct, solution, hints, cases, wrong_answers)
    answer = _ANSWER.search(section)
    assert answer is not None, name
    solution = found[1] if found else f"{name} = {answer[1]}"
    mistakes = {why: value for value, why in read_values(section)}
    return Exercise(name, literal_eval(answer[1]), solution, hints, known_mistakes=mistakes)


def _change(solution: str, changes: str) -> str:
    for old, new in _CHANGE.findall(changes):
        assert solution.count(old) == 1, old
        solution = solution.replace(old, new)
    return solution


def _run(name: str, code: str, *arguments: Any) -> Any:
    return define(name, code)(*arguments)


@cache
def define(name: str, code: str) -> Any:
    """Return the function or the value that the code of an answer defines."""
    from kafkagroups import course  # It imports this module.

    namespace: dict[str, Any] = {"kg": kafkagroups, "course": course, "crc32c": crc32c.crc32c}
    exec(compile(code, f"<solution of {name}>", "exec"), namespace)
    return namespace[name]
