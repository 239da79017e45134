"""Make slides of the lessons for a projector: `python tools/slides.py`, or `make slides`, writes `build/slides/`.

No lesson is executed. The solved notebooks have the texts and the outputs, the learners' notebooks have the starters of
the exercises, and the catalog has the figures. tools/deck/ decides what becomes a slide. reveal.js shows the slides. It
is copied from the package sphinx-revealjs, so that a deck needs no network.
"""

from __future__ import annotations

import shutil
import sys
from importlib.resources import files
from pathlib import Path

import nbformat
from deck.lesson import Deck, UnknownFigure, make_deck
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from live_only import drop_live_only

from kafkagroups.course.figures.catalog import FIGURES
from kafkagroups.course.figures.figure import page_script

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
TEMPLATES = ROOT / "tools" / "deck"
SLIDES = ROOT / "build" / "slides"
REVEAL_FILES = ("LICENSE", "dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js")
STATIC_FILES = ("slides.css", "slides.js")


def make_decks() -> list[Deck]:
    """Return the deck of every lesson."""
    figures = {figure.fingerprint: figure for figure in (make() for make in FIGURES.values())}
    decks = []
    for path in sorted((NOTEBOOKS / "solutions").glob("[0-9][0-9]_*.ipynb")):
        solved = nbformat.read(path, 4)
        drop_live_only(solved)
        learners = nbformat.read(NOTEBOOKS / path.name, 4)
        starters = {cell.id: cell.source for cell in learners.cells}
        try:
            decks.append(make_deck(solved, starters, figures))
        except UnknownFigure as error:
            raise UnknownFigure(f"{path.name}, {error}. Run: make notebooks LESSONS={path.name[:2]}") from error
    return decks


def write_decks(decks: list[Deck], folder: Path) -> None:
    """Write the pages and everything that they load."""
    shutil.rmtree(folder, ignore_errors=True)
    reveal = files("sphinx_revealjs") / "_static" / "revealjs"
    for name in REVEAL_FILES:
        target = folder / "reveal" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((reveal / name).read_bytes())
    for name in STATIC_FILES:
        shutil.copy(TEMPLATES / name, folder / name)
    shutil.copytree(NOTEBOOKS / "pictures", folder / "pictures")
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    for deck in decks:
        page = templates.get_template("deck.html").render(deck=deck, figure_script=page_script())
        (folder / f"{deck.number}.html").write_text(page, encoding="utf-8")
    index = templates.get_template("index.html").render(decks=decks)
    (folder / "index.html").write_text(index, encoding="utf-8")


def main() -> int:
    try:
        decks = make_decks()
    except UnknownFigure as error:
        print(error)
        return 1
    write_decks(decks, SLIDES)
    print((SLIDES / "index.html").relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
