"""Kernel that finds the batches of one group: those with records of the group, and the markers of its transactions.

The kernel also finds the holes of the log between these batches: offsets whose records the log cleaner has removed
(log/holes.py).

A marker is the control record that ends a transaction. The kernel returns each control batch of a producer that has
written records of the group before. So some markers belong to transactions of other groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.layout import (
    COMPRESSED,
    LAST_OFFSET_DELTA_POSITION,
    NEEDS_MORE_BYTES,
    NO_SPACE,
    OK,
    PAUSED,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
)
from kafkagroups.kernels.scan import (
    find_record_parts,
    hash_number,
    load_int16,
    load_int32,
    load_int64,
    same_bytes,
)
from kafkagroups.log.batch import CODEC, CONTROL, NO_PRODUCER_ID
from kafkagroups.log.frames import LENGTH_POSITION, LOG_OVERHEAD
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE

COUNTS = range(6)
PRODUCER_COUNT, BATCHES_LEFT, NEWEST_OFFSET, FIRST_MISSING, LAST_MISSING, MISSING_COUNT = COUNTS
"""The elements of `counts`.

PRODUCER_COUNT: how many producers `producer_ids` contains. BATCHES_LEFT: how many batches may still be read.
NEWEST_OFFSET: the largest offset that was read. The other elements are the hole after the last found batch: its first
and its last offset, and how many records are missing (0: there is no hole).
"""
POSITION, HOLE_FIRST, HOLE_LAST, HOLE_MISSING = range(4)
"""The columns of `found`: the position of the batch, and the hole before or in the batch, as in `counts`."""


@kernel
def find_group_batches(
    data: Any, start: int, group_id: Any, id_size: int, producer_ids: Any, counts: Any, found: Any, secret: Any
) -> tuple[int, int, int]:
    """Fill `found` with the group's batches in `data`: a row for each batch.

    Return a status (layout.py), the position of the next byte to read, and the number of found batches.

    `data` contains bytes of a segment that the compiled engine has loaded without an error. `start` is the position
    where the kernel begins. `group_id` contains the `id_size` bytes of the group id. `producer_ids` is a hash table of
    the producers that have written records of the group; NO_PRODUCER_ID marks a free row. `secret` is the secret of the
    process (secret.py).

    After these statuses, the caller must call the kernel again:

    - NEEDS_MORE_BYTES: `data` ends before the end of the next batch.
    - COMPRESSED: the next batch is compressed.
    - NO_SPACE: the caller must first double `producer_ids`.
    - PAUSED: `found` is full.

    OK means that there is nothing more to read: `counts[BATCHES_LEFT]` is 0, or no batch follows in the segment.
    """
    position = start
    end = len(data)
    found_count = 0
    while counts[BATCHES_LEFT] > 0:
        if end - position < HEADER_SIZE:
            return NEEDS_MORE_BYTES, position, found_count
        batch_size = load_int32(data, position + LENGTH_POSITION) + LOG_OVERHEAD
        if batch_size < HEADER_SIZE:  # Zeros follow, because all bytes before them were loaded without an error.
            return OK, position, found_count
        if batch_size > end - position:
            return NEEDS_MORE_BYTES, position, found_count
        attributes = load_int16(data, position + ATTRIBUTES_POSITION)
        if attributes & CODEC:
            return COMPRESSED, position, found_count
        if found_count == len(found):
            return PAUSED, position, found_count
        if 2 * counts[PRODUCER_COUNT] >= len(producer_ids):
            return NO_SPACE, position, found_count
        _count_missing(data, position, counts)
        producer_id = load_int64(data, position + PRODUCER_ID_POSITION)
        batch_end = position + batch_size
        if attributes & CONTROL:
            is_found = producer_ids[_find_row(producer_id, producer_ids, secret)] == producer_id != NO_PRODUCER_ID
        else:
            record_count = load_int32(data, position + RECORD_COUNT_POSITION)
            is_found = _has_record_of(data, position + HEADER_SIZE, batch_end, record_count, group_id, id_size)
            if is_found and producer_id != NO_PRODUCER_ID:
                row = _find_row(producer_id, producer_ids, secret)
                counts[PRODUCER_COUNT] += producer_ids[row] == NO_PRODUCER_ID
                producer_ids[row] = producer_id
        if is_found:
            found[found_count, POSITION] = position
            found[found_count, HOLE_FIRST] = counts[FIRST_MISSING]
            found[found_count, HOLE_LAST] = counts[LAST_MISSING]
            found[found_count, HOLE_MISSING] = counts[MISSING_COUNT]
            counts[MISSING_COUNT] = 0
            found_count += 1
        counts[BATCHES_LEFT] -= 1
        position = batch_end
    return OK, position, found_count


@inlined
def _count_missing(data: Any, position: int, counts: Any) -> None:
    """Add the missing offsets before and in the batch at `position` to the hole in `counts` (HoleFinder.find)."""
    base_offset = load_int64(data, position)
    last_offset = base_offset + load_int32(data, position + LAST_OFFSET_DELTA_POSITION)
    newest_offset = counts[NEWEST_OFFSET]
    if base_offset > newest_offset:
        missing_before = base_offset - 1 - newest_offset
        if missing_before > 0:
            _add_hole(newest_offset + 1, base_offset - 1, missing_before, counts)
        missing_inside = last_offset - base_offset + 1 - load_int32(data, position + RECORD_COUNT_POSITION)
        if missing_inside > 0:
            _add_hole(base_offset, last_offset, missing_inside, counts)
    counts[NEWEST_OFFSET] = max(newest_offset, last_offset)


@inlined
def _add_hole(first: int, last: int, missing: int, counts: Any) -> None:
    if counts[MISSING_COUNT] == 0:
        counts[FIRST_MISSING] = first
    counts[LAST_MISSING] = last
    counts[MISSING_COUNT] += missing


@inlined
def _has_record_of(data: Any, start: int, end: int, record_count: int, group_id: Any, id_size: int) -> bool:
    """Return whether a batch has a record of the group. Every record type has the group id at the start of its key."""
    record_start = start
    for _ in range(record_count):
        record_start, _, key_start, key_size, _, _ = find_record_parts(data, record_start, end)
        if record_start < 0:
            return False
        has_size = key_size >= 4 + id_size and load_int16(data, key_start + 2) == id_size
        if has_size and same_bytes(data, key_start + 4, group_id, 0, id_size):
            return True
    return False


@inlined
def _find_row(producer_id: int, producer_ids: Any, secret: Any) -> int:
    """Return the row of a producer, or the free row where it belongs."""
    mask = len(producer_ids) - 1
    row = hash_number(np.uint64(producer_id), secret) & mask
    while producer_ids[row] != NO_PRODUCER_ID and producer_ids[row] != producer_id:
        row = row + 1 & mask
    return row


@kernel
def copy_producers(producer_ids: Any, larger: Any, secret: Any) -> None:
    """Copy the producers into a larger hash table."""
    for producer_id in producer_ids:
        if producer_id != NO_PRODUCER_ID:
            larger[_find_row(producer_id, larger, secret)] = producer_id
