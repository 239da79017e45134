"""The committed notebooks: run from top to bottom, and the same on every machine.

`make test` also runs each one again and compares the outputs (nbval); that passes over cells without outputs, so
this guard sees to it that they were run.
"""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks").rglob("*.ipynb"))
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
    assert "version" not in notebook.metadata.get("language_info", {})


def test_cell_ids_are_derived(notebook):
    """Ids are the lesson and the cell's place, so that the same source gives the same file."""
    prefix = notebook.cells[0].id.rpartition("-")[0]
    assert [cell.id for cell in notebook.cells] == [f"{prefix}-{place:02}" for place in range(len(notebook.cells))]


def test_no_path_of_a_machine(text):
    """Neither outputs nor sources name a folder of the machine that ran it."""
    assert not A_MACHINES_PATH.search(text)
