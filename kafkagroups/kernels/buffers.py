"""The bytes of a log's segments: how many, and where."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO

from kafkagroups.errors import UsageError
from kafkagroups.log.segments import BytesLike, Log


def size(log: Log) -> int:
    """In bytes, all its segments."""
    if log.content:
        told = getattr(log.content, "size", None)  # of segments that are elsewhere
        return sum(len(data) for data in log.content.values()) if told is None else int(told)
    return sum(os.path.getsize(os.path.join(log.folder, segment)) for segment in log.segments)


@contextmanager
def opened(log: Log, segment: str) -> Iterator[FileIO]:
    """The file of a segment. UsageError when it cannot be opened or read."""
    try:
        with open(os.path.join(log.folder, segment), "rb", buffering=0) as file:
            yield file
    except OSError as error:
        raise UsageError(f"{segment}: {error.strerror}") from None


def buffers(log: Log) -> Iterator[BytesLike]:
    """The bytes of each segment. UsageError when a file cannot be opened or read."""
    for segment in log.segments:
        if log.content:
            yield log.content[segment]
            continue
        with opened(log, segment) as file:
            content = file.read()
        yield content
