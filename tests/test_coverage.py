"""docs/coverage.md leads from each fact to a section, an exercise, prediction or question, and a test that exist."""

import ast
import functools
import re
from pathlib import Path
from typing import NamedTuple

import nbformat

from tests.cases import case

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "coverage.md"
LESSON = re.compile(r'\[(\d\d)\]\((\.\./notebooks/\1_\w+\.ipynb)\) ((?:"[^"]+"(?: \(box "[^"]+"\))?(?:, )?)+)')
SECTION = re.compile(r'"([^"]+)"(?: \(box "([^"]+)"\))?')
TASK = re.compile(r"(exercise|prediction) `(\w+)`")
QUESTION = re.compile(r'question "([^"]+)"')
QUESTIONS = "Check yourself"
"""The section of a lesson whose collapsed boxes are questions."""
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
BOX = re.compile("<details><summary>(.*?)</summary>.*?</details>", re.DOTALL)
ANSWERED = re.compile(r"<details><summary>([^<]+)</summary>\s*[^<\s][^<]*</details>")


class Row(NamedTuple):
    """One row of the page, as texts of its cells."""

    id: str
    fact: str
    lessons: str
    tasks: str
    tests: str


def read_rows():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("| ")]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in table[1:]]


def list_sections(row):
    """Return the path of the lesson, the heading and the box, or None, of each section that the row names."""
    sections = []
    for _, link, headings in LESSON.findall(row.lessons):
        for heading, box in SECTION.findall(headings):
            sections.append((PAGE.parent / link, heading, box or None))
    return sections


@functools.cache
def read_notebook(path):
    return nbformat.read(path, 4)


def read_section(path, heading):
    """Return the Markdown between a heading and the next one, or None if the lesson has no such heading."""
    cells = read_notebook(path).cells
    texts = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", texts, re.MULTILINE | re.DOTALL)
    return found and found[1]


def list_task_names(path, kind):
    """Return the names of a lesson's exercises or predictions."""
    codes = [cell.source for cell in read_notebook(path).cells if cell.cell_type == "code"]
    if kind == "exercise":
        marks = [code.splitlines()[0] for code in codes if code.startswith("# exercise: ")]
        return [name for mark in marks for name in mark.removeprefix("# exercise: ").split(", ")]
    predictions = [code for code in codes if code.startswith("# prediction\n")]
    return [code.splitlines()[1].removesuffix(" = ...") for code in predictions]


@functools.cache
def list_functions(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_what_a_row_names_exists():
    """A heading is in the linked lesson, with main text or the named box; the rest is in one of the row's lessons.

    A question is a collapsed box with an answer, in the section "Check yourself". A test is a function of its file.
    """
    for row in read_rows():
        sections = list_sections(row)
        for path, heading, box in sections:
            with case(f"{row.id}: {path.name}, {heading}, {box}"):
                section = read_section(path, heading)
                assert section is not None
                assert box in BOX.findall(section) if box else BOX.sub("", section).strip()
        lessons = {path for path, _, _ in sections}
        for kind, name in TASK.findall(row.tasks):
            with case(f"{row.id}: {name}"):
                assert any(name in list_task_names(path, kind) for path in lessons)
        for question in QUESTION.findall(row.tasks):
            with case(f"{row.id}: {question}"):
                assert any(question in ANSWERED.findall(read_section(path, QUESTIONS) or "") for path in lessons)
        for file, name in TEST.findall(row.tests):
            with case(f"{row.id}: {file}::{name}"):
                assert name in list_functions(file)
