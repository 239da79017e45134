"""Kernel that reads a log a second time, to find the commits that may create groups.

The new coordinator creates a group when it reads a commit of a group that does not exist. So the kernel returns these
commits, which are called events:

- the first commit of a group,
- the first commit after each group record of the group, because the group record can remove the group.

The caller decides at each event whether the group exists.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.layout import RECORD_COUNT_POSITION
from kafkagroups.kernels.scan import find_record_parts, hash_bytes, load_int16, load_int32, load_int64, same_bytes
from kafkagroups.log.batch import CONTROL
from kafkagroups.log.frames import LENGTH_POSITION, LOG_OVERHEAD
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE

ID_POSITION, ID_SIZE = range(2)
"""The columns of `id_slots`."""


@kernel
def find_commit_events(data: Any, id_bytes: Any, id_slots: Any, has_event: Any, events: Any, secret: Any) -> int:
    """Fill `events` with the events in a segment, and return the number of events.

    A row of `events` has the Kafka offset of the commit's record, and the slot of the group's id.

    `data` contains the uncompressed batches of a segment that the compiled engine has already loaded. `id_bytes`
    contains the bytes of all group ids, one after another. `id_slots` is a hash table of the ids. A slot (row) has the
    position of an id in `id_bytes`, and the size of the id in bytes (-1: the slot is free).
    `has_event` has an element for each slot: 1 if an event of the group was found after the group's last group record.
    `secret` is the secret of the process (secret.py).
    """
    position = 0
    end = len(data)
    count = 0
    mask = len(id_slots) - 1
    while end - position >= HEADER_SIZE:
        size = load_int32(data, position + LENGTH_POSITION) + LOG_OVERHEAD
        if size < HEADER_SIZE or size > end - position:
            break
        base_offset = load_int64(data, position)
        attributes = load_int16(data, position + ATTRIBUTES_POSITION)
        # A control batch contains only transaction markers.
        record_count = 0 if attributes & CONTROL else load_int32(data, position + RECORD_COUNT_POSITION)
        record_start = position + HEADER_SIZE
        batch_end = position + size
        for _ in range(record_count):
            record_start, offset_delta, key_start, key_size, _, value_size = find_record_parts(
                data, record_start, batch_end
            )
            # An unusual or damaged record is after the load's stop (log/stop.py), because the load checked all records
            # before the stop.
            if record_start < 0:
                break
            if key_size < 4:
                continue
            record_type = load_int16(data, key_start)
            group_start = key_start + 4
            group_size = load_int16(data, key_start + 2)
            is_offset_record = record_type <= 1
            is_offset_tombstone = is_offset_record and value_size < 0
            if group_size < 0 or group_size > key_size - 4 or is_offset_tombstone:
                continue
            slot = hash_bytes(data, group_start, group_size, secret) & mask
            while id_slots[slot, ID_SIZE] >= 0:
                if id_slots[slot, ID_SIZE] == group_size and same_bytes(
                    data, group_start, id_bytes, id_slots[slot, ID_POSITION], group_size
                ):
                    if not is_offset_record:
                        has_event[slot] = 0
                    elif not has_event[slot]:
                        has_event[slot] = 1
                        events[count, 0] = base_offset + offset_delta
                        events[count, 1] = slot
                        count += 1
                    break
                slot = slot + 1 & mask
        position = batch_end
    return count
