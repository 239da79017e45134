"""The handbook: its files are what the generator writes now, it has everything, and every link leads somewhere."""

import re
import shutil
from itertools import chain
from pathlib import Path
from runpy import run_path

import pytest

from tools.handbook_pages import facts

ROOT = Path(__file__).parents[1]
HANDBOOK = ROOT / "docs" / "handbook"


@pytest.fixture(scope="module")
def tool():
    """The names of tools/handbook.py, with its modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        return run_path(str(ROOT / "tools" / "handbook.py"))


@pytest.fixture(scope="module")
def pages():
    return {path.name: path.read_text(encoding="utf-8") for path in HANDBOOK.iterdir()}


def test_the_files_are_those_of_the_generator(tool, pages):
    """After a change of a declaration, the handbook must be written again."""
    written = tool["write_pages"]()
    assert pages.keys() == written.keys(), "run: make handbook"
    for name, text in written.items():
        assert pages[name] == text, f"{name}: run: make handbook"


def test_every_rule_of_the_cleaner_leads_to_code(pages):
    for rule in chain.from_iterable(facts.read_cleaner_rules().rules.values()):
        module, name = rule.code.split(".")
        source = (ROOT / "kafkagroups" / "log" / f"{module}.py").read_text(encoding="utf-8")
        assert re.search(rf"^(def|class) {name}\b", source, re.M), rule.code
        assert rule.rule in pages["cleaner.md"]


@pytest.mark.browser
def test_the_cheat_sheet_is_one_page_of_paper(tmp_path):
    """Chromium prints one page of A4, and a narrow screen needs no sideways scrolling."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 360, "height": 800})
        page.goto((HANDBOOK / "cheat-sheet-print.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        printed = page.pdf(prefer_css_page_size=True)
        browser.close()
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1
