"""The quizzes of the instructor kit on the built web edition: each one prints on one page."""

import shutil

import pytest
from playwright.sync_api import sync_playwright

from tests.site.built import find_site

pytestmark = pytest.mark.browser
MARGIN = {"top": "10mm", "bottom": "10mm", "left": "12mm", "right": "12mm"}


def test_each_quiz_prints_on_one_page():
    """On A4 and on letter paper, with narrow margins."""
    pages = sorted((find_site() / "docs" / "instructor" / "quiz").glob("*.html"))
    assert len(pages) > 10
    too_long = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        for path in pages:
            page.goto(path.as_uri())
            for paper in ("A4", "Letter"):
                if page.pdf(format=paper, margin=MARGIN).count(b"/Type /Page\n") != 1:
                    too_long.append((path.name, paper))
        browser.close()
    assert too_long == []
