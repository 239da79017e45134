"""Draw the pictures at the heads of the lessons, from the marks of the course's figures.

`python tools/pictures.py [NN …]` writes `notebooks/pictures/NN.svg`. `--check` only compares the files with their
source. A lesson shows its picture with `![what it shows](pictures/NN.svg)`; `tools/notebooks.py` adapts the path in the
solved notebook. A picture has its own light background, because an image does not inherit the theme of its page.

To add a picture, write a function that returns a `Picture`, and add it to `PICTURES`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.course.figures.marks import WIDTH, Arrow, Box, Label, Mark, Scene, Tone
from kafkagroups.course.figures.picture import draw_svg

FOLDER = Path(__file__).resolve().parents[1] / "notebooks" / "pictures"
MARGIN = 8
ROW_HEIGHT = 46
SIZE = 15
"""The size of most texts. In a narrow column, a picture is drawn at about half of its size."""


@dataclass(frozen=True)
class Picture:
    """A picture of a lesson's head. `title` is the text of the image's tooltip and for screen readers."""

    title: str
    height: float
    marks: tuple[Mark, ...]


def draw_record() -> Picture:
    """Return the picture of lesson 01: the key and the value of a commit, and a tombstone."""
    key = (("type", "1"), ("group", '"billing"'), ("topic", '"orders"'), ("partition", "0"))
    value = (("version", "4"), ("offset", "35"), ("epoch, metadata, …",))
    marks = [
        Label("key words", MARGIN, 22, "key: whose position?", size=SIZE, is_bold=True),
        *draw_row("key", MARGIN, 32, key, (60, 94, 90, 94), Tone.NEW),
        Arrow("to value", 38, 82, 38, 126),
        Label("value words", 54, 110, "value: the position, and more", size=SIZE, is_bold=True),
        *draw_row("value", MARGIN, 130, value, (76, 70, 192), Tone.LIVE),
        Arrow("to tombstone", 350, 55, 456, 126, is_dashed=True),
        Label("or", 430, 88, "or", size=SIZE),
        Box("tombstone", 378, 130, 174, ROW_HEIGHT, ("no value:", "a tombstone"), Tone.DEAD, SIZE, is_dashed=True),
    ]
    return Picture("A record: a key, and a value or no value", 184, tuple(marks))


def draw_log() -> Picture:
    """Return the picture of lesson 03: a folder, its files, and the batches of a file."""
    right = WIDTH - MARGIN
    marks = [
        Box("folder", MARGIN, 4, right - MARGIN, 212, tone=Tone.MUTED),
        Label("folder name", 18, 26, "__consumer_offsets-9/", size=SIZE, is_bold=True),
        Label("folder words", right - 10, 26, "a folder: one partition", "end", size=SIZE),
        Box("file", 18, 40, right - 28, 166, tone=Tone.MUTED),
        Label("file name", 28, 64, "00000000000000000000.log", size=SIZE, is_bold=True),
        Label("file words", right - 20, 64, "a file: one segment", "end", size=SIZE),
        Label("file name words", 28, 86, "named by its first offset", size=SIZE, tone=Tone.MUTED),
        *draw_batch(0, 28, 100, 80),
        *draw_batch(1, 192, 100, 110),
        Box("more batches", 386, 100, 146, ROW_HEIGHT, ("more batches",), size=SIZE, is_dashed=True),
        Label("batch 0 words", 28, 168, "a batch", size=SIZE),
        Label("batch 1 words", 192, 168, "a batch", size=SIZE),
        Label("gap words", 28, 194, "one after another, without gaps", size=SIZE, tone=Tone.MUTED),
    ]
    return Picture("A partition's folder, a segment file, and its batches", 220, tuple(marks))


def draw_batch(number: int, x: float, y: float, records_width: float) -> Iterator[Mark]:
    """Yield the two boxes of a batch: its header and its records."""
    yield Box(f"header {number}", x, y, 80, ROW_HEIGHT, ("header", "61 bytes"), Tone.NEW, SIZE)
    yield Box(f"records {number}", x + 80, y, records_width, ROW_HEIGHT, ("records",), Tone.LIVE, SIZE)


def draw_row(
    key: str, x: float, y: float, cells: tuple[tuple[str, ...], ...], widths: tuple[float, ...], tone: Tone
) -> Iterator[Mark]:
    """Yield adjacent boxes. A cell contains the lines of its box."""
    for number, (lines, width) in enumerate(zip(cells, widths, strict=True)):
        yield Box(f"{key} {number}", x, y, width, ROW_HEIGHT, lines, tone, SIZE)
        x += width


PICTURES: dict[str, Callable[[], Picture]] = {
    "01": draw_record,
    "03": draw_log,
}
"""The picture of each lesson that has one."""


def render(name: str) -> str:
    """Return the SVG file of a lesson's picture."""
    picture = PICTURES[name]()
    return draw_svg(Scene(picture.marks, "", ()), picture.height, picture.title) + "\n"


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    wanted = [argument for argument in arguments if argument != "--check"] or sorted(PICTURES)
    if unknown := set(wanted) - set(PICTURES):
        print(f"There is no picture {', '.join(sorted(unknown))}.")
        return 2
    drifted = 0
    FOLDER.mkdir(exist_ok=True)
    for name in wanted:
        path = FOLDER / f"{name}.svg"
        svg = render(name)
        if not check:
            path.write_text(svg, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != svg:
            print(f"notebooks/pictures/{name}.svg does not match its source: run tools/pictures.py")
            drifted += 1
    return int(drifted > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
