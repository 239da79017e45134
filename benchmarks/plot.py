"""The plot of the benchmark: seconds by records, a curve for each way of loading.

Both axes are logarithmic, so a way whose time is proportional to the number of records is a straight line.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log10

from kafkagroups.course.figures.load_times import MILLION
from kafkagroups.course.figures.marks import Arrow, Box, Curve, Label, Mark, Scene, Tone

HEIGHT = 270
_LEFT = 64
_RIGHT = 370
_TOP = 34
_BOTTOM = 226
_NAMES_LEFT = 400
_NAME_DISTANCE = 17


def draw_curves(ways: Mapping[str, Mapping[int, float]]) -> Scene:
    record_counts = sorted({records for seconds_by_records in ways.values() for records in seconds_by_records})
    all_seconds = [each for seconds_by_records in ways.values() for each in seconds_by_records.values()]
    first = log10(record_counts[0])
    last = log10(record_counts[-1])
    lowest = log10(min(all_seconds) / 1.3)
    highest = log10(max(all_seconds) * 1.3)

    def find_x(records: float) -> float:
        return _LEFT + (log10(records) - first) / (last - first) * (_RIGHT - _LEFT)

    def find_y(seconds: float) -> float:
        return _BOTTOM - (log10(seconds) - lowest) / (highest - lowest) * (_BOTTOM - _TOP)

    marks: list[Mark] = [
        Label("unit", 10, 18, "seconds", tone=Tone.MUTED),
        Label("records", _RIGHT, _BOTTOM + 38, "million records", "end", Tone.MUTED),
    ]
    for records in record_counts:
        x = find_x(records)
        marks.append(Arrow(f"x line {records}", x, _TOP, x, _BOTTOM, Tone.MUTED, has_head=False, is_dashed=True))
        marks.append(Label(f"x {records}", x, _BOTTOM + 18, str(records // MILLION), "middle", Tone.MUTED))
    for seconds in (10.0**power for power in range(ceil(lowest), floor(highest) + 1)):
        y = find_y(seconds)
        marks.append(Arrow(f"y line {seconds}", _LEFT, y, _RIGHT, y, Tone.MUTED, has_head=False, is_dashed=True))
        marks.append(Label(f"y {seconds}", _LEFT - 8, y + 4, f"{seconds:g}", "end", Tone.MUTED))
    text = []
    name_y = float(_TOP - _NAME_DISTANCE)
    # The names stand in the order of the ends of their curves, and never on one another.
    by_height = sorted(ways.items(), key=lambda item: -item[1][max(item[1])])
    for number, (name, seconds_by_records) in enumerate(by_height):
        hue = str(number)
        points = tuple((find_x(records), find_y(each)) for records, each in sorted(seconds_by_records.items()))
        marks.append(Curve(f"curve {name}", points, is_dashed=number % 2 == 1, hue=hue))
        marks += [
            Box(f"point {name} {place}", x - 3, y - 3, 6, 6, hue=hue, is_solid=True)
            for place, (x, y) in enumerate(points)
        ]
        end_x, end_y = points[-1]
        name_y = max(name_y + _NAME_DISTANCE, end_y)
        marks.append(Arrow(f"lead {name}", end_x + 5, end_y, _NAMES_LEFT - 4, name_y, Tone.MUTED, has_head=False))
        marks.append(Label(f"name {name}", _NAMES_LEFT, name_y + 4, name))
        for records, each in sorted(seconds_by_records.items()):
            text.append(f"{name}, {records // MILLION} million records, {each:.2f} s")
    caption = "One step to the right is ten times as many records, and one step up is ten times as many seconds."
    return Scene(tuple(marks), caption, tuple(text))
