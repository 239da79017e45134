"""The class `Incident`: a log with a cause to find, its symptoms, its questions and its worked solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.course.exercises.exercise import Exercise
from kafkagroups.course.exercises.incidents.chart import Chart

HINTS = 3


@dataclass(frozen=True)
class Question:
    """A question about an incident, with its answer in `exercise`. All questions of an incident have the same hints."""

    text: str
    exercise: Exercise


@dataclass(frozen=True)
class Step:
    """A step of a worked solution: a text, a command of this package, and the `lines` of its output from `shows` on."""

    text: str
    command: str
    shows: str = ""
    lines: int = 12


@dataclass(frozen=True)
class Incident:
    """One incident. Incidents are numbered from 1 to 10 in the order of their levels.

    Attributes
    ----------
    level
        1: one command shows the cause. 2: two answers have to be compared. 3: several causes, or a hidden one.
    title
        What people say, in a few words.
    complaint
        What people saw, as Markdown paragraphs. It does not name the cause.
    server_log
        Lines of the broker's or the client's log.
    write
        Writes the log into a new folder. The same seed gives the same bytes.
    prevention
        One sentence for each measure against the next incident of this kind.
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
