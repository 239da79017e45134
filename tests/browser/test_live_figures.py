"""The figures of each lesson, live in JupyterLab: by keyboard, in both themes, at two widths, without barriers.

Screenshots are kept in `build/screens/live/`.
"""

import re
import time

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.lab import LESSONS, ROOT, SCREENS, run_all, scroll_down, scroll_to

pytestmark = pytest.mark.browser

CHANGE_THEME = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def count_figures(lesson):
    """Return how many figures the learner's notebook contains."""
    cells = nbformat.read(ROOT / "notebooks" / f"{lesson}.ipynb", 4).cells
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    return sum("kafkagroups_figure" in output.get("metadata", {}) for output in outputs)


LESSONS_WITH_FIGURES = [lesson for lesson in LESSONS if count_figures(lesson) and not lesson.startswith("12")]


def read_shown(figure):
    """Return everything that a figure shows: labels, caption and places."""
    labels = figure.locator("svg text").all_text_contents()
    return [*labels, figure.locator(".kg-caption").inner_text(), *figure.locator(".kg-place").all_text_contents()]


def change_by_keyboard(page, figure):
    """Move the first control of the figure with the keyboard."""
    slider = figure.get_by_role("slider")
    if slider.count():
        slider.first.focus()
        page.keyboard.press("ArrowRight")
        return
    box = figure.get_by_role("combobox")
    if box.count():
        box.first.focus()
        page.keyboard.press("ArrowDown")
        return
    figure.get_by_role("radio").first.focus()
    page.keyboard.press("ArrowRight")


def operate(page, figure, picture, is_dark):
    """Move a figure's first control, and check its theme and its accessibility."""
    figure.scroll_into_view_if_needed()
    before = read_shown(figure)
    change_by_keyboard(page, figure)
    page.wait_for_timeout(150)
    assert read_shown(figure) != before, picture.name
    assert figure.evaluate("element => element.classList.contains('kg-dark')") == is_dark
    figure.screenshot(path=picture)
    result = Axe().run(page, context=".kg-figure")
    assert result.violations_count == 0, result.generate_report()


@pytest.mark.parametrize("lesson", LESSONS_WITH_FIGURES)
def test_the_figures_of_a_lesson_are_live(page, lab, lesson):
    """Each figure changes by keyboard, at 1280 and 700 pixels. axe finds nothing in it, light and dark."""
    run_all(page, lab, lesson)
    (SCREENS / "live").mkdir(parents=True, exist_ok=True)
    for width, theme in ((1280, "light"), (700, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(CHANGE_THEME, THEMES[theme])
        page.locator(".jp-WindowedPanel-outer").first.evaluate("panel => panel.scrollTop = 0")
        page.wait_for_timeout(500)
        # JupyterLab draws a cell only when it comes into view.
        operated = set()
        end = time.monotonic() + 90
        while time.monotonic() < end:
            for figure in page.locator(".kg-figure").all():
                title = figure.get_attribute("aria-label")
                if title not in operated:
                    operated.add(title)
                    picture = SCREENS / "live" / f"{lesson}-{len(operated)}-{theme}-{width}.png"
                    operate(page, figure, picture, theme == "dark")
            if len(operated) == count_figures(lesson):
                break
            scroll_down(page, 400)
        assert len(operated) == count_figures(lesson)
    assert page.outside == []


@pytest.mark.parametrize("lesson", LESSONS_WITH_FIGURES)
def test_an_untrusted_notebook_shows_the_first_scene(page, lab, course, lesson):
    """A clone is not trusted. The saved outputs show an image for each figure, and no control."""
    source = course / "notebooks" / f"{lesson}.ipynb"
    notebook = nbformat.read(source, 4)
    notebook.cells[0].source += "\n\n<!-- a changed copy has no signature -->"
    copy = course / "notebooks" / f"untrusted_{lesson}.ipynb"
    nbformat.write(notebook, copy)
    try:
        page.goto(f"{lab}/lab/tree/notebooks/{copy.name}?reset")
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        image = scroll_to(page, "img[src^='data:image/svg+xml']")
        assert image.evaluate("image => image.complete && image.naturalWidth > 0")
        assert re.search(r"\w+: ", image.get_attribute("alt"))
        assert page.locator(".kg-figure").count() == 0
        assert page.outside == []
    finally:
        copy.unlink()
