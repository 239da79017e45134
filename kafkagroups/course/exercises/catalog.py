"""Every exercise of the course by its name, in the order of the lessons, and what the pages say about predictions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkagroups.course.exercises.exercise import Exercise, read_exercise, read_sections, read_values
from kafkagroups.course.exercises.incidents.incident import INCIDENTS

_SECTIONS = {page.stem[:2]: read_sections(page)[1] for page in sorted(Path(__file__).parent.glob("[0-9][0-9]_*.md"))}


def _list_sections(kind: str, sections: dict[str, str]) -> Iterator[tuple[str, str]]:
    return ((title.removeprefix(kind), text) for title, text in sections.items() if title.startswith(kind))


EXERCISES_BY_LESSON: dict[str, tuple[Exercise, ...]] = {
    lesson: tuple(read_exercise(name, text) for name, text in _list_sections("Exercise ", sections))
    for lesson, sections in _SECTIONS.items()
}
EXERCISES_BY_LESSON["14"] = tuple(exercise for incident in INCIDENTS for exercise in incident.questions.values())

EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise for exercises in EXERCISES_BY_LESSON.values() for exercise in exercises
}

MISCONCEPTIONS: dict[str, dict[Any, str]] = {
    name: dict(read_values(text))
    for sections in _SECTIONS.values()
    for name, text in _list_sections("Prediction ", sections)
}
"""What is wrong with a frequent wrong prediction. It is not in the lessons, because a list of wrong predictions tells a
reader too much about the answer.
"""
