"""The form of every lesson: one idea per cell, short sentences, three exercises, four boxes at the end."""

import functools
import re
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted(path.stem for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
INCIDENTS = "14_forensics"
"""A lesson of another form: ten incidents, each with its own questions. tests/course/test_incidents.py checks them."""
TAUGHT = [lesson for lesson in LESSONS if lesson != INCIDENTS]
MOST_WORDS_IN_A_CELL = 130
MOST_WORDS_IN_A_SENTENCE = 25
EXERCISES = 3
BOXES = ["## In five lines", "## For your consumer", "## At 3 am"]
WORD = re.compile(r"\S*\w\S*")
END_OF_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n\s*\n|\n\s*- |\n\s*\d+\. ")


@functools.cache
def read_cells(lesson):
    return nbformat.read(NOTEBOOKS / f"{lesson}.ipynb", 4).cells


def list_texts(lesson):
    """Return the number and the Markdown of each text cell, without code, headings and tables."""
    texts = []
    for number, cell in enumerate(read_cells(lesson)):
        if cell.cell_type == "markdown":
            text = re.sub("```.*?```", "", cell.source, flags=re.DOTALL)
            lines = [line for line in text.splitlines() if not line.startswith(("|", "#"))]
            texts.append((number, "\n".join(lines)))
    return texts


def list_headings(lesson):
    return [line for _, cell in enumerate(read_cells(lesson)) for line in cell.source.splitlines() if line[:3] == "## "]


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_cell_has_one_idea(lesson):
    """A cell has at most about 120 words of prose. Collapsed boxes do not count."""
    long_cells = {}
    for number, text in list_texts(lesson):
        visible = re.sub("<details>.*?</details>", "", text, flags=re.DOTALL)
        count = len(WORD.findall(visible))
        if count > MOST_WORDS_IN_A_CELL:
            long_cells[number] = count
    assert long_cells == {}


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_sentence_is_short(lesson):
    """A sentence has at most 25 words, in collapsed boxes too."""
    sentences = [sentence for _, text in list_texts(lesson) for sentence in END_OF_SENTENCE.split(text)]
    assert [s for s in sentences if len(WORD.findall(s)) > MOST_WORDS_IN_A_SENTENCE] == []


@pytest.mark.parametrize("lesson", TAUGHT)
def test_a_lesson_has_three_exercises(lesson):
    """Each exercise has its own heading. The first one of lesson 00 shows how an exercise works."""
    starters = [cell for cell in read_cells(lesson) if cell.source.startswith("# exercise: ")]
    headings = [
        heading for heading in list_headings(lesson) if re.match("## (Exercise: |How an exercise works)", heading)
    ]
    assert len(starters) == len(headings) == EXERCISES


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_ends_with_four_boxes(lesson):
    """In five lines, For your consumer, At 3 am, and In Kafka, which is collapsed. Then: what we left out."""
    headings = list_headings(lesson)
    assert [heading for heading in headings if heading in BOXES] == BOXES
    assert headings[-1] == "## What we left out, and why"
    assert headings.index(BOXES[-1]) == len(headings) - 2
    source = "\n".join(cell.source for cell in read_cells(lesson))
    _, _, five_lines = source.partition(BOXES[0])
    assert len(re.findall("^- ", five_lines.partition("## ")[0], re.MULTILINE)) == 5
    assert "<details><summary>In Kafka</summary>" in five_lines or lesson.startswith("00")


@pytest.mark.parametrize("lesson", [lesson for lesson in TAUGHT if lesson[:2] not in ("00", "13")])
def test_the_classic_coordinator_has_the_same_form_in_every_lesson(lesson):
    """A table with one column for each coordinator. Lesson 00 has none; 13 is about records of the new one only."""
    assert "## Where the classic coordinator differs" in list_headings(lesson)
    source = "\n".join(cell.source for cell in read_cells(lesson))
    section = source.partition("## Where the classic coordinator differs")[2]
    assert re.search(
        r"^\|[^|]*\| New coordinator \(Kafka 4\.x\) \| Classic coordinator \(up to 3\.9\) \|$", section, re.M
    )


@pytest.mark.parametrize("lesson", TAUGHT)
def test_a_lesson_takes_30_to_45_minutes(lesson):
    """By the one formula of tools/notebooks.py."""
    head = read_cells(lesson)[0].source
    minutes = re.search(r"\| (\d+) \| (?:no|yes|one cell|two cells)", head)
    assert minutes is not None, head
    assert 30 <= int(minutes[1]) <= 45
    assert "estimated minutes" in head
