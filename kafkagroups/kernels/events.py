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
from kafkagroups.kernels.hash_table import find_text
from kafkagroups.kernels.layout import ENTRY_MASK, HAS_BATCH, NO_SPACE, OK, PAUSED, RECORD_COUNT_POSITION
from kafkagroups.kernels.next_batch import find_next_batch
from kafkagroups.kernels.scan import find_record_parts, hash_bytes, load_int16, load_int32, load_int64
from kafkagroups.log.batch import CONTROL
from kafkagroups.log.record_batch import ATTRIBUTES_POSITION, HEADER_SIZE

ID_TEXT, HAS_EVENT = range(2)
"""The columns of `ids`: the text reference of the id, and 1 if an event was found after the group's last group record.
"""


@kernel
def find_commit_events(
    data: Any, start: int, batches_left: Any, id_slots: Any, ids: Any, id_bytes: Any, events: Any, secret: Any
) -> tuple[int, int, int]:
    """Fill `events` with the events in a segment: the offset of the commit's record, and the row of the group's id.

    Return a status, the position of the next byte to read, and the number of events. The statuses are those of `scan`
    in second_reading.py.

    `data` contains bytes of a segment that the compiled engine has loaded without an error, and `start` is where the
    kernel begins. `batches_left[0]` is how many batches may still be read. `id_slots` and `ids` are a hash table of the
    group ids (hash_table.py), and `id_bytes` contains their bytes. `secret` is the secret of the process (secret.py).
    """
    position = start
    count = 0
    while True:
        status, batch_end = find_next_batch(data, position, batches_left[0])
        if status != HAS_BATCH:
            return status, position, count
        base_offset = load_int64(data, position)
        is_control = load_int16(data, position + ATTRIBUTES_POSITION) & CONTROL
        # A control batch contains only transaction markers.
        record_count = 0 if is_control else load_int32(data, position + RECORD_COUNT_POSITION)
        if count + record_count > len(events):
            return PAUSED if count else NO_SPACE, position, count
        record_start = position + HEADER_SIZE
        for _ in range(record_count):
            record_start, offset_delta, key_start, key_size, _, value_size = find_record_parts(
                data, record_start, batch_end
            )
            if record_start < 0:
                return OK, position, count
            if key_size < 4:
                continue
            is_offset_record = load_int16(data, key_start) <= 1
            group_size = load_int16(data, key_start + 2)
            is_offset_tombstone = is_offset_record and value_size < 0
            if group_size < 0 or group_size > key_size - 4 or is_offset_tombstone:
                continue
            group_hash = hash_bytes(data, key_start + 4, group_size, secret)
            slot = find_text(data, key_start + 4, group_size, group_hash, id_slots, ids, id_bytes)
            if id_slots[slot] < 0:
                continue
            row = id_slots[slot] & ENTRY_MASK
            if not is_offset_record:
                ids[row, HAS_EVENT] = 0
            elif not ids[row, HAS_EVENT]:
                ids[row, HAS_EVENT] = 1
                events[count, 0] = base_offset + offset_delta
                events[count, 1] = row
                count += 1
        batches_left[0] -= 1
        position = batch_end
