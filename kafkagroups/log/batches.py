"""Parsing a segment's bytes into batches of any magic, with a check of checksums.

A frame (frames.py) says where a batch begins and ends, and whether the batch is whole. The parameter `file` is the
segment's path; batches and errors contain it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.errors import InvalidLog
from kafkagroups.log import message_set, record_batch
from kafkagroups.log.batch import Batch
from kafkagroups.log.frames import BytesLike, Frame, FrameState, frame_at, frames


def read_batches(data: BytesLike, file: str | None = None) -> Iterator[Batch]:
    """Yield the batches of a segment's bytes. Zeros after the last batch end the segment.

    Raises InvalidLog, which contains the position, at the first batch that is not whole or has a wrong checksum.
    """
    for frame in frames(data):
        if frame.state is FrameState.ZEROS:
            return
        yield valid_batch(frame, bytes(data[frame.position : frame.end]), file)


def valid_batch(frame: Frame, data: bytes, file: str | None = None) -> Batch:
    """Parse the bytes of one batch. Raises InvalidLog if the batch is not whole or its checksum is wrong."""
    if frame.state is not FrameState.WHOLE:
        raise frame.error(file)
    batch = parse_batch(frame, data, file)
    if not batch.is_valid:
        reason = f"expected checksum {batch.crc:08x}, the bytes give {batch.computed_crc:08x}"
        raise InvalidLog(reason, file=file, position=frame.position)
    return batch


def batch_at(data: BytesLike, position: int, file: str | None = None) -> Batch:
    """Parse the batch at a position, without a check of its checksum. Raises InvalidLog if it is not whole."""
    frame = frame_at(data, position)
    if frame.state is not FrameState.WHOLE:
        raise frame.error(file)
    return parse_batch(frame, bytes(data[position : frame.end]), file)


def parse_batch(frame: Frame, data: bytes, file: str | None = None) -> Batch:
    """Parse the bytes of one whole batch, without a check of its checksum."""
    parse = record_batch.parse_batch if frame.magic == 2 else message_set.parse_batch
    return parse(data, frame.position, file)
