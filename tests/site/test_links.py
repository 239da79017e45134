"""The built web edition without a browser: its pages are complete, and its links lead somewhere."""

import html
import re

import nbformat
import pytest

from tests.site.built import ROOT, SITE, find_site
from tests.site.links import check_links

# The site is built by `make test-all`, which also runs the tests in the browser.
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", autouse=True)
def _site():
    find_site()


def test_no_link_and_no_anchor_is_dead():
    """Every link inside the site leads to a file and an anchor. Links to other hosts are listed and not fetched."""
    links = check_links(SITE)
    (ROOT / "build" / "site-external-links.txt").write_text("".join(f"{link}\n" for link in sorted(links.external)))
    assert links.dead == []
    assert links.checked > 1000


def test_every_saved_output_is_on_its_page():
    """A lesson's page has the outputs and figures of the solved notebook. Markdown outputs are parts of its text."""
    for path in sorted((ROOT / "notebooks" / "solutions").glob("[0-9][0-9]_*.ipynb")):
        notebook = nbformat.read(path, 4)
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
        texts = [output.data["text/markdown"] for output in outputs if "text/markdown" in output.get("data", {})]
        figures = [output for output in outputs if "kafkagroups_figure" in output.get("metadata", {})]
        page = (SITE / "notebooks" / path.with_suffix(".html").name).read_text(encoding="utf-8")
        assert page.count('class="output ') == len(outputs) - len(texts), path.name
        assert page.count('class="kg-figure-page"') == len(figures), path.name
        words = read_words(re.sub("<[^>]+>", " ", page))
        for text in texts:
            without_fences = re.sub("^```.*$", "", text, flags=re.MULTILINE).strip()
            last_line = re.sub(r"^(\d+\.|-) ", "", without_fences.splitlines()[-1])
            assert read_words(last_line) in words, (path.name, last_line)


def test_the_quizzes_are_on_the_site_and_their_answers_are_not():
    """The kit has the answers in a folder of their own."""
    assert list((ROOT / "docs" / "instructor" / "answers").glob("*.md"))
    assert (SITE / "docs" / "instructor" / "quiz" / "00.html").is_file()
    assert [path for path in SITE.rglob("*") if "answers" in path.parts] == []


def read_words(text):
    """Return the letters and digits of a text, without markup, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", html.unescape(text))
