"""The built web edition in a real browser: no request to another host, no barrier, and it fits a telephone.

Screenshots are kept in `build/screens/site/`.
"""

import functools
import http.server
import shutil
import threading

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from tests.site.built import ROOT, SITE, find_site, list_pages

SCREENS = ROOT / "build" / "screens" / "site"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync"]
# The browser finds no host, except the server of this test.
CLOSED = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
# The parts of a page that contain all text. The theme lets the third one scroll, so the page alone would look narrow.
FIND_TOO_WIDE = """() => ['html', '.bd-main', '.bd-article-container', '.bd-article', '.bd-search-container']
    .flatMap(name => [...document.querySelectorAll(name)])
    .filter(part => part.scrollWidth > part.clientWidth)
    .map(part => part.className + ': ' + [...part.querySelectorAll('*')]
        .filter(each => each.getBoundingClientRect().right > 361 && !each.closest('pre, table, svg'))
        .slice(0, 3).map(each => each.outerHTML.slice(0, 150)).join(' | '))"""
# After a change of the width, the theme needs a moment until the keyboard reaches what scrolls now.
SCROLLS_BY_KEYBOARD = """() => [...document.querySelectorAll('pre, .pst-scrollable-table-container')]
    .every(part => part.scrollWidth <= part.clientWidth || part.tabIndex === 0)"""

pytestmark = pytest.mark.browser


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """A handler that does not print requests."""

    def log_message(self, *_arguments):
        """Print nothing."""


@pytest.fixture(scope="module")
def address():
    """The address of the site on this machine."""
    handler = functools.partial(QuietHandler, directory=str(find_site()))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        chromium = playwright.chromium.launch(executable_path=path, headless=True, args=[*QUIET, *CLOSED])
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser):
    """A function that opens a page, and keeps its errors and its requests to other hosts in `page.problems`."""
    contexts = []

    def open_address(root, name, scheme="light", width=1280, motion="reduce"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion=motion
        )
        contexts.append(context)
        page = context.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and page.problems.append(message.text))

        def note_request(request):
            if not request.url.startswith((root, "data:")):
                page.problems.append(f"another host: {request.url}")

        page.on("request", note_request)
        page.goto(f"{root}/{name}", wait_until="load")
        return page

    yield open_address
    for context in contexts:
        context.close()


def has_dark_check(name):
    """Return whether axe also sees a page in dark: each lesson, and the first page of each folder.

    The dark colours come from the theme, so pages of the same kind have the same ones, and axe takes most of the time.
    """
    folder, _, _ = name.rpartition("/")
    return folder == "notebooks" or name == next(page for page in list_pages() if page.rpartition("/")[0] == folder)


@pytest.mark.parametrize("name", list_pages() or ["index.html"])
def test_a_page_has_no_barrier_and_asks_no_other_host(address, open_page, name):
    """axe finds nothing, and on a telephone the page does not scroll sideways, with every folded part open."""
    page = open_page(address, name)
    page.evaluate("() => document.querySelectorAll('details').forEach(element => { element.open = true })")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    show(page, name, "dark", 360)
    assert page.evaluate(FIND_TOO_WIDE) == []
    assert page.problems == []
    if has_dark_check(name):
        check_barriers(page)
    show(page, name, "light", 1280)
    check_barriers(page)


def show(page, name, scheme, width):
    """Give an open page another theme and width, and take a screenshot."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
    page.wait_for_function(SCROLLS_BY_KEYBOARD)
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENS / f"{name.replace('/', '-')}-{scheme}-{width}.png")


def check_barriers(page):
    result = Axe().run(page)
    assert result.violations_count == 0, result.generate_report()


@pytest.mark.parametrize(("motion", "word"), [("no-preference", "pause"), ("reduce", "play")])
def test_the_figure_of_the_first_page_plays_unless_the_reader_wants_no_motion(address, open_page, motion, word):
    """A screen reader hears nothing of it until the reader uses the figure. Both are whole on the first screen."""
    page = open_page(address, "index.html", motion=motion)
    page.wait_for_timeout(3500)
    assert page.locator(".kg-play").inner_text().endswith(word)
    spoken = page.locator(".kg-spoken")
    assert spoken.get_attribute("aria-live") == ("off" if word == "pause" else "polite")
    page.get_by_role("button", name="next").click()
    assert spoken.get_attribute("aria-live") == "polite"
    assert page.locator(".kg-play").inner_text().endswith("play")
    for part in (".kg-start a >> nth=0", ".kg-figure"):
        box = page.locator(part).bounding_box()
        assert box["y"] + box["height"] <= 900


def test_answers_and_solutions_are_folded(address, open_page):
    """In lesson 05, 3 predictions, 3 solutions and the code of 5 stories are closed, and open by keyboard."""
    page = open_page(address, "notebooks/05_fetching.html")
    answers = page.locator("details", has_text="Predict first")
    solutions = page.locator("details", has_text="Show the solution")
    stories = page.locator("details", has_text="Show the code")
    assert (answers.count(), solutions.count(), stories.count()) == (3, 3, 5)
    for folded in [*answers.all(), *solutions.all(), *stories.all()]:
        assert folded.get_attribute("open") is None
        folded.locator("summary").focus()
        page.keyboard.press("Enter")
        assert folded.get_attribute("open") is not None


@pytest.mark.parametrize("served", [True, False], ids=["from a server", "from the disk"])
def test_the_search_finds_a_word(address, open_page, served):
    """A word that is typed on the start page leads to a lesson that contains it."""
    page = open_page(address if served else SITE.as_uri(), "index.html")
    page.keyboard.press("Control+k")
    page.locator("#pst-search-dialog input").fill("tombstone")
    page.keyboard.press("Enter")
    lesson = page.locator("#search-results li a[href*='notebooks/01_records']").first
    lesson.wait_for()
    assert page.locator("#search-results a[href*=instructor]").count() == 0, "pages for instructors are not searched"
    lesson.click()
    page.wait_for_url("**/notebooks/01_records.html*")
    assert "tombstone" in page.locator("main").inner_text().lower()
    # From the disk, the browser refuses to read the pages for the texts below the results. The results are there.
    assert [problem for problem in page.problems if served or "another host" in problem] == []
