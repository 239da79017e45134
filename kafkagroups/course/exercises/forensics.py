"""Exercises of lesson 14: the questions of the incidents. Each incident has its own module in `incidents/`."""

from __future__ import annotations

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.catalog import INCIDENTS

EXERCISES: tuple[Exercise, ...] = tuple(question.exercise for incident in INCIDENTS for question in incident.questions)
