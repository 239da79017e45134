"""Tables for people: fitted to the terminal, never cut in a file or a pipe, colours only on a terminal."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


_WHOLE = re.compile(r"[-0-9:.% ]*")
"""Cells that must stay in one piece: numbers, shares and times."""


LEAST = 12
"""How wide a column of names stays, if its names are."""


def printable(text: str) -> str:
    """The text with control characters as escapes: a group's name must not move the cursor or break a line."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints rows under their columns. Long names fold, numbers and times never; nothing is left out."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown = [[printable(str(cell)) for cell in row] for row in rows]
    for number, column in enumerate(columns):
        whole = all(_WHOLE.fullmatch(row[number]) for row in shown)
        widest = max((len(row[number]) for row in shown), default=0)
        drawn.add_column(column, overflow="fold", no_wrap=whole, min_width=widest if whole else min(widest, LEAST))
    for row in shown:
        drawn.add_row(*map(Text, row))
    screen = sys.stdout.isatty()
    out = io.StringIO()
    console = Console(file=out, force_terminal=screen or None, width=None if screen else 200)
    least = Console(width=10_000).measure(drawn).minimum
    console.width = max(console.width, least)  # a line too long is better than a number cut in two
    console.print(drawn)
    sys.stdout.write(out.getvalue())  # in one piece, so that a closed pipe is the caller's to notice
