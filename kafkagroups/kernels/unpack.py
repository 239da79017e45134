"""Decompresses batches before the compiled engine reads them: consecutive batches become one array of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import CODEC
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.checksums import crc32c
from kafkagroups.log.frames import LENGTH_POSITION, LOG_OVERHEAD, Frame, FrameState, find_frames
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, CRC_FROM, CRC_POSITION, HEADER_SIZE

Array = np.ndarray[Any, Any]
RUN_BYTES = 4 * 1024 * 1024
"""A run (`decompress_batches`) ends when its batches have this number of bytes, or more, after decompression."""
_COUNTED_HEADER_SIZE = HEADER_SIZE - LOG_OVERHEAD
"""The number of header bytes that the field `length` of a batch counts."""
_MAX_CONTENT_BYTES = 2**31 - 1 - _COUNTED_HEADER_SIZE
"""The largest number of bytes of the records in an uncompressed batch. The field `length` is an int32."""
_CODEC_POSITION = ATTRIBUTES_POSITION + 1
"""The codec is in the second byte of the attributes."""


def decompress_batches(data: Array, position: int, max_batch_bytes: int) -> tuple[Array | None, int, list[int]]:
    """Decompress a run of compressed batches: the batches from `position` to the next batch without compression.

    A run also ends when its batches have RUN_BYTES or more after decompression, and before a bad batch. A bad batch has
    a wrong checksum, cannot be decompressed, or has records of more than `max_batch_bytes` uncompressed bytes.

    Return an array with the uncompressed batches, which have new checksums, the position in `data` after the run, and
    the sizes of the batches in `data`. The array is None if the batch at `position` is bad.
    """
    batches = bytearray()
    sizes: list[int] = []
    max_content_bytes = min(max_batch_bytes, _MAX_CONTENT_BYTES)
    for frame in _batch_frames(memoryview(data), position):
        if len(batches) >= RUN_BYTES or not _is_compressed(data, frame):
            break
        uncompressed = _decompress_batch(data, frame, max_content_bytes)
        if uncompressed is None:
            return as_array(batches) if batches else None, position, sizes
        batches += uncompressed
        sizes.append(frame.end - frame.position)
        position = frame.end
    return as_array(batches), position, sizes


def _decompress_batch(data: Array, frame: Frame, max_content_bytes: int) -> bytearray | None:
    """Return the batch of a frame without compression, or None if the batch is bad."""
    batch_bytes = data[frame.position : frame.end].tobytes()
    # The limit of `parse_batch` also applies to the records of a batch, without its header.
    batch = parse_batch(frame, batch_bytes, max_batch_bytes=max_content_bytes)
    if not batch.is_valid:
        return None
    try:
        content = batch.content
    except InvalidLog:
        return None
    header = bytearray(batch_bytes[:HEADER_SIZE])
    header[LENGTH_POSITION : LENGTH_POSITION + 4] = (_COUNTED_HEADER_SIZE + len(content)).to_bytes(4, "big")
    header[_CODEC_POSITION] &= ~CODEC
    header[CRC_POSITION : CRC_POSITION + 4] = crc32c(content, crc32c(bytes(header[CRC_FROM:]))).to_bytes(4, "big")
    return header + content


def as_array(buffer: Any) -> Array:
    """Return the bytes of a buffer (bytes, memory map or array) as a read-only array."""
    data = np.frombuffer(buffer, np.uint8)
    data.flags.writeable = False
    return data


def _batch_frames(data: memoryview, position: int) -> Iterator[Frame]:
    """Yield the frame (position and size, log/frames.py) of each complete batch of magic 2. Stop at any other bytes."""
    for frame in find_frames(data, position):
        if frame.state is not FrameState.WHOLE or frame.magic != 2:
            return
        yield frame


def _is_compressed(data: Array, frame: Frame) -> bool:
    return bool(data[frame.position + _CODEC_POSITION] & CODEC)
