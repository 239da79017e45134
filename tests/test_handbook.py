"""The handbook: its files are what the generator writes now, it has everything, and every link leads somewhere."""

import re
import shutil
from itertools import chain, pairwise
from pathlib import Path
from runpy import run_path

import pytest
from markdown_it import MarkdownIt

from kafkagroups.coordinator import Errors
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.modern_group import MEMBER_STATES, ModernState
from kafkagroups.records.serde import RECORD_TYPES
from kafkagroups.records.structs import field_specs
from tools.handbook_pages import facts

ROOT = Path(__file__).parents[1]
HANDBOOK = ROOT / "docs" / "handbook"
SOURCE = ROOT / "notebooks" / "source"
LINK = re.compile(r"\]\(([^)\s]+)\)")


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


def test_every_record_type_and_every_field_has_a_row(tool, pages):
    """All types of RECORD_TYPES, with a heading, and each field of key, value and structs with its meaning."""
    text = "".join(page for name, page in pages.items() if name.startswith("records-"))
    assert len(RECORD_TYPES) == 23
    structs = tool["records"]._find_structs(each.value for each in RECORD_TYPES.values())
    classes = [cls for each in RECORD_TYPES.values() for cls in (each.key, each.value)] + list(structs)
    for record_type in RECORD_TYPES.values():
        assert f"\n## Type {record_type.id}: {record_type.name}\n" in text
        assert f"| {record_type.id} | [{record_type.name}](" in pages["records.md"]
    for cls in classes:
        for spec in field_specs(cls):
            assert spec.doc, f"{cls.__name__}.{spec.name} has no meaning"
            assert re.search(rf"^\| `{spec.json_name}` \|.*{re.escape(spec.doc)} \|$", text, re.M), spec.json_name


def test_every_state_and_every_error_appears(pages):
    names = {name for states in MEMBER_STATES.values() for name in states.values()}
    for name in {*names, *(state.value for state in (*ClassicState, *ModernState))}:
        assert f"| {name} |" in pages["groups.md"]
    for error in Errors:
        assert re.search(rf"^### (New coordinator: )?{error.name} \({error.value}\)$", pages["errors.md"], re.M)


def test_every_rule_of_the_cleaner_leads_to_code(pages):
    for rule in chain.from_iterable(facts.read_cleaner_rules().rules.values()):
        module, name = rule.code.split(".")
        source = (ROOT / "kafkagroups" / "log" / f"{module}.py").read_text(encoding="utf-8")
        assert re.search(rf"^(def|class) {name}\b", source, re.M), rule.code
        assert rule.rule in pages["cleaner.md"]


def test_every_row_about_tombstones_appears(pages):
    """Each log has one row, and no cell about the coordinators is empty by mistake."""
    text = pages["tombstones.md"]
    for table in facts.read_tombstones().tables:
        assert f"\n## {table.title}\n" in text
        for row in table.rows:
            (line,) = re.findall(rf"^\| `{row.log}` \| {row.when} \|.*$", text, re.M)
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == 8
            assert (cells[2] == "–") == (row.running is None)
            assert "–" not in cells[3:7]


def test_a_wrong_key_in_a_file_of_facts_is_refused(tmp_path, monkeypatch):
    """The error is one line with the file and the place."""
    monkeypatch.setattr(facts, "FOLDER", tmp_path)
    (tmp_path / "cleaner.yaml").write_text("about: x\nrules: {Range: [{rule: x, kafka: x, cod: x}]}\n")
    with pytest.raises(facts.InvalidFacts, match=r"^docs/facts/cleaner\.yaml: .*`cod`.*\$\.rules"):
        facts.read_cleaner_rules()


def test_a_test_that_does_not_exist_is_refused(tool):
    check_test = tool["events"].check_test
    assert check_test("test_handbook.py::test_the_index_names_every_page")
    for name in ("test_handbook.py::test_nothing", "coordinator/test_nothing.py"):
        with pytest.raises(LookupError, match="there is no such test"):
            check_test(name)


def test_every_term_is_in_the_section_that_teaches_it(tool, pages):
    """The section of docs/terms.md exists in the lesson, and its text contains the term or its link."""
    terms = tool["glossary"].read_terms()
    assert len(terms) > 60
    assert len({term.name for term in terms}) == len(terms)
    for term in terms:
        assert f"\n## {term.name}\n" in pages["glossary.md"]
        if term.lesson:
            (source,) = SOURCE.glob(f"{term.lesson}_*.py")
            heading = f"# ## {term.section}\n" if term.section else "# %% [markdown]\n"
            _, found, rest = source.read_text(encoding="utf-8").partition(heading)
            assert found, f"{term.name}: lesson {term.lesson} has no section {term.section!r}"
            name, _, _ = term.name.partition(" (")
            section, _, _ = f"{heading}{rest}".partition("\n# ## ")
            link = f"glossary.md#{tool['glossary'].make_anchor(term.name)})"
            assert name.lower() in section.lower() or link in section, f"{term.name}: not in {term.section!r}"


def test_a_lesson_links_every_term_that_it_introduces(tool, pages):
    """Each term that a lesson teaches is linked once in the course, in the lesson that its entry names first."""
    introduced = tool["glossary"].find_links()
    anchors = {tool["glossary"].make_anchor(term.name): term for term in tool["glossary"].read_terms()}
    assert introduced.keys() <= anchors.keys() & find_anchors(pages["glossary.md"])
    for anchor, term in anchors.items():
        lessons = introduced.get(anchor, [])
        assert len(lessons) == bool(term.lesson), f"{term.name}: linked in {lessons}"
        if term.lesson:
            assert lessons[0] <= term.lesson, f"{term.name}: taught in {term.lesson}, linked in {lessons[0]}"
            _, _, entry = pages["glossary.md"].partition(f"\n## {term.name}\n")
            named = re.findall(r"\[lesson (\d\d)\]", entry.partition("\n## ")[0])
            assert named == sorted({lessons[0], term.lesson}), term.name


def test_every_lesson_ends_with_a_link_to_the_glossary():
    """The line is in the last cell of the lesson, directly before the line about the next lesson."""
    for source in sorted(SOURCE.glob("[0-9][0-9]_*.py")):
        text = source.read_text(encoding="utf-8")
        assert text.count("](../docs/handbook/glossary.md)") == 1, source.name
        line = text.splitlines()[-3]
        assert line == "# The [glossary](../docs/handbook/glossary.md) explains all terms.", source.name


def find_anchors(text):
    """The anchors of a page as GitHub and MyST make them: letters, digits, spaces as hyphens."""
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_a_heading(pages):
    checked = 0
    for name, text in pages.items():
        for link in LINK.findall(text):
            target, _, anchor = link.partition("#")
            path = (HANDBOOK / target).resolve() if target else HANDBOOK / name
            assert path.is_file(), f"{name}: {link}"
            if anchor:
                assert anchor in find_anchors(path.read_text(encoding="utf-8")), f"{name}: {link}"
            checked += 1
    assert checked > 200


def test_the_index_names_every_page(pages):
    linked = {link for link in LINK.findall(pages["index.md"]) if "/" not in link}
    assert linked == {name for name in pages if name.endswith(".md")} - {"index.md"}


def test_every_page_is_commonmark_with_one_title(pages):
    """A heading is never more than one level below the heading before it, and every table is read as a table."""
    for name, text in pages.items():
        if not name.endswith(".md"):
            continue
        tokens = MarkdownIt().enable("table").parse(text)
        levels = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
        assert levels[0] == 1
        assert levels.count(1) == 1, name
        assert all(after <= before + 1 for before, after in pairwise(levels)), name
        tables = sum(token.type == "table_open" for token in tokens)
        assert tables == len(re.findall(r"^\|(---\|)+$", text, re.M)), name


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
