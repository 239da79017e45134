"""Tables on stdout: fitted to the terminal, never cut in a file or a pipe."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_UNBREAKABLE = re.compile(r"[-0-9:.% ]*")
"""The text of a number, a percentage or a time. A cell with this text is never folded into several lines."""

MIN_FOLDED_WIDTH = 12
"""A column of text can be folded to this width, but not to a smaller width."""

WIDTH_IN_FILE = 200
"""The width of a table in a file or a pipe, in characters."""


def escape(text: str) -> str:
    """Return the text with control characters escaped, so that a group's name cannot break a line."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below their column names. A long text is folded into several lines; nothing is left out."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    cells = [[escape(str(cell)) for cell in row] for row in rows]
    for number, column in enumerate(columns):
        is_unbreakable = all(_UNBREAKABLE.fullmatch(row[number]) for row in cells)
        widest = max((len(row[number]) for row in cells), default=0)
        min_width = widest if is_unbreakable else min(widest, MIN_FOLDED_WIDTH)
        table.add_column(column, overflow="fold", no_wrap=is_unbreakable, min_width=min_width)
    for row in cells:
        table.add_row(*map(Text, row))

    is_terminal = sys.stdout.isatty()
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal or None, width=None if is_terminal else WIDTH_IN_FILE)
    min_table_width = Console(width=10_000).measure(table).minimum
    # A line that is too long is better than a number that is cut in two.
    console.width = max(console.width, min_table_width)
    console.print(table)
    # rich does not write to stdout itself, so that the caller gets the error of a closed pipe.
    sys.stdout.write(out.getvalue())
