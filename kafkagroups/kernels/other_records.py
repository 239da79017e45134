"""The records of a log that are not offset records; of plain group records only the newest is kept.

The newest kept record of each group is in a row. A plain group record (plain_groups.py) replaces the previous record in
the row of its group, so the memory depends on the number of groups, not on the size of the log. But a record that is
not plain must be replayed after all kept records before it. So it closes the row of its group: no later record replaces
a closed row, and the next record of the group gets a new row. A record without a group id closes the rows of all
groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kafkagroups.kernels.arrays import Array, lengthen
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.intrinsics import copy_bytes
from kafkagroups.kernels.plain_groups import MAX_MEMBERS, is_plain_group
from kafkagroups.kernels.scan import hash_bytes, load_int16, same_bytes

_NUMBER, _OFFSET, _KEY_SIZE, _VALUE_SIZE, _POSITION, _CAPACITY, _IS_PLAIN, _IS_CLOSED = range(8)
"""The columns of a row, which is one record.

_NUMBER: how many records were added before the record. _POSITION: the position of the record's key in the arena; the
value comes after the key. _CAPACITY: the bytes in the arena that the row may use. _IS_CLOSED: no later record may
replace this record.
"""
_ROW_COUNT, _BYTE_COUNT, _RECORD_COUNT, _CLOSED_BEFORE, _GROUP_COUNT = range(5)
"""The elements of `counts`. _CLOSED_BEFORE: all rows whose number is less than this number are closed."""


class OtherRecord(NamedTuple):
    """A record that is not an offset record. `plain_group_id` is None if it is not a plain group record."""

    offset: int
    key: bytes
    value: bytes | None
    plain_group_id: str | None


class OtherRecords:
    """The records of one partition that are not offset records. Iterating yields the kept records in log order.

    `max_version` is the newest version of group values that the coordinator reads.
    """

    def __init__(self, max_version: int) -> None:
        self._max_version = max_version
        self._members = np.empty((MAX_MEMBERS, 2), np.int64)
        self._counts = np.zeros(5, np.int64)
        self._rows = np.empty((64, 8), np.int64)
        self._slots = np.full(256, -1, np.int64)
        self._arena = np.empty(1 << 14, np.uint8)

    def add(self, data: Array, positions: Array) -> None:
        """Add the records at these positions in `data`, the bytes of a segment.

        A row of `positions` has the record's offset, key position, key size, value position and value size (-1: null).
        """
        if not len(positions):
            return
        max_rows = int(self._counts[_ROW_COUNT]) + len(positions)
        if max_rows > len(self._rows):
            self._rows = lengthen(self._rows, 2 * max_rows)
        if 2 * (self._counts[_GROUP_COUNT] + len(positions)) > len(self._slots):
            self._slots = np.full(1 << (4 * max_rows).bit_length(), -1, np.int64)
            _rehash(self._counts, self._rows, self._slots, self._arena)
        max_bytes = int(self._counts[_BYTE_COUNT]) + 2 * int(
            positions[:, 2].sum() + np.maximum(positions[:, 4], 0).sum()
        )
        if max_bytes > len(self._arena):
            self._arena = lengthen(self._arena, 2 * max_bytes)
        _keep_records(
            data, positions, self._max_version, self._members, self._counts, self._rows, self._slots, self._arena
        )

    def __iter__(self) -> Iterator[OtherRecord]:
        rows = self._rows[: self._counts[_ROW_COUNT]]
        arena = memoryview(self._arena)
        for row in rows[np.argsort(rows[:, _NUMBER])].tolist():
            value_start = row[_POSITION] + row[_KEY_SIZE]
            key = bytes(arena[row[_POSITION] : value_start])
            value = None if row[_VALUE_SIZE] < 0 else bytes(arena[value_start : value_start + row[_VALUE_SIZE]])
            plain_group_id = key[4 : 4 + int.from_bytes(key[2:4], "big")].decode() if row[_IS_PLAIN] else None
            yield OtherRecord(row[_OFFSET], key, value, plain_group_id)


@kernel
def _keep_records(
    data: Any, positions: Any, max_version: int, members: Any, counts: Any, rows: Any, slots: Any, arena: Any
) -> None:
    """Add records: put each record into a new row, or replace the previous plain record of its group.

    `slots` is a hash table of the groups. A slot contains the newest row of its group, or -1 if it is free.
    """
    for number in range(len(positions)):
        key_start = positions[number, 1]
        key_size = positions[number, 2]
        value_start = positions[number, 3]
        value_size = positions[number, 4]
        is_plain = load_int16(data, key_start) == 2 and is_plain_group(
            data, key_start, key_size, value_start, value_size, max_version, members
        )
        slot = np.int64(-1)
        row = np.int64(-1)
        if key_size >= 4 and 0 <= load_int16(data, key_start + 2) <= key_size - 4:
            slot = _find_slot(data, key_start, rows, slots, arena)
            row = slots[slot]
        elif not is_plain:
            counts[_CLOSED_BEFORE] = counts[_RECORD_COUNT]
        if not is_plain or (row >= 0 and (rows[row, _IS_CLOSED] or rows[row, _NUMBER] < counts[_CLOSED_BEFORE])):
            if row >= 0:
                rows[row, _IS_CLOSED] = 1
            row = np.int64(-1)
        size = key_size + max(value_size, 0)
        if row < 0:
            row = counts[_ROW_COUNT]
            counts[_ROW_COUNT] += 1
            rows[row, _CAPACITY] = 0
            if slot >= 0:
                counts[_GROUP_COUNT] += slots[slot] < 0
                slots[slot] = row
        if rows[row, _CAPACITY] < size:
            # A row that was moved gets more space than it needs, so that it is not moved again soon.
            capacity = min(2 * size, size + rows[row, _CAPACITY])
            rows[row, _POSITION] = counts[_BYTE_COUNT]
            rows[row, _CAPACITY] = capacity
            counts[_BYTE_COUNT] += capacity
        rows[row, _NUMBER] = counts[_RECORD_COUNT]
        rows[row, _OFFSET] = positions[number, 0]
        rows[row, _KEY_SIZE] = key_size
        rows[row, _VALUE_SIZE] = value_size
        rows[row, _IS_PLAIN] = is_plain
        rows[row, _IS_CLOSED] = not is_plain
        counts[_RECORD_COUNT] += 1
        start = rows[row, _POSITION]
        copy_bytes(data, key_start, arena, start, key_size)
        copy_bytes(data, value_start, arena, start + key_size, max(value_size, 0))


@kernel
def _find_slot(data: Any, key_start: int, rows: Any, slots: Any, arena: Any) -> int:
    """Return the slot of the group whose id is in the key at `key_start`. For a new group, this is a free slot (-1)."""
    mask = len(slots) - 1
    group_size = load_int16(data, key_start + 2)
    slot = hash_bytes(data, key_start + 4, group_size) & mask
    while slots[slot] >= 0:
        row_key_start = rows[slots[slot], _POSITION]
        if load_int16(arena, row_key_start + 2) == group_size and same_bytes(
            data, key_start + 4, arena, row_key_start + 4, group_size
        ):
            break
        slot = slot + 1 & mask
    return slot


@kernel
def _rehash(counts: Any, rows: Any, slots: Any, arena: Any) -> None:
    """Add the newest row of each group to an empty hash table."""
    for row in range(counts[_ROW_COUNT]):
        key_start = rows[row, _POSITION]
        if rows[row, _KEY_SIZE] >= 4 and 0 <= load_int16(arena, key_start + 2) <= rows[row, _KEY_SIZE] - 4:
            slots[_find_slot(arena, key_start, rows, slots, arena)] = row
