"""docs/instructor/: what the guides of the lessons name exists in the lessons."""

import functools
import re
from pathlib import Path

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
