"""Tables for people: fitted to the terminal, never cut in a file or a pipe, colours only on a terminal."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with control characters as escapes: a group's name must not move the cursor or break a line."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints rows under their columns. Long cells fold; nothing is left out."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(printable(str(cell))) for cell in row))
    screen = sys.stdout.isatty()
    out = io.StringIO()
    Console(file=out, force_terminal=screen or None, width=None if screen else 200).print(drawn)
    sys.stdout.write(out.getvalue())  # in one piece, so that a closed pipe is the caller's to notice
