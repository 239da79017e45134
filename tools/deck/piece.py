"""One piece of a slide, and its height. Long groups of pieces are divided into parts that fit on a slide.

The heights are estimates for wide fonts. A test in the browser checks that no slide is fuller than its screen. The
numbers belong to slides.css.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

ROOM = 590
"""The height below the title of a slide, in pixels of a screen of 1280 × 720."""

WIDTH = 1180
LINE = 1.35
GAP = 16
"""The space after each piece."""
CHARACTER = 0.52

MARKDOWN = MarkdownIt("commonmark").enable("table")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)]*)\)")
LESSON = re.compile(r"(?:\.\./|solutions/)*(\d\d)_\w+\.ipynb")
MARKUP = re.compile(r"[`*]|<[^>]+>")


@dataclass(frozen=True)
class Piece:
    """A part of a slide that stays whole.

    Attributes
    ----------
    html
        What the slide shows.
    height
        The estimated height in pixels.
    notes
        What the slide leaves out, in Markdown.
    has_sequel
        Whether the next piece must be on the same slide.
    begins_slide
        Whether the piece is a later part of a list, a table or a listing.
    """

    html: str
    height: float
    notes: str = ""
    has_sequel: bool = False
    begins_slide: bool = False


def render(text: str) -> str:
    """Return the HTML of a Markdown text."""
    return MARKDOWN.render(move_links(text))


def render_line(text: str) -> str:
    """Return the HTML of a heading or a question, without a paragraph around it."""
    return MARKDOWN.renderInline(move_links(text))


def move_links(text: str) -> str:
    """Return the text with links to other decks. Other links inside the repository become plain text."""

    def move(match: re.Match[str]) -> str:
        words, address = match.groups()
        if lesson := LESSON.fullmatch(address):
            return f"[{words}]({lesson[1]}.html)"
        return match[0] if address.startswith("https:") else words

    return LINK.sub(move, text)


def render_node(node: SyntaxTreeNode) -> str:
    """Return the HTML of a part of a Markdown text."""
    return MARKDOWN.renderer.render(node.to_tokens(), MARKDOWN.options, {})


def text_height(text: str, width: float, size: float) -> float:
    """Return the height of a text in a column."""
    characters = max(1, int(width / (size * CHARACTER)))
    return max(1, ceil(len(plain(text)) / characters)) * size * LINE


def plain(text: str) -> str:
    """Return a Markdown text without its markup."""
    return MARKUP.sub("", LINK.sub(r"\1", text))


def divide(count: int, build: Callable[[Sequence[int]], Piece]) -> list[Piece]:
    """Return one piece if it fits on a slide. Otherwise return the fewest parts of equal length that fit."""
    parts = 1
    while True:
        length = ceil(count / parts)
        pieces = [build(range(start, min(start + length, count))) for start in range(0, count, length)]
        if length == 1 or all(piece.height <= ROOM - 60 for piece in pieces):
            return [replace(piece, begins_slide=number > 0) for number, piece in enumerate(pieces)]
        parts += 1
