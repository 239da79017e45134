"""Tables on stdout: as wide as the terminal, or WIDTH_IN_FILE characters wide in a file or a pipe.

If a text is too long for its column, it is wrapped: it continues on the next line of its cell.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence

from kafkagroups.cli.output import escape

_NUMBER_OR_TIME = re.compile(r"[-0-9:.% ]*")
"""A column that contains only numbers, percentages, times and empty texts is never wrapped."""

MIN_WRAPPED_WIDTH = 12
"""The smallest width of a column of wrapped texts, in characters."""

WIDTH_IN_FILE = 200
"""The width of a table in a file or a pipe, in characters."""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below their column names. Long texts are wrapped, and no text is cut off."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    cells = [[escape(str(cell)) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        is_never_wrapped = all(_NUMBER_OR_TIME.fullmatch(row[index]) for row in cells)
        longest = max((len(row[index]) for row in cells), default=0)
        min_width = longest if is_never_wrapped else min(longest, MIN_WRAPPED_WIDTH)
        table.add_column(column, overflow="fold", no_wrap=is_never_wrapped, min_width=min_width)
    for row in cells:
        table.add_row(*map(Text, row))

    is_terminal = sys.stdout.isatty()
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal or None, width=None if is_terminal else WIDTH_IN_FILE)
    min_table_width = Console(width=10_000).measure(table).minimum
    # If the terminal is too narrow, a line that is too long is better than a number that is cut in two.
    console.width = max(console.width, min_table_width)
    console.print(table)
    # Rich must not write to stdout, because rich would hide the error of a closed pipe from the caller.
    sys.stdout.write(out.getvalue())
