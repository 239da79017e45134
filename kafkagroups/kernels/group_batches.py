"""Kernel that finds the batches of one group: those with records of the group, and the markers of its transactions.

The kernel also finds the holes of the log between these batches: offsets whose records the log cleaner has removed
(log/holes.py).

A marker is the control record that ends a transaction. The kernel returns each control batch of a producer that has
written records of the group before. So some markers belong to transactions of other groups.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.hash_table import find_number
from kafkagroups.kernels.layout import (
    HAS_BATCH,
    IS_USED,
    LAST_OFFSET_DELTA_POSITION,
    NO_SPACE,
    NUMBER,
    PAUSED,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
)
from kafkagroups.kernels.next_batch import find_next_batch
from kafkagroups.kernels.scan import find_record_parts, load_int16, load_int32, load_int64, same_bytes
from kafkagroups.log.batch import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL
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

    Return a status, the position of the next byte to read, and the number of found batches. The statuses are those of
    `scan` in second_reading.py.

    `data` contains bytes of a segment that the compiled engine has loaded without an error. `start` is the position
    where the kernel begins. `group_id` contains the `id_size` bytes of the group id. `producer_ids` is a hash table of
    the producers that have written records of the group (hash_table.py). `secret` is the secret of the process
    (secret.py).
    """
    position = start
    found_count = 0
    while True:
        status, batch_end = find_next_batch(data, position, counts[BATCHES_LEFT])
        if status != HAS_BATCH:
            return status, position, found_count
        if found_count == len(found):
            return PAUSED, position, found_count
        if 2 * counts[PRODUCER_COUNT] >= len(producer_ids):
            return NO_SPACE, position, found_count
        _count_missing(data, position, counts)
        producer_id = load_int64(data, position + PRODUCER_ID_POSITION)
        attributes = load_int16(data, position + ATTRIBUTES_POSITION)
        if attributes & CONTROL:
            is_found = producer_ids[find_number(producer_id, producer_ids, secret), IS_USED] != 0
        else:
            record_count = load_int32(data, position + RECORD_COUNT_POSITION)
            is_found = _has_record_of(data, position + HEADER_SIZE, batch_end, record_count, group_id, id_size)
            # In the classic coordinator, the bit alone makes a batch transactional, even without a producer id.
            if is_found and (producer_id != NO_PRODUCER_ID or attributes & TRANSACTIONAL):
                row = find_number(producer_id, producer_ids, secret)
                counts[PRODUCER_COUNT] += not producer_ids[row, IS_USED]
                producer_ids[row, NUMBER] = producer_id
                producer_ids[row, IS_USED] = 1
        if is_found:
            found[found_count, POSITION] = position
            found[found_count, HOLE_FIRST] = counts[FIRST_MISSING]
            found[found_count, HOLE_LAST] = counts[LAST_MISSING]
            found[found_count, HOLE_MISSING] = counts[MISSING_COUNT]
            counts[MISSING_COUNT] = 0
            found_count += 1
        counts[BATCHES_LEFT] -= 1
        position = batch_end


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
