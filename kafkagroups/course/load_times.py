"""Lesson 12: loading times as bars, and the times that the benchmark measured.

Lesson 12 compares several ways to load a log, for example the engines of this package and a loop in Python. The
loading times differ between machines and between runs. Only the names and the record counts are always the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from time import perf_counter
from typing import Any, TypeVar

from kafkagroups.course.folders import find_upwards
from kafkagroups.course.widgets import MONO

Result = TypeVar("Result")
MILLION = 1_000_000
# The width of the longest bar and of the names, in characters.
_BAR_WIDTH = 40
_NAME_WIDTH = 36
_TABLE_RECORD_COUNTS = (MILLION, 10 * MILLION, 100 * MILLION)


def measure_seconds(load: Callable[[], Any], rounds: int = 3) -> float:
    """Return the shortest time of several calls, in seconds.

    Other programs on the machine can make a call slower, so the shortest time is the most exact time.

    Parameters
    ----------
    load
        The function to measure. It receives no arguments.
    rounds
        How many times `load` is called.
    """
    return min(_run_timed(load)[0] for _ in range(rounds))


def _run_timed(load: Callable[[], Result]) -> tuple[float, Result]:
    """Return the duration of one call in seconds, and the result of the call."""
    start = perf_counter()
    result = load()
    return perf_counter() - start, result


@dataclass(frozen=True)
class LoadTime:
    """The seconds in which one way of loading loads a million records.

    `name` is the text before the bar, and `note` is the text after the bar.
    """

    name: str
    seconds: float
    note: str


class LoadTimes:
    """A chart with a bar for each way of loading. The bar shows the seconds for a million records.

    The measured time is scaled to a million records. A note next to the bar contains the number of loaded records if it
    is not a million.
    """

    def __init__(self) -> None:
        self.times: list[LoadTime] = []

    def measure(self, name: str, load: Callable[[], Result], records: int = MILLION, rounds: int = 1) -> Result:
        """Measure one way of loading, add its bar, and return the loaded result.

        Parameters
        ----------
        name
            The name of the bar. If there is a bar with this name, the new bar replaces the old bar.
        load
            The function to measure. It receives no arguments.
        records
            How many records `load` loads.
        rounds
            How many times `load` is called. The bar shows the shortest time.

        Returns
        -------
        object
            What the last call of `load` returned.
        """
        timed_results = [_run_timed(load) for _ in range(rounds)]
        shortest_seconds = min(seconds for seconds, _ in timed_results)
        note = "" if records == MILLION else f"scaled from {records:,}"
        self._add(LoadTime(name, shortest_seconds * MILLION / records, note))
        _, last_result = timed_results[-1]
        return last_result

    def add_benchmark(self, name: str, way: str) -> None:
        """Add a bar for a way of loading that the benchmark measured.

        The bar shows the time for the largest number of records that the benchmark measured, scaled to a million
        records. docs/performance.md describes the machine of the benchmark.

        Parameters
        ----------
        name
            The name of the bar.
        way
            The benchmark's name for this way of loading. If the benchmark has not measured this way, no bar is added.
        """
        seconds_by_record_count = read_measurements().get(way, {})
        if seconds_by_record_count:
            records = max(seconds_by_record_count)
            seconds = seconds_by_record_count[records] * MILLION / records
            self._add(LoadTime(name, seconds, "quoted from docs/performance.md"))

    def _add(self, time: LoadTime) -> None:
        other_times = [old_time for old_time in self.times if old_time.name != time.name]
        self.times = [*other_times, time]

    def format_lines(self) -> list[str]:
        """Return the title and one line with a bar for each way of loading."""
        longest_seconds = max((time.seconds for time in self.times), default=1.0)
        lines = ["seconds for a million records"]
        for time in self.times:
            bar = "█" * round(time.seconds / longest_seconds * _BAR_WIDTH) or "▏"
            line = f"{time.name:<{_NAME_WIDTH}}{bar:<{_BAR_WIDTH}} {time.seconds:7.2f} s   {time.note}"
            lines.append(line.rstrip())
        return lines

    def __repr__(self) -> str:
        return "\n".join(self.format_lines())

    def _repr_html_(self) -> str:
        return f'<div class="kg-race" style="{MONO}">{escape(repr(self))}</div>'


def read_measurements() -> dict[str, dict[int, float]]:
    """Return the shortest times that the benchmark measured, by way of loading and by record count.

    If several topics have the same record count, only the time of the first topic counts.
    """
    measurements: dict[str, dict[int, float]] = {}
    for run in json.loads(find_upwards("benchmarks/measured.json").read_text())["runs"]:
        for topic in run["topics"]:
            for way, measurement in topic["ways"].items():
                seconds_of_runs = measurement["seconds"]
                if seconds_of_runs:
                    measurements.setdefault(way, {}).setdefault(topic["records"], min(seconds_of_runs))
    return measurements


def print_measurements(names: Mapping[str, str]) -> None:
    """Print a table of loading times that the benchmark measured: a row for each way, a column for each record count.

    Parameters
    ----------
    names
        The text of each row, by the benchmark's name for the way of loading.
    """
    columns = "".join(f"{record_count // MILLION:>10} M" for record_count in _TABLE_RECORD_COUNTS)
    print(f"{'records':<{_NAME_WIDTH}}{columns}")
    measurements = read_measurements()
    for way, name in names.items():
        cells = [_format_seconds(measurements[way].get(record_count)) for record_count in _TABLE_RECORD_COUNTS]
        print(f"{name:<{_NAME_WIDTH}}{''.join(cells)}")


def _format_seconds(seconds: float | None) -> str:
    return f"{'–':>12}" if seconds is None else f"{seconds:>10.2f} s"
