"""A line plot with two logarithmic axes, as SVG text without a plotting library; each line has its name at its end."""

from __future__ import annotations

from math import floor, log10
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH = 720
HEIGHT = 440
LEFT = 70
RIGHT = 190
TOP = 20
BOTTOM = 50
OUR_COLOUR = "#0b6e4f"
OTHER_COLOUR = "#777777"
LINE_HEIGHT = 14


class Line(NamedTuple):
    name: str
    points: list[tuple[float, float]]
    is_ours: bool


def draw_svg(lines: list[Line], x_name: str, y_name: str) -> str:
    """Return the plot of these lines."""
    xs = [x for line in lines for x, _ in line.points] or [1]
    ys = [y for line in lines for _, y in line.points] or [1]
    low_x = min(xs) / 1.3
    high_x = max(xs) * 1.3
    low_y = min(ys) / 1.5
    high_y = max(ys) * 1.5

    def place(x: float, y: float) -> tuple[float, float]:
        across = log10(x / low_x) / log10(high_x / low_x)
        up = log10(y / low_y) / log10(high_y / low_y)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    bottom = HEIGHT - BOTTOM
    right = WIDTH - RIGHT
    for x in choose_ticks(low_x, high_x):
        at, _ = place(x, low_y)
        out.append(f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{format_tick(x)}</text>')
    for y in choose_ticks(low_y, high_y):
        _, at = place(low_x, y)
        out.append(f'<path d="M{LEFT} {at:.1f}H{right}" stroke="#e4e4e4"/>')
        out.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{format_tick(y)}</text>')
    out.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_name)}</text>')
    middle = (TOP + bottom) / 2
    out.append(f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">{escape(y_name)}</text>')
    label_positions: list[float] = []
    for line in sorted(lines, key=lambda line: -line.points[-1][1]):
        colour = OUR_COLOUR if line.is_ours else OTHER_COLOUR
        weight = 2.5 if line.is_ours else 1.2
        corners = [place(*point) for point in line.points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{weight}"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in corners]
        x, y = corners[-1]
        # The label is below the labels of slower lines.
        label = max([y, *(other + LINE_HEIGHT for other in label_positions)])
        label_positions.append(label)
        out.append(
            f'<path d="M{x:.1f} {y:.1f}L{right + 6} {label:.1f}" fill="none" stroke="{colour}" stroke-width="0.5"/>'
        )
        bold = ' font-weight="bold"' if line.is_ours else ""
        out.append(f'<text x="{right + 10}" y="{label + 4:.1f}" fill="{colour}"{bold}>{escape(line.name)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def choose_ticks(low: float, high: float) -> list[float]:
    """Return 1 and 3 of every power of ten in the range."""
    found = [step * 10.0**power for power in range(floor(log10(low)), floor(log10(high)) + 1) for step in (1, 3)]
    return [value for value in found if low <= value <= high]


def format_tick(value: float) -> str:
    return f"{value / 1e6:g} M" if value >= 1e5 else f"{value:g}"
