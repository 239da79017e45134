"""A report in a real browser: no request, no error, no sideways scrolling, and names that stay text."""

import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

import kafkagroups as kg
from tests.captured import captured
from tests.html_report.hostile_names import NAMES, write_hostile_log

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def chromium():
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(
            executable_path=path, headless=True, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_is_harmless_and_fits(width, scheme, chromium, tmp_path):
    """A log with names that attack, and a run of a real broker, with every table open."""
    logs = [write_hostile_log(tmp_path), captured("runs") / "runs" / "4.3.1-main" / "log"]
    out = tmp_path / "report.html"
    kg.report(logs, out)
    page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    requests = []
    messages = []
    dialogs = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(out.as_uri())
    page.evaluate("() => document.querySelectorAll('details').forEach(element => { element.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (requests, messages, dialogs) == ([out.as_uri()], [], [])
    assert page.title() == "Report on __consumer_offsets"
    assert page.locator("script, iframe, img, link, object, embed, form, [style], [onerror]").count() == 0
    text = page.locator("body").inner_text()
    assert all(name in text for name in NAMES if name.isprintable())
    # The policy allows the page's own style: without it, the body would have the browser's margin of 8 pixels.
    assert page.evaluate("getComputedStyle(document.body).paddingLeft") == "16px"
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert ink == ("rgb(0, 0, 0)" if scheme == "light" else "rgb(255, 255, 255)")
    assert [rule["id"] for rule in Axe().run(page).response["violations"]] == []
    page.close()
