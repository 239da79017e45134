"""Second reading, where newer groups and commits meet under one name: when did a commit make the group?"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.scan import HEADER, int16, int32, int64, record_at, same_text, short_hash


@kernel
def commit_events(data: Any, groups: Any, table: Any, has_made: Any, events: Any) -> int:
    """When groups came to life by a commit, in a segment that was folded before; how many `events` that is.

    `groups` holds the bytes of the names, `table` by hash (place, size) of one, size -1: free. An event is a record's
    offset and the group's place in `table`; a group has one at its first commit (`has_made` is 0), and one at the first
    after each record of its own.
    """
    at, end, count = 0, len(data), 0
    mask = len(table) - 1
    while end - at >= HEADER:
        size = int32(data, at + 8) + 12
        if size < HEADER or size > end - at:
            break
        base, attributes, records = int64(data, at), int16(data, at + 21), int32(data, at + 57)
        place, stop = at + HEADER, at + size
        for _ in range(0 if attributes & 0x20 else records):
            place, delta, key, key_size, _, value_size = record_at(data, place, stop)
            if place < 0:  # behind a cut: the fold has not seen it
                break
            if key_size < 4:
                continue
            kind, start, length = int16(data, key), key + 4, int16(data, key + 2)
            if length < 0 or length > key_size - 4 or (kind <= 1 and value_size < 0):
                continue
            slot = short_hash(data, start, length) & mask
            while table[slot, 1] >= 0:
                if table[slot, 1] == length and same_text(data, start, groups, table[slot, 0], length):
                    if kind > 1:
                        has_made[slot] = 0
                    elif not has_made[slot]:
                        has_made[slot] = 1
                        events[count, 0], events[count, 1] = base + delta, slot
                        count += 1
                    break
                slot = slot + 1 & mask
        at = stop
    return count
