"""The slides of the lessons, without a browser: nothing is missing, and no task shows its solution."""

from html import escape
from pathlib import Path

import nbformat
import pytest

from kafkagroups import course

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "notebooks" / "source").glob("[0-9][0-9]_*.py"))
SHORT_LINE = 8  # A shorter line, for example `else:`, says nothing about a solution.


@pytest.fixture(scope="module")
def decks():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        import slides

        return {deck.number: deck for deck in slides.make_decks()}


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem[:2])
def lesson(request, decks):
    """A deck, and the cells of the solved lesson."""
    path = request.param
    cells = nbformat.read(ROOT / "notebooks" / "solutions" / f"{path.stem}.ipynb", 4).cells
    return decks[path.stem[:2]], cells


def list_exercises(cells):
    """Return the names of the exercises of a lesson."""
    marks = [cell.source.splitlines()[0] for cell in cells if cell.source.startswith("# exercise: ")]
    return [name for mark in marks for name in mark.removeprefix("# exercise: ").split(", ")]


def test_a_deck_has_every_exercise_without_its_solution(lesson, capsys):
    """A task slide has the learner's starter. No slide of a task has a line that only the solution has."""
    deck, cells = lesson
    tasks = "\n".join(slide.body for slide in deck.slides if slide.kind == "task")
    notes = "\n".join(slide.notes for slide in deck.slides)
    names = list_exercises(cells)
    assert len(names) >= 3
    learners = nbformat.read(next((ROOT / "notebooks").glob(f"{deck.number}_*.ipynb")), 4).cells
    codes = [cell.source.split("\n", 1) for cell in learners if cell.source.startswith("# exercise: ")]
    starters = {name: starter for mark, starter in codes for name in mark.removeprefix("# exercise: ").split(", ")}
    for name in names:
        starter = starters[name]
        assert escape(starter, quote=False) in tasks, name
        capsys.readouterr()
        course.solution(name)
        lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
        secret = [line for line in lines if len(line) >= SHORT_LINE and line not in starter]
        assert secret, name
        assert [line for line in secret if escape(line, quote=False) in tasks + notes] == [], name
