"""A chart of an incident: one number over time, as the monitoring shows it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from kafkagroups.course.figures.marks import Arrow, Box, Curve, Label, Mark, Scene, Tone
from kafkagroups.course.figures.picture import draw_svg, encode_data_address

_HEIGHT = 220
_LEFT = 84
_RIGHT = 508
_TOP = 40
_BOTTOM = 176


@dataclass(frozen=True, repr=False)
class Chart:
    """A curve through equally distant points, as an image or as text. `times` has the text below each point."""

    title: str
    times: tuple[str, ...]
    values: tuple[float | None, ...]

    def __repr__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        pairs = zip(self.times, self.values, strict=True)
        points = (f"{time} {'nothing' if value is None else format(value, ',g')}" for time, value in pairs)
        return f"{self.title}: " + ", ".join(points)

    def draw(self) -> str:
        largest = max(value for value in self.values if value is not None)
        distance = (_RIGHT - _LEFT) / max(1, len(self.times) - 1)
        marks: list[Mark] = [
            Label("title", 10, 20, self.title, is_bold=True),
            Arrow("base", _LEFT, _BOTTOM, _RIGHT, _BOTTOM, Tone.MUTED, has_head=False),
            Label("zero", _LEFT - 8, _BOTTOM + 4, "0", "end", Tone.MUTED),
            Arrow("axis", _LEFT, _BOTTOM, _LEFT, _TOP, Tone.MUTED, has_head=False),
            Label("largest", _LEFT - 8, _TOP + 4, format(largest, ",g"), "end", Tone.MUTED),
        ]
        part: list[tuple[float, float]] = []
        parts = [part]
        for number, (time, value) in enumerate(zip(self.times, self.values, strict=True)):
            x = _LEFT + number * distance
            marks.append(Label(f"time {number}", x, _BOTTOM + 20, time, "middle", Tone.MUTED))
            if value is None:
                part = []
                parts.append(part)
                continue
            y = _BOTTOM - value / largest * (_BOTTOM - _TOP)
            part.append((x, y))
            marks.append(Box(f"point {number}", x - 3, y - 3, 6, 6, tone=Tone.NEW))
        marks += [Curve(f"curve {n}", tuple(points), Tone.NEW) for n, points in enumerate(parts) if len(points) > 1]
        return draw_svg(Scene(tuple(marks), self.title, (self.text,)), _HEIGHT, self.text)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        image = f'<img alt="{escape(self.text)}" src="{encode_data_address(self.draw())}">'
        return {"text/html": image, "text/plain": self.text}
