"""Draw the pictures at the heads of the lessons, from the marks of the course's figures.

`python tools/pictures.py [NN …]` writes `notebooks/pictures/NN.svg`. `--check` only compares the files with their
source. A lesson shows its picture with `![what it shows](pictures/NN.svg)`; `tools/notebooks.py` adapts the path in the
solved notebook. A picture has its own light background, because an image does not inherit the theme of its page.

The modules of tools/lesson_pictures/ draw the pictures. To add one, write a function there that returns a `Picture`,
and add it to `PICTURES`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from lesson_pictures import cleaning, forensics, groups, loading, requests, start
from lesson_pictures.shared import Picture

from kafkagroups.course.figures.marks import Scene, draw_svg

FOLDER = Path(__file__).resolve().parents[1] / "notebooks" / "pictures"

PICTURES: dict[str, Callable[[], Picture]] = {
    "00": start.draw_survival,
    "01": start.draw_record,
    "02": start.draw_partition,
    "03": start.draw_log,
    "04": requests.draw_storing,
    "05": requests.draw_fetching,
    "06": groups.draw_states,
    "07": requests.draw_checks,
    "08": cleaning.draw_transaction,
    "09": cleaning.draw_tombstones,
    "10": cleaning.draw_compaction,
    "11": loading.draw_load,
    "12": loading.draw_divided_loads,
    "13": groups.draw_epochs,
    "14": forensics.draw_questions,
}
"""The picture of each lesson."""


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
