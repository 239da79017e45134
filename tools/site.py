"""Build the web edition of the course: `python tools/site.py` writes `build/site/`.

The pages are the solved lessons, the documents of `docs/`, and the reference of the Python interface. Sphinx makes them
from `build/site-source/`, which has the layout of the repository, so that links between lessons and documents work.

No lesson is executed. A lesson's saved output shows only the first scene of a figure. The output also has the
fingerprint of the figure's content. The figure with this fingerprint in the catalog takes the place of the output, and
moves without a kernel.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import nbformat
from live_only import drop_live_only
from nbformat import NotebookNode
from sphinx.cmd.build import build_main

from kafkagroups.course.figures.catalog import FIGURES
from kafkagroups.course.figures.figure import Figure, page_script, read_fingerprint

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "build" / "site-source"
DOCTREES = ROOT / "build" / "site-doctrees"
SITE = ROOT / "build" / "site"
SOLUTIONS = ROOT / "notebooks" / "solutions"
WORKED_SOLUTION = "course.show_worked_"  # Lesson 14: the reader opens the output.
LESSONS_PLACE = "<!-- lessons -->"
QUESTION = re.compile(r"^\*\*(.+)\*\*$", re.MULTILINE)
FIGURE_CELL = "# figure"
FIGURE_PLACE = re.compile(r"<!-- figure: (\S+) -->")
# A solved lesson is one folder higher on the site than in the repository.
MOVED_LINKS = {"](../pictures/": "](pictures/", "](../../": "](../"}
# The figure of the first page plays by itself. A screen reader says nothing of it until the reader chooses a step.
PLAYS_ITSELF = """<script type="module">
const figure = document.querySelector(".kg-figure-page");
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
  const spoken = figure.querySelector(".kg-spoken");
  spoken.ariaLive = "off";
  const timer = setTimeout(() => figure.querySelector(".kg-play").click(), 3000);
  const use = () => {
    clearTimeout(timer);
    spoken.ariaLive = "polite";
  };
  for (const name of ["pointerdown", "keydown"]) figure.addEventListener(name, use);
}
</script>"""
FIRST_KIT_PAGES = ("plans", "setup", "discussion")


class UnknownFigure(Exception):
    """A lesson has a figure that the catalog does not have."""


def list_figures() -> dict[str, Figure]:
    """Return the figures of the catalog by fingerprint."""
    figures = [make() for make in FIGURES.values()]
    return {figure.fingerprint: figure for figure in figures}


def convert_lesson(notebook: NotebookNode, name: str, figures: dict[str, Figure]) -> None:
    """Replace the images of figures by the figures, fold the solutions, and correct the links."""
    has_script = False
    drop_live_only(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = move_links(cell.source)
            continue
        if cell.source.startswith(FIGURE_CELL):
            cell.metadata.setdefault("tags", []).append("remove-input")
        if "exercise" in cell.metadata.get("tags", ()):
            cell.metadata.tags.append("hide-input")
        elif "hide-input" in cell.metadata.get("tags", ()):
            cell.metadata["mystnb"] = {"code_prompt_show": "Show the code"}
        if cell.source.startswith(WORKED_SOLUTION):
            cell.metadata["tags"] = ["hide-output"]
        for output in cell.get("outputs", ()):
            fingerprint = read_fingerprint(output.get("metadata", {}))
            if fingerprint is None:
                continue
            if fingerprint not in figures:
                number = name[:2]
                raise UnknownFigure(
                    f"{name}, cell {cell.id}: no figure in kafkagroups/course/figures/catalog.py has this content. "
                    f"If a figure has changed, run: make notebooks LESSONS={number}"
                )
            script = "" if has_script else page_script()
            output.data = NotebookNode({"text/html": figures[fingerprint].page_html() + script})
            has_script = True


def move_links(text: str) -> str:
    """Return the text of a solved lesson with the links that are right on the site."""
    for old, new in MOVED_LINKS.items():
        text = text.replace(old, new)
    return text


def place_figures(text: str) -> str:
    """Replace each `<!-- figure: NAME -->` of a page by the figure. The first one plays by itself."""
    has_script = False

    def make_figure(match: re.Match[str]) -> str:
        nonlocal has_script
        page = FIGURES[match[1]]().page_html()
        if not has_script:
            page = re.sub(r'"initial": \d+', '"initial": 0', page, count=1) + page_script() + PLAYS_ITSELF
        has_script = True
        return f"```{{raw}} html\n{page}\n```"

    return FIGURE_PLACE.sub(make_figure, text)


def make_cards(lessons: Mapping[str, NotebookNode]) -> str:
    """Return a list of the lessons, each with its picture, its title and its question."""
    cards = []
    for name, notebook in lessons.items():
        head = notebook.cells[0].source
        title = head.splitlines()[0].removeprefix("# ")
        question = QUESTION.search(head)
        assert question is not None, name
        cards.append(f"- [![](notebooks/pictures/{name[:2]}.svg) **{title}** {question[1]}](notebooks/{name})")
    return "\n".join(["```{container} kg-cards", *cards, "```"])


def add_page_list(text: str) -> str:
    """Return the first page of the handbook with a list for Sphinx: the pages of this folder that the text links to."""
    pages = re.findall(r"\]\(([\w-]+)\.md\)", text)
    return "\n".join([text, "```{toctree}", ":hidden:", "", *pages, "```", ""])


def add_kit_list(text: str, folder: Path) -> str:
    """Return the first page of the instructor kit with a list for Sphinx: all other pages of its folder."""
    found = sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md"))
    others = [page for page in found if page != "index" and page not in FIRST_KIT_PAGES]
    return "\n".join([text, "```{toctree}", ":hidden:", "", *FIRST_KIT_PAGES, *others, "```", ""])


def copy_documents() -> None:
    """Copy the documents of `docs/` to the source of the site.

    The answers of the quizzes are not on the site, and the tables of `docs/facts/` are there as pages of the handbook.
    """
    shutil.copytree(ROOT / "docs", SOURCE / "docs", ignore=shutil.ignore_patterns("site", "answers", "facts"))


def collect_source() -> None:
    """Write `build/site-source/`, the folder from which Sphinx makes the pages."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "site", SOURCE)
    copy_documents()
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, SOURCE / name)
    index = SOURCE / "index.md"
    index.write_text(place_figures(index.read_text(encoding="utf-8")), encoding="utf-8")
    handbook = SOURCE / "docs" / "handbook" / "index.md"
    handbook.write_text(add_page_list(handbook.read_text(encoding="utf-8")), encoding="utf-8")
    kit = SOURCE / "docs" / "instructor" / "index.md"
    kit.write_text(add_kit_list(kit.read_text(encoding="utf-8"), kit.parent), encoding="utf-8")
    for page in kit.parent.rglob("*.md"):  # A learner who searches wants no page for instructors.
        page.write_text(f"---\nnosearch: true\n---\n{page.read_text(encoding='utf-8')}", encoding="utf-8")
    shutil.copytree(ROOT / "notebooks" / "pictures", SOURCE / "notebooks" / "pictures")
    figures = list_figures()
    lessons = {path.name: nbformat.read(path, 4) for path in sorted(SOLUTIONS.glob("[0-9][0-9]_*.ipynb"))}
    for name, notebook in lessons.items():
        convert_lesson(notebook, name, figures)
        nbformat.write(notebook, SOURCE / "notebooks" / name)
    for page in (SOURCE / "lessons.md", SOURCE / "index.md"):
        page.write_text(page.read_text(encoding="utf-8").replace(LESSONS_PLACE, make_cards(lessons)), encoding="utf-8")


def main() -> int:
    try:
        collect_source()
    except UnknownFigure as error:
        print(error)
        return 1
    shutil.rmtree(SITE, ignore_errors=True)
    # Every warning is an error, for example a link to a page that does not exist.
    options = ["-b", "html", "-q", "-W", "--keep-going", "-d", str(DOCTREES)]
    result = build_main([*options, str(SOURCE), str(SITE)])
    (SITE / "_static" / "webpack-macros.html").unlink()  # A template of the theme.
    if result == 0:
        print((SITE / "index.html").relative_to(ROOT))
    return result


if __name__ == "__main__":
    sys.exit(main())
