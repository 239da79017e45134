"""The committed notebooks: run from top to bottom, and the same on every machine.

`make test` also runs each one again and compares the outputs (nbval); that passes over cells without outputs, so
this guard sees to it that they were run.
"""

import base64
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "notebooks").rglob("*.ipynb")
    if ".ipynb_checkpoints" not in path.parts
)
A_MACHINES_PATH = re.compile(r"(?<![\w.])(/home/|/Users/|/root/|/tmp/|/work/|/usr/|[A-Z]:\\\\)|site-packages")


@pytest.fixture(params=NOTEBOOKS)
def text(request):
    return (ROOT / request.param).read_text(encoding="utf-8")


@pytest.fixture
def notebook(text):
    return nbformat.reads(text, as_version=4)


def test_valid(notebook):
    """It is a notebook by Jupyter's own schema."""
    nbformat.validate(notebook)


def test_every_cell_was_run_in_order(notebook):
    """Code cells are numbered 1 to n: run once, from the top, in a fresh kernel."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))


def test_no_stderr_and_no_live_widgets(notebook):
    """No warnings are committed, and widgets are committed as their static view only."""
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr"
            assert "application/vnd.jupyter.widget-view+json" not in output.get("data", {})


def test_metadata_names_no_machine(notebook):
    """The kernel is the environment's python3, and the version that ran it is not written down."""
    assert notebook.metadata.kernelspec.name == "python3"
    mend = "saved from JupyterLab? `git checkout notebooks` brings it back"
    assert "version" not in notebook.metadata.get("language_info", {}), mend


def test_cell_ids_are_derived(notebook):
    """Ids are the lesson and the cell's place, so that the same source gives the same file."""
    prefix = notebook.cells[0].id.rpartition("-")[0]
    assert [cell.id for cell in notebook.cells] == [f"{prefix}-{place:02}" for place in range(len(notebook.cells))]


def test_no_path_of_a_machine(text):
    """Neither outputs nor sources name a folder of the machine that ran it."""
    assert not A_MACHINES_PATH.search(text)


def test_images_are_there_and_not_blank(notebook):
    """nbval does not look at pictures: each is a PNG with more than one colour."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                pixels = base64.b64decode(output["data"]["image/png"])
                assert pixels.startswith(b"\x89PNG") and len(set(pixels)) > 50


def test_a_lesson_is_small_enough(notebook):
    """At most 40 cells, and the first says what one will be able to do, the minutes, and whether it needs Java."""
    assert len(notebook.cells) <= 40
    for words in ("you can", "minutes", "needs Java"):
        assert words in notebook.cells[0].source


def test_no_lesson_writes_a_path(notebook):
    """Data is found by its name, `course.find_data("harbour/1.0.1")`, wherever the notebook lies."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert "../" not in cell.source and "data/" not in cell.source


def test_starters_are_not_attempted_and_solutions_pass():
    """Every check in a learner's notebook says so, every one in the solved notebook passes."""
    for name in NOTEBOOKS:
        solved = "/solutions/" in name
        for cell in nbformat.read(ROOT / name, 4).cells:
            if cell.cell_type == "code" and re.search("^course[.]check", cell.source, re.M):
                said = "".join(output.get("text", "") for output in cell.outputs)
                assert said.startswith("✓") if solved else "not attempted" in said, (name, cell.source)


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if "/solutions/" not in name])
def test_learners_and_solved_notebook_differ_only_in_exercises(name):
    """One source, two notebooks: the cells and their order are the same but for the starters."""
    learner = nbformat.read(ROOT / name, 4).cells
    solved = nbformat.read(ROOT / name.replace("notebooks/", "notebooks/solutions/"), 4).cells
    assert [cell.id for cell in learner] == [cell.id for cell in solved]
    for mine, theirs in zip(learner, solved, strict=True):
        assert mine.source == theirs.source or "exercise" in mine.metadata.get("tags", [])
