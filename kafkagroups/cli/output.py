"""What the commands print: lines, tables, findings, JSON, errors, and progress displays.

A text for people is as wide as COLUMNS says, or as the terminal, or DEFAULT_WIDTH in a file or a pipe. It wraps only
between words, so that a path, a name or a number can be copied.

Names and metadata in a log can contain any character, so texts escape those that could change a terminal's display, and
JSON every character that is not ASCII.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import datetime, timedelta
from itertools import takewhile, zip_longest
from typing import Any, TextIO, cast

from kafkagroups.helpers import escape as escape
from kafkagroups.history.finding import TOPIC_KINDS, Finding

DEFAULT_WIDTH = 80
FINDINGS_SHOWN = 50
METADATA_SHOWN = 40
"""The text shows this number of the first characters of longer metadata, and how many there are."""
INDENT = "    "
MIN_BYTES_FOR_BAR = 4 * 1024 * 1024
"""Only a log of at least this size gets a bar. Smaller logs take too little time."""
Report = Callable[[str, int, int], None]
"""A function that gets the name of a step, the units of work that are done, and the total units."""

_NUMBER = re.compile(r"-|(-|[▼▲] )?[0-9.]+%?")
"""A column of numbers is aligned to the right. "-" stands for no number; ▼ went back, ▲ jumped ahead."""
_NUMBER_OR_TIME = re.compile(r"[-0-9:.% ▼▲]*")
_COLOURED = re.compile(
    r"(?P<good>^LOADS\b|(?<= )wins(?= |$))"
    r"|(?P<bad>^(FAILS|DAMAGED)\b|^Finding \d+\.)"
    r"|(?P<change>[▼▲]|(?<=  )pending(?= |$))"
    r"|(?P<past>(?<= )(superseded|deleted|aborted|hidden|expired)(?=  |$)|─+)"
    r"|(?P<advice>^Remedy:)"
)
_COLOURS = {"good": "1;32", "bad": "1;31", "change": "33", "past": "2", "advice": "1"}
"""The codes of a terminal. No meaning rests on them, because the words say the same."""


def find_width() -> int:
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return shutil.get_terminal_size((DEFAULT_WIDTH, 0)).columns
    return DEFAULT_WIDTH


def print_line(text: str) -> None:
    print(escape(text))


def print_text(text: str = "", indent: str = INDENT) -> None:
    for line in wrap(escape(text), find_width(), indent):
        print(line)


def print_error(message: object) -> None:
    print_error_line(f"kafkagroups: {message}")


def print_error_line(text: str) -> None:
    print(escape(text), file=sys.stderr)


def describe_nearest(word: str, names: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"; the nearest one is {nearest[0]}" if nearest else ""


def print_json(value: object) -> None:
    """Print one line of JSON, at once, because a program may wait for it."""
    print(json.dumps(value), flush=True)


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    if len(text) <= width:
        return [text]
    return textwrap.wrap(
        text,
        max(width, len(indent) + 1),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )


def format_time(ms: int) -> str:
    """A time (ms since 1970) in UTC without the milliseconds; "" for a negative number, which means no time.

    A number that is too large for datetime is returned as it is.
    """
    return "" if ms < 0 else format_time_ms(ms).removesuffix(" ms").partition(".")[0]


def format_time_ms(ms: int) -> str:
    if ms < 0:
        return "no time"
    try:
        time = datetime(1970, 1, 1) + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return time.isoformat(sep=" ", timespec="milliseconds")


def shorten(text: str) -> str:
    return text if len(text) <= 1.5 * METADATA_SHOWN else f"{text[:METADATA_SHOWN]}… ({len(text)} characters)"


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    note: str = "",
    below: Iterable[Iterable[str]] = (),
) -> None:
    """Print an empty line, the column names, the rows, and a note about them. Without rows, print nothing.

    `below` has texts for each row, which stand below it.
    """
    head, *texts = _lay_out_table(columns, rows)
    if texts:
        print(f"\n{head}")
    for text, details in zip_longest(texts, below, fillvalue=()):
        print(text)
        for detail in details:
            print_text(f"{INDENT}{detail}", indent=f"{INDENT}  ")
    if texts and note:
        print_text(note)


def _lay_out_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the head of a table, and a text for each row, with a line break where a cell wraps.

    None is "-", and a number in a column "… (UTC)" is a time in ms since 1970. A column without a text is left out, and
    a text may use empty cells to its right. The columns shrink to the width, the widest first, but none below its
    longest word, number or time.
    """
    cells = [list(columns), *([_format_cell(*pair) for pair in zip(columns, row, strict=True)] for row in rows)]
    used = [texts for texts in zip(*cells, strict=True) if any(texts[1:])]
    cells = [list(row) for row in zip(*used, strict=True)]
    if not used:
        return [""]
    numbers = [all(_NUMBER.fullmatch(text) for text in texts[1:] if text) for texts in used]
    for gap in (2, 1):
        widths = _find_widths(cells, gap, _measure)
        excess = sum(widths) + gap * (len(widths) - 1) - find_width()
        if excess <= 0:
            break
    least = _find_widths(cells, gap, _measure_words) if excess > 0 else widths
    while excess > 0 and (wide := [column for column in range(len(widths)) if widths[column] > least[column]]):
        widths[max(wide, key=widths.__getitem__)] -= 1
        excess -= 1
    head, *texts = [_lay_out_row(row, widths, numbers, gap) for row in cells]
    return [f"{head}\n{'─' * (sum(widths) + gap * (len(widths) - 1))}", *texts]


def _measure(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _format_cell(column: str, value: object) -> str:
    if column.endswith("(UTC)") and isinstance(value, int):
        return format_time(value)
    return "-" if value is None else escape(str(value))


def _measure_words(text: str) -> int:
    return _measure(text) if _NUMBER_OR_TIME.fullmatch(text) else max(map(_measure, text.split(" ")))


def _count_free(row: Sequence[str], column: int, widths: Sequence[int], gap: int) -> int:
    empty = takewhile(lambda other: not row[other], range(column + 1, len(row)))
    return sum(widths[other] + gap for other in empty)


def _find_widths(cells: list[list[str]], gap: int, measure: Callable[[str], int]) -> list[int]:
    widths = [0] * len(cells[0])
    for column in reversed(range(len(widths))):
        widths[column] = max(measure(row[column]) - _count_free(row, column, widths, gap) for row in cells)
    return widths


def _lay_out_row(row: Sequence[str], widths: Sequence[int], numbers: Sequence[bool], gap: int) -> str:
    wrapped = [wrap(text, widths[column] + _count_free(row, column, widths, gap)) for column, text in enumerate(row)]
    lines = []
    for parts in zip_longest(*wrapped, fillvalue=""):
        line = ""
        start = 0  # of the column
        for part, width, is_number in zip(parts, widths, numbers, strict=True):
            if part:
                line += " " * (start - _measure(line) + (width - _measure(part) if is_number else 0)) + part
            start += width + gap
        lines.append(line)
    return "\n".join(lines)


def print_findings(findings: Sequence[Finding]) -> None:
    """A remedy that is the same as the one before is printed once."""
    last_remedy = ""
    for number, finding in enumerate(findings[:FINDINGS_SHOWN], start=1):
        print_text()
        print_text(f"Finding {number}. {_describe_place(finding)}: {finding.what}", indent="")
        if finding.remedy != last_remedy:
            print_text(f"Remedy: {finding.advice}", indent="")
            if finding.command_line:
                print_line(f"{INDENT}{finding.command_line}")  # In one line, so that it can be copied.
        last_remedy = finding.remedy
    if len(findings) > FINDINGS_SHOWN:
        print(f"\n{len(findings) - FINDINGS_SHOWN} more findings are not shown; --json shows all of them.")


def _describe_place(finding: Finding) -> str:
    place = "The log" if finding.partition is None else f"Partition {finding.partition}"
    if finding.partition is None and finding.kind in TOPIC_KINDS:
        place = "The topic"
    offset = "" if finding.offset is None else f", offset {finding.offset}"
    return f"{place}{offset}{'' if finding.group is None else f', group {finding.group}'}"


@contextmanager
def coloured_output() -> Iterator[None]:
    """Colour what is printed, if stdout is a terminal and NO_COLOR is not set (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        yield
        return
    with redirect_stdout(cast(TextIO, _ColouredStream(sys.stdout))):
        yield


def _colour(match: re.Match[str]) -> str:
    return f"\x1b[{_COLOURS[match.lastgroup or '']}m{match[0]}\x1b[0m"


class _ColouredStream:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(_COLOURED.sub(_colour, text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_as_tool(text: str) -> None:
    """Print a text of Kafka's own tools byte for byte, but escaped on a terminal. Only its end can be a line break."""
    if sys.stdout.isatty():
        line = text.removesuffix("\n")
        text = escape(line) + text[len(line) :]
    sys.stdout.write(text)


@contextmanager
def spinner(path: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    # A Text is shown as it is. In a str, rich would read [bold] as markup.
    with Console(stderr=True).status(Text(escape(f"reading {path} …"))):
        yield


@contextmanager
def progress_bar(min_total: int = MIN_BYTES_FOR_BAR) -> Iterator[Report | None]:
    """Yield a function that shows one progress bar for each step. If stderr is not a terminal, yield None.

    A step with a total below `min_total` units has no bar. The bars disappear at the end of the `with` block.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def report(step: str, done: int, total: int) -> None:
            if total < min_total:
                return
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield report
