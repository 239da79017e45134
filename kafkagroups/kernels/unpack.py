"""Decompresses batches before the compiled engine reads them: consecutive batches become one array of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from crc32c import crc32c

from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import CODEC
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.frames import LENGTH_POSITION, LOG_OVERHEAD, Frame, FrameState, find_frames
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, CRC_FROM, CRC_POSITION, HEADER_SIZE

Array = np.ndarray[Any, Any]
RUN_BYTES = 4 * 1024 * 1024
"""About how many uncompressed bytes `decompress_run` returns at most."""
_MAX_CONTENT_BYTES = 2**31 - 1 - (HEADER_SIZE - LOG_OVERHEAD)
"""How many bytes the records of an uncompressed batch can have, because the size in its header is an int32."""
_CODEC_POSITION = ATTRIBUTES_POSITION + 1
"""The codec is in the second byte of the attributes."""


def decompress_run(data: Array, position: int, max_batch_bytes: int) -> tuple[Array | None, int]:
    """Decompress consecutive batches of a segment, from `position` to the next batch without compression.

    Stop earlier after about RUN_BYTES bytes. Return an array with the uncompressed batches, which have new checksums,
    and the position in `data` after the last batch that was read. The array is None if a batch has a wrong checksum,
    cannot be decompressed, or has more than `max_batch_bytes` uncompressed bytes.
    """
    batches = bytearray()
    max_content_bytes = min(max_batch_bytes, _MAX_CONTENT_BYTES)
    for frame in _batch_frames(memoryview(data), position):
        if len(batches) >= RUN_BYTES or not _is_compressed(data, frame):
            break
        batch_bytes = data[position : frame.end].tobytes()
        batch = parse_batch(frame, batch_bytes, max_batch_bytes=max_content_bytes)
        if not batch.is_valid:
            return None, position
        try:
            content = batch.content
        except InvalidLog:
            return None, position
        header = bytearray(batch_bytes[:HEADER_SIZE])
        header[LENGTH_POSITION : LENGTH_POSITION + 4] = (HEADER_SIZE - LOG_OVERHEAD + len(content)).to_bytes(4, "big")
        header[_CODEC_POSITION] &= ~CODEC
        header[CRC_POSITION : CRC_POSITION + 4] = crc32c(content, crc32c(bytes(header[CRC_FROM:]))).to_bytes(4, "big")
        batches += header
        batches += content
        position = frame.end
    return as_array(batches), position


def as_array(buffer: Any) -> Array:
    """Return the bytes of a buffer (bytes, memory map or array) as a read-only array."""
    data = np.frombuffer(buffer, np.uint8)
    data.flags.writeable = False
    return data


def decompress_segment(data: Array, max_batch_bytes: int) -> Iterator[Array]:
    """Yield arrays that together contain all batches of a segment, without compression.

    Stop before a batch that cannot be decompressed, or that has more than `max_batch_bytes` uncompressed bytes. The
    load of the log has stopped before this batch, too.
    """
    run_start = 0
    run_end = 0
    for frame in _batch_frames(memoryview(data), 0):
        if frame.position < run_end:  # This batch was decompressed together with an earlier batch.
            continue
        if _is_compressed(data, frame):
            yield data[run_start : frame.position]
            uncompressed, run_end = decompress_run(data, frame.position, max_batch_bytes)
            if uncompressed is None:
                return
            yield uncompressed
            run_start = run_end
        else:
            run_end = frame.end
    yield data[run_start:run_end]


def _batch_frames(data: memoryview, position: int) -> Iterator[Frame]:
    """Yield the frame (position and size, log/frames.py) of each complete batch of magic 2. Stop at any other bytes."""
    for frame in find_frames(data, position):
        if frame.state is not FrameState.WHOLE or frame.magic != 2:
            return
        yield frame


def _is_compressed(data: Array, frame: Frame) -> bool:
    return bool(data[frame.position + _CODEC_POSITION] & CODEC)
