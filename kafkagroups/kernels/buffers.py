"""The bytes of a log's segments: how many, and mapped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap

from kafkagroups.errors import UsageError
from kafkagroups.log.segments import BytesLike, Log


def size(log: Log) -> int:
    """In bytes, all its segments."""
    if log.content:
        return sum(len(data) for data in log.content.values())
    return sum(os.path.getsize(os.path.join(log.folder, segment)) for segment in log.segments)


def buffers(log: Log) -> Iterator[BytesLike]:
    """The bytes of each segment that has any, mapped and not read. UsageError when a file cannot be opened."""
    for segment in log.segments:
        if log.content:
            yield log.content[segment]
            continue
        try:
            with open(os.path.join(log.folder, segment), "rb") as file:
                if os.fstat(file.fileno()).st_size:
                    yield mmap(file.fileno(), 0, access=ACCESS_READ)
        except OSError as error:
            raise UsageError(f"{segment}: {error.strerror}") from None
