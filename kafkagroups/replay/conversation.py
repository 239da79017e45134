"""The file of a recorded conversation: a header, then requests and events."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO

from kafkagroups.errors import UsageError
from kafkagroups.helpers import check_regular, read_lines
from kafkagroups.replay.json_values import Json
from kafkagroups.replay.shapes import HEADER_LINE, check, check_line


def read_conversation(path: str | Path) -> tuple[Json, list[Json]]:
    """Return the header (the first line) of a conversation, and the other lines: requests and events.

    If the file is not a conversation, raise UsageError with the line number and the field.
    """
    try:
        check_regular(os.stat(path), str(path))
        with open(path, "rb") as file:
            lines = _parse_lines(file, path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:  # The path contains a null character.
        raise UsageError(f"{path}: {error}") from None
    return lines[0], lines[1:]


def _parse_lines(file: IO[bytes], path: str | Path) -> list[Json]:
    """Return the lines of a conversation, at least one. Raises UsageError with the line number and the field."""
    lines: list[Json] = []
    try:
        for text in read_lines(file):
            line = json.loads(text.decode())
            if lines:
                check_line(line)
            else:
                check(line, HEADER_LINE)
            lines.append(line)
        if not lines:
            raise ValueError
    except (ValueError, RecursionError):
        reason = "expected a conversation: a JSON object on each line; the first line is the header"
        raise UsageError(f"{path}, line {len(lines) + 1}: {reason}") from None
    except UsageError as error:
        raise UsageError(f"{path}, line {len(lines) + 1}: {error}") from None
    return lines
