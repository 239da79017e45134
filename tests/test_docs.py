"""The README's examples run, and files and names in the docs exist."""

import doctest
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


def test_files_that_the_docs_name_exist():
    """Every link of README, of the docs and of the instructor kit leads to a file."""
    kit = (ROOT / "docs" / "instructor").rglob("*.md")
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *kit):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
