"""The README's examples run, and files and names in the docs exist."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


PAGES = ["README.md", "docs/guide.md"]


@pytest.mark.parametrize("page", PAGES)
def test_examples_in_python_run(page, monkeypatch):
    """Every `>>>` of the README and the guide gives the output below it."""
    monkeypatch.chdir(ROOT)
    result = doctest.testfile(str(ROOT / page), module_relative=False)
    assert result.attempted > 5 and result.failed == 0


def test_examples_in_docstrings_run(monkeypatch):
    """Every `>>>` of these modules gives the output below it."""
    import kafkagroups.api
    import kafkagroups.coordinator.clock
    import kafkagroups.coordinator.coordinator
    import kafkagroups.coordinator.logs
    import kafkagroups.coordinator.messages
    import kafkagroups.groups.offsets
    import kafkagroups.log.folders
    import kafkagroups.repair.edit
    import kafkagroups.topic

    monkeypatch.chdir(ROOT)
    coordinator = kafkagroups.coordinator
    modules = [coordinator.clock, coordinator.coordinator, coordinator.logs, coordinator.messages]
    modules += [kafkagroups.api, kafkagroups.topic, kafkagroups.groups.offsets]
    modules += [kafkagroups.log.folders, kafkagroups.repair.edit]
    for module in modules:
        result = doctest.testmod(module)
        assert result.attempted and result.failed == 0


@pytest.mark.parametrize("page", PAGES)
def test_shell_lines_run(page, monkeypatch, capsys):
    """Every `kafkagroups …` line of the README and the guide exits with 0."""
    from kafkagroups.cli import main

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
