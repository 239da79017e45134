"""The new batches of a growing log: the complete batches after a position, up to a Kafka offset.

A Position (log/position.py) says how far a log was read. If a batch is incomplete or its checksum is wrong, the broker
is probably still writing this batch. So the log is read only up to this batch, even if other bytes follow. A later call
reads the batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.log.position import Position
from kafkagroups.log.segment_file import ByteRange, MissingSegment
from kafkagroups.log.segments import Log


class NewBatch(NamedTuple):
    """A complete batch with a correct checksum, and the bytes of the batch as the log contains them."""

    batch: Batch
    data: bytes


def find_end(log: Log, position: Position, file_sizes: Mapping[str, int] | None = None) -> Position:
    """Return the position after the last complete batch that follows `position`.

    `file_sizes` maps the path of each file to the number of bytes to read. None means that all bytes are read.
    """
    if file_sizes is not None:
        ranges = {segment: ByteRange(0, file_sizes.get(file_path(log, segment), 0)) for segment in log.segments}
        log = log.select_ranges(ranges)
    try:
        for found in log.read_new_batches(position):
            found.parse()
            position = found.end
    except (InvalidLog, MissingSegment):
        # The broker is writing the batch, or the cleaner has deleted the file after the folder was listed.
        return position
    return position


def read_until(log: Log, position: Position, end_offset: int) -> Iterator[NewBatch]:
    """Yield in order the batches after a position whose base offset is below `end_offset`, a Kafka offset.

    Raises InvalidLog if a batch is damaged: the file has changed since `find_end` read the batch. Raises UsageError if
    a file was deleted.
    """
    try:
        for found in log.read_new_batches(position):
            if found.frame.base_offset >= end_offset:
                return
            yield NewBatch(found.parse(), found.data)
            if found.frame.next_offset >= end_offset:
                return  # The next batch may be incomplete.
    except MissingSegment as error:
        raise UsageError(f"{error.reason}: the file was deleted before it was read; start the stream again") from None


def file_path(log: Log, segment: str) -> str:
    """Return the path of the file of a segment."""
    return os.path.join(log.folder, segment)


def file_paths(log: Log) -> list[str]:
    """Return the paths of the files of all segments, in the order of the log."""
    return [file_path(log, segment) for segment in log.segments]


def file_size(path: str) -> int:
    """Return the size of a file in bytes; 0 if the file was deleted."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
