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
def tools():
    """The modules of tools/."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        import deck.piece
        import deck.pieces
        import slides

        yield slides, deck.piece, deck.pieces


@pytest.fixture(scope="module")
def decks(tools):
    return {deck.number: deck for deck in tools[0].make_decks()}


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


def test_a_long_paragraph_is_cut_and_its_rest_is_in_the_notes(tools):
    """The first sentences and the introduction of a list remain. A short paragraph stays whole."""
    pieces = tools[2]
    long = f"This is the first sentence. {'This one is long. ' * 10}These are the rules:"
    assert pieces.cut(long, 1) == "This is the first sentence. These are the rules:"
    assert pieces.cut("One. Two.", 1) == "One. Two."
    piece = pieces.read_pieces(long, 1)[0]
    assert piece.notes == long
    assert piece.has_sequel


def test_pieces_that_need_more_room_than_a_slide_get_several_slides(tools):
    """A listing of 60 lines is divided. An introduction stays with the piece after it."""
    _, piece_tools, pieces = tools
    listing = pieces.make_listing("\n".join(f"line {number}" for number in range(60)))
    assert len(listing) > 1
    assert all(piece.height <= piece_tools.ROOM for piece in listing)
    assert "line 59" in listing[-1].html
    introduction = pieces.read_pieces("This follows:")
    tall = piece_tools.Piece("<p>tall</p>", piece_tools.ROOM - 60)
    pages = pieces.pack([piece_tools.Piece("<p>first</p>", 100), *introduction, tall])
    assert [len(page) for page in pages] == [1, 2]


def test_a_sentence_that_asks_for_a_typed_value_is_not_on_a_slide(decks):
    """A slide has no field. The lesson marks such a sentence, and other sentences of its paragraph stay."""
    pages = [slide.body + slide.notes for deck in decks.values() for slide in deck.slides]
    assert not any("live-only" in page for page in pages)
    assert not any("type a death" in page or "type a name of your own" in page for page in pages)
    assert any("find a byte whose change goes unnoticed" in page for page in pages)
