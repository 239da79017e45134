"""Scenes as SVG images, for pages that run no script.

A browser does not tell an image which theme the page has. So the image has its own light background.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from html import escape

from kafkagroups.course.figures.marks import WIDTH, Arrow, Box, Label, Mark, Scene, find_hatch
from kafkagroups.course.figures.palette import LIGHT_HUES, PAGE_COLOUR, Colours, Tone, find_colours, find_fill, find_hue

FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
LINE_HEIGHT = 1.3
"""The distance of two lines of text in a box, as a part of the font size."""


def draw_svg(scene: Scene, height: float, title: str) -> str:
    """Return the scene as an SVG document."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_number(height)}" '
        f'width="{WIDTH}" height="{_number(height)}" role="img" font-family="{escape(FONT)}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{_number(height)}" rx="6" fill="{PAGE_COLOUR}"/>',
    ]
    for mark in scene.marks:
        parts += _draw_mark(mark)
    parts.append("</svg>")
    return "\n".join(parts)


def encode_data_address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _draw_mark(mark: Mark) -> Iterator[str]:
    colours = find_colours(mark.tone)
    if isinstance(mark, Box):
        yield from _draw_box(mark, colours)
    elif isinstance(mark, Label):
        yield _draw_text(mark.x, mark.y, mark.text, mark.anchor, mark.size, colours.ink, mark.is_bold)
    elif isinstance(mark, Arrow):
        yield from _draw_arrow(mark, colours)
    else:
        points = " ".join(f"{_number(x)},{_number(y)}" for x, y in mark.points)
        dashes = ' stroke-dasharray="5 4"' if mark.is_dashed else ""
        line = LIGHT_HUES[find_hue(mark.hue)] if mark.hue else colours.line
        yield f'<polyline points="{points}" fill="none" stroke="{line}" stroke-width="2"{dashes}/>'


def _draw_box(box: Box, colours: Colours) -> Iterator[str]:
    hue = LIGHT_HUES[find_hue(box.hue)] if box.hue else colours.line
    line = hue if box.tone is Tone.PLAIN or box.is_solid else colours.line
    fill = find_fill(hue) if box.hue else colours.fill
    if box.is_solid:
        fill = hue
    dashes = ' stroke-dasharray="4 3"' if box.is_dashed else ""
    faded = ' fill-opacity="0.4"' if box.is_gone else ""
    place = f'x="{_number(box.x)}" y="{_number(box.y)}" width="{_number(box.width)}" height="{_number(box.height)}"'
    yield f'<rect {place} rx="3" fill="{PAGE_COLOUR if box.is_hollow else fill}"{faded} stroke="{line}"{dashes}/>'
    if box.is_gone:
        moved = f'transform="translate({_number(box.x)} {_number(box.y)})"'
        yield f'<path {moved} d="{find_hatch(box)}" stroke="{colours.line}" fill="none" opacity="0.35"/>'
    for line_number, line in enumerate(box.lines):
        base_line = find_base_line(box, line_number)
        middle = box.x + box.width / 2
        yield _draw_text(middle, base_line, line, "middle", box.size, colours.ink, box.is_bold)


def find_base_line(box: Box, line_number: int) -> float:
    first_middle = box.y + box.height / 2 - (len(box.lines) - 1) * box.size * LINE_HEIGHT / 2
    return first_middle + line_number * box.size * LINE_HEIGHT + box.size * 0.35


def _draw_arrow(arrow: Arrow, colours: Colours) -> Iterator[str]:
    dashes = ' stroke-dasharray="5 4"' if arrow.is_dashed else ""
    ends = f'x1="{_number(arrow.x1)}" y1="{_number(arrow.y1)}" x2="{_number(arrow.x2)}" y2="{_number(arrow.y2)}"'
    yield f'<line {ends} stroke="{colours.line}" stroke-width="1.6"{dashes}/>'
    if arrow.has_head:
        points = " ".join(f"{_number(x)},{_number(y)}" for x, y in find_arrow_head(arrow))
        yield f'<polygon points="{points}" fill="{colours.line}"/>'


def find_arrow_head(arrow: Arrow) -> list[tuple[float, float]]:
    across = arrow.x2 - arrow.x1
    down = arrow.y2 - arrow.y1
    length = (across**2 + down**2) ** 0.5 or 1
    unit_x = across / length
    unit_y = down / length
    base_x = arrow.x2 - 8 * unit_x
    base_y = arrow.y2 - 8 * unit_y
    return [
        (arrow.x2, arrow.y2),
        (base_x - 4 * unit_y, base_y + 4 * unit_x),
        (base_x + 4 * unit_y, base_y - 4 * unit_x),
    ]


def _draw_text(x: float, y: float, text: str, anchor: str, size: float, colour: str, is_bold: bool) -> str:
    weight = ' font-weight="bold"' if is_bold else ""
    place = f'x="{_number(x)}" y="{_number(y)}" text-anchor="{anchor}" font-size="{_number(size)}"'
    return f'<text {place} fill="{colour}"{weight} xml:space="preserve">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{round(value, 1):g}"
