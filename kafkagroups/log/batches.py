"""Batches of any magic in a segment's bytes: parsing them, and how far a log was read.

A frame (batch_frames.py) says where a batch begins and ends, and whether it is whole. `file` is the path of the
segment, for the batch and for messages; None if the path is not known. `max_batch_bytes` is the limit of a decompressed
batch, in bytes (batch.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkagroups.errors import InvalidLog
from kafkagroups.log import message_set, record_batch
from kafkagroups.log.batch import Batch
from kafkagroups.log.batch_frames import BytesLike, Frame, FrameState, find_frame, find_frames
from kafkagroups.log.compression import MAX_BATCH_BYTES


def read_batches(data: BytesLike, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES) -> Iterator[Batch]:
    """Yield the batches of a segment's bytes. Zeros after the last batch are ignored.

    Raises InvalidLog at the first batch that is not whole or has a wrong checksum.
    """
    for frame in find_frames(data):
        if frame.state is FrameState.ZEROS:
            return
        yield parse_valid_batch(frame, bytes(data[frame.position : frame.end]), file, max_batch_bytes)


def parse_valid_batch(
    frame: Frame, data: bytes, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES
) -> Batch:
    """Return the batch of a frame. `data` contains the bytes of the frame.

    Raises InvalidLog if the batch is not whole or its checksum is wrong.
    """
    if frame.state is not FrameState.WHOLE:
        raise frame.make_error(file)
    batch = parse_batch(frame, data, file, max_batch_bytes)
    if batch.crc != batch.computed_crc:
        reason = f"expected checksum {batch.crc:08x}, the bytes give {batch.computed_crc:08x}"
        raise InvalidLog(reason, file=file, position=frame.position)
    return batch


def parse_batch_at(data: BytesLike, position: int, file: str | None = None) -> Batch:
    """Return the batch at a position of a segment's bytes. The checksum is not checked.

    Raises InvalidLog if the batch is not whole.
    """
    frame = find_frame(data, position)
    if frame.state is not FrameState.WHOLE:
        raise frame.make_error(file)
    return parse_batch(frame, bytes(data[position : frame.end]), file)


def parse_batch(frame: Frame, data: bytes, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES) -> Batch:
    """Return the batch of a whole frame. `data` contains the bytes of the frame. The checksum is not checked."""
    parse = record_batch.parse_batch if frame.magic == 2 else message_set.parse_batch
    return parse(data, frame.position, file, max_batch_bytes)


class Position(NamedTuple):
    """How far a log was read.

    `next_offset` is the Kafka offset after the last batch that was read. `segment` is the path of the file that
    contains this batch. `byte` is where the batch ends, in bytes from the start of the file. `inode` identifies the
    file.

    A reader searches the headers of the batches for `next_offset` if the position contains only `next_offset`, or if
    the file has another inode now because the cleaner has replaced the file.
    """

    next_offset: int
    segment: str = ""
    byte: int = 0
    inode: int = -1


class FoundBatch(NamedTuple):
    """A whole batch in a segment: its frame (batch_frames.py) and its bytes, `data`.

    `segment` is the path of the segment's file. `inode` identifies the file; -1 means that the segment is in memory.
    `max_batch_bytes` is the limit of the decompressed batch, in bytes.
    """

    frame: Frame
    data: bytes
    segment: str
    inode: int
    max_batch_bytes: int = MAX_BATCH_BYTES

    def parse(self) -> Batch:
        """Return the parsed batch. Raises InvalidLog if its checksum is wrong."""
        return parse_valid_batch(self.frame, self.data, self.segment, self.max_batch_bytes)

    @property
    def end(self) -> Position:
        """The position after this batch."""
        return Position(self.frame.next_offset, self.segment, self.frame.end, self.inode)
