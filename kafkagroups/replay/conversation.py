"""The file of a recorded conversation: a header, then requests and events."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

from kafkagroups.bounded_lines import read_lines
from kafkagroups.errors import UsageError
from kafkagroups.replay.json_values import Json
from kafkagroups.replay.shapes import HEADER_LINE, check, check_line


def read_conversation(path: str | Path) -> tuple[Json, list[Json]]:
    """Return the header (the first line) of a conversation, and the other lines: requests and events.

    If the file is not a conversation, raise UsageError with the line number and the field.
    """
    lines: list[Json] = []
    try:
        # `open` would wait for the writer of a pipe, and a device may have no end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "expected a regular file")
        with open(path, "rb") as file:
            for text in read_lines(file):
                line = json.loads(text.decode())
                if lines:
                    check_line(line)
                else:
                    check(line, HEADER_LINE)
                lines.append(line)
        if not lines:
            raise ValueError
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        reason = "expected a conversation: a JSON object on each line; the first line is the header"
        raise UsageError(f"{path}, line {len(lines) + 1}: {reason}") from None
    except UsageError as error:
        raise UsageError(f"{path}, line {len(lines) + 1}: {error}") from None
    return lines[0], lines[1:]
