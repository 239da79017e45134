"""Tables on stdout: as wide as the terminal, or WIDTH_IN_FILE characters wide in a file or a pipe.

If a text is too long for its column, it is wrapped: it continues on the next line of its cell.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Literal

from kafkagroups.cli.output import TEXT_WIDTH, escape

_NUMBER = re.compile(r"(-|-?[0-9.]+%?)?")
"""A column that contains only numbers, percentages, empty texts and "-" (nothing) is aligned to the right."""

_NUMBER_OR_TIME = re.compile(r"[-0-9:.% ]*")
"""A column that contains only numbers, percentages, times and empty texts is never wrapped."""

MIN_WRAPPED_WIDTH = 12
"""The smallest width of a column of wrapped texts, in characters."""

WIDTH_IN_FILE = 200
"""The width of a table in a file or a pipe, in characters."""


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, width_in_file: int = WIDTH_IN_FILE
) -> None:
    """Print rows below their column names. Long texts are wrapped, and no text is cut off.

    `width_in_file` is the width in a file or a pipe, in characters. A narrow table has one space between two columns.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_narrow = width_in_file <= TEXT_WIDTH
    # In SIMPLE_HEAD, a space stands before the first column, after the last one, and between two columns.
    padding = (0, 0, 0, 0) if is_narrow else (0, 1, 0, 0)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=padding)
    cells = [[escape(str(cell)) for cell in row] for row in rows]
    min_table_width = len(columns) + 1 if is_narrow else 3 * len(columns)
    for index, column in enumerate(columns):
        is_never_wrapped = all(_NUMBER_OR_TIME.fullmatch(row[index]) for row in cells)
        longest = max((len(row[index]) for row in cells), default=0)
        min_width = longest if is_never_wrapped else min(longest, MIN_WRAPPED_WIDTH)
        texts = [row[index] for row in cells]
        min_table_width += max(min_width, *map(len, column.split()), 1)
        is_number = all(map(_NUMBER.fullmatch, texts)) and any(text not in ("", "-") for text in texts)
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=is_never_wrapped, min_width=min_width)
    for row in cells:
        table.add_row(*map(Text, row))

    is_terminal = sys.stdout.isatty()
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal or None, width=None if is_terminal else width_in_file)
    # If the terminal is too narrow, a line that is too long is better than a number that is cut in two.
    console.width = max(console.width, min_table_width)
    console.print(table)
    # Rich must not write to stdout, because rich would hide the error of a closed pipe from the caller.
    sys.stdout.write(out.getvalue())
