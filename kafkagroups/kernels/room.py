"""The arrays of one partition's fold: how they grow, and how what is dead leaves them.

Room grows as it is needed, and dead keys are forgotten first: memory is bounded by what lives, not by the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kafkagroups.kernels import layout, table, transactions
from kafkagroups.kernels.grouped import group_keys
from kafkagroups.kernels.kept import longer
from kafkagroups.kernels.scan import BLOCK

Array = np.ndarray[Any, Any]
FIRST_KEYS, FIRST_PRODUCERS, ROWS = 4096, 64, 4096
MOST_FIRST_KEYS = (1 << 15) - 1
FIRST_NAMES, FIRST_NODES, FIRST_BYTES = 2048, 2048, 1 << 18
GROWTH, BYTES_FOR_A_KEY, MOST_KEYS = 4, 512, 1 << 22
"""How many times the room there is when there was too little; or a key's for so many bytes of the log, up to a most:
what is not used is only promised."""


class Room:
    """The tables, and what else kernels write into."""

    rules: Array

    def __init__(self, size: int) -> None:
        """`size`: about how many bytes will come, so that there is room for what they may hold."""
        self.counts = np.zeros(len(layout.COUNTS), np.int64)
        self.counts[layout.FREE] = -1
        self._likely_keys = min(size // BYTES_FOR_A_KEY, MOST_KEYS)
        keys = 1 << max(FIRST_KEYS, min(size // 1024, MOST_FIRST_KEYS)).bit_length()
        lines, self.arena, tombs = _rooms(64 * keys, FIRST_BYTES, 8 * keys)
        self.entries, self.tombs = lines.view(np.int64).reshape(keys, 8), tombs.view(np.int64)
        self.more = np.zeros((keys, 4), np.int64)
        self.slots = _slots(2 * keys)
        self.names = np.empty((FIRST_NAMES, 2), np.int64)
        self.name_slots = _slots(2 * FIRST_NAMES)
        self.nodes = np.zeros((FIRST_NODES, 8), np.int64)
        self.node_more = np.zeros((FIRST_NODES, 4), np.int64)
        self.producers = np.zeros((FIRST_PRODUCERS, 3), np.int64)
        self.row_places = np.empty((ROWS, 5), np.int64)
        self.block = np.empty((BLOCK, 8), np.int64)

    def tables(self) -> layout.Tables:
        return layout.Tables(*(getattr(self, name) for name in layout.Tables._fields))

    def grow(self, size: int, count: int) -> None:
        """Makes room for a batch of so many bytes and records, and for much more."""
        new_keys = count + BLOCK
        if self._lacks_keys(new_keys) or self._lacks_names(new_keys) or self._lacks_bytes(size):
            self._drop_dead()
        if (keys := int(self.counts[layout.ENTRIES]) + new_keys) > len(self.entries):
            room = max(GROWTH * len(self.entries), 2 * keys, self._likely_keys)
            before, self.entries = self.entries, _rooms(64 * room)[0].view(np.int64).reshape(room, 8)
            self.entries[: len(before)] = before
            self.more, self.tombs = longer(self.more, room), longer(self.tombs, room)
        if 2 * keys > len(self.slots):
            self._rehash(keys)
        if self._lacks_names(new_keys):
            self.names = longer(self.names, GROWTH * (len(self.names) + new_keys))
            self._name_again()
        if self._lacks_bytes(size):
            room = max(GROWTH * len(self.arena), 2 * (int(self.counts[layout.ARENA]) + size))
            self.arena = longer(self.arena, room)
        if self.counts[layout.NODES] + new_keys > len(self.nodes):
            room = 2 * max(len(self.nodes), int(self.counts[layout.NODES]) + new_keys)
            self.nodes, self.node_more = longer(self.nodes, room), longer(self.node_more, room)
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
        """Makes the slots anew, for some times as many keys."""
        self.slots = _slots(max(FIRST_KEYS, 1 << (4 * keys).bit_length()))
        table.rehash(self.entries, self.counts[layout.ENTRIES], self.names, self.slots)

    def _name_again(self) -> None:
        self.name_slots = _slots(1 << (2 * len(self.names) - 1).bit_length())
        table.name_again(self.names, self.counts[layout.NAMES], self.arena, self.name_slots)

    def _drop_dead(self) -> None:
        """Forgets keys without an offset or anything pending, and texts of old, where that halves something.

        Of a group whose keys are all dead one stays: the log names the group.
        """
        count = int(self.counts[layout.ENTRIES])
        wanted = self.entries[:count, layout.RECORD] >= 0
        transactions.mark_pending(self.nodes, self.producers, wanted)
        if 2 * wanted.sum() > count and 2 * self.counts[layout.GARBAGE] < self.counts[layout.ARENA]:
            return
        groups, group_of = self.groups()
        table.keep_one(self.entries, count, groups, group_of, wanted)
        renamed = np.cumsum(wanted) - 1
        left = int(wanted.sum())
        for array in (self.entries, self.more, self.tombs):
            array[:left] = array[:count][wanted]
        arena = np.empty_like(self.arena)
        names, numbers = np.empty_like(self.names), np.full(int(self.counts[layout.NAMES]), -1, np.int64)
        self.counts[[layout.NAMES, layout.ARENA]] = table.copy_texts(
            self.entries, left, self.names, numbers, names, self.arena, arena
        )
        transactions.move_pending(self.nodes, self.producers, renamed, self.arena, arena, self.counts)
        self.names, self.arena = names, arena
        self.counts[layout.ENTRIES], self.counts[layout.GARBAGE] = left, 0
        self._name_again()
        self._rehash(left)

    def _drop_producers(self) -> None:
        """Forgets producers without anything pending, and makes room for as many again as are left."""
        left = self.producers[(self.producers[:, 2] != 0) & (self.producers[:, 1] >= 0)]
        self.producers = np.zeros((max(FIRST_PRODUCERS, 1 << (8 * len(left)).bit_length()), 3), np.int64)
        self.counts[layout.PRODUCERS] = 0
        for producer, node, _ in left.tolist():
            self.producers[transactions.place_of(producer, self.counts, self.producers), 1] = node

    def groups(self) -> tuple[Array, Array]:
        """The groups that keys name (see grouped.py), and which one each name has."""
        count, many = self.counts[[layout.ENTRIES, layout.NAMES]].tolist()
        group_of = np.empty(many, np.int64)
        groups = np.empty((many, 4), np.int64)
        slots = np.full(1 << (2 * many + 1).bit_length(), -1, np.int64)
        return groups[
            : group_keys(self.entries, count, self.names, many, self.arena, slots, groups, group_of)
        ], group_of

    def saved(self) -> dict[str, Array]:
        """The arrays that `restored` needs, and no more; `others` are the caller's."""
        lengths = dict.fromkeys(("entries", "more", "tombs"), layout.ENTRIES)
        lengths |= {"names": layout.NAMES, "arena": layout.ARENA, "nodes": layout.NODES, "node_more": layout.NODES}
        used = {name: getattr(self, name)[: self.counts[count]] for name, count in lengths.items()}
        return {**used, "counts": self.counts, "producers": self.producers}

    def restore(self, saved: Mapping[str, Array]) -> None:
        """Takes what `saved` gave."""
        for name, array in saved.items():
            setattr(self, name, array)
        self._name_again()
        self._rehash(len(self.entries))


def _slots(count: int) -> Array:
    slots = _rooms(8 * count)[0].view(np.int64)
    slots[:] = -1
    return slots


def _rooms(*sizes: int) -> list[Array]:
    """Room for so many bytes each, from cache line to cache line, in one piece: a large one is made of large pages."""
    ends = np.cumsum([size + -size % 64 for size in sizes]).tolist()
    raw = np.empty(ends[-1] + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return [raw[start + end - size - -size % 64 :][:size] for size, end in zip(sizes, ends, strict=True)]
