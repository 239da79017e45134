"""The slides in a real browser without a network: no slide is too full, figures move, and there is no barrier."""

import shutil
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
NUMBERS = [path.stem[:2] for path in sorted((ROOT / "notebooks" / "source").glob("[0-9][0-9]_*.py"))]
OPTIONS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
OPTIONS += ["--host-resolver-rules=MAP * ~NOTFOUND"]
IS_READY = "() => window.Reveal?.isReady()"
# The slide that is shown, and each part of it that leaves the screen of 1280 × 720. Captions keep room for longer ones.
FIND_TOO_FULL = """() => {
    const slide = Reveal.getCurrentSlide();
    const frame = Reveal.getViewportElement().getBoundingClientRect();
    return [slide, ...slide.querySelectorAll('*')].filter(part => {
        if (part.closest('.notes, svg') && part.tagName !== 'svg') return false;
        const box = part.getBoundingClientRect();
        return box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
    }).map(part => `${slide.innerText.slice(0, 40)}: ${part.outerHTML.slice(0, 90)}`);
}"""
SMALLEST_TEXT = """() => {
    const walker = document.createTreeWalker(Reveal.getCurrentSlide(), NodeFilter.SHOW_TEXT);
    let smallest = 100;
    while (walker.nextNode()) {
        const parent = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || parent.closest('svg, .notes, script, details')) continue;
        smallest = Math.min(smallest, parseFloat(getComputedStyle(parent).fontSize));
    }
    return smallest;
}"""
# reveal.js gives each printed page the colour that the deck has when it is opened.
SET_THEME = """theme => {
    document.documentElement.dataset.theme = theme;
    document.querySelectorAll('.pdf-page').forEach(page => { page.style.background = '' });
}"""

# The rules of axe that another theme can break. All others were checked on the same page.
DEPENDS_ON_COLOURS = ["color-contrast", "link-in-text-block"]

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The slides, as `make slides` writes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        import slides

        folder = tmp_path_factory.mktemp("slides") / "slides"
        slides.write_decks(slides.make_decks(), folder)
    return folder


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        chromium = playwright.chromium.launch(executable_path=path, headless=True, args=OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_deck(browser, folder):
    """A function that opens a page from the disk. `page.problems` has its errors and its requests to hosts."""
    contexts = []

    def open_address(name, scheme="light"):
        context = browser.new_context(
            viewport={"width": 1280, "height": 720}, color_scheme=scheme, reduced_motion="reduce", offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and page.problems.append(message.text))
        ours = (folder.as_uri(), "data:")
        page.on("request", lambda request: request.url.startswith(ours) or page.problems.append(request.url))
        page.goto(f"{folder.as_uri()}/{name}")
        return page

    yield open_address
    for context in contexts:
        context.close()


def read_figure(figure):
    """Return everything that a figure shows."""
    texts = [figure.locator(".kg-caption").inner_text(), *figure.locator(".kg-place").all_text_contents()]
    return [*texts, *figure.locator("p.kg-line, svg text").all_text_contents()]


def move_figure(page):
    """Move the figure of the slide by keyboard, and check that the deck stays on this slide until its last step."""
    figure = page.locator("section section.present .kg-figure")
    control = figure.locator("input[type=range], select").first
    if not control.count():
        return
    is_slider = control.get_attribute("type") == "range"
    place = page.evaluate("Reveal.getIndices()")
    before = read_figure(figure)
    if is_slider:
        assert figure.locator(".kg-place").inner_text().partition(":")[0].split()[1] == "1"
        page.keyboard.press("ArrowRight")
        assert figure.locator(".kg-place").inner_text().partition(":")[0].split()[1] == "2"
        assert read_figure(figure) != before
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("Reveal.getIndices()") == place
        before = read_figure(figure)
    control.focus()
    page.keyboard.press("ArrowRight" if is_slider else "ArrowDown")
    assert read_figure(figure) != before
    assert page.evaluate("Reveal.getIndices()") == place
    assert page.evaluate(FIND_TOO_FULL) == []
    page.keyboard.press("Escape")
    assert not page.evaluate("Reveal.isOverview()")


@pytest.mark.parametrize("number", NUMBERS)
def test_no_slide_is_too_full_and_figures_move(open_deck, number):
    """Every slide fits 1280 × 720 with texts of at least 20 pixels. The deck asks no host."""
    page = open_deck(f"{number}.html", "dark" if int(number) % 2 else "light")
    page.wait_for_function(IS_READY)
    count = page.evaluate("Reveal.getTotalSlides()")
    assert count > 8
    for slide in range(1, count + 1):
        assert page.evaluate("Reveal.getSlidePastCount()") == slide - 1
        assert page.evaluate(FIND_TOO_FULL) == []
        assert page.evaluate(SMALLEST_TEXT) >= 20
        if page.locator("section section.present .kg-figure").count():
            move_figure(page)
        page.keyboard.press("PageDown")
    assert page.problems == []


@pytest.mark.parametrize("number", NUMBERS)
def test_the_printed_deck_has_no_barrier(open_deck, number):
    """For printing, all slides stand below each other. axe finds nothing in them, light and dark."""
    page = open_deck(f"{number}.html?print-pdf")
    page.wait_for_function(IS_READY)
    page.wait_for_selector(".pdf-page")
    assert page.problems == []
    for theme, options in (("light", {}), ("dark", {"runOnly": DEPENDS_ON_COLOURS})):
        page.evaluate(SET_THEME, theme)
        result = Axe().run(page, options=options)
        assert result.violations_count == 0, result.generate_report()


def test_the_index_leads_to_every_deck(open_deck, folder):
    page = open_deck("index.html", "dark")
    links = [link.get_attribute("href") for link in page.get_by_role("listitem").get_by_role("link").all()]
    assert links == [f"{number}.html" for number in NUMBERS]
    assert all((folder / link).is_file() for link in links)
    assert page.problems == []
    result = Axe().run(page)
    assert result.violations_count == 0, result.generate_report()
