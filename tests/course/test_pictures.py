"""The pictures at the heads of the lessons: drawn by tools/pictures.py, kept in notebooks/pictures."""

import importlib
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.course.test_figures import check_that_marks_fit

ROOT = Path(__file__).parents[2]


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
    check_that_marks_fit(SimpleNamespace(marks=picture.marks), picture.height, name)
    assert (TOOL.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == TOOL.render(name), "run tools/pictures.py"


@pytest.mark.parametrize("name", sorted(TOOL.PICTURES))
def test_each_colour_of_a_picture_has_a_colour_for_dark_pages(name):
    """A browser takes the second colour of light-dark() where the page around the image is dark."""
    svg = TOOL.render(name)
    drawn = set(re.findall(r'(fill|stroke)="(#\w{6})"', svg.split("</style>")[1]))
    pairs = re.findall(r"\{(fill|stroke):light-dark\((#\w{6}),(#\w{6})\)\}", svg)
    assert {(attribute, light) for attribute, light, _ in pairs} >= drawn
    assert all(light != dark for _, light, dark in pairs)
