"""Lines of a file that may be larger than the memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from kafkagroups.errors import UsageError

MAX_LINE_BYTES = 64 * 1024 * 1024


def read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file. Raises UsageError if a line has more than MAX_LINE_BYTES bytes."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise UsageError(f"expected lines of at most {MAX_LINE_BYTES} bytes, found a longer one")
        yield line
