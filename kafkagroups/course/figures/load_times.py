"""Lesson 12: loading times as bars, and the times that the benchmark measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from operator import itemgetter
from time import perf_counter
from typing import TypeVar

from kafkagroups.course.figures.marks import Box, Label, Mark, Scene, Tone, draw_svg, encode_data_address
from kafkagroups.course.lesson_folders import find_upwards
from kafkagroups.loading.load import PYTHON, choose_engine

Result = TypeVar("Result")
MILLION = 1_000_000
# The width of the longest bar and of the names, in characters.
_BAR_WIDTH = 40
# The drawn bars, in pixels of the picture.
_FIRST_BAR_TOP = 50
_BAR_DISTANCE = 34
_TITLE = "seconds for a million records"


def name_engine() -> str:
    return "the readable engine" if choose_engine("auto") is PYTHON else "the native engine"


@dataclass(frozen=True)
class LoadTime:
    name: str
    seconds: float
    note: str


class LoadTimes:
    """A bar for each way of loading, with the seconds for a million records.

    The time of a smaller load is scaled.
    """

    def __init__(self) -> None:
        self.times: list[LoadTime] = []

    def measure(self, name: str, load: Callable[[], Result], records: int = MILLION, rounds: int = 1) -> Result:
        """Measure `rounds` calls of `load`, which loads `records` records, and return the last result.

        The bar shows the shortest time, because other programs can only make a call slower.
        """
        seconds = []
        for _ in range(rounds):
            start = perf_counter()
            result = load()
            seconds.append(perf_counter() - start)
        note = "" if records == MILLION else f"measured with {records:,} records"
        self._add(LoadTime(name, min(seconds) * MILLION / records, note))
        return result

    def add_benchmark(self, name: str, way: str) -> None:
        """Add the shortest time that the benchmark measured with the most records, if it has measured this way."""
        runs = json.loads(find_upwards("benchmarks/measured.json").read_text())["runs"]
        topics = [topic for run in runs for topic in run["topics"] if topic["ways"].get(way, {}).get("seconds")]
        if topics:
            largest = max(topics, key=itemgetter("records"))
            seconds = min(largest["ways"][way]["seconds"]) * MILLION / largest["records"]
            self._add(LoadTime(name, seconds, "measured on another machine"))

    def add_speed(self, name: str, records_per_second: int) -> None:
        note = f"{records_per_second / MILLION:g} million records per second"
        self._add(LoadTime(name, MILLION / records_per_second, note))

    def _add(self, time: LoadTime) -> None:
        self.times = [*(other for other in self.times if other.name != time.name), time]

    def __repr__(self) -> str:
        longest_seconds = max((time.seconds for time in self.times), default=1.0)
        lines = [_TITLE]
        for time in self.times:
            bar = "█" * round(time.seconds / longest_seconds * _BAR_WIDTH) or "▏"
            lines.append(f"{time.name:<36}{bar:<{_BAR_WIDTH}} {time.seconds:7.2f} s   {time.note}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the chart as an image, which also survives in a notebook that is not trusted."""
        longest_seconds = max((time.seconds for time in self.times), default=1.0)
        marks: list[Mark] = [Label("title", 10, 20, _TITLE, is_bold=True)]
        for number, time in enumerate(self.times):
            top = _FIRST_BAR_TOP + number * _BAR_DISTANCE
            width = max(2, time.seconds / longest_seconds * 470)
            name = f"{time.name}   ({time.note})" if time.note else time.name
            marks.append(Label(f"name {number}", 10, top - 5, name, size=11))
            marks.append(Box(f"bar {number}", 10, top, width, 12, tone=Tone.NEW))
            marks.append(Label(f"seconds {number}", 16 + width, top + 10, f"{time.seconds:.2f} s", size=11))
        height = _FIRST_BAR_TOP + len(self.times) * _BAR_DISTANCE
        address = encode_data_address(draw_svg(Scene(tuple(marks), "", ()), height, _TITLE))
        return f'<img class="kg-race" alt="{escape(repr(self))}" style="max-width:100%" src="{address}">'
