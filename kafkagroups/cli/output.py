"""Text for people on stdout and stderr. Characters that could change a terminal's display are escaped.

Names and metadata in a log can contain any character. Control characters begin a terminal's commands, and format
characters such as U+202E reverse the text after them. JSON needs no escaping here, because `json.dumps` escapes every
character that is not ASCII.
"""

from __future__ import annotations

import sys
from typing import TextIO

from kafkagroups.helpers import escape as escape

TEXT_WIDTH = 80
"""The width of the texts that an operator reads, in characters."""

INDENT = "    "
"""The start of each further line of a text that was wrapped."""


def print_line(text: str) -> None:
    """Print one line for people on stdout."""
    print(escape(text))


def print_error_line(text: str) -> None:
    """Print one line for people on stderr."""
    print(escape(text), file=sys.stderr)


def wrap(line: str, width: int = TEXT_WIDTH, indent: str = INDENT) -> list[str]:
    """Divide a line into lines of at most `width` characters. All lines except the first are indented.

    A word is never broken, because a path or a name must stay one word when it is copied. A line with a longer word is
    longer than `width`.
    """
    lines = []
    while len(line) > width:
        # The line's indent may contain spaces. They are no place to break.
        start = len(line) - len(line.lstrip(" ")) + 1
        end = line.rfind(" ", start, width + 1)
        if end < 0:
            end = line.find(" ", width + 1)
        if end < 0 or not line[end:].strip(" "):
            break
        lines.append(line[:end])
        line = indent + line[end:].lstrip(" ")
    return [*lines, line]


class ToolOutput:
    """The output of `dump --format`, which reproduces the text of Kafka's own tools.

    In a file or a pipe, the output is the tool's text, byte for byte. On a terminal, the lines are escaped.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()

    def write(self, text: str, /) -> None:
        """Write a text that contains at most one line break, at its end."""
        if self._is_terminal:
            line = text.removesuffix("\n")
            text = escape(line) + text[len(line) :]
        self._stream.write(text)

    def write_lines(self, text: str, /) -> None:
        """Write a text of whole lines. Each line break ends a line."""
        if self._is_terminal:
            text = "\n".join(escape(line) for line in text.split("\n"))
        self._stream.write(text)
