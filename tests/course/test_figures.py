"""Every figure of the course, in the forms that need no browser. tests/browser/test_figures.py operates each one."""

import base64
import importlib.util
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kafkagroups import UsageError
from kafkagroups.course.figures.catalog import FIGURES
from kafkagroups.course.figures.figure import Content, Control, Figure, page_script, read_fingerprint
from kafkagroups.course.figures.marks import WIDTH, Box, Label, Scene, measure_text, place_keys
from tests.course.figures import list_labels, make_figure

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=sorted(FIGURES))
def figure(request):
    return make_figure(request.param)


def check_that_marks_fit(scene, height, place):
    """Check that no text leaves its box, and no mark leaves the picture."""
    for mark in scene.marks:
        if isinstance(mark, Box):
            widest = max((measure_text(line, mark.size) for line in mark.lines), default=0)
            assert widest <= mark.width + 1, (place, mark)
            assert len(mark.lines) * mark.size * 1.3 <= mark.height + 2, (place, mark)
            assert mark.x >= 0 and mark.x + mark.width <= WIDTH, (place, mark)
            assert mark.y >= 0 and mark.y + mark.height <= height, (place, mark)
        elif isinstance(mark, Label):
            share_left = {"start": 0, "middle": 0.5, "end": 1}[mark.anchor]
            width = measure_text(mark.text, mark.size)
            assert mark.x - share_left * width >= -1, (place, mark)
            assert mark.x + (1 - share_left) * width <= WIDTH + 1, (place, mark)
            assert 0 <= mark.y <= height, (place, mark)


def test_every_text_fits_its_box_and_the_picture(figure):
    """No scene draws a text outside its box, or a mark outside the picture."""
    for options, scene in figure.content.scenes.items():
        check_that_marks_fit(scene, figure.content.height, options)
    legend = tuple(place_keys(figure.content.legend, 14))
    check_that_marks_fit(Scene(legend, "", ()), 20, "legend")


def test_the_keys_of_a_scene_are_different(figure):
    """A browser finds the mark to move by its key."""
    for options, scene in figure.content.scenes.items():
        keys = [mark.key for mark in scene.marks]
        assert len(keys) == len(set(keys)), options


def test_every_value_of_the_text_form_is_drawn(figure):
    """A line of the text form is "name: value". The picture or its caption contains each value."""
    for options, scene in figure.content.scenes.items():
        around = [*(line.text for line in scene.lines), *(box.key for box in figure.content.legend), scene.caption]
        shown = " ".join([*list_labels(scene.marks), *around])
        for line in scene.text:
            _, separator, value = line.partition(": ")
            if separator:
                words = rf"(?<!\w){re.escape(value.lower())}(?!\w)"
                assert re.search(words, shown.lower()), (options, line)


def test_the_image_shows_only_the_first_scene(figure):
    """A saved notebook has an image of the first scene, with its text as the alternative."""
    html = figure.image_html()
    svg = base64.b64decode(re.search(r"base64,([^\"]+)", html)[1]).decode()
    root = ElementTree.fromstring(svg)
    drawn = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    legend = list_labels(tuple(place_keys(figure.content.legend, 0)))
    assert [text or "" for text in drawn] == [*list_labels(figure.first_scene.marks), *legend]
    assert "<script" not in html


def test_the_page_script_asks_no_other_host():
    """The script and the style name no address, except the name space of SVG."""
    addresses = set(re.findall(r"https?://[^\s\"')]+", page_script()))
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_every_figure_of_a_lesson_is_in_the_catalog():
    """The web edition shows the catalog's figure in place of the saved image, so all their scenes are the same.

    So no text, caption or mark of a figure changes unnoticed: its fingerprint is no longer the saved one.
    """
    names = {make_figure(name).fingerprint: name for name in FIGURES}
    assert len(names) == len(FIGURES)
    found = set()
    for path in (ROOT / "notebooks").rglob("[0-9][0-9]_*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", ()):
                fingerprint = read_fingerprint(output.get("metadata", {}))
                number = path.name[:2]
                if fingerprint:
                    assert fingerprint in names, f"{path.name}, {cell['id']}: run: make notebooks LESSONS={number}"
                    found.add(names[fingerprint])
    assert found == FIGURES.keys()


def test_names_in_a_picture_are_data():
    """A group name with markup does not become markup in any form."""
    name = "</script><script>alert(1)</script>"
    scene = Scene((Label("name", 0, 20, name),), f"The group is {name}.", (f"group: {name}",))
    figure = Figure(Content("a figure", 100, (Control("step", "step", ("one",)),), {(0,): scene}, ()))
    assert "<script>alert" not in figure.image_html()
    assert "</script><script>alert" not in figure.page_html()


def test_the_pictures_of_the_documents_are_current():
    """`python tools/figures.py --pictures` writes them from the figures and from the command's own output."""
    spec = importlib.util.spec_from_file_location("figures_tool", ROOT / "tools" / "figures.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/guide.md"))
    for path, picture in tool.list_pictures().items():
        assert path.read_text(encoding="utf-8") == picture, path.name
        assert f"{path.name})" in pages


REFUSED = {
    "byte-ribbon-record": {
        "9=24": "expected key or value before the position",
        "value 9=zz": "one byte in hex",
        "value 15=74": "byte 15 of the value is already 74",
        "value 48=00": "the value has the positions 0 to 47",
    },
    "partition-grid": {"  ": "empty text", "x" * 41: "at most 40", "a\x00b": "printable"},
    "rebalance-lanes": {
        "billing-3 at 9": "for example 'billing-1 at 9'",
        "billing-1 at 99": "ends at second 15",
        "billing-2 at 3": "has not joined yet",
        "billing-1 at 14": "has already left",
    },
    "segment": {
        "byte 3": "one byte in hex",
        "99999999=00": "positions 0 to",
        "100=00": "byte 100 of the file is already",
    },
}


@pytest.mark.parametrize(("name", "typed"), [(name, typed) for name, values in REFUSED.items() for typed in values])
def test_a_typed_value_that_makes_no_sense_is_refused(name, typed):
    """The figure shows one line, and keeps its scenes."""
    with pytest.raises(UsageError, match=REFUSED[name][typed]):
        make_figure(name).compute_content(typed)


def test_a_typed_byte_changes_the_first_scene_that_shows_it():
    record = make_figure("byte-ribbon-record").compute_content("value 15=54")
    assert "now believed: metadata: till 1 → Till 1" in record.scenes[len(record.controls[0].options) - 1, 0].text
