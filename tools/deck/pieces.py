"""Markdown as pieces of slides, and pieces as slides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from math import ceil

from markdown_it.tree import SyntaxTreeNode

from deck.piece import GAP, LINE, MARKDOWN, ROOM, WIDTH, Piece, divide, move_links, render_node, text_height
from deck.tables import read_table

DENSE = 0.88
"""The factor of all heights on a slide with smaller text. The text of a wide listing cannot be smaller."""
SMALL = 0.4
"""A slide with less than this part of its room filled joins its neighbour."""

TEXT = 30
"""The font size of texts and lists."""
CODE = 24
WIDE_CODE = 20
"""The font size of a long listing, or of one with a long line."""
MOST_LINES = 11
CODE_CHARACTER = 0.605
LONG_TEXT = 140
"""Of a longer paragraph, the slide has the first sentences. The notes contain all of it."""

ALL = 1000
"""So many sentences of each paragraph: all of them."""

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\[(\"])")
TITLE = re.compile(r"\*\*[^*]+\*\*")  # A paragraph of bold text is the title of what follows.


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
            pieces.append(Piece(render_node(node), TEXT * LINE + GAP, has_sequel=True))
        elif node.type in ("bullet_list", "ordered_list"):
            pieces += _read_list(node, sentences)
        elif node.type == "table":
            pieces += read_table(node)
        elif node.type == "fence":
            pieces += make_listing(node.content)
        else:
            raise ValueError(f"no slide can show a {node.type}: {text[:80]}")
    return pieces


def fit_pieces(flow: Sequence[str | Piece], comfort: float = ROOM * 0.85) -> list[Piece]:
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

    return divide(len(lines), build)


def is_wide(text: str) -> bool:
    """Return whether a listing has a line that is too long for the usual font size."""
    return max(len(line) for line in text.split("\n")) > _characters_in_listing(CODE)


def pack(pieces: Sequence[Piece], room: float = ROOM) -> list[list[Piece]]:
    """Return the pieces slide by slide, each as full as the room allows. A small rest joins the slide before it."""
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
    return _join_small(slides, room)


def _join_small(slides: list[list[Piece]], room: float) -> list[list[Piece]]:
    """Return the slides, where a small one and its neighbour are one, if they fit with smaller text."""
    joined = slides[:1]
    for slide in slides[1:]:
        heights = [sum(piece.height for piece in part) for part in (joined[-1], slide)]
        is_fixed = any(piece.html.startswith("<pre") and 'wide">' in piece.html for piece in joined[-1] + slide)
        fits = sum(heights) <= (room if is_fixed else room / DENSE)
        if fits and min(heights) <= room * SMALL and not slide[0].begins_slide:
            joined[-1] = joined[-1] + slide
        else:
            joined.append(slide)
    return joined


def _characters_in_listing(size: float) -> int:
    return int((WIDTH - 36) / (size * CODE_CHARACTER))


def _read_paragraph(node: SyntaxTreeNode, sentences: int) -> Piece:
    text = node.children[0].content
    shown = cut(text, sentences)
    return Piece(
        f"<p>{MARKDOWN.renderInline(shown)}</p>",
        text_height(shown, WIDTH, TEXT) + GAP,
        notes="" if shown == text else text,
        has_sequel=text.endswith(":") or bool(TITLE.fullmatch(text)),
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

    return divide(len(items), build)


def _read_item(item: SyntaxTreeNode, sentences: int) -> Piece:
    """Return a list item. If its only part is a paragraph, it can be cut."""
    if len(item.children) == 1:
        text = item.children[0].children[0].content
        shown = cut(text, sentences)
        height = text_height(shown, WIDTH - 50, TEXT) + 8
        return Piece(f"<li>{MARKDOWN.renderInline(shown)}</li>", height, "" if shown == text else text)
    texts = [child.content for child in item.walk() if child.type in ("inline", "fence")]
    height = sum(text_height(text, WIDTH - 90, TEXT) + 8 for text in texts)
    return Piece(render_node(item), height)
