"""What has been added to a log since it was read: whole batches behind a mark.

A mark is a Kafka offset, and the byte of a segment's file that was reached. From there it goes on: in that file, in
the segments behind it. After a restart, or where a file is not the one it was (the cleaner replaces them), a hop from
header to header finds the offset.

A batch that is not whole, or whose checksum is wrong, is being written: it is the end for now, whatever stands behind.
A tail of zeros ends a segment. A segment has all its batches when the next one is there, as brokers and `pull` write.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.log.segments import Log, base_offset_of, batch_at

_head = struct.Struct(">qi4xb6xi")  # base offset, size, magic, last offset's delta


class Mark(NamedTuple):
    """Up to where a partition was read: the next Kafka offset, and the byte behind the last batch in a file."""

    next_offset: int
    segment: str = ""
    position: int = 0
    inode: int = -1


class Found(NamedTuple):
    """A whole batch, its bytes, and where it ends."""

    batch: Batch
    raw: memoryview
    end: Mark


def reached(log: Log, mark: Mark, sizes: dict[str, int] | None = None) -> Mark:
    """Where the whole batches behind a mark end; of each file only its first `sizes` bytes count, if they are given."""
    for found in behind(log, mark, sizes=sizes):
        mark = found.end
    return mark


def behind(log: Log, mark: Mark, *, until: int | None = None, sizes: dict[str, int] | None = None) -> Iterator[Found]:
    """The whole batches behind a mark, in order: up to the first that is not whole, or all that are below `until`.

    InvalidLog: one below `until`, which was whole once, is not any more.
    """
    for segment, path in list(zip(log.segments, paths(log), strict=True))[first_segment(log, mark) :]:
        try:
            data, start, inode = _read(path, mark if segment == mark.segment else Mark(0), sizes)
        except FileNotFoundError:
            if until is None:
                return  # cleaned or deleted since it was listed
            raise UsageError(f"{path}: gone before it was read; start the stream again") from None
        position = 0 if start else _hop(data, mark.next_offset)
        while position < len(data):
            try:
                batch = _whole(data, position, path)
            except InvalidLog as error:
                if not data[position:].strip(b"\0"):
                    break
                if until is not None:
                    error.file, error.position = path, start + position
                    raise
                return
            if until is not None and batch.base_offset >= until:
                return
            position += batch.size
            if batch.next_offset > mark.next_offset:
                raw = memoryview(data)[position - batch.size : position]
                yield Found(batch, raw, Mark(batch.next_offset, segment, start + position, inode))
            if until is not None and batch.next_offset >= until:
                return


def first_segment(log: Log, mark: Mark) -> int:
    """The number of the segment in which a mark's offset stands."""
    return max(0, sum(base_offset_of(segment) <= mark.next_offset for segment in log.segments) - 1)


def paths(log: Log) -> list[str]:
    return [os.path.join(log.folder, segment) for segment in log.segments]


def size_of(path: str) -> int:
    """In bytes; 0 for a file that has gone."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _read(path: str, mark: Mark, sizes: dict[str, int] | None) -> tuple[bytes, int, int]:
    """The bytes of a file from its mark on, or all; where they begin; the file's inode.

    They are read, not mapped: a file that is cut off while it is mapped would end the process.
    """
    with open(path, "rb") as file:
        state = os.fstat(file.fileno())
        size = state.st_size if sizes is None else min(state.st_size, sizes.get(path, 0))
        start = file.seek(mark.position if state.st_ino == mark.inode and mark.position <= size else 0)
        return file.read(size - start), start, state.st_ino


def _whole(data: bytes, position: int, path: str) -> Batch:
    batch = batch_at(data, position, path)
    if not batch.is_valid:
        raise InvalidLog(f"checksum {batch.crc:08x} was expected, the bytes give {batch.computed_crc:08x}")
    return batch


def _hop(data: bytes, offset: int) -> int:
    """The position of the first batch that ends behind an offset, or of one that is not of magic 2."""
    position = 0
    while position + _head.size <= len(data):
        base, size, magic, delta = _head.unpack_from(data, position)
        if magic != 2 or size < _head.size or base + delta >= offset:
            break
        position += 12 + size
    return position
