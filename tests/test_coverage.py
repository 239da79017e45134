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


def test_every_section_is_in_its_lesson():
    """Each heading is a heading of the linked lesson, and its section has main text or the named box."""
    for row in read_rows():
        for path, heading, box in list_sections(row):
            with case(f"{row.id}: {path.name}, {heading}, {box}"):
                section = read_section(path, heading)
                assert section is not None
                if box:
                    assert box in BOX.findall(section)
                else:
                    assert BOX.sub("", section).strip()


def test_every_exercise_and_prediction_is_in_a_lesson_of_its_row():
    """An exercise or prediction is in one of the lessons that the row links."""
    for row in read_rows():
        lessons = {path for path, _, _ in list_sections(row)}
        for kind, name in TASK.findall(row.tasks):
            with case(f"{row.id}: {name}"):
                assert any(name in list_task_names(path, kind) for path in lessons)


def test_every_question_is_in_a_lesson_of_its_row():
    """A question is a collapsed box with an answer, in the section "Check yourself" of a lesson that the row links."""
    for row in read_rows():
        lessons = {path for path, _, _ in list_sections(row)}
        for question in QUESTION.findall(row.tasks):
            with case(f"{row.id}: {question}"):
                assert any(question in ANSWERED.findall(read_section(path, QUESTIONS) or "") for path in lessons)


@functools.cache
def list_functions(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_test_is_in_its_file():
    """Each test is a function of the named file."""
    for row in read_rows():
        for file, name in TEST.findall(row.tests):
            with case(f"{row.id}: {file}::{name}"):
                assert name in list_functions(file)
