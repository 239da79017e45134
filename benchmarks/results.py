"""The result of one run of a command, and the ways to run a command."""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.topics import Topic


@dataclass(frozen=True)
class Result:
    """The seconds and the CPU seconds of one run, and its answer as a number, for example a checksum.

    The CPU seconds of a process are those of all its threads. Other work on the machine changes them less. The answer
    is None if it is not compared with the answers of the other ways.
    """

    seconds: float
    cpu_seconds: float
    answer: int | None


Run = Callable[[], Result]


@dataclass(frozen=True)
class CommandWay:
    """A way to run a command: its title in the tables, and the context manager."""

    title: str
    open: Callable[[Topic, Path], AbstractContextManager[Run]]


def children_cpu_seconds() -> float:
    """Return the CPU seconds of all ended child processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
