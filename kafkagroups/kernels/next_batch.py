"""Kernel that finds the next batch in bytes of a segment that the compiled engine has loaded without an error."""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import inlined
from kafkagroups.kernels.layout import COMPRESSED, HAS_BATCH, NEEDS_MORE_BYTES, OK
from kafkagroups.kernels.scan import load_int16, load_int32
from kafkagroups.log.batch import CODEC
from kafkagroups.log.frames import LENGTH_POSITION, LOG_OVERHEAD
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE


@inlined
def find_next_batch(data: Any, position: int, batches_left: int) -> tuple[int, int]:
    """Return a status (layout.py) and the position after the batch that begins at `position`.

    `batches_left` is how many batches may still be read.

    - HAS_BATCH: the batch is complete and not compressed.
    - NEEDS_MORE_BYTES: `data` ends before the end of the batch.
    - COMPRESSED: the batch is compressed.
    - OK: `batches_left` is 0, or no batch follows in the segment.
    """
    status = HAS_BATCH
    batch_end = position
    if batches_left <= 0:
        status = OK
    elif len(data) - position < HEADER_SIZE:
        status = NEEDS_MORE_BYTES
    else:
        batch_size = load_int32(data, position + LENGTH_POSITION) + LOG_OVERHEAD
        batch_end = position + batch_size
        if batch_size < HEADER_SIZE:  # Zeros follow, because all bytes before them were loaded without an error.
            status = OK
        elif batch_end > len(data):
            status = NEEDS_MORE_BYTES
        elif load_int16(data, position + ATTRIBUTES_POSITION) & CODEC:
            status = COMPRESSED
    return status, batch_end
