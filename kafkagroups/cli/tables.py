"""Tables for people: fitted to the terminal, never cut in a file or a pipe, colours only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints rows under their columns. Long cells fold; nothing is left out."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(str(cell)) for cell in row))
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200).print(drawn)
