"""Lesson 10: who loads a million records in what time, as bars; and what the benchmark measured at every size.

Bars and seconds are this machine's at this moment, so nothing that is drawn here is the same twice, but for names and
counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from time import perf_counter
from typing import Any, TypeVar

from kafkagroups.course.pages import above
from kafkagroups.course.widgets import MONO

Result = TypeVar("Result")
MILLION = 1_000_000
_WIDTH = 40
_TITLE = 36


def seconds(load: Callable[[], Any], rounds: int = 3) -> float:
    """The least time of some rounds: what the machine can do when nobody disturbs it."""
    return min(_timed(load)[0] for _ in range(rounds))


def _timed(load: Callable[[], Result]) -> tuple[float, Result]:
    start = perf_counter()
    result = load()
    return perf_counter() - start, result


@dataclass(frozen=True)
class Runner:
    """One way of loading: what a million records take, and what must be known of that."""

    name: str
    seconds: float
    note: str


class Race:
    """Bars of different length over the same road: a million records. Those of a part are scaled."""

    def __init__(self) -> None:
        self.runners: list[Runner] = []

    def run(self, name: str, load: Callable[[], Result], records: int = MILLION, rounds: int = 1) -> Result:
        """Runs a way over so many records, keeps its least time, and gives what it loaded."""
        tries = [_timed(load) for _ in range(rounds)]
        took = min(took for took, _ in tries)
        note = "" if records == MILLION else f"scaled from {records:,}"
        self._add(Runner(name, took * MILLION / records, note))
        return tries[-1][1]

    def quote(self, name: str, way: str) -> None:
        """A bar that is not run: what the benchmark wrote down, on the machine of docs/performance.md."""
        curve = measured().get(way, {})
        if curve:
            records = max(curve)
            self._add(Runner(name, curve[records] * MILLION / records, "quoted, another machine"))

    def _add(self, runner: Runner) -> None:
        self.runners = [each for each in self.runners if each.name != runner.name] + [runner]

    def lines(self) -> list[str]:
        longest = max((runner.seconds for runner in self.runners), default=1.0)
        lines = ["seconds for a million records"]
        for runner in self.runners:
            length = runner.seconds / longest * _WIDTH
            bar = "█" * round(length) or "▏"
            lines.append(f"{runner.name:<{_TITLE}}{bar:<{_WIDTH}} {runner.seconds:7.2f} s   {runner.note}".rstrip())
        return lines

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return f'<div class="kg-race" style="{MONO}">{escape(repr(self))}</div>'


def measured() -> dict[str, dict[int, float]]:
    """What the benchmark wrote down: of each way, records and least seconds. Of topics of one size the first counts."""
    out: dict[str, dict[int, float]] = {}
    for run in json.loads(above("benchmarks/measured.json").read_text())["runs"]:
        for topic in run["topics"]:
            for way, found in topic["ways"].items():
                if took := found["seconds"]:
                    out.setdefault(way, {}).setdefault(topic["records"], min(took))
    return out


class Curves:
    """Cost against size, as the benchmark measured it: the figure of docs/performance.md. As text, a line a way."""

    def __repr__(self) -> str:
        lines = ["least seconds by records in the log"]
        for way, curve in measured().items():
            lines.append(f"{way:<16}" + ", ".join(f"{n / MILLION:g} M {curve[n]:.2f} s" for n in sorted(curve)))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return above("docs/performance.svg").read_text()
