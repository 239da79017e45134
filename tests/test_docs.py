"""The README's examples run, and files and names in the docs exist."""

import doctest
import functools
import importlib
import re
from pathlib import Path

import pytest

from tests.command import main

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/guide.md"]


@pytest.mark.parametrize("page", PAGES)
def test_examples_in_python_run(page, monkeypatch):
    """Every `>>>` of the README and the guide gives the output below it."""
    monkeypatch.chdir(ROOT)
    result = doctest.testfile(str(ROOT / page), module_relative=False)
    assert result.attempted > 5 and result.failed == 0


MODULES = ["api", "topic", "coordinator.clock", "coordinator.coordinator", "coordinator.logs", "coordinator.messages"]
MODULES += ["groups.offsets", "log.folders", "repair.edit"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name, monkeypatch):
    """Every `>>>` of these modules gives the output below it."""
    monkeypatch.chdir(ROOT)
    result = doctest.testmod(importlib.import_module(f"kafkagroups.{name}"))
    assert result.attempted and result.failed == 0


@pytest.mark.parametrize("page", PAGES)
def test_shell_lines_run(page, monkeypatch, capsys):
    """Every `kafkagroups …` line of the README and the guide exits with 0."""
    monkeypatch.chdir(ROOT)
    lines = re.findall(r"^kafkagroups (.*?)(?:\s+#.*)?$", (ROOT / page).read_text(), re.M)
    assert len(lines) >= 4
    for line in lines:
        assert main(line.split()) == 0, line
    assert capsys.readouterr().err == ""


@functools.cache
def find_anchors(path):
    """Return the anchors of a page as GitHub and MyST make them: letters, digits, spaces as hyphens."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading():
    """The links of README, of the docs, of the handbook and of the instructor kit."""
    checked = 0
    folders = ["", "handbook/", "instructor/", "instructor/lessons/"]
    pages = [page for folder in folders for page in (ROOT / "docs").glob(f"{folder}*.md")]
    for page in (ROOT / "README.md", *pages):
        for link, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")):
            path = (page.parent / link).resolve() if link else page
            assert path.exists(), f"{page.name}: {link}"
            if anchor and path.suffix == ".md":
                assert anchor in find_anchors(path), f"{page.name}: {link}#{anchor}"
            checked += 1
    assert checked > 200
