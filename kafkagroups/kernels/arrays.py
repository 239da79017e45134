"""The arrays of one partition's fold: how they grow, and how dead keys are dropped.

Arrays grow when they are full, and dead keys are dropped first. So memory is bounded by the live keys, not by the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kafkagroups.kernels import layout, table, transactions
from kafkagroups.kernels.group_keys import group_keys
from kafkagroups.kernels.layout import BLOCK

Array = np.ndarray[Any, Any]
FIRST_KEYS = 4096
FIRST_PRODUCERS = 64
FIRST_NAMES = 2048
FIRST_NODES = 2048
FIRST_BYTES = 1 << 18
ROWS = 4096
"""The first sizes of the arrays."""
MOST_FIRST_KEYS = (1 << 15) - 1
GROWTH = 4
"""Growth factor when an array is full."""
BYTES_FOR_A_KEY = 512
MOST_KEYS = 1 << 22
"""The first growth goes to one key for this number of log bytes, up to a limit. The system provides memory only when
it is used."""


class FoldArrays:
    """The tables of a fold, and the other arrays that kernels write into."""

    rules: Array

    def __init__(self, size: int) -> None:
        """Make the first arrays for a log of about `size` bytes."""
        self.counts = np.zeros(len(layout.COUNTS), np.int64)
        self.counts[layout.FREE] = -1
        self._likely_keys = min(size // BYTES_FOR_A_KEY, MOST_KEYS)
        keys = 1 << max(FIRST_KEYS, min(size // 1024, MOST_FIRST_KEYS)).bit_length()
        lines, self.arena, tombstones = _allocate(64 * keys, FIRST_BYTES, 8 * keys)
        self.entries = lines.view(np.int64).reshape(keys, 8)
        self.tombstones = tombstones.view(np.int64)
        self.extras = np.zeros((keys, 4), np.int64)
        self.slots = _empty_slots(2 * keys)
        self.names = np.empty((FIRST_NAMES, 2), np.int64)
        self.name_slots = _empty_slots(2 * FIRST_NAMES)
        self.nodes = np.zeros((FIRST_NODES, 8), np.int64)
        self.node_extras = np.zeros((FIRST_NODES, 4), np.int64)
        self.producers = np.zeros((FIRST_PRODUCERS, 3), np.int64)
        self.row_places = np.empty((ROWS, 5), np.int64)
        self.block = np.empty((BLOCK, 8), np.int64)

    def tables(self) -> layout.Tables:
        return layout.Tables(*(getattr(self, name) for name in layout.Tables._fields))

    def grow(self, size: int, count: int) -> None:
        """Grow the arrays so that a batch of this size and number of records fits, and many more."""
        new_keys = count + BLOCK
        if self._lacks_keys(new_keys) or self._lacks_names(new_keys) or self._lacks_bytes(size):
            self._drop_dead()
        if (keys := int(self.counts[layout.ENTRIES]) + new_keys) > len(self.entries):
            capacity = max(GROWTH * len(self.entries), 2 * keys, self._likely_keys)
            entries = _allocate(64 * capacity)[0].view(np.int64).reshape(capacity, 8)
            entries[: len(self.entries)] = self.entries
            self.entries = entries
            self.extras = lengthen(self.extras, capacity)
            self.tombstones = lengthen(self.tombstones, capacity)
        if 2 * keys > len(self.slots):
            self._rehash(keys)
        if self._lacks_names(new_keys):
            self.names = lengthen(self.names, GROWTH * (len(self.names) + new_keys))
            self._rehash_names()
        if self._lacks_bytes(size):
            capacity = max(GROWTH * len(self.arena), 2 * (int(self.counts[layout.ARENA]) + size))
            self.arena = lengthen(self.arena, capacity)
        if self.counts[layout.NODES] + new_keys > len(self.nodes):
            capacity = 2 * max(len(self.nodes), int(self.counts[layout.NODES]) + new_keys)
            self.nodes = lengthen(self.nodes, capacity)
            self.node_extras = lengthen(self.node_extras, capacity)
        if 2 * (self.counts[layout.PRODUCERS] + 2) > len(self.producers):
            self._drop_producers()
        if count > len(self.row_places):
            self.row_places = np.empty((count, 5), np.int64)

    def _lacks_keys(self, count: int) -> bool:
        keys = int(self.counts[layout.ENTRIES]) + count
        return keys > len(self.entries) or 2 * keys > len(self.slots)

    def _lacks_names(self, count: int) -> bool:
        return int(self.counts[layout.NAMES]) + count > min(len(self.names), len(self.name_slots) // 2)

    def _lacks_bytes(self, size: int) -> bool:
        return bool(self.counts[layout.ARENA] + size > len(self.arena))

    def _rehash(self, keys: int) -> None:
        """Make new slots, for several times as many keys."""
        self.slots = _empty_slots(max(FIRST_KEYS, 1 << (4 * keys).bit_length()))
        table.rehash(self.entries, self.counts[layout.ENTRIES], self.names, self.slots)

    def _rehash_names(self) -> None:
        self.name_slots = _empty_slots(1 << (2 * len(self.names) - 1).bit_length())
        table.rehash_names(self.names, self.counts[layout.NAMES], self.arena, self.name_slots)

    def _drop_dead(self) -> None:
        """Drop keys without an offset or anything pending, and unused texts, if that halves the keys or the texts.

        If all keys of a group are dead, one stays, because the log names the group.
        """
        count = int(self.counts[layout.ENTRIES])
        wanted = self.entries[:count, layout.RECORD] >= 0
        transactions.mark_pending(self.nodes, self.producers, wanted)
        if 2 * wanted.sum() > count and 2 * self.counts[layout.GARBAGE] < self.counts[layout.ARENA]:
            return
        groups, group_of = self.groups()
        table.want_one_of_each_group(self.entries, count, groups, group_of, wanted)
        renamed = np.cumsum(wanted) - 1
        left = int(wanted.sum())
        for array in (self.entries, self.extras, self.tombstones):
            array[:left] = array[:count][wanted]
        arena = np.empty_like(self.arena)
        names = np.empty_like(self.names)
        numbers = np.full(int(self.counts[layout.NAMES]), -1, np.int64)
        self.counts[[layout.NAMES, layout.ARENA]] = table.copy_texts(
            self.entries, left, self.names, numbers, names, self.arena, arena
        )
        transactions.move_pending(self.nodes, self.producers, renamed, self.arena, arena, self.counts)
        self.names = names
        self.arena = arena
        self.counts[layout.ENTRIES] = left
        self.counts[layout.GARBAGE] = 0
        self._rehash_names()
        self._rehash(left)

    def _drop_producers(self) -> None:
        """Drop producers without anything pending, and make space for as many again as are left."""
        left = self.producers[(self.producers[:, 2] != 0) & (self.producers[:, 1] >= 0)]
        self.producers = np.zeros((max(FIRST_PRODUCERS, 1 << (8 * len(left)).bit_length()), 3), np.int64)
        self.counts[layout.PRODUCERS] = 0
        for producer, node, _ in left.tolist():
            place = transactions.find_producer(producer, self.counts, self.producers)
            self.producers[place, 1] = node

    def groups(self) -> tuple[Array, Array]:
        """Return the groups that keys name (their columns are in layout.py), and the group of each name."""
        count, many = self.counts[[layout.ENTRIES, layout.NAMES]].tolist()
        group_of = np.empty(many, np.int64)
        groups = np.empty((many, 4), np.int64)
        slots = np.full(1 << (2 * many + 1).bit_length(), -1, np.int64)
        found = group_keys(self.entries, count, self.names, many, self.arena, slots, groups, group_of)
        return groups[:found], group_of

    def saved(self) -> dict[str, Array]:
        """Return the arrays from which `restore` makes the fold again."""
        lengths = dict.fromkeys(("entries", "extras", "tombstones"), layout.ENTRIES)
        lengths |= {"names": layout.NAMES, "arena": layout.ARENA, "nodes": layout.NODES, "node_extras": layout.NODES}
        used = {name: getattr(self, name)[: self.counts[count]] for name, count in lengths.items()}
        return {**used, "counts": self.counts, "producers": self.producers}

    def set_arrays(self, saved: Mapping[str, Array]) -> None:
        """Continue with the arrays that `saved` returned."""
        for name, array in saved.items():
            setattr(self, name, array)
        self._rehash_names()
        self._rehash(len(self.entries))


def _empty_slots(count: int) -> Array:
    slots = _allocate(8 * count)[0].view(np.int64)
    slots[:] = -1
    return slots


def _allocate(*sizes: int) -> list[Array]:
    """Return arrays of these sizes in bytes, each starting at a cache line.

    They are one allocation, because the system gives a large one large pages.
    """
    ends = np.cumsum([size + -size % 64 for size in sizes]).tolist()
    raw = np.empty(ends[-1] + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return [raw[start + end - size - -size % 64 :][:size] for size, end in zip(sizes, ends, strict=True)]


def lengthen(array: Array, length: int) -> Array:
    """Return a longer copy of an array; the new rows are 0."""
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
