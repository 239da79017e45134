"""The bytes of a log's segments: how many, and mapped."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

from kafkagroups.errors import UsageError
from kafkagroups.log.segments import BytesLike, Log


def size(log: Log) -> int:
    """In bytes, all its segments."""
    if log.content:
        told = getattr(log.content, "size", None)  # of segments that are elsewhere
        return sum(len(data) for data in log.content.values()) if told is None else int(told)
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
                    yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise UsageError(f"{segment}: {error.strerror}") from None


def forget(buffer: BytesLike, end: int) -> None:
    """Takes what was read of a mapped file, up to a position, out of this process's memory; it can be read again."""
    whole = end - end % mmap.PAGESIZE
    if whole and isinstance(buffer, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        buffer.madvise(mmap.MADV_DONTNEED, 0, whole)
