"""Keeps the records of a log that are not offset records, in order. Of consecutive plain records of a group only the
newest is kept.

A newer plain record replaces the older one, so memory is bounded by the number of groups. A record that is not plain
ends this for its group, because what came before it must be replayed too. If it names no group, it ends this for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kafkagroups.kernels.arrays import Array, lengthen
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.intrinsics import copy
from kafkagroups.kernels.plain_groups import MOST_MEMBERS, is_plain_group
from kafkagroups.kernels.scan import int16, same_text, short_hash

_NUMBER, _OFFSET, _KEY_SIZE, _VALUE_SIZE, _PLACE, _CAPACITY, _PLAIN, _CLOSED = range(8)
"""The columns of a row, which is one record: its number in the log, its offset, its place in the arena and its size."""
_KEPT, _BYTES, _SEEN, _ALL_CLOSED, _NAMES = range(5)
"""The counts: rows, bytes in the arena, records so far, the last record that closed all groups, groups."""


class OtherRecord(NamedTuple):
    """A record that is not an offset's. `plain` is the group of a plain group record, else None."""

    offset: int
    key: bytes
    value: bytes | None
    plain: str | None


class OtherRecords:
    """The records of one partition. Add them as places in a segment's bytes; iterate over what is kept."""

    def __init__(self, highest: int) -> None:
        self._highest = highest
        self._members = np.empty((MOST_MEMBERS, 2), np.int64)
        self._counts = np.zeros(5, np.int64)
        self._rows = np.empty((64, 8), np.int64)
        self._slots = np.full(256, -1, np.int64)
        self._arena = np.empty(1 << 14, np.uint8)

    def add(self, data: Array, places: Array) -> None:
        """Add records. `places` has offset, key, its size, value, its size (-1: null) of each record."""
        if not len(places):
            return
        rows = int(self._counts[_KEPT]) + len(places)
        if rows > len(self._rows):
            self._rows = lengthen(self._rows, 2 * rows)
        if 2 * (self._counts[_NAMES] + len(places)) > len(self._slots):
            self._slots = np.full(1 << (4 * rows).bit_length(), -1, np.int64)
            _rehash(self._counts, self._rows, self._slots, self._arena)
        most = int(self._counts[_BYTES]) + 2 * int(places[:, 2].sum() + np.maximum(places[:, 4], 0).sum())
        if most > len(self._arena):
            self._arena = lengthen(self._arena, 2 * most)
        _keep(data, places, self._highest, self._members, self._counts, self._rows, self._slots, self._arena)

    def __iter__(self) -> Iterator[OtherRecord]:
        rows = self._rows[: self._counts[_KEPT]]
        arena = memoryview(self._arena)
        for row in rows[np.argsort(rows[:, _NUMBER])].tolist():
            value = row[_PLACE] + row[_KEY_SIZE]
            key = bytes(arena[row[_PLACE] : value])
            content = None if row[_VALUE_SIZE] < 0 else bytes(arena[value : value + row[_VALUE_SIZE]])
            plain = key[4 : 4 + int.from_bytes(key[2:4], "big")].decode() if row[_PLAIN] else None
            yield OtherRecord(row[_OFFSET], key, content, plain)


@kernel
def _keep(data: Any, places: Any, highest: int, members: Any, counts: Any, rows: Any, slots: Any, arena: Any) -> None:
    for number in range(len(places)):
        key = places[number, 1]
        key_size = places[number, 2]
        value = places[number, 3]
        value_size = places[number, 4]
        plain = int16(data, key) == 2 and is_plain_group(data, key, key_size, value, value_size, highest, members)
        slot = np.int64(-1)
        row = np.int64(-1)
        if key_size >= 4 and 0 <= int16(data, key + 2) <= key_size - 4:
            slot = _find_slot(data, key, rows, slots, arena)
            row = slots[slot]
        elif not plain:
            counts[_ALL_CLOSED] = counts[_SEEN]
        if not plain or (row >= 0 and (rows[row, _CLOSED] or rows[row, _NUMBER] < counts[_ALL_CLOSED])):
            if row >= 0:
                rows[row, _CLOSED] = 1
            row = np.int64(-1)
        size = key_size + max(value_size, 0)
        if row < 0:
            row = counts[_KEPT]
            counts[_KEPT] += 1
            rows[row, _CAPACITY] = 0
            if slot >= 0:
                counts[_NAMES] += slots[slot] < 0
                slots[slot] = row
        if rows[row, _CAPACITY] < size:
            capacity = min(2 * size, size + rows[row, _CAPACITY])
            rows[row, _PLACE] = counts[_BYTES]
            rows[row, _CAPACITY] = capacity
            counts[_BYTES] += capacity
        rows[row, _NUMBER] = counts[_SEEN]
        rows[row, _OFFSET] = places[number, 0]
        rows[row, _KEY_SIZE] = key_size
        rows[row, _VALUE_SIZE] = value_size
        rows[row, _PLAIN] = plain
        rows[row, _CLOSED] = not plain
        counts[_SEEN] += 1
        place = rows[row, _PLACE]
        copy(data, key, arena, place, key_size)
        copy(data, value, arena, place + key_size, max(value_size, 0))


@kernel
def _find_slot(data: Any, key: int, rows: Any, slots: Any, arena: Any) -> int:
    """Return the slot of the group that a key names. It holds the group's newest row, or -1."""
    mask = len(slots) - 1
    length = int16(data, key + 2)
    slot = short_hash(data, key + 4, length) & mask
    while slots[slot] >= 0:
        place = rows[slots[slot], _PLACE]
        if int16(arena, place + 2) == length and same_text(data, key + 4, arena, place + 4, length):
            break
        slot = slot + 1 & mask
    return slot


@kernel
def _rehash(counts: Any, rows: Any, slots: Any, arena: Any) -> None:
    """Fill empty slots with the newest row of each group."""
    for row in range(counts[_KEPT]):
        place = rows[row, _PLACE]
        if rows[row, _KEY_SIZE] >= 4 and 0 <= int16(arena, place + 2) <= rows[row, _KEY_SIZE] - 4:
            slots[_find_slot(arena, place, rows, slots, arena)] = row
