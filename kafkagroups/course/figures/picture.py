"""Scenes as SVG images, for pages that run no script.

An image has its own background, and both sets of colours.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from kafkagroups.course.figures.marks import (
    LIGHT_HUES,
    PAGE_COLOUR,
    WIDTH,
    Arrow,
    Box,
    Colours,
    Label,
    Mark,
    Scene,
    Tone,
    find_colours,
    find_dark_colours,
    find_fill,
    find_hatch,
    find_hue,
)

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LINE_HEIGHT = 1.3
"""The distance of two lines of text in a box, as a part of the font size."""
_COLOUR = re.compile(r'(fill|stroke)="(#\w{6})"')


def draw_svg(scene: Scene, height: float, title: str) -> str:
    size = f'viewBox="0 0 {WIDTH} {_format(height)}" width="{WIDTH}" height="{_format(height)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{escape(FONT)}">',
        f"<title>{escape(title)}</title>",
        _draw("rect", width=WIDTH, height=height, rx=6, fill=PAGE_COLOUR),
    ]
    for mark in scene.marks:
        parts += _draw_mark(mark)
    parts.insert(2, _write_style("\n".join(parts)))
    return "\n".join([*parts, "</svg>"])


def _write_style(elements: str) -> str:
    dark = find_dark_colours()
    rules = [
        f'[{name}="{colour}"]{{{name}:light-dark({colour},{dark[colour]})}}'
        for name, colour in sorted(set(_COLOUR.findall(elements)))
    ]
    return f"<style>:root{{color-scheme:light dark}}{''.join(rules)}</style>"


def encode_data_address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _draw_mark(mark: Mark) -> Iterator[str]:
    colours = find_colours(mark.tone)
    if isinstance(mark, Box):
        yield from _draw_box(mark, colours)
    elif isinstance(mark, Label):
        yield _draw_text(mark.x, mark.y, mark.text, mark.anchor, mark, colours.ink)
    elif isinstance(mark, Arrow):
        ends: dict[str, Any] = {"x1": mark.x1, "y1": mark.y1, "x2": mark.x2, "y2": mark.y2}
        dashes = "5 4" if mark.is_dashed else None
        yield _draw("line", **ends, stroke=colours.line, stroke_width=1.6, stroke_dasharray=dashes)
        if mark.has_head:
            yield _draw("polygon", points=_join(_find_head(mark)), fill=colours.line)
    else:
        line = LIGHT_HUES[find_hue(mark.hue)] if mark.hue else colours.line
        dashes = "5 4" if mark.is_dashed else None
        points = _join(mark.points)
        yield _draw("polyline", points=points, fill="none", stroke=line, stroke_width=2, stroke_dasharray=dashes)


def _draw_box(box: Box, colours: Colours) -> Iterator[str]:
    hue = LIGHT_HUES[find_hue(box.hue)] if box.hue else colours.line
    line = hue if box.tone is Tone.PLAIN or box.is_solid else colours.line
    fill = find_fill(hue) if box.hue else colours.fill
    if box.is_solid:
        fill = hue
    elif box.is_hollow:
        fill = PAGE_COLOUR
    place: dict[str, Any] = {"x": box.x, "y": box.y, "width": box.width, "height": box.height, "rx": 3}
    opacity = 0.4 if box.is_gone else None
    dashes = "4 3" if box.is_dashed else None
    yield _draw("rect", **place, fill=fill, fill_opacity=opacity, stroke=line, stroke_dasharray=dashes)
    if box.is_gone:
        moved = f"translate({_format(box.x)} {_format(box.y)})"
        yield _draw("path", transform=moved, d=find_hatch(box), stroke=colours.line, fill="none", opacity=0.35)
    first = box.y + box.height / 2 - (len(box.lines) - 1) * box.size * LINE_HEIGHT / 2 + box.size * 0.35
    for number, text in enumerate(box.lines):
        y = first + number * box.size * LINE_HEIGHT
        yield _draw_text(box.x + box.width / 2, y, text, "middle", box, colours.ink)


def _find_head(arrow: Arrow) -> list[tuple[float, float]]:
    across = arrow.x2 - arrow.x1
    down = arrow.y2 - arrow.y1
    length = (across**2 + down**2) ** 0.5 or 1
    unit_x = across / length
    unit_y = down / length
    x = arrow.x2 - 8 * unit_x
    y = arrow.y2 - 8 * unit_y
    return [(arrow.x2, arrow.y2), (x - 4 * unit_y, y + 4 * unit_x), (x + 4 * unit_y, y - 4 * unit_x)]


def _draw_text(x: float, y: float, text: str, anchor: str, mark: Box | Label, colour: str) -> str:
    style = {"font_size": mark.size, "font_weight": "bold" if mark.is_bold else None, "xml:space": "preserve"}
    return _draw("text", escape(text), x=x, y=y, text_anchor=anchor, fill=colour, **style)


def _draw(name: str, content: str = "", **attributes: Any) -> str:
    given = [(key.replace("_", "-"), value) for key, value in attributes.items() if value is not None]
    words = "".join(f' {key}="{_format(value)}"' for key, value in given)
    return f"<{name}{words}>{content}</{name}>" if content else f"<{name}{words}/>"


def _join(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_format(x)},{_format(y)}" for x, y in points)


def _format(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 2):g}"
