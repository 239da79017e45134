"""Kernel that reads a log a second time, to find the commits that create groups."""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.scan import find_record_parts, hash_bytes, load_int16, load_int32, load_int64, same_bytes
from kafkagroups.log.record_batch import HEADER_SIZE


@kernel
def find_commit_events(data: Any, groups: Any, name_slots: Any, group_exists: Any, events: Any) -> int:
    """Fill `events` with the commits that may create a group, and return the number of events.

    The new coordinator creates a group when it reads a commit of a group that does not exist. That can happen at the
    first commit of the group. It can also happen at the first commit after any group record, because a group record
    can remove the group. The caller checks whether the group exists at an event. An event is the offset of the
    commit's record, and the group's row in `name_slots`.

    `data` contains batches of a segment that was folded before (layout.py), without compression. `groups` contains the
    bytes of all group ids, one after the other. `name_slots` is a hash table of the ids: the position and the size of
    each id in `groups`; a row with size -1 is free. `group_exists` has the same rows as `name_slots`. It is 1 if the
    group's next commit is no event: a commit sets it to 1, and a group record sets it to 0.
    """
    position = 0
    end = len(data)
    count = 0
    mask = len(name_slots) - 1
    while end - position >= HEADER_SIZE:
        size = load_int32(data, position + 8) + 12
        if size < HEADER_SIZE or size > end - position:
            break
        base_offset = load_int64(data, position)
        attributes = load_int16(data, position + 21)
        record_count = load_int32(data, position + 57)
        record_start = position + HEADER_SIZE
        batch_end = position + size
        # A control batch (0x20) contains only transaction markers.
        for _ in range(0 if attributes & 0x20 else record_count):
            record_start, offset_delta, key_start, key_size, _, value_size = find_record_parts(
                data, record_start, batch_end
            )
            # Only a batch that was not checked can be unreadable: the fold stopped before this batch (log/stop.py).
            if record_start < 0:
                break
            if key_size < 4:
                continue
            record_type = load_int16(data, key_start)
            group_start = key_start + 4
            group_size = load_int16(data, key_start + 2)
            if group_size < 0 or group_size > key_size - 4 or (record_type <= 1 and value_size < 0):
                continue
            slot = hash_bytes(data, group_start, group_size) & mask
            while name_slots[slot, 1] >= 0:
                if name_slots[slot, 1] == group_size and same_bytes(
                    data, group_start, groups, name_slots[slot, 0], group_size
                ):
                    if record_type > 1:
                        group_exists[slot] = 0
                    elif not group_exists[slot]:
                        group_exists[slot] = 1
                        events[count, 0] = base_offset + offset_delta
                        events[count, 1] = slot
                        count += 1
                    break
                slot = slot + 1 & mask
        position = batch_end
    return count
