"""The new batches of a growing log: the complete batches after a position, up to an offset.

If a batch is incomplete or its checksum is wrong, the broker is probably still writing this batch. So the log is read
only up to this batch, even if other bytes follow, and a later call reads the batch. A Position (log/position.py) says
how far a log was read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.log.position import FoundBatch, Position
from kafkagroups.log.segment_file import ByteRange, MissingSegment
from kafkagroups.log.segments import Log


class NewBatch(NamedTuple):
    """A complete batch with the correct checksum, and the bytes of the batch."""

    batch: Batch
    data: bytes


def find_end(log: Log, position: Position, sizes: Mapping[str, int] | None = None) -> Position:
    """Return the position after the last complete batch that follows `position`.

    If `sizes` is given, it contains a number of bytes for each file path, and only these bytes of the files are read.
    """
    if sizes is not None:
        log = log.select_ranges(
            {segment: ByteRange(0, sizes.get(file_of(log, segment), 0)) for segment in log.segments}
        )
    try:
        for found in log.read_after(position):
            found.parse()
            position = found.end
    except (InvalidLog, MissingSegment):
        # The broker is writing the batch, or the cleaner has deleted the file after the folder was listed.
        return position
    return position


def read_until(log: Log, position: Position, end_offset: int) -> Iterator[NewBatch]:
    """Yield the batches after a position, in order, whose base offset is below `end_offset`.

    Raises InvalidLog if a batch is damaged: `find_end` has already found the same batch undamaged, so the file has
    changed. Raises UsageError if a file was deleted.
    """
    try:
        for found in log.read_after(position):
            if found.frame.base_offset >= end_offset:
                return
            yield _parse(found)
            if found.frame.next_offset >= end_offset:
                return
    except MissingSegment as error:
        raise UsageError(f"{error.reason}: the file was deleted before it was read; start the stream again") from None


def _parse(found: FoundBatch) -> NewBatch:
    return NewBatch(found.parse(), found.data)


def file_of(log: Log, segment: str) -> str:
    """Return the path of a segment's file."""
    return os.path.join(log.folder, segment)


def files_of(log: Log) -> list[str]:
    """Return the paths of all segments' files."""
    return [file_of(log, segment) for segment in log.segments]


def size_of(path: str) -> int:
    """Return a file's size in bytes; 0 if it was deleted."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
