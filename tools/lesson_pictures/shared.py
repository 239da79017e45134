"""What the pictures of all lessons share: the class of a picture, its lengths, and rows of boxes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkagroups.course.figures.marks import WIDTH, Box, Mark, Tone

MARGIN = 8
RIGHT = WIDTH - MARGIN
ROW_HEIGHT = 46
"""The height of a box with two lines."""
LINE_BOX_HEIGHT = 34
"""The height of a box with one line."""
SIZE = 15
"""The size of most texts. In a narrow column, a picture is drawn at about half of its size."""
LARGE = 18


@dataclass(frozen=True)
class Picture:
    """A picture of a lesson's head. `title` is the text of the image's tooltip and for screen readers."""

    title: str
    height: float
    marks: tuple[Mark, ...]


def draw_row(
    key: str, x: float, y: float, cells: tuple[tuple[str, ...], ...], widths: tuple[float, ...], tone: Tone
) -> Iterator[Mark]:
    """Yield adjacent boxes. A cell contains the lines of its box."""
    for number, (lines, width) in enumerate(zip(cells, widths, strict=True)):
        yield Box(f"{key} {number}", x, y, width, ROW_HEIGHT, lines, tone, SIZE)
        x += width


def draw_line_box(
    key: str, x: float, y: float, width: float, text: str, tone: Tone = Tone.PLAIN, is_dashed: bool = False
) -> Box:
    """Return a box with one line of text."""
    return Box(key, x, y, width, LINE_BOX_HEIGHT, (text,), tone, SIZE, is_dashed=is_dashed)


def draw_large_box(
    key: str, x: float, y: float, width: float, text: str, tone: Tone = Tone.PLAIN, is_dashed: bool = False
) -> Box:
    """Return a box with one line of large text."""
    return replace(draw_line_box(key, x, y, width, text, tone, is_dashed), size=LARGE)
