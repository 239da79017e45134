"""docs/instructor/: what the kit names exists in the lessons, and the sections of a plan run without the others."""

import ast
import builtins
import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
KIT = ROOT / "docs" / "instructor"
LESSONS = sorted(path.name[:2] for path in (ROOT / "notebooks" / "source").glob("[0-9][0-9]_*.py"))
QUOTED = re.compile(r'"([^"]+)"')


@functools.cache
def read_source(lesson: str) -> str:
    [path] = (ROOT / "notebooks" / "source").glob(f"{lesson}_*.py")
    return path.read_text(encoding="utf-8")


@functools.cache
def list_headings(lesson: str) -> tuple[str, ...]:
    return tuple(re.findall(r"^# ## (.*)$", read_source(lesson), re.MULTILINE))


def read_guide(lesson: str) -> dict[str, str]:
    """Return the sections of a lesson's guide by their headings."""
    text = (KIT / "lessons" / f"{lesson}.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def list_questions(lesson: str) -> list[str]:
    return [text for heading, text in read_guide(lesson).items() if heading.startswith("Question")]


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_question_says_when_it_is_asked(lesson):
    """The section, the prediction or the exercise that the first sentence names exists in the lesson."""
    for question in list_questions(lesson):
        sentence = question.strip().partition(". ")[0]
        assert sentence.startswith(("Ask before ", "Ask after ")), sentence
        for heading in QUOTED.findall(sentence):
            assert heading in list_headings(lesson)
        for name in re.findall(r"`(\w+)`", sentence):
            assert re.search(rf"^(# exercise: {name}|{name} = \.\.\.)$", read_source(lesson), re.MULTILINE), name


@pytest.mark.parametrize("lesson", LESSONS[:-1])  # The last one has minutes for each incident.
def test_the_minutes_of_a_lesson_are_those_in_its_notebook(lesson):
    [notebook] = (ROOT / "notebooks").glob(f"{lesson}_*.ipynb")
    text = notebook.read_text(encoding="utf-8")
    first_table = re.search(r"needs Java.*?\| (\d+) \+ 10 for later \| [^|]+ \|\\n", text, re.DOTALL)
    assert f"{notebook.name}) | {first_table[1]} |" in (KIT / "index.md").read_text(encoding="utf-8")


# The plans.


class Block(NamedTuple):
    """One block of a plan: when it begins, how long it takes, its title and its text."""

    start: int
    minutes: int
    title: str
    text: str

    def find(self, name: str) -> str:
        """Return what the block says after this name, with the steps below it."""
        [text] = re.findall(rf"^- \*\*{name}:\*\*((?:.*\n)(?:  - .*\n)*)", self.text, re.MULTILINE)
        return text.strip()

    def list_sections(self) -> list[tuple[str, str]]:
        """Return the lesson and the heading of each section that the block names."""
        sections = []
        for part in self.find("Sections").split("; "):
            lesson, _, headings = part.partition(" ")
            sections += [(lesson, heading) for heading in QUOTED.findall(headings)]
        return sections


BREAKS = ("Break", "Lunch")


def read_plans() -> dict[str, list[Block]]:
    """Return the blocks of each plan, or of each day of a plan of two days."""
    text = (KIT / "plans.md").read_text(encoding="utf-8")
    plans = {}
    name = ""
    for part in re.split(r"^(?=#{2,4} )", text, flags=re.MULTILINE):
        heading, _, body = part.partition("\n")
        found = re.fullmatch(r"#{3,4} (\d+):(\d\d) · (\d+) minutes · (.+)", heading)
        if found:
            hours, minutes, length, title = found.groups()
            plans[name].append(Block(int(hours) * 60 + int(minutes), int(length), title, body))
        else:
            name = heading.lstrip("# ")
            plans[name] = []
    return {name: blocks for name, blocks in plans.items() if blocks}


PLANS = read_plans()


@pytest.mark.parametrize("plan", PLANS)
def test_the_sections_of_a_plan_run_without_the_others(plan):
    """No cell of the named sections needs a cell of a section that the plan leaves out, or drops when it is late."""
    blocks = [block for block in PLANS[plan] if block.title not in BREAKS]
    sections = [section for block in blocks for section in block.list_sections()]
    assert_runs(sections)
    for block in blocks:
        dropped = QUOTED.findall(block.find("If late, drop"))
        assert_runs([(lesson, heading) for lesson, heading in sections if heading not in dropped])


def assert_runs(sections: list[tuple[str, str]]) -> None:
    """Check that each name is defined before it is used, if only the cells of these sections run."""
    for lesson in {lesson for lesson, _ in sections}:
        defined = set(dir(builtins))
        for heading, code in list_code_cells(lesson):
            if (lesson, heading) in sections:
                stored, loaded = find_names(code)
                assert loaded <= defined | stored, (lesson, heading)
                defined |= stored


@functools.cache
def list_code_cells(lesson: str) -> list[tuple[str, str]]:
    """Return the code cells of a lesson, each with the heading above it."""
    cells = []
    heading = ""
    for part in re.split(r"^# %%", read_source(lesson), flags=re.MULTILINE)[1:]:
        kind, _, text = part.partition("\n")
        if "[markdown]" in kind:
            for found in re.findall(r"^# ## (.*)$", text, re.MULTILINE):
                heading = found
        else:
            cells.append((heading, text))
    return cells


@functools.cache
def find_names(code: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell defines, and the names that it uses."""
    stored = set()
    loaded = set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                loaded.add(name)
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.ExceptHandler(name=name):
                stored.add(name)
            case ast.alias(name=name, asname=short):
                stored.add(short or name.partition(".")[0])
    return stored, loaded
