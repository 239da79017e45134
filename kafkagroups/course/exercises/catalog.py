"""Every exercise of the course by its name, in the order of the lessons."""

from kafkagroups.course.exercises import (
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
from kafkagroups.course.exercises.exercise import Exercise

_LESSONS = (records, partitions, log, storing, fetching, group_life, deleting, compaction, loading, scaling)

EXERCISES: dict[str, Exercise] = {exercise.name: exercise for lesson in _LESSONS for exercise in lesson.EXERCISES}
