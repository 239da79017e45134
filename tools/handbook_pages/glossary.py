"""The glossary: the terms of docs/terms.md with the lessons that introduce and teach them.

A lesson introduces a term if it links the term to its entry here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from handbook_pages.markdown import make_sentence

ROOT = Path(__file__).resolve().parents[2]
TERMS = ROOT / "docs" / "terms.md"
LESSONS = ROOT / "notebooks"
HEADER = "| term | meaning | lesson |"
LESSON = re.compile(r'(?P<number>\d\d)(?: "(?P<section>[^"]+)")?')
LINK = re.compile(r"\]\(\.\./docs/handbook/glossary\.md#([\w-]+)\)")

FURTHER_PAGES = {
    "coordinator": ["events.md"],
    "pending": ["events.md", "tombstones.md"],
    "missing tombstone": ["protocols.md"],
    "tombstone": ["tombstones.md"],
}
"""The pages of the handbook that say more about a term."""
TITLES = {
    "events.md": "What a coordinator does, by event",
    "protocols.md": "Consumer groups at work",
    "tombstones.md": "What a tombstone deletes",
}


class Term(NamedTuple):
    """A term: its meaning, and the lesson and the section that teach it.

    Both are "" if no lesson teaches the term. The section is "" if the beginning of a lesson teaches it.
    """

    name: str
    meaning: str
    lesson: str
    section: str


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    parts = [
        "# Glossary",
        "Each term has one form in the course, the handbook and the messages. [Terms](../terms.md) also compares the "
        "names in this package with the names in Kafka's code, and lists "
        "[words with several meanings](../terms.md#words-with-several-meanings), such as *classic* and *epoch*.",
    ]
    introduced = find_links()
    for term in read_terms():
        parts += [f"## {term.name}", make_sentence(term.meaning)]
        if term.lesson:
            parts.append(_name_lessons(term, introduced.get(make_anchor(term.name), [])))
        if term.name in FURTHER_PAGES:
            links = [f"[{TITLES[page]}]({page})" for page in FURTHER_PAGES[term.name]]
            parts.append(f"More: {', '.join(links)}.")
    return {"glossary.md": "\n\n".join(parts) + "\n"}


def read_terms() -> list[Term]:
    """Return the terms of docs/terms.md in the order of the alphabet."""
    terms = []
    is_in_table = False
    for line in TERMS.read_text(encoding="utf-8").splitlines():
        is_in_table = line == HEADER or (is_in_table and line.startswith("|"))
        if not is_in_table or line == HEADER or line.startswith("|---"):
            continue
        name, meaning, lesson = (cell.strip() for cell in line.strip("|").split("|"))
        match = LESSON.fullmatch(lesson)
        number, section = match.groups("") if match else ("", "")
        terms.append(Term(name, meaning, number, section))
    return sorted(terms, key=lambda term: term.name.lower())


def make_anchor(name: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")


def find_links() -> dict[str, list[str]]:
    """Return the numbers of the lessons that link to each anchor of the glossary, one for each link."""
    lessons: dict[str, list[str]] = {}
    for source in sorted((LESSONS / "source").glob("[0-9][0-9]_*.py")):
        for anchor in LINK.findall(source.read_text(encoding="utf-8")):
            lessons.setdefault(anchor, []).append(source.name[:2])
    return lessons


def _name_lessons(term: Term, introduced: list[str]) -> str:
    """Return the sentences about the lessons: the first one if another lesson introduces the term."""
    lesson = f"Taught in {_link_lesson(term.lesson)}"
    taught = f"{lesson}, “{term.section}”." if term.section else f"{lesson}."
    if introduced and introduced[0] != term.lesson:
        return f"Introduced in {_link_lesson(introduced[0])}. {taught}"
    return taught


def _link_lesson(number: str) -> str:
    return f"[lesson {number}]({_find_notebook(number)})"


def _find_notebook(number: str) -> str:
    (notebook,) = LESSONS.glob(f"{number}_*.ipynb")
    return f"../../notebooks/{notebook.name}"
