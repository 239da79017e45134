"""The committed notebooks were run from top to bottom, and they are the same on every machine.

`make test` also runs each notebook again and compares the outputs (nbval). nbval ignores cells without outputs, so the
tests here check that every cell was run.
"""

import base64
import functools
import re
from pathlib import Path
from runpy import run_path

import pytest

from tests.cases import case

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "notebooks").rglob("*.ipynb")
    if ".ipynb_checkpoints" not in path.parts
)
A_MACHINES_PATH = re.compile(r"(?<![\w.])(/home/|/Users/|/root/|/tmp/|/work/|/usr/|[A-Z]:\\\\)|site-packages")
# The path of a link to a file, without the anchor.
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)]*\)")


@functools.cache
def load_tool():
    return run_path(str(ROOT / "tools" / "notebooks.py"))


@functools.cache
def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


@functools.cache
def notebook_of(name):
    import nbformat  # takes as long as many tests

    return nbformat.reads(text_of(name), as_version=4)


def in_every_notebook(check):
    """Make a test of a check of one notebook."""

    @functools.wraps(check)
    def test():
        assert len(NOTEBOOKS) >= 22
        for name in NOTEBOOKS:
            with case(name):
                check(name)

    del test.__wrapped__  # pytest would ask for `name` as a fixture.
    return test


@in_every_notebook
def test_every_notebook_is_valid(name):
    """It is valid by Jupyter's own schema."""
    import nbformat

    nbformat.validate(notebook_of(name))


@in_every_notebook
def test_every_cell_was_run_in_order(name):
    """Code cells are numbered 1 to n: they were run once, from the top, in a fresh kernel."""
    notebook = notebook_of(name)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))


@in_every_notebook
def test_no_stderr_and_no_live_widgets(name):
    """No warnings are committed. Widgets are committed only as their static view."""
    notebook = notebook_of(name)
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output.get("name") != "stderr"
            assert "application/vnd.jupyter.widget-view+json" not in output.get("data", {})


@in_every_notebook
def test_metadata_names_no_machine(name):
    """The kernel is the environment's python3. The version of Python is not stored."""
    notebook = notebook_of(name)
    assert notebook.metadata.kernelspec.name == "python3"
    mend = "saved from JupyterLab? `git checkout notebooks` brings it back"
    assert "version" not in notebook.metadata.get("language_info", {}), mend


@in_every_notebook
def test_no_path_of_a_machine(name):
    """Neither outputs nor sources name a folder of the machine that ran it."""
    assert not A_MACHINES_PATH.search(text_of(name))


@in_every_notebook
def test_images_are_there_and_not_blank(name):
    """Every picture is a PNG with more than one colour. nbval does not compare pictures."""
    notebook = notebook_of(name)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                pixels = base64.b64decode(output["data"]["image/png"])
                assert pixels.startswith(b"\x89PNG") and len(set(pixels)) > 50


def test_starters_are_not_attempted_and_solutions_pass():
    """Every check in a learner's notebook says "not attempted". Every check in a solved notebook passes."""
    for name in NOTEBOOKS:
        solved = "/solutions/" in name
        for cell in notebook_of(name).cells:
            if cell.cell_type == "code" and re.search("^course[.]check", cell.source, re.M):
                said = "".join(output.get("text", "") for output in cell.outputs)
                assert said.startswith("✓") if solved else "not attempted" in said, (name, cell.source)


@in_every_notebook
def test_learners_and_solved_notebook_differ_only_in_exercises(name):
    """One source, two notebooks. Only exercises, relative links, and worked solutions are different."""
    if "/solutions/" in name:
        return
    tool = load_tool()
    learner = notebook_of(name).cells
    solved = notebook_of(name.replace("notebooks/", "notebooks/solutions/")).cells
    assert [cell.id for cell in learner] == [cell.id for cell in solved]
    for mine, theirs in zip(learner, solved, strict=True):
        has_same_text = tool["move_links"](mine.source) == theirs.source
        is_worked_solution = mine.source == f"# {theirs.source}" and theirs.source.startswith("course.show_worked_")
        assert has_same_text or is_worked_solution or "exercise" in mine.metadata.get("tags", [])


@in_every_notebook
def test_every_link_of_a_notebook_leads_to_a_file(name):
    """The path is right from the folder of the notebook: a picture, a document, or another lesson."""
    texts = [cell.source for cell in notebook_of(name).cells if cell.cell_type == "markdown"]
    links = [link for text in texts for link in LINK.findall(text)]
    assert links
    for link in links:
        assert (ROOT / name).parent.joinpath(link).is_file(), link
