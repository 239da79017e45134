"""The lessons in a real JupyterLab and browser: every cell runs, every widget works, no request leaves the machine.

Screenshots of each lesson at 1280 and 700 pixels are kept in `build/screens/`, those of its figures in `live/` there.
"""

import json
import re
import time

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.lab import KERNEL, LESSONS, ROOT, SCREENS, open_lesson, run_all, scroll_down, scroll_to

pytestmark = pytest.mark.browser

CHANGE_THEME = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def test_the_course_opens_without_questions(page, lab):
    """No question about news covers the start page, and the list of files has only the lessons, in order."""
    page.goto(f"{lab}/")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.wait_for_function(KERNEL)
    page.wait_for_timeout(2000)  # A question would appear after the start page.
    assert page.locator(".Toastify__toast").count() == 0
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.title.label") == "00_start_here.ipynb"
    names = [name.inner_text().removesuffix(".ipynb") for name in page.locator(".jp-DirListing-itemText").all()]
    assert names == LESSONS


def test_a_solution_counts_as_changed_only_after_a_change(page, lab, course):
    """As for each lesson below, in a notebook of the folder `solutions`."""
    lesson = "solutions/02_partitions"
    check_that_opening_changes_nothing(page, lab, lesson)
    run_all(page, lesson)
    check_that_saving_changes_no_metadata(page, course, lesson)


def check_that_opening_changes_nothing(page, lab, lesson):
    open_lesson(page, lab, lesson)
    page.wait_for_timeout(1000)
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.context.model.dirty") is False


def check_that_saving_changes_no_metadata(page, course, lesson):
    """Saving a notebook after a run changes no metadata that Git tracks."""
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    assert read_metadata(course, lesson) == read_metadata(ROOT, lesson)


def read_metadata(folder, lesson):
    notebook = json.loads((folder / "notebooks" / f"{lesson}.ipynb").read_text(encoding="utf-8"))
    cells = [(cell["id"], cell["metadata"]) for cell in notebook["cells"]]
    return notebook["metadata"], notebook["nbformat"], notebook["nbformat_minor"], cells


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_runs_in_the_browser(page, lab, course, lesson):
    """All cells run, none shows an error, no request leaves the machine, and the figures are live.

    Each figure changes by keyboard, at 1280 and 700 pixels, and axe finds nothing in it, light and dark. One run serves
    all of this, because a run takes longer than everything else. Screenshots are taken.
    """
    check_that_opening_changes_nothing(page, lab, lesson)
    run_all(page, lesson)
    assert page.locator(".jp-RenderedText[data-mime-type='application/vnd.jupyter.error']").count() == 0
    check_that_saving_changes_no_metadata(page, course, lesson)
    (SCREENS / "live").mkdir(parents=True, exist_ok=True)
    if lesson in USES:
        USES[lesson](page, scroll_to(page, ".kg-figure"))
    for width, theme in ((1280, "light"), (700, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(CHANGE_THEME, THEMES[theme])
        page.locator(".jp-WindowedPanel-outer").first.evaluate("panel => panel.scrollTop = 0")
        page.wait_for_timeout(500)
        page.screenshot(path=SCREENS / f"{lesson}-{width}.png")
        operate_figures(page, lesson, theme, width)
    page.evaluate(CHANGE_THEME, THEMES["light"])
    assert page.outside == []


def test_a_term_leads_to_the_glossary(page, lab):
    """A click on a linked term opens the glossary next to the lesson, at this term."""
    open_lesson(page, lab, "00_start_here")
    scroll_to(page, "a[href*='glossary.md'][href$='#record']").click()
    heading = page.locator(".jp-MarkdownViewer h2", has_text=re.compile("^record(¶)?$"))
    expect(heading).to_be_in_viewport()
    page.screenshot(path=SCREENS / "glossary.png")
    assert page.outside == []


def test_the_first_ten_minutes(page, lab, course):
    """README: the first decoded record, the first moved figure, the first incident. The page is used by hand."""
    open_lesson(page, lab, "00_start_here")
    run_until(page, "kg.decode(")
    expect(page.locator(".jp-OutputArea-output", has_text="partition 2")).to_contain_text("offset    42")
    open_lesson(page, lab, "01_records")
    run_until(page, "course.RecordRibbon(")
    figure = page.locator(".kg-figure")
    figure.get_by_role("button", name="next").click()
    expect(figure.locator(".kg-place")).to_have_text("field 12 of 15: value: commitTimestamp")
    open_lesson(page, lab, "14_forensics")
    run_until(page, 'course.run_command("kafkagroups stats')
    page.screenshot(path=SCREENS / "first-incident.png")
    expect(page.locator(".jp-OutputArea-output", has_text="price-ticker")).to_contain_text("3336000", timeout=30_000)
    assert (course / "notebooks" / "incidents" / "01-growing-partition" / "symptoms.md").is_file()
    assert page.outside == []


def run_until(page, code):
    """Press Shift + Enter in the cells from the first to the first one that contains `code`, and wait for its end."""
    cells = page.evaluate(
        """() => {
            const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
            return Array.from({length: cells.length}, (_, i) => cells.get(i).sharedModel.getSource());
        }"""
    )
    last = next(number for number, source in enumerate(cells) if code in source)
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    page.locator(".jp-Notebook .jp-Cell").first.click()
    for number in range(last + 1):
        page.keyboard.press("Shift+Enter")
        page.wait_for_function(
            "number => window.jupyterapp.shell.currentWidget.content.activeCellIndex === number", arg=number + 1
        )
        page.wait_for_timeout(100)  # JupyterLab moves the focus to the next cell.
    page.wait_for_timeout(500)
    page.wait_for_function(KERNEL)


def count_figures(lesson):
    """Return how many figures the learner's notebook contains."""
    cells = nbformat.read(ROOT / "notebooks" / f"{lesson}.ipynb", 4).cells
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    return sum("kafkagroups_figure" in output.get("metadata", {}) for output in outputs)


def read_shown(figure):
    """Return everything that a figure shows: lines, labels, caption and places."""
    labels = figure.locator("p.kg-line, svg text").all_text_contents()
    return [*labels, figure.locator(".kg-caption").inner_text(), *figure.locator(".kg-place").all_text_contents()]


def change_by_keyboard(page, figure):
    """Move the first control of the figure with the keyboard."""
    slider = figure.get_by_role("slider")
    if slider.count():
        slider.first.focus()
        is_last = slider.first.input_value() == slider.first.get_attribute("max")
        page.keyboard.press("ArrowLeft" if is_last else "ArrowRight")
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


def operate_figures(page, lesson, theme, width):
    """Operate each figure of a lesson. JupyterLab draws a cell only when it comes into view."""
    operated = set()
    end = time.monotonic() + 90
    while len(operated) < count_figures(lesson) and time.monotonic() < end:
        for figure in page.locator(".kg-figure").all():
            title = figure.get_attribute("aria-label")
            if title not in operated:
                operated.add(title)
                picture = SCREENS / "live" / f"{lesson}-{len(operated)}-{theme}-{width}.png"
                operate(page, figure, picture, theme == "dark")
        scroll_down(page, 400)
    assert len(operated) == count_figures(lesson)


def test_an_untrusted_notebook_shows_the_first_scene(page, lab, course):
    """A clone is not trusted. The saved outputs show an image for each figure (see test_figures.py), and no control."""
    lesson = "08_transactions"
    notebook = nbformat.read(ROOT / "notebooks" / f"{lesson}.ipynb", 4)
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


def enter_text(figure, name, text, refused=None):
    """Type a text into a figure. Its status says why it is refused, and is empty if it is not."""
    field = figure.get_by_role("textbox", name=name)
    field.fill(text)
    field.press("Enter")
    status = figure.get_by_role("status")
    expect(status).to_have_text(re.compile(re.escape(refused)) if refused else "")


def type_a_byte(page, figure):
    """Lesson 01: the reader steps to a field, types a byte, and sees what a reader of the record now believes."""
    place = figure.locator(".kg-place")
    shown = figure.locator(".kg-view")
    figure.get_by_role("button", name="next").click()
    expect(place).to_have_text("field 12 of 15: value: commitTimestamp")
    figure.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    expect(place).to_have_text("field 13 of 15: value: tagged fields")
    figure.get_by_role("combobox", name="changed byte").select_option("offset 23 → 24")
    figure.get_by_role("slider").focus()
    page.keyboard.press("End")
    expect(shown).to_contain_text("offset: 35 → 36")
    enter_text(figure, "change a byte", "9=24", refused="expected key or value before the position")
    enter_text(figure, "change a byte", "value 15=54")
    expect(shown).to_contain_text("metadata: till 1 → Till 1")
    expect(figure.get_by_role("textbox", name="change a byte")).to_be_focused()
    page.screenshot(path=SCREENS / "figure-typed-byte.png")


def type_a_group(page, figure):
    """Lesson 02: the hash of "reports" is 1094603199, so its partition is 49 of 50, and 39 of 60."""
    shown = figure.locator("svg")
    expect(shown).not_to_contain_text("reports")
    figure.get_by_role("slider").focus()
    page.keyboard.press("Home")
    enter_text(figure, "mark a group id", "reports")
    expect(shown).to_contain_text("partition 49")
    figure.get_by_role("button", name="next").click()
    expect(shown).to_contain_text("49 → 39")
    enter_text(figure, "mark a group id", " ", refused="expected a group id")
    page.screenshot(path=SCREENS / "figure-typed-group.png")


def cut_the_power(page, figure):
    """Lesson 04: the figure is live. Its buttons and the keyboard step, and its alternatives cut the power."""
    place = figure.locator(".kg-place")
    caption = figure.locator(".kg-caption")
    expect(place).to_have_text("step 3 of 5: 6 appended")
    expect(caption).to_contain_text("a fetch still returns 5")
    figure.get_by_role("slider").focus()
    page.keyboard.press("Home")
    expect(place).to_have_text("step 1 of 5: 5 is committed")
    figure.get_by_role("button", name="next").click()
    expect(place).to_have_text("step 2 of 5: 6 checked")
    figure.get_by_role("slider").focus()
    page.keyboard.press("ArrowRight")
    expect(place).to_have_text("step 3 of 5: 6 appended")
    figure.get_by_role("radio", name="cut after this step").check()
    expect(caption).to_contain_text("6 is lost if the next broker has only what the replica confirmed.")
    expect(figure.locator(".kg-line").filter(has_text="the next broker answers 6 or 5").first).to_be_visible()
    page.screenshot(path=SCREENS / "figure-in-lesson.png")


def type_a_death(page, figure):
    """Lesson 06: the join phase ends at 7 s. A member that dies at 9 s is removed at 17 s."""
    shown = figure.locator(".kg-view")
    enter_text(figure, "place a death", "billing-1 at 14", refused="has already left")
    enter_text(figure, "place a death", "billing-1 at 9")
    expect(shown).to_contain_text("billing-1 dies")
    figure.get_by_role("slider").focus()
    page.keyboard.press("End")
    expect(shown).to_contain_text(re.compile(r"removed\s*at\s*17 s"))
    page.screenshot(path=SCREENS / "figure-typed-death.png")
    page.keyboard.press("Home")


USES = {
    "01_records": type_a_byte,
    "02_partitions": type_a_group,
    "04_storing": cut_the_power,
    "06_the_groups_life": type_a_death,
}
"""What a reader does with the first figure of a lesson, after the cells have run."""
