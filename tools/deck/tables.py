"""Markdown tables as pieces of slides. A table with little text is large."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown_it.tree import SyntaxTreeNode

from deck.piece import CHARACTER, GAP, LINE, ROOM, WIDTH, Piece, divide, plain, render_node, text_height

TABLE = 28
WIDE_TABLE = 23
"""The font size of a table with much text."""
LONG_CODE = re.compile(r"(?<=<code>)[^<]{18,}")
BREAK = r"(?<=[.,:=/_])(?=\w)|(?<=[a-z])(?=[A-Z])"
NAME_PART = re.compile(BREAK)
WORD_END = re.compile(rf"\s+|{BREAK}")
COLUMNS = re.compile(r'^ colspan="(\d)"')
CELL_PADDING = 24
ROW = re.compile(r"<tr.*?</tr>", re.DOTALL)
LINE_END = re.compile(r"<li>|<br>|<ul>")


def read_table(node: SyntaxTreeNode) -> list[Piece]:
    """Return the pieces of a table: one if it fits on a slide, in the largest font that has room."""
    head, *body = node.children
    rows = [row for part in body for row in part.children]
    table = [head.children[0], *rows]
    texts = [[plain(cell.children[0].content) if cell.children else "" for cell in row.children] for row in table]
    for size in (TABLE, WIDE_TABLE):
        pieces = _build_table(head, rows, texts, size)
        if len(pieces) == 1 and pieces[0].height <= ROOM * 0.65 and _narrowest(texts, size) <= WIDTH:
            break
    return pieces


def read_comparison(html: str) -> list[Piece]:
    """Return the pieces of the table in which `course.compare_brokers` shows the answers and records of brokers."""
    head, *rows = ROW.findall(html)
    column = 0.85 * (WIDTH / head.count("<th") - CELL_PADDING)  # Long names leave the ends of lines empty.

    def measure(cell: str) -> float:
        attributes, _, text = cell.partition(">")
        columns = COLUMNS.match(attributes)
        width = column * int(columns[1] if columns else 1)
        return sum(text_height(line, width, WIDE_TABLE) for line in LINE_END.split(text) if plain(line).strip())

    heights = [max(measure(cell) for cell in re.split("<t[dh]", row)[1:]) for row in rows]

    def build(part: Sequence[int]) -> Piece:
        shown = "".join(rows[number] for number in part)
        height = WIDE_TABLE * LINE + sum(heights[number] + 14 for number in part) + GAP
        return Piece(f'<table class="wide compared"><thead>{head}</thead><tbody>{shown}</tbody></table>', height)

    return divide(len(rows), build)


def _build_table(head: SyntaxTreeNode, rows: list[SyntaxTreeNode], texts: list[list[str]], size: float) -> list[Piece]:
    widths = _column_widths(texts, size)
    heights = [
        max(text_height(text, width, size) for text, width in zip(row, widths, strict=True)) + 14 for row in texts
    ]
    style = ' class="wide"' if size == WIDE_TABLE else ""

    def build(part: Sequence[int]) -> Piece:
        shown = "".join(_allow_breaks(render_node(rows[number])) for number in part)
        height = heights[0] + sum(heights[number + 1] for number in part) + GAP
        return Piece(f"<table{style}>{_mark_empty_corner(render_node(head))}<tbody>{shown}</tbody></table>", height)

    return divide(len(rows), build)


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
    """Return a row of a table whose long names may be broken between their parts."""
    return LONG_CODE.sub(lambda match: NAME_PART.sub("<wbr>", match[0]), html)


def _mark_empty_corner(head: str) -> str:
    """Return the head of a table without an empty heading, which a screen reader cannot use."""
    return head.replace("<th></th>", "<td></td>")
