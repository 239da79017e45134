"""Charts as inline SVG. Each has a title, a description, and nothing that only a colour says.

The charts contain no text, so that they can have any width: numbers and names stand next to them in HTML.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkagroups.report.markup import Html, element, join

_WIDTH = 480
"""The width of every chart in units of its own. The page stretches it."""
_HATCH_STEP = 6


def columns_chart(name: str, title: str, description: str, values: Sequence[int], height: int = 90) -> Html:
    """Return a chart with a column for each value. The largest value has the full height."""
    top = max(values, default=0) or 1
    step = _WIDTH / max(len(values), 1)
    bars = [
        element(
            "rect",
            class_="bar",
            x=f"{number * step:.1f}",
            y=f"{height - _column_height(value, top, height):.1f}",
            width=f"{max(step - 1, 1):.1f}",
            height=f"{_column_height(value, top, height):.1f}",
        )
        for number, value in enumerate(values)
        if value
    ]
    base = element("line", class_="axis", x1=0, x2=_WIDTH, y1=height, y2=height)
    return _svg(name, title, description, height + 1, [*bars, base])


def _column_height(value: int, top: int, height: int) -> float:
    """Return the height of a column. A value that is not 0 can be seen."""
    return max(height * value / top, 2.0)


def share_bar(name: str, title: str, description: str, part: int, rest: int, whole: int, height: int = 18) -> Html:
    """Return a bar of two parts: the first one is solid, the second one is hatched. `whole` is the full width."""
    scale = _WIDTH / (whole or 1)
    part_width = part * scale
    rest_width = rest * scale
    pieces = []
    if part:
        pieces.append(element("rect", class_="bar", x=0, y=1, width=f"{max(part_width, 2):.1f}", height=height - 2))
    if rest:
        pieces.append(
            element(
                "rect", class_="rest", x=f"{part_width:.1f}", y=1, width=f"{max(rest_width, 2):.1f}", height=height - 2
            )
        )
        pieces.append(_hatch(part_width, part_width + rest_width, height))
    return _svg(name, title, description, height, pieces)


def _hatch(start: float, end: float, height: int) -> Html:
    """Return vertical lines. Lines need no pattern with an id, which a second chart could repeat."""
    marks = []
    x = start + _HATCH_STEP / 2
    while x < end:
        marks.append(f"M{x:.1f} 1V{height - 1}")
        x += _HATCH_STEP
    return element("path", class_="hatch", d="".join(marks)) if marks else Html("")


def _svg(name: str, title: str, description: str, height: int, shapes: Sequence[Html]) -> Html:
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", description, id=f"{name}-desc"),
        join(*shapes),
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {_WIDTH} {height}",
        preserveAspectRatio="none",
        height=height,
    )
