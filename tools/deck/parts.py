"""The parts of a lesson: headings, texts, folded boxes, predictions, exercises and outputs, in their order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

BOX = re.compile(r"<details><summary>(.*?)</summary>(.*?)</details>", re.DOTALL)
HEADING = re.compile(r"^## +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """A part of a lesson: `kind` says what it is, and `cell` is the code cell, if it is one."""

    kind: str
    text: str = ""
    cell: NotebookNode | None = None
    summary: str = ""


def list_parts(cell: NotebookNode) -> Iterator[Part]:
    """Yield the parts of a cell."""
    if cell.cell_type == "markdown":
        yield Part("cell")
        start = 0
        for box in BOX.finditer(cell.source):
            yield from _list_texts(cell.source[start : box.start()])
            yield Part("box", box[2].strip(), summary=box[1])
            start = box.end()
        yield from _list_texts(cell.source[start:])
    elif "exercise" in cell.metadata.get("tags", ()):
        yield Part("exercise", cell=cell)
    elif "course.show_worked_solution(" in cell.source:
        return
    elif "course.check(" in cell.source:
        yield Part("check", cell=cell)
    elif cell.source.startswith("# prediction"):
        yield Part("prediction", cell=cell)
    else:
        yield Part("output", cell=cell)


def _list_texts(text: str) -> Iterator[Part]:
    """Yield the headings of a text, and the texts below them."""
    first, *rest = HEADING.split(text)
    if first.strip():
        yield Part("text", first.strip())
    for heading, below in zip(rest[::2], rest[1::2], strict=True):
        yield Part("heading", heading)
        if below.strip():
            yield Part("text", below.strip())


def has_exercise(following: list[Part]) -> bool:
    """Return whether an exercise follows before the next heading."""
    for part in following:
        if part.kind == "heading":
            return False
        if part.kind == "exercise":
            return True
    return False


def asks_for_prediction(following: list[Part]) -> bool:
    """Return whether a text asks for a prediction, before the next heading and before the next code cell."""
    for part in following:
        if part.kind not in ("text", "box"):
            return False
        if part.kind == "text" and "*Predict*" in part.text:
            return True
    return False


def leads_to_figure(following: list[Part]) -> bool:
    """Return whether a code cell with a figure is next."""
    return bool(following) and following[0].kind == "output" and following[0].cell.source.startswith("# figure")
