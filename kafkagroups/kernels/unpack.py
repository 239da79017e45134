"""Compressed batches, decompressed before they are folded: a run of them becomes one buffer of uncompressed batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from crc32c import crc32c

from kafkagroups.errors import InvalidLog
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.compression import decompress
from kafkagroups.log.frames import LOG_OVERHEAD, SIZE_AT, Frame, FrameState, frames
from kafkagroups.log.record_batch import ATTRIBUTES_AT, CRC_AT, CRC_FROM, HEADER_SIZE

Array = np.ndarray[Any, Any]
UNPACKED = 4 * 1024 * 1024
"""About how many bytes are decompressed in one step."""
_CODEC_AT = ATTRIBUTES_AT + 1
_CODEC_BITS = 7


def decompress_run(data: Array, at: int) -> tuple[Array | None, int]:
    """Return the run of compressed batches from a position on, decompressed, and the position after the run.

    The batches get new checksums. The array is None if a batch has a wrong checksum or cannot be decompressed.
    """
    out = bytearray()
    for frame in _batch_frames(memoryview(data), at):
        if len(out) >= UNPACKED or not _is_compressed(data, frame):
            break
        raw = data[at : frame.end].tobytes()
        batch = parse_batch(frame, raw)
        if not batch.is_valid:
            return None, at
        try:
            payload = decompress(batch.compression, batch.payload)
        except InvalidLog:
            return None, at
        head = bytearray(raw[:HEADER_SIZE])
        head[SIZE_AT : SIZE_AT + 4] = (HEADER_SIZE - LOG_OVERHEAD + len(payload)).to_bytes(4, "big")
        head[_CODEC_AT] &= ~_CODEC_BITS
        head[CRC_AT : CRC_AT + 4] = crc32c(payload, crc32c(bytes(head[CRC_FROM:]))).to_bytes(4, "big")
        out += head + payload
        at = frame.end
    return as_array(out), at


def as_array(buffer: Any) -> Array:
    """Return the bytes of a buffer as an array that cannot be written."""
    data = np.frombuffer(buffer, np.uint8)
    data.flags.writeable = False
    return data


def decompress_segment(data: Array) -> Iterator[Array]:
    """Yield the batches of a segment as arrays of uncompressed batches.

    The batches after one that cannot be decompressed are left out: the fold stopped there too.
    """
    start = 0
    end = 0
    for frame in _batch_frames(memoryview(data), 0):
        if frame.position < end:  # decompressed with the run before
            continue
        if _is_compressed(data, frame):
            yield data[start : frame.position]
            plain, end = decompress_run(data, frame.position)
            if plain is None:
                return
            yield plain
            start = end
        else:
            end = frame.end
    yield data[start:end]


def _batch_frames(data: memoryview, at: int) -> Iterator[Frame]:
    for frame in frames(data, at):
        if frame.state is not FrameState.WHOLE or frame.magic != 2:
            return
        yield frame


def _is_compressed(data: Array, frame: Frame) -> bool:
    return bool(data[frame.position + _CODEC_AT] & _CODEC_BITS)
