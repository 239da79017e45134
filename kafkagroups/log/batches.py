"""Parsing a segment's bytes into batches of any magic, with or without a check of the checksums.

The magic is the number of a batch's format (batch.py). A frame (frames.py) says where a batch begins and ends, and
whether the batch is whole. `file` is the path of the segment, for the batch and for messages; None if the path is not
known. `max_batch_bytes` is the limit of a decompressed batch, in bytes (batch.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.errors import InvalidLog
from kafkagroups.log import message_set, record_batch
from kafkagroups.log.batch import Batch
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.frames import BytesLike, Frame, FrameState, find_frame, find_frames


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
