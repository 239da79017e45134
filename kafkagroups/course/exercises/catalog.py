"""Every exercise of the course by its name, in the order of the lessons."""

from __future__ import annotations

import functools
from typing import Any

import crc32c

import kafkagroups
from kafkagroups.course.exercises import (
    compaction,
    deleting,
    fetching,
    group_life,
    loading,
    log,
    new_protocols,
    partitions,
    records,
    scaling,
    start_here,
    storing,
    transactions,
    who_may_commit,
)
from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.incident import INCIDENTS

EXERCISES_BY_LESSON: dict[str, tuple[Exercise, ...]] = {
    "00": start_here.EXERCISES,
    "01": records.EXERCISES,
    "02": partitions.EXERCISES,
    "03": log.EXERCISES,
    "04": storing.EXERCISES,
    "05": fetching.EXERCISES,
    "06": group_life.EXERCISES,
    "07": who_may_commit.EXERCISES,
    "08": transactions.EXERCISES,
    "09": deleting.EXERCISES,
    "10": compaction.EXERCISES,
    "11": loading.EXERCISES,
    "12": scaling.EXERCISES,
    "13": new_protocols.EXERCISES,
    "14": tuple(question.exercise for incident in INCIDENTS for question in incident.questions),
}

EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise for exercises in EXERCISES_BY_LESSON.values() for exercise in exercises
}


@functools.cache
def run_solutions() -> dict[str, Any]:
    """Return the functions and values that all solutions define, by name."""
    from kafkagroups import course  # It imports this module.

    namespace: dict[str, Any] = {"kg": kafkagroups, "course": course, "crc32c": crc32c.crc32c}
    for exercise in EXERCISES.values():
        exec(compile(exercise.solution, f"<solution of {exercise.name}>", "exec"), namespace)
    return {name: namespace[name] for name in EXERCISES}
