"""Markdown from code: tables, anchors, and the text of docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

PYTHON_FILE = re.compile(r"(?<![\w/`…])((?:\w+/)?\w+\.(?:py|json|java|scala))\b(?!`)", re.IGNORECASE)


def make_table(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table. A line break or a bar inside a cell would end the cell, so both are replaced."""
    lines = [list(headers), *(list(row) for row in rows)]
    cells = [[cell.replace("\n", " ").replace("|", "\\|") or "–" for cell in line] for line in lines]
    texts = [f"| {' | '.join(line)} |" for line in cells]
    texts.insert(1, "|" + "---|" * len(cells[0]))
    return "\n".join(texts)


def make_slug(heading: str) -> str:
    """Return the anchor that GitHub and MyST give a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.lower())
    return text.replace(" ", "-")


def link_heading(heading: str, page: str = "") -> str:
    """Return a link to a heading of a page; "" is the same page."""
    return f"[{heading}]({page}#{make_slug(heading)})"


def make_sentence(text: str) -> str:
    """Return a text that begins with a capital letter and ends with a period."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "…")) else f"{text}."


def read_paragraphs(docstring: str | None) -> list[str]:
    """Return the paragraphs of a docstring as Markdown, without the sources.

    Each line of a list stays a line. An indented block becomes a code block. A table of value versions is left out,
    because the handbook has its own.
    """
    paragraphs = []
    for block in _split(docstring):
        if block.startswith("version  "):
            continue
        if _is_indented(block):
            paragraphs.append(_make_code_block(block))
            continue
        text, _, _ = _join_lines(block.splitlines()).partition("Source: ")
        text, _, _ = text.partition("Source (")
        if text.strip():
            paragraphs.append(PYTHON_FILE.sub(r"`\1`", text.strip()))
    return paragraphs


def read_source(docstring: str | None) -> str:
    """Return the sources that a docstring names, without the word "Source"."""
    match = re.search(r"^Source(?: \((?P<version>[^)]+)\))?: (?P<text>.+?)(?:\n\n|\Z)", docstring or "", re.S | re.M)
    if match is None:
        return ""
    text = " ".join(match["text"].split())
    return f"{text.rstrip('.')} ({match['version']})." if match["version"] else text


def read_table(docstring: str | None) -> str:
    """Return the indented table of a docstring as a code block."""
    return next(_make_code_block(block) for block in _split(docstring) if _is_indented(block))


def _is_indented(block: str) -> bool:
    return all(line.startswith("    ") for line in block.splitlines())


def _make_code_block(block: str) -> str:
    return "```text\n" + inspect.cleandoc("\n" + block) + "\n```"


def _split(docstring: str | None) -> list[str]:
    return [block.strip("\n") for block in re.split(r"\n\s*\n", inspect.cleandoc(docstring or ""))]


def _join_lines(lines: list[str]) -> str:
    """Join the lines of a paragraph. A line that begins with "- " begins a new line."""
    text = ""
    for line in lines:
        separator = "\n" if line.startswith("- ") else " "
        text += separator + line.strip() if text else line.strip()
    return text
