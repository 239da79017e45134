"""The class `Incident`: a log with a cause to find, its symptoms, its questions and its worked solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.chart import Chart

HINTS = 3
"""The number of hints of each incident."""


@dataclass(frozen=True)
class Question:
    """A question about an incident, with its answer in `exercise`. All questions of an incident have the same hints."""

    text: str
    exercise: Exercise


@dataclass(frozen=True)
class Step:
    """A step of a worked solution.

    Attributes
    ----------
    text
        One or two sentences before the command: what it shows, or why it is run.
    command
        A command of this package, which runs in the incident's folder.
    shows
        The beginning of the first shown line of the output; "" for the first line.
    lines
        The number of shown lines.
    """

    text: str
    command: str
    shows: str = ""
    lines: int = 12


@dataclass(frozen=True)
class Incident:
    """One incident.

    Attributes
    ----------
    number
        1 to 10, in the order of the levels.
    name
        The name in functions and in the folder's name.
    level
        1: one command shows the cause. 2: two answers have to be compared. 3: several causes, or a hidden one.
    title
        What people say, in a few words.
    kafka
        The Kafka version of the broker that has the log.
    complaint
        What people saw, as Markdown paragraphs. It does not name the cause.
    server_log
        Lines of the broker's or the client's log.
    chart
        A picture of a number over time, or None.
    questions
        Two to four questions.
    write
        Writes the log into a new folder. The same seed gives the same bytes.
    worked_solution
        The steps of the solution.
    cause
        The cause in one to four sentences.
    prevention
        What prevents the next incident of this kind, one sentence for each measure.
    replicas
        The subfolders with the log of one broker each; "" is the incident's folder itself.
    """

    number: int
    name: str
    level: int
    title: str
    kafka: str
    complaint: str
    server_log: tuple[str, ...]
    chart: Chart | None
    questions: tuple[Question, ...]
    write: Callable[[Path, int], None]
    worked_solution: tuple[Step, ...]
    cause: str
    prevention: tuple[str, ...]
    replicas: tuple[str, ...] = ("",)

    @property
    def folder_name(self) -> str:
        """For example "01-growing-partition"."""
        return f"{self.number:02d}-{self.name.replace('_', '-')}"
