"""What the tests in a real JupyterLab share: paths, and functions that open, run and scroll a lesson."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SCREENS = ROOT / "build" / "screens"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync"]

KERNEL = """() => {
    const kernel = window.jupyterapp.shell.currentWidget?.context?.sessionContext?.session?.kernel;
    return kernel?.status === 'idle';
}"""
COUNTS = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells;
    return Array.from({length: cells.length}, (_, i) => cells.get(i))
        .filter(cell => cell.type === 'code').map(cell => cell.executionCount);
}"""


def open_lesson(page, lab, lesson):
    """Open a lesson and wait until its kernel is ready."""
    page.goto(f"{lab}/lab/tree/{lesson}.ipynb?reset")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.wait_for_function(KERNEL)


def run_all(page, lab, lesson):
    """Open a lesson, run all cells in a new kernel, and wait until they have run in order."""
    open_lesson(page, lab, lesson)
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    for _ in range(600):
        page.wait_for_timeout(300)
        counts = page.evaluate(COUNTS)
        if counts and counts == list(range(1, len(counts) + 1)) and page.evaluate(KERNEL):
            return
    raise AssertionError(f"{lesson} did not run to its end: {counts}")


def scroll_to(page, selector):
    """Scroll down until an element exists. JupyterLab draws a cell only when it comes into view."""
    place = page.locator(selector).first
    for _ in range(80):
        if place.count():
            place.scroll_into_view_if_needed()
            return place
        page.mouse.move(700, 500)
        page.mouse.wheel(0, 500)
        page.wait_for_timeout(60)
    raise AssertionError(f"{selector} did not come into view")
