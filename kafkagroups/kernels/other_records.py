"""The records of a log that are not offset records, without the plain group records that a later record replaces.

A group record is plain if the coordinator can certainly read it without an error (plain_groups.py). Each kept record is
in a row. A plain record replaces the previous plain record in the row of its group. So the memory depends on the number
of groups, not on the size of the log.

The result of replaying a record that is not plain can depend on the records before it. So this record closes the row of
its group: no later record replaces a closed row, and the next record of the group gets a new row. A record without a
group id closes the rows of all groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kafkagroups.kernels.arrays import Array, lengthen
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.hash_table import find_text, make_slot
from kafkagroups.kernels.intrinsics import copy_bytes
from kafkagroups.kernels.layout import (
    ENTRY_MASK,
    OTHER_KEY_SIZE,
    OTHER_KEY_START,
    OTHER_OFFSET,
    OTHER_VALUE_SIZE,
    OTHER_VALUE_START,
    SIZE_BITS,
    SIZE_MASK,
)
from kafkagroups.kernels.plain_groups import MAX_MEMBERS, is_plain_group
from kafkagroups.kernels.scan import hash_bytes, load_int16
from kafkagroups.kernels.secret import process_secret

_GROUP_TEXT, _RECORD_NUMBER, _OFFSET, _KEY_SIZE, _VALUE_SIZE, _POSITION, _CAPACITY, _IS_PLAIN, _IS_CLOSED = range(9)
"""The columns of a row. A row is one record.

_GROUP_TEXT: the text reference (layout.py) of the group id in the key; -1 if the record has no group id.
_RECORD_NUMBER: how many records were added before this record. _OFFSET: the Kafka offset. _KEY_SIZE and _VALUE_SIZE:
sizes in bytes; the size of a null value is -1. _POSITION: the position of the key in the arena, which is the array with
the bytes of the records. The value follows the key. _CAPACITY: the number of bytes in the arena that the row may use.
_IS_PLAIN: 1 for a plain group record. _IS_CLOSED: 1 if no later record may replace this record.
"""
_ROW_COUNT, _BYTE_COUNT, _RECORD_COUNT, _CLOSED_BEFORE, _GROUP_COUNT = range(5)
"""The elements of `counts`.

_ROW_COUNT: the number of used rows. _BYTE_COUNT: the number of used bytes in the arena. _RECORD_COUNT: how many records
were added. _CLOSED_BEFORE: all rows with a lower _RECORD_NUMBER are closed. _GROUP_COUNT: the number of groups in the
hash table.
"""


MAX_KEPT_BYTES = 128 * 1024 * 1024
"""If more bytes would be kept, the readable engine must load the log, because that engine keeps no records."""


class OtherRecord(NamedTuple):
    """A record that is not an offset record.

    `plain_group_id` is the group id of a plain group record, and None for any other record.
    """

    offset: int
    key: bytes
    value: bytes | None
    plain_group_id: str | None


class OtherRecords:
    """The records of one partition that are not offset records. Iterating yields the kept records in log order.

    `max_group_version` is the highest value version of group records that the coordinator reads.
    """

    def __init__(self, max_group_version: int) -> None:
        self._max_group_version = max_group_version
        self._members = np.empty((MAX_MEMBERS, 2), np.int64)
        self._counts = np.zeros(5, np.int64)
        self._rows = np.empty((64, 9), np.int64)
        self._slots = np.full(256, -1, np.int64)
        self._arena = np.empty(1 << 14, np.uint8)
        self._secret = process_secret()

    @property
    def are_too_large(self) -> bool:
        """Whether the kept records have more than MAX_KEPT_BYTES bytes."""
        return bool(self._counts[_BYTE_COUNT] > MAX_KEPT_BYTES)

    def add(self, data: Array, positions: Array) -> None:
        """Add records. `data` contains bytes of a segment.

        `positions` has a row for each record. The columns are OTHER_OFFSET to OTHER_VALUE_SIZE in layout.py.
        """
        if not len(positions):
            return
        max_rows = int(self._counts[_ROW_COUNT]) + len(positions)
        if max_rows > len(self._rows):
            self._rows = lengthen(self._rows, 2 * max_rows)
        if 2 * (self._counts[_GROUP_COUNT] + len(positions)) > len(self._slots):
            self._slots = np.full(1 << (4 * max_rows).bit_length(), -1, np.int64)
            _rehash(self._counts, self._rows, self._slots, self._arena, self._secret)
        record_bytes = positions[:, OTHER_KEY_SIZE].sum() + np.maximum(positions[:, OTHER_VALUE_SIZE], 0).sum()
        # A row gets at most twice the bytes of its record (_keep_records).
        max_bytes = int(self._counts[_BYTE_COUNT]) + 2 * int(record_bytes)
        if max_bytes > len(self._arena):
            self._arena = lengthen(self._arena, 2 * max_bytes)
        _keep_records(
            data,
            positions,
            self._max_group_version,
            self._members,
            self._counts,
            self._rows,
            self._slots,
            self._arena,
            self._secret,
        )

    def __iter__(self) -> Iterator[OtherRecord]:
        rows = self._rows[: self._counts[_ROW_COUNT]]
        arena = memoryview(self._arena)
        for row in rows[np.argsort(rows[:, _RECORD_NUMBER])].tolist():
            value_start = row[_POSITION] + row[_KEY_SIZE]
            key = bytes(arena[row[_POSITION] : value_start])
            value = None if row[_VALUE_SIZE] < 0 else bytes(arena[value_start : value_start + row[_VALUE_SIZE]])
            plain_group_id = key[4 : 4 + int.from_bytes(key[2:4], "big")].decode() if row[_IS_PLAIN] else None
            yield OtherRecord(row[_OFFSET], key, value, plain_group_id)


@kernel
def _keep_records(
    data: Any,
    positions: Any,
    max_group_version: int,
    members: Any,
    counts: Any,
    rows: Any,
    slots: Any,
    arena: Any,
    secret: Any,
) -> None:
    """Add records: put each record into a new row, or replace the previous plain record of its group.

    `members` is working memory for `is_plain_group`. `slots` and `rows` are a hash table of the group ids
    (hash_table.py). A slot contains the number of the group's newest row.
    """
    for number in range(len(positions)):
        key_start = positions[number, OTHER_KEY_START]
        key_size = positions[number, OTHER_KEY_SIZE]
        value_start = positions[number, OTHER_VALUE_START]
        value_size = positions[number, OTHER_VALUE_SIZE]
        is_plain = load_int16(data, key_start) == 2 and is_plain_group(
            data, key_start, key_size, value_start, value_size, max_group_version, members
        )
        slot = np.int64(-1)
        row = np.int64(-1)
        group_hash = np.int64(0)
        group_size = np.int64(-1)
        # A group id is in a key after the record type and the size of the id (int16 each).
        if key_size >= 4 and 0 <= load_int16(data, key_start + 2) <= key_size - 4:
            group_size = load_int16(data, key_start + 2)
            group_hash = hash_bytes(data, key_start + 4, group_size, secret)
            slot = find_text(data, key_start + 4, group_size, group_hash, slots, rows, arena)
            row = slots[slot] & ENTRY_MASK if slots[slot] >= 0 else np.int64(-1)
        else:
            counts[_CLOSED_BEFORE] = counts[_RECORD_COUNT]
        if row >= 0:
            # Close the row before a record that is not plain, and after a record without a group id.
            if not is_plain or rows[row, _RECORD_NUMBER] < counts[_CLOSED_BEFORE]:
                rows[row, _IS_CLOSED] = 1
            if rows[row, _IS_CLOSED]:
                row = np.int64(-1)
        size = key_size + max(value_size, 0)
        if row < 0:
            row = counts[_ROW_COUNT]
            counts[_ROW_COUNT] += 1
            rows[row, _CAPACITY] = 0
            if slot >= 0:
                counts[_GROUP_COUNT] += slots[slot] < 0
                slots[slot] = make_slot(group_hash, row)
        if rows[row, _CAPACITY] < size:
            # The row moves to the end of the arena. A row that moves again gets more space than its record needs.
            capacity = min(2 * size, size + rows[row, _CAPACITY])
            rows[row, _POSITION] = counts[_BYTE_COUNT]
            rows[row, _CAPACITY] = capacity
            counts[_BYTE_COUNT] += capacity
        rows[row, _RECORD_NUMBER] = counts[_RECORD_COUNT]
        rows[row, _OFFSET] = positions[number, OTHER_OFFSET]
        rows[row, _KEY_SIZE] = key_size
        rows[row, _VALUE_SIZE] = value_size
        rows[row, _IS_PLAIN] = is_plain
        rows[row, _IS_CLOSED] = not is_plain
        counts[_RECORD_COUNT] += 1
        start = rows[row, _POSITION]
        rows[row, _GROUP_TEXT] = (start + 4) << SIZE_BITS | group_size if group_size >= 0 else -1
        copy_bytes(data, key_start, arena, start, key_size)
        copy_bytes(data, value_start, arena, start + key_size, max(value_size, 0))


@kernel
def _rehash(counts: Any, rows: Any, slots: Any, arena: Any, secret: Any) -> None:
    """Add the newest row of each group to `slots`, an empty hash table."""
    for row in range(counts[_ROW_COUNT]):
        if rows[row, _GROUP_TEXT] >= 0:
            start = rows[row, _GROUP_TEXT] >> SIZE_BITS
            size = rows[row, _GROUP_TEXT] & SIZE_MASK
            group_hash = hash_bytes(arena, start, size, secret)
            slots[find_text(arena, start, size, group_hash, slots, rows, arena)] = make_slot(group_hash, row)
