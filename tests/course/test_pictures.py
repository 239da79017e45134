"""The pictures at the heads of the lessons: drawn by tools/pictures.py, kept in notebooks/pictures."""

import importlib
import re
from pathlib import Path

import nbformat
import pytest

from kafkagroups.course.figures.marks import Scene
from tests.course.test_figures import check_that_marks_fit

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
SHOWN = re.compile(r"^!\[(.+)\]\((.+)\)$", re.MULTILINE)


def load_tool():
    """Return tools/pictures.py as a module. It imports from its own folder, and the folder `tools` is not a package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        return importlib.import_module("pictures")


TOOL = load_tool()


@pytest.mark.parametrize("name", sorted(TOOL.PICTURES))
def test_a_picture_is_the_one_that_its_source_draws(name):
    """Each text fits its box, no two marks have the same key, and the committed file is current."""
    picture = TOOL.PICTURES[name]()
    keys = [mark.key for mark in picture.marks]
    assert len(keys) == len(set(keys))
    check_that_marks_fit(Scene(picture.marks, "", ()), picture.height, name)
    assert (TOOL.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == TOOL.render(name), "run tools/pictures.py"


def test_each_lesson_shows_its_own_picture():
    """The head of a lesson shows the picture with a text alternative, in the learner's and in the solved notebook."""
    shown = {}
    for path in [*NOTEBOOKS.glob("[0-9]*.ipynb"), *NOTEBOOKS.glob("solutions/[0-9]*.ipynb")]:
        for words, address in SHOWN.findall(nbformat.read(path, 4).cells[0].source):
            file = (path.parent / address).resolve()
            assert file == TOOL.FOLDER / f"{path.stem[:2]}.svg"
            assert len(words.split()) > 5
            shown[path.relative_to(NOTEBOOKS).as_posix()] = file
    assert {file.stem for file in shown.values()} == set(TOOL.PICTURES)
    assert len(shown) == 2 * len(TOOL.PICTURES)
    assert {file.name for file in TOOL.FOLDER.iterdir()} == {file.name for file in shown.values()}
