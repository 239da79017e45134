"""Markdown as pieces of slides: a sentence, a list, a table, a listing. Each piece knows the height that it needs.

The heights are estimates for wide fonts. A test in the browser checks that no slide is fuller than its screen. The
numbers belong to slides.css.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from math import ceil

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

ROOM = 590
"""The height below the title of a slide, in pixels of a screen of 1280 × 720."""

DENSE = 0.85
"""The factor of all heights on a slide with smaller text."""

WIDTH = 1180
TEXT = 30
"""The font size of texts and lists."""
TABLE = 28
WIDE_TABLE = 23
"""The font size of a table with much text."""
CODE = 24
WIDE_CODE = 20
"""The font size of a long listing, or of one with a long line."""
MOST_LINES = 11
LINE = 1.35
GAP = 16
"""The space after each piece."""
CHARACTER = 0.55
CODE_CHARACTER = 0.605
LONG_TEXT = 140
"""Of a longer paragraph, the slide has the first sentences. The notes contain all of it."""

ALL = 1000
"""So many sentences of each paragraph: all of them."""

MARKDOWN = MarkdownIt("commonmark").enable("table")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\[(\"])")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)]*)\)")
LESSON = re.compile(r"(?:\.\./|solutions/)*(\d\d)_\w+\.ipynb")
LONG_CODE = re.compile(r"(?<=<code>)[^<]{30,}")
PUNCTUATION = re.compile(r"([.,:=/])(?=\w)")
WORD_END = re.compile(r"\s+|(?<=[.,:=/])(?=\w)")
CELL_PADDING = 24
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


def cut(text: str, sentences: int) -> str:
    """Return the first sentences of a long text, and the last one if it introduces what follows."""
    every = SENTENCE_END.split(text)
    if len(text) <= LONG_TEXT or len(every) <= sentences:
        return text
    kept = every[:sentences]
    if text.endswith(":"):
        kept.append(every[-1])
    return " ".join(kept)


def read_pieces(text: str, sentences: int = ALL) -> list[Piece]:
    """Return the pieces of a Markdown text, with so many sentences of each long paragraph and list item."""
    tree = SyntaxTreeNode(MARKDOWN.parse(move_links(text)))
    pieces: list[Piece] = []
    for node in tree.children:
        if node.type == "paragraph":
            pieces.append(_read_paragraph(node, sentences))
        elif node.type == "heading":
            pieces.append(Piece(_render_node(node), TEXT * LINE + GAP, has_sequel=True))
        elif node.type in ("bullet_list", "ordered_list"):
            pieces += _read_list(node, sentences)
        elif node.type == "table":
            pieces += _read_table(node)
        elif node.type == "fence":
            pieces += make_listing(node.content)
        else:
            raise ValueError(f"no slide can show a {node.type}: {text[:80]}")
    return pieces


def fit_pieces(flow: Sequence[str | Piece], comfort: float = ROOM * 0.65) -> list[Piece]:
    """Return the pieces of the texts, with as many sentences as fit comfortably on one slide."""
    pieces: list[Piece] = []
    for sentences in (ALL, 3, 2, 1):
        pieces = []
        for part in flow:
            pieces += read_pieces(part, sentences) if isinstance(part, str) else [part]
        if sum(piece.height for piece in pieces) <= comfort:
            break
    return pieces


def make_listing(text: str, kind: str = "listing") -> list[Piece]:
    """Return the pieces of a listing. One that is longer than a slide is divided into parts of equal length."""
    lines = text.rstrip("\n").split("\n")
    size = WIDE_CODE if is_wide(text) or len(lines) > MOST_LINES else CODE
    style = kind if size == CODE else f"{kind} wide"
    heights = [max(1, ceil(len(line) / _characters_in_listing(size))) * size * 1.3 for line in lines]

    def build(part: Sequence[int]) -> Piece:
        shown = "\n".join(lines[number] for number in part)
        height = sum(heights[number] for number in part) + 20 + GAP
        return Piece(f'<pre class="{style}">{escape(shown, quote=False)}</pre>', height)

    return _divide(len(lines), build)


def is_wide(text: str) -> bool:
    """Return whether a listing has a line that is too long for the usual font size."""
    return max(len(line) for line in text.split("\n")) > _characters_in_listing(CODE)


def pack(pieces: Sequence[Piece], room: float = ROOM) -> list[list[Piece]]:
    """Return the pieces slide by slide, each as full as the room allows."""
    slides: list[list[Piece]] = []
    used = 0.0
    for number, piece in enumerate(pieces):
        sequel = pieces[number + 1].height if piece.has_sequel and number + 1 < len(pieces) else 0
        needs_slide = not slides or piece.begins_slide or used + piece.height > room
        leaves_sequel = used + piece.height + sequel > room and piece.height + sequel <= room
        if needs_slide or (leaves_sequel and slides[-1]):
            slides.append([])
            used = 0
        slides[-1].append(piece)
        used += piece.height
    return slides


def _characters_in_listing(size: float) -> int:
    return int((WIDTH - 36) / (size * CODE_CHARACTER))


def _divide(count: int, build) -> list[Piece]:
    """Return one piece if it fits on a slide. Otherwise return the fewest parts of equal length that fit."""
    parts = 1
    while True:
        length = ceil(count / parts)
        pieces = [build(range(start, min(start + length, count))) for start in range(0, count, length)]
        if length == 1 or all(piece.height <= ROOM - 60 for piece in pieces):
            return [replace(piece, begins_slide=number > 0) for number, piece in enumerate(pieces)]
        parts += 1


def _read_paragraph(node: SyntaxTreeNode, sentences: int) -> Piece:
    text = node.children[0].content
    shown = cut(text, sentences)
    return Piece(
        f"<p>{MARKDOWN.renderInline(shown)}</p>",
        _text_height(shown, WIDTH, TEXT) + GAP,
        notes="" if shown == text else text,
        has_sequel=text.endswith(":"),
    )


def _read_list(node: SyntaxTreeNode, sentences: int) -> list[Piece]:
    tag = "ul" if node.type == "bullet_list" else "ol"
    first = int(node.attrs.get("start", 1))
    items = [_read_item(item, sentences) for item in node.children]

    def build(part: Sequence[int]) -> Piece:
        shown = "".join(items[number].html for number in part)
        start = f' start="{first + part[0]}"' if tag == "ol" else ""
        notes = "\n\n".join(items[number].notes for number in part if items[number].notes)
        height = sum(items[number].height for number in part) + GAP
        return Piece(f"<{tag}{start}>{shown}</{tag}>", height, notes)

    return _divide(len(items), build)


def _read_item(item: SyntaxTreeNode, sentences: int) -> Piece:
    """Return a list item. If its only part is a paragraph, it can be cut."""
    if len(item.children) == 1:
        text = item.children[0].children[0].content
        shown = cut(text, sentences)
        height = _text_height(shown, WIDTH - 50, TEXT) + 8
        return Piece(f"<li>{MARKDOWN.renderInline(shown)}</li>", height, "" if shown == text else text)
    texts = [child.content for child in item.walk() if child.type in ("inline", "fence")]
    height = sum(_text_height(text, WIDTH - 90, TEXT) + 8 for text in texts)
    return Piece(_render_node(item), height)


def _read_table(node: SyntaxTreeNode) -> list[Piece]:
    head, *body = node.children
    rows = [row for part in body for row in part.children]
    table = [head.children[0], *rows]
    texts = [[_plain(cell.children[0].content) if cell.children else "" for cell in row.children] for row in table]
    for size in (TABLE, WIDE_TABLE):
        pieces = _build_table(head, rows, texts, size)
        if len(pieces) == 1 and pieces[0].height <= ROOM * 0.65 and _narrowest(texts, size) <= WIDTH:
            break
    return pieces


def _build_table(head: SyntaxTreeNode, rows: list[SyntaxTreeNode], texts: list[list[str]], size: float) -> list[Piece]:
    widths = _column_widths(texts, size)
    heights = [
        max(_text_height(text, width, size) for text, width in zip(row, widths, strict=True)) + 14 for row in texts
    ]
    style = ' class="wide"' if size == WIDE_TABLE else ""

    def build(part: Sequence[int]) -> Piece:
        shown = "".join(_allow_breaks(_render_node(rows[number])) for number in part)
        height = heights[0] + sum(heights[number + 1] for number in part) + GAP
        return Piece(f"<table{style}>{_mark_empty_corner(_render_node(head))}<tbody>{shown}</tbody></table>", height)

    return _divide(len(rows), build)


def _narrowest(rows: list[list[str]], size: float) -> float:
    """Return the width of a table if its columns are as narrow as their longest words."""
    return sum(_smallest_widths(rows, size)) + CELL_PADDING * len(rows[0])


def _smallest_widths(rows: list[list[str]], size: float) -> list[float]:
    columns = zip(*rows, strict=True)
    words = ([word for text in column for word in WORD_END.split(text)] for column in columns)
    return [max(len(word) for word in column) * size * CHARACTER for column in words]


def _column_widths(rows: list[list[str]], size: float) -> list[float]:
    """Return the widths that a browser gives the columns: the longest word, and a part of the rest by content."""
    smallest = _smallest_widths(rows, size)
    largest = [max(len(text) for text in column) * size * CHARACTER for column in zip(*rows, strict=True)]
    room = WIDTH - CELL_PADDING * len(largest)
    if sum(largest) <= room:
        return largest
    growth = max(0.0, room - sum(smallest)) / max(1.0, sum(largest) - sum(smallest))
    return [small + (large - small) * growth for small, large in zip(smallest, largest, strict=True)]


def _allow_breaks(html: str) -> str:
    """Return a row of a table whose long names may be broken after a punctuation mark."""
    return LONG_CODE.sub(lambda match: PUNCTUATION.sub(r"\1<wbr>", match[0]), html)


def _text_height(text: str, width: float, size: float) -> float:
    characters = max(1, int(width / (size * CHARACTER)))
    return max(1, ceil(len(_plain(text)) / characters)) * size * LINE


def _plain(text: str) -> str:
    return MARKUP.sub("", LINK.sub(r"\1", text))


def _render_node(node: SyntaxTreeNode) -> str:
    return MARKDOWN.renderer.render(node.to_tokens(), MARKDOWN.options, {})


def _mark_empty_corner(head: str) -> str:
    """Return the head of a table without an empty heading, which a screen reader cannot use."""
    return head.replace("<th></th>", "<td></td>")
