"""Records of other types than offsets': all are kept, in order, but of a group's plain ones in a row only the newest.

A plain record is replaced where it stands, so memory is bounded by the groups. A record that is not plain closes its
group's: what came before it is to be seen as it was. One that names no group closes all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.group_records import MOST_MEMBERS, is_plain_group
from kafkagroups.kernels.intrinsics import copy
from kafkagroups.kernels.kept_group import KeptRecord
from kafkagroups.kernels.scan import int16, same_text, short_hash

Array = np.ndarray[Any, Any]

_NUMBER, _OFFSET, _KEY_SIZE, _VALUE_SIZE, _PLACE, _ROOM, _PLAIN, _CLOSED = range(8)
_KEPT, _BYTES, _SEEN, _ALL_CLOSED, _NAMES = range(5)


class KeptRecords:
    """The records of one partition. `take` gets them as places in a segment's bytes; iterate for what is left."""

    def __init__(self, highest: int) -> None:
        self._highest = highest
        self._members = np.empty((MOST_MEMBERS, 2), np.int64)
        self._counts = np.zeros(5, np.int64)
        self._rows = np.empty((64, 8), np.int64)
        self._slots = np.full(256, -1, np.int64)
        self._arena = np.empty(1 << 14, np.uint8)

    def take(self, data: Array, places: Array) -> None:
        """`places` has offset, key, its size, value, its size (-1: null) of each record."""
        if not len(places):
            return
        rows = int(self._counts[_KEPT]) + len(places)
        if rows > len(self._rows):
            self._rows = longer(self._rows, 2 * rows)
        if 2 * (self._counts[_NAMES] + len(places)) > len(self._slots):
            self._slots = np.full(1 << (4 * rows).bit_length(), -1, np.int64)
            _name_again(self._counts, self._rows, self._slots, self._arena)
        most = int(self._counts[_BYTES]) + 2 * int(places[:, 2].sum() + np.maximum(places[:, 4], 0).sum())
        if most > len(self._arena):
            self._arena = longer(self._arena, 2 * most)
        _keep(data, places, self._highest, self._members, self._counts, self._rows, self._slots, self._arena)

    def __iter__(self) -> Iterator[KeptRecord]:
        rows = self._rows[: self._counts[_KEPT]]
        arena = memoryview(self._arena)
        for row in rows[np.argsort(rows[:, _NUMBER])].tolist():
            value = row[_PLACE] + row[_KEY_SIZE]
            key = bytes(arena[row[_PLACE] : value])
            content = None if row[_VALUE_SIZE] < 0 else bytes(arena[value : value + row[_VALUE_SIZE]])
            plain = key[4 : 4 + int.from_bytes(key[2:4], "big")].decode() if row[_PLAIN] else None
            yield KeptRecord(row[_OFFSET], key, content, plain)


def longer(array: Array, length: int) -> Array:
    out = np.zeros((length, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


@kernel
def _keep(data: Any, places: Any, highest: int, members: Any, counts: Any, rows: Any, slots: Any, arena: Any) -> None:
    for number in range(len(places)):
        key, key_size, value, value_size = places[number, 1], places[number, 2], places[number, 3], places[number, 4]
        plain = int16(data, key) == 2 and is_plain_group(data, key, key_size, value, value_size, highest, members)
        slot, row = np.int64(-1), np.int64(-1)
        if key_size >= 4 and 0 <= int16(data, key + 2) <= key_size - 4:
            slot = _slot_of(data, key, rows, slots, arena)
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
            rows[row, _ROOM] = 0
            if slot >= 0:
                counts[_NAMES] += slots[slot] < 0
                slots[slot] = row
        if rows[row, _ROOM] < size:
            room = min(2 * size, size + rows[row, _ROOM])
            rows[row, _PLACE], rows[row, _ROOM] = counts[_BYTES], room
            counts[_BYTES] += room
        rows[row, _NUMBER], rows[row, _OFFSET] = counts[_SEEN], places[number, 0]
        rows[row, _KEY_SIZE], rows[row, _VALUE_SIZE] = key_size, value_size
        rows[row, _PLAIN], rows[row, _CLOSED] = plain, not plain
        counts[_SEEN] += 1
        place = rows[row, _PLACE]
        copy(data, key, arena, place, key_size)
        copy(data, value, arena, place + key_size, max(value_size, 0))


@kernel
def _slot_of(data: Any, key: int, rows: Any, slots: Any, arena: Any) -> int:
    """The slot of the group that a key names: its newest row, or -1."""
    mask = len(slots) - 1
    length = int16(data, key + 2)
    slot = short_hash(data, key + 4, length) & mask
    while slots[slot] >= 0:
        there = rows[slots[slot], _PLACE]
        if int16(arena, there + 2) == length and same_text(data, key + 4, arena, there + 4, length):
            break
        slot = slot + 1 & mask
    return slot


@kernel
def _name_again(counts: Any, rows: Any, slots: Any, arena: Any) -> None:
    """Fills empty slots with the newest row of each group."""
    for row in range(counts[_KEPT]):
        place = rows[row, _PLACE]
        if rows[row, _KEY_SIZE] >= 4 and 0 <= int16(arena, place + 2) <= rows[row, _KEY_SIZE] - 4:
            slots[_slot_of(arena, place, rows, slots, arena)] = row
