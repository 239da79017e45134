"""Write the figures of the course for pages without a kernel.

`python tools/figures.py` writes one page with every figure, `build/figures.html`. The page needs no network.
`--pictures` also writes the pictures of the README and the guide into `docs/`. A test compares them with the figures.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from html import escape
from itertools import count
from pathlib import Path

from rich.cells import cell_len

from kafkagroups.cli import main as run_command
from kafkagroups.course.figures.catalog import FIGURES
from kafkagroups.course.figures.figure import page_script
from kafkagroups.course.figures.marks import draw_svg

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "build" / "figures.html"
PICTURES = {"compaction": (3, 0, 0), "epochs": (13,)}
"""The scenes that the README shows: the name of a figure, and the options of the scene."""


COMMAND = ["check", "data/new_protocols/4.3.1-ghost/__consumer_offsets-3"]
_COLOURS = {"": "#e6eaf0", "1": "#ffffff", "1;31": "#ff8a7e", "1;32": "#4fbf78", "2": "#7d8690", "33": "#d7a520"}
"""The colours of the picture, by the code of the terminal."""
_COLOURED = re.compile(r"(?:\x1b\[([\d;]+)m)?([^\x1b]+)(?:\x1b\[0m)?")
_LINE_HEIGHT = 17
_CELL_WIDTH = 7.8


class Terminal(io.StringIO):
    """What a command prints here has colours."""

    def isatty(self) -> bool:
        return True


def draw_picture(name: str) -> str:
    """Return the picture of a figure for the README, as SVG."""
    content = FIGURES[name]().content
    return draw_svg(content.scenes[PICTURES[name]], content.height, content.title, content.legend) + "\n"


def draw_command() -> str:
    """Return what a command prints on a terminal, as an SVG that is readable on light and dark pages."""
    printed = Terminal()
    folder = Path.cwd()
    os.chdir(ROOT)
    try:
        with redirect_stdout(printed), redirect_stderr(io.StringIO()):
            run_command(COMMAND)
    finally:
        os.chdir(folder)
    lines = [f"$ kafkagroups {' '.join(COMMAND)}", *printed.getvalue().splitlines()]
    height = len(lines) * _LINE_HEIGHT + 24
    style = 'font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="13"'
    texts = [
        f'<text x="{14 + column * _CELL_WIDTH:g}" y="{y}" fill="{colour}">{escape(word)}</text>'
        for y, line in zip(count(26, _LINE_HEIGHT), lines)
        for column, word, colour in list_words(line)
    ]
    frame = f'<rect width="656" height="{height}" rx="6" fill="#14181e"/>'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 656 {height}" role="img" {style}>'
    return "\n".join([opening, "<title>kafkagroups check</title>", frame, *texts, "</svg>"]) + "\n"


def list_words(line: str) -> Iterator[tuple[int, str, str]]:
    """Yield each word of a line with its column in a terminal, where some characters are two wide, and its colour."""
    start = 0
    for code, text in _COLOURED.findall(line):
        for match in re.finditer(r"\S+", text):
            yield start + cell_len(text[: match.start()]), match.group(), _COLOURS[code]
        start += cell_len(text)


def list_pictures() -> dict[Path, str]:
    """Return the contents of the README's pictures, by their paths."""
    pictures = {ROOT / "docs" / f"figure-{name}.svg": draw_picture(name) for name in PICTURES}
    return {ROOT / "docs" / "check.svg": draw_command(), **pictures}


def build_page() -> str:
    """Return one page with every figure of the course."""
    sections = [f"<h2>{escape(name)}</h2>{make().page_html()}" for name, make in FIGURES.items()]
    head = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Figures of the course</title></head>'
    return f"{head}<body><main><h1>Figures of the course</h1>{''.join(sections)}</main>{page_script()}</body></html>\n"


def main(arguments: list[str]) -> int:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(build_page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
    if "--pictures" in arguments:
        for path, picture in list_pictures().items():
            path.write_text(picture, encoding="utf-8")
            print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
