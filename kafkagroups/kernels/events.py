"""Kernel for a second reading: at which records did commits make groups that newer group types also use?"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.layout import HEADER
from kafkagroups.kernels.scan import int16, int32, int64, record_at, same_text, short_hash


@kernel
def commit_events(data: Any, groups: Any, table: Any, has_made: Any, events: Any) -> int:
    """Fill `events` with the records at which a commit may have made a group. Return how many there are.

    The segment was folded before. `groups` holds the bytes of the names. `table` is by hash and has the place and the
    size of a name; size -1 is free. An event is a record's offset and the group's place in `table`. A group has an
    event at its first commit (`has_made` is 0), and at the first commit after each of its group records.
    """
    at = 0
    end = len(data)
    count = 0
    mask = len(table) - 1
    while end - at >= HEADER:
        size = int32(data, at + 8) + 12
        if size < HEADER or size > end - at:
            break
        base = int64(data, at)
        attributes = int16(data, at + 21)
        records = int32(data, at + 57)
        place = at + HEADER
        stop = at + size
        for _ in range(0 if attributes & 0x20 else records):
            place, delta, key, key_size, _, value_size = record_at(data, place, stop)
            if place < 0:  # This lies behind a stop: the fold has not read it.
                break
            if key_size < 4:
                continue
            kind = int16(data, key)
            start = key + 4
            length = int16(data, key + 2)
            if length < 0 or length > key_size - 4 or (kind <= 1 and value_size < 0):
                continue
            slot = short_hash(data, start, length) & mask
            while table[slot, 1] >= 0:
                if table[slot, 1] == length and same_text(data, start, groups, table[slot, 0], length):
                    if kind > 1:
                        has_made[slot] = 0
                    elif not has_made[slot]:
                        has_made[slot] = 1
                        events[count, 0] = base + delta
                        events[count, 1] = slot
                        count += 1
                    break
                slot = slot + 1 & mask
        at = stop
    return count
