"""Compressed batches, uncompressed for the fold: a run of them becomes one buffer of plain ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from crc32c import crc32c

from kafkagroups.errors import InvalidLog
from kafkagroups.kernels.scan import HEADER, int32
from kafkagroups.log.compression import decompress
from kafkagroups.log.record_batch import parse_batch

Array = np.ndarray[Any, Any]
UNPACKED = 4 * 1024 * 1024
"""About how many bytes are decompressed at once."""


def unpacked(data: Array, at: int) -> tuple[Array | None, int]:
    """The compressed batches from a position on, as many as stand together, uncompressed; and the position behind them.

    None when one has a wrong checksum or cannot be decompressed. Checksums are made anew.
    """
    out, end = bytearray(), len(data)
    while end - at >= HEADER and len(out) < UNPACKED:
        size = int32(data, at + 8) + 12
        if not HEADER <= size <= end - at or not data[at + 22] & 7:
            break
        raw = data[at : at + size].tobytes()
        batch = parse_batch(raw, 0, size)
        try:
            payload = decompress(batch.compression, batch.payload) if batch.is_valid else None
        except InvalidLog:
            payload = None
        if payload is None or batch.magic != 2:
            return None, at
        head = bytearray(raw[:HEADER])
        head[8:12] = (HEADER - 12 + len(payload)).to_bytes(4, "big")
        head[22] &= ~7
        head[17:21] = crc32c(payload, crc32c(bytes(head[21:]))).to_bytes(4, "big")
        out += head + payload
        at += size
    return readable(out), at


def readable(buffer: Any) -> Array:
    data = np.frombuffer(buffer, np.uint8)
    data.flags.writeable = False
    return data


def plain_runs(data: Array) -> Iterator[Array]:
    """The batches of a segment, runs of compressed ones uncompressed."""
    at, start, end = 0, 0, len(data)
    while end - at >= HEADER:
        size = int32(data, at + 8) + 12
        if not HEADER <= size <= end - at:
            break
        if data[at + 22] & 7:
            yield data[start:at]
            plain, at = unpacked(data, at)
            if plain is None:  # behind a cut: the fold has not seen it
                return
            start = at
            yield plain
        else:
            at += size
    yield data[start:at]
