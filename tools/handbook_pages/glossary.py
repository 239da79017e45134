"""The glossary: the terms of docs/terms.md with the lessons that teach them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from handbook_pages.markdown import make_sentence

ROOT = Path(__file__).resolve().parents[2]
TERMS = ROOT / "docs" / "terms.md"
LESSONS = ROOT / "notebooks"
HEADER = "| term | meaning | lesson |"
LESSON = re.compile(r'(?P<number>\d\d) "(?P<section>[^"]+)"')


class Term(NamedTuple):
    """A term: its meaning, and the lesson and the section that teach it. Both are "" if no lesson does."""

    name: str
    meaning: str
    lesson: str
    section: str


def write_pages() -> dict[str, str]:
    """Return the page by its name."""
    parts = [
        "# Glossary",
        "Each term has one form in the course, the handbook and the messages. [Terms](../terms.md) also compares the "
        "names in this package with the names in Kafka's code.",
    ]
    for term in read_terms():
        parts += [f"## {term.name}", make_sentence(term.meaning)]
        if term.lesson:
            parts.append(f"Taught in [lesson {term.lesson}]({_find_notebook(term.lesson)}), “{term.section}”.")
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
        terms.append(Term(name, meaning, match["number"] if match else "", match["section"] if match else ""))
    return sorted(terms, key=lambda term: term.name.lower())


def _find_notebook(number: str) -> str:
    (notebook,) = LESSONS.glob(f"{number}_*.ipynb")
    return f"../../notebooks/{notebook.name}"
