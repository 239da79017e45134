"""What the tests in a real JupyterLab share: paths, and functions that open, run and scroll a lesson."""

import time
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

SCROLL_DOWN = """(panel, pixels) => {
    const isAtEnd = panel.scrollTop + panel.clientHeight >= panel.scrollHeight - 1;
    panel.scrollTop = isAtEnd ? 0 : panel.scrollTop + pixels;
}"""
# A frame is drawn between the two calls. The short wait lets JupyterLab add the cells that are now in view.
NEXT_FRAMES = """() => new Promise(
    done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60)))
)"""


def open_lesson(page, lab, lesson):
    """Open a lesson and wait until its kernel is ready."""
    page.goto(f"{lab}/lab/tree/notebooks/{lesson}.ipynb?reset")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.wait_for_function(KERNEL)


def run_all(page, lesson):
    """Run all cells of the lesson that was opened, in its new kernel, and wait until they have run in order."""
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    for _ in range(600):
        page.wait_for_timeout(300)
        counts = page.evaluate(COUNTS)
        if counts and counts == list(range(1, len(counts) + 1)) and page.evaluate(KERNEL):
            return
    raise AssertionError(f"{lesson} did not run to its end: {counts}")


def scroll_down(page, pixels):
    """Scroll a lesson down, and wait until the page is drawn. After its end, begin at its top again."""
    panel = page.locator(".jp-WindowedPanel-outer").first
    panel.evaluate(SCROLL_DOWN, pixels)
    page.evaluate(NEXT_FRAMES)


def scroll_to(page, selector, seconds=90):
    """Scroll down until an element exists. JupyterLab draws a cell only when it comes into view."""
    place = page.locator(selector).first
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if place.count():
            place.scroll_into_view_if_needed()
            return place
        scroll_down(page, 400)
    raise AssertionError(f"{selector} did not come into view in {seconds} seconds")
