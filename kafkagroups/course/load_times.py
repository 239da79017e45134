"""Lesson 10: loading times as bars, and the curves of the benchmark.

A way of loading is, for example, one of the package's engines or a loop in Python. The seconds and bars differ between
machines and between runs. Only the names and the record counts are always the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from time import perf_counter
from typing import Any, TypeVar

from kafkagroups.course.folders import find_upwards
from kafkagroups.course.widgets import MONO

Result = TypeVar("Result")
MILLION = 1_000_000
_BAR_WIDTH = 40
_NAME_WIDTH = 36


def measure_seconds(load: Callable[[], Any], rounds: int = 3) -> float:
    """Return the shortest time of several calls, in seconds.

    Other programs on the machine make a call slower, so the shortest time is the most exact.

    Parameters
    ----------
    load
        The function to measure. It receives no arguments.
    rounds
        How often `load` is called.
    """
    return min(_run_timed(load)[0] for _ in range(rounds))


def _run_timed(load: Callable[[], Result]) -> tuple[float, Result]:
    start = perf_counter()
    result = load()
    return perf_counter() - start, result


@dataclass(frozen=True)
class LoadTime:
    """The seconds that one way of loading needs for a million records, and a note about the measurement.

    `name` is the text next to the bar.
    """

    name: str
    seconds: float
    note: str


class LoadTimes:
    """Bars that compare ways of loading by their seconds for a million records.

    If another number of records was measured, the time is scaled to a million records, and a note next to the bar says
    this.
    """

    def __init__(self) -> None:
        self.times: list[LoadTime] = []

    def measure(self, name: str, load: Callable[[], Result], records: int = MILLION, rounds: int = 1) -> Result:
        """Measure one way of loading and add its bar.

        Parameters
        ----------
        name
            The name of the bar. A later measurement with the same name replaces this measurement.
        load
            The function to measure. It receives no arguments.
        records
            How many records `load` loads.
        rounds
            How often `load` is called. The bar shows the shortest time.

        Returns
        -------
        object
            What the last call of `load` returned.
        """
        runs = [_run_timed(load) for _ in range(rounds)]
        shortest_seconds = min(seconds for seconds, _ in runs)
        note = "" if records == MILLION else f"scaled from {records:,}"
        self._add(LoadTime(name, shortest_seconds * MILLION / records, note))
        return runs[-1][1]

    def add_benchmark(self, name: str, way: str) -> None:
        """Add a bar for a time that the benchmark measured on the machine that docs/performance.md describes.

        Parameters
        ----------
        name
            The name of the bar.
        way
            The benchmark's name for this way of loading. If the benchmark has not measured this way, no bar is added.
        """
        curve = read_measurements().get(way, {})
        if curve:
            records = max(curve)
            self._add(LoadTime(name, curve[records] * MILLION / records, "measured on another machine"))

    def _add(self, time: LoadTime) -> None:
        self.times = [old_time for old_time in self.times if old_time.name != time.name] + [time]

    def format_lines(self) -> list[str]:
        """Return the title and one line with a bar for each way of loading."""
        max_seconds = max((time.seconds for time in self.times), default=1.0)
        lines = ["seconds for a million records"]
        for time in self.times:
            bar = "█" * round(time.seconds / max_seconds * _BAR_WIDTH) or "▏"
            line = f"{time.name:<{_NAME_WIDTH}}{bar:<{_BAR_WIDTH}} {time.seconds:7.2f} s   {time.note}"
            lines.append(line.rstrip())
        return lines

    def __repr__(self) -> str:
        return "\n".join(self.format_lines())

    def _repr_html_(self) -> str:
        return f'<div class="kg-race" style="{MONO}">{escape(repr(self))}</div>'


def read_measurements() -> dict[str, dict[int, float]]:
    """Return the shortest times that the benchmark measured, in seconds.

    The result contains a dict for each way of loading. Its keys are numbers of records, and its values are seconds. If
    several topics have the same number of records, the value is the time of the first topic.
    """
    measurements: dict[str, dict[int, float]] = {}
    for run in json.loads(find_upwards("benchmarks/measured.json").read_text())["runs"]:
        for topic in run["topics"]:
            for way, measurement in topic["ways"].items():
                seconds = measurement["seconds"]
                if seconds:
                    measurements.setdefault(way, {}).setdefault(topic["records"], min(seconds))
    return measurements


class BenchmarkCurves:
    """The loading times that the benchmark measured, by the number of records in the log.

    The HTML version is the figure of docs/performance.md. The text version has one line for each way of loading.
    """

    def __repr__(self) -> str:
        lines = ["shortest time by number of records in the log"]
        for way, curve in read_measurements().items():
            points = (f"{records / MILLION:g} M {curve[records]:.2f} s" for records in sorted(curve))
            lines.append(f"{way:<16}" + ", ".join(points))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return find_upwards("docs/performance.svg").read_text()
