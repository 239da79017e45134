"""The arrays of a fold state: how they grow, and how unused keys are dropped.

A fold state is the state of one log partition after the compiled engine has read some batches. layout.py describes its
arrays and its terms: entry, extras, tombstone, name, arena, node, slot.

An array grows when it is full. Before the arrays grow, unused keys and unused bytes are dropped if at least half of the
keys, or at least half of the bytes in the arena, are unused. A key (group, topic, partition) is used if it has a
committed offset or a pending commit. So the memory depends on the number of used keys, not on the size of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kafkagroups.int_limits import MAX_INT64, MIN_INT64
from kafkagroups.kernels import layout, table, transactions
from kafkagroups.kernels.fate_arrays import FateArrays
from kafkagroups.kernels.group_keys import find_groups
from kafkagroups.kernels.hash_table import copy_numbers
from kafkagroups.kernels.layout import BLOCK_ROWS, PRODUCER_COLUMNS
from kafkagroups.kernels.secret import process_secret

Array = np.ndarray[Any, Any]
_CACHE_LINE_BYTES = 64
_ENTRY_BYTES = 64
INITIAL_KEYS = 4096
INITIAL_PRODUCERS = 64
INITIAL_NAMES = 2048
INITIAL_NODES = 2048
INITIAL_ARENA_BYTES = 1 << 18
INITIAL_RECORD_POSITIONS = 4096
"""How many rows the arrays of a new fold state have at least, and how many bytes its arena has."""
BYTES_PER_INITIAL_KEY = 1024
MAX_INITIAL_KEYS = (1 << 15) - 1
"""For a large log, a new fold state has space for one key per BYTES_PER_INITIAL_KEY bytes of the log, up to
MAX_INITIAL_KEYS."""
GROWTH_FACTOR = 4
"""How many times longer the arrays become when they are full: the arrays of keys (`entries`, `extras`, `tombstones`),
the names and the arena."""
BYTES_PER_KEY = 512
MAX_LIKELY_KEYS = 1 << 22
"""When the arrays of keys grow, they get space for at least one key per BYTES_PER_KEY bytes of the log, up to
MAX_LIKELY_KEYS. Unused space costs nothing, because the operating system provides memory only when it is used."""


class FoldArrays(FateArrays):
    """The arrays of a fold state. layout.py describes their columns.

    Two more arrays are working memory for the kernel in fold.py. `record_positions` receives the positions of the
    records that are not offset records. `block` contains offset records that were read but not folded yet.
    """

    rules: Array  # The subclass FoldState (state.py) sets this array.

    def __init__(
        self, log_size: int, *, follows_fates: bool = False, keeps_each_fate: bool = False, segment_count: int = 0
    ) -> None:
        """Make the initial arrays for a log of about `log_size` bytes. The other parameters are those of FateArrays."""
        super().__init__(follows_fates=follows_fates, keeps_each_fate=keeps_each_fate, segment_count=segment_count)
        self.counts = np.zeros(len(layout.COUNTS), np.int64)
        self.counts[layout.FREE_NODE] = -1
        self.counts[layout.FIRST_TIME] = MAX_INT64
        self.counts[layout.LATEST_TIME] = MIN_INT64
        self._likely_keys = min(log_size // BYTES_PER_KEY, MAX_LIKELY_KEYS)
        initial_keys = min(log_size // BYTES_PER_INITIAL_KEY, MAX_INITIAL_KEYS)
        # The size of a hash table must be a power of two.
        capacity = 1 << max(INITIAL_KEYS, initial_keys).bit_length()
        entry_bytes, self.arena, tombstones = _allocate(_ENTRY_BYTES * capacity, INITIAL_ARENA_BYTES, 8 * capacity)
        self.entries = entry_bytes.view(np.int64).reshape(capacity, 8)
        self.tombstones = tombstones.view(np.int64)
        self.extras = np.zeros((capacity, 4), np.int64)
        self.slots = _create_slots(2 * capacity)
        self.names = np.empty((INITIAL_NAMES, 2), np.int64)
        self.name_slots = _create_slots(2 * INITIAL_NAMES)
        self.nodes = np.zeros((INITIAL_NODES, 8), np.int64)
        self.node_extras = np.zeros((INITIAL_NODES, 4), np.int64)
        self.producers = np.zeros((INITIAL_PRODUCERS, PRODUCER_COLUMNS), np.int64)
        self.secret = process_secret()
        self.key_records = np.zeros((capacity, self.record_columns), np.int64)
        self.node_records = np.zeros((INITIAL_NODES, self.record_columns), np.int64)
        self.name_totals = np.zeros((INITIAL_NAMES, self.total_columns), np.int64)
        self.totals_of_dropped_names: dict[bytes, Array] = {}
        """The rows of `name_totals` of names that were dropped, by the bytes of the name (layout.py)."""
        self.record_positions = np.empty((INITIAL_RECORD_POSITIONS, layout.OTHER_COLUMNS), np.int64)
        self.block = np.empty((BLOCK_ROWS, 8), np.int64)

    def as_tables(self) -> layout.Tables:
        """Return the arrays as one argument for the kernels."""
        return layout.Tables(*(getattr(self, name) for name in layout.Tables._fields))

    def grow(self, batch_size: int, record_count: int) -> None:
        """Make space for a batch of `batch_size` bytes with `record_count` records.

        An array that must grow gets space for many more batches.
        """
        # A block can contain BLOCK_ROWS records of earlier batches that were not folded yet.
        new_keys = record_count + BLOCK_ROWS
        if self._lacks_keys(new_keys) or self._lacks_names(new_keys) or self._lacks_bytes(batch_size):
            self._drop_unused()
        key_count = int(self.counts[layout.ENTRIES]) + new_keys
        if key_count > len(self.entries):
            capacity = max(GROWTH_FACTOR * len(self.entries), 2 * key_count, self._likely_keys)
            entries = _allocate(_ENTRY_BYTES * capacity)[0].view(np.int64).reshape(capacity, 8)
            entries[: len(self.entries)] = self.entries
            self.entries = entries
            self.extras = lengthen(self.extras, capacity)
            self.tombstones = lengthen(self.tombstones, capacity)
            self.key_records = lengthen(self.key_records, capacity)
        if 2 * key_count > len(self.slots):
            self._rehash(key_count)
        if self._lacks_names(new_keys):
            self.names = lengthen(self.names, GROWTH_FACTOR * (len(self.names) + new_keys))
            self.name_totals = lengthen(self.name_totals, len(self.names))
            self._rehash_names()
        if self._lacks_bytes(batch_size):
            capacity = max(GROWTH_FACTOR * len(self.arena), 2 * (int(self.counts[layout.ARENA_BYTES]) + batch_size))
            self.arena = lengthen(self.arena, capacity)
        if self.counts[layout.NODES] + new_keys > len(self.nodes):
            capacity = 2 * max(len(self.nodes), int(self.counts[layout.NODES]) + new_keys)
            self.nodes = lengthen(self.nodes, capacity)
            self.node_extras = lengthen(self.node_extras, capacity)
            self.node_records = lengthen(self.node_records, capacity)
        if 2 * (self.counts[layout.PRODUCERS] + 2) > len(self.producers):
            self._drop_producers()
        if record_count > len(self.record_positions):
            self.record_positions = np.empty((record_count, layout.OTHER_COLUMNS), np.int64)
        self.grow_fates(record_count)

    def _lacks_keys(self, new_keys: int) -> bool:
        """Return whether the arrays of keys are too small for `new_keys` more keys."""
        key_count = int(self.counts[layout.ENTRIES]) + new_keys
        return key_count > len(self.entries) or 2 * key_count > len(self.slots)

    def _lacks_names(self, new_names: int) -> bool:
        return int(self.counts[layout.NAMES]) + new_names > min(len(self.names), len(self.name_slots) // 2)

    def _lacks_bytes(self, new_bytes: int) -> bool:
        return bool(self.counts[layout.ARENA_BYTES] + new_bytes > len(self.arena))

    def _rehash(self, key_count: int) -> None:
        """Make a new hash table of the keys, with space for several times `key_count`."""
        self.slots = _create_slots(max(INITIAL_KEYS, 1 << (4 * key_count).bit_length()))
        table.rehash(self.entries, self.counts[layout.ENTRIES], self.names, self.slots)

    def _rehash_names(self) -> None:
        """Make a new hash table of the names."""
        self.name_slots = _create_slots(1 << (2 * len(self.names) - 1).bit_length())
        table.rehash_names(self.names, self.counts[layout.NAMES], self.arena, self.name_slots, self.secret)

    def _drop_unused(self) -> None:
        """Drop unused keys and unused bytes of the arena, if at least half of the keys or half of the bytes are unused.

        At least one key of each group is kept, because the result of a load contains the ids of all groups.
        """
        count = int(self.counts[layout.ENTRIES])
        is_kept = self.entries[:count, layout.RECORD_OFFSET] >= 0
        producers = self.list_producers()
        transactions.keep_pending_keys(self.nodes, producers, is_kept)
        if 2 * is_kept.sum() > count and 2 * self.counts[layout.UNUSED_BYTES] < self.counts[layout.ARENA_BYTES]:
            return
        groups, group_of_name = self.make_groups()
        table.keep_one_key_of_each_group(self.entries, count, groups, group_of_name, is_kept)
        # For the old number of each kept entry, its new number.
        new_entry_numbers = np.cumsum(is_kept) - 1
        kept_count = int(is_kept.sum())
        for array in (self.entries, self.extras, self.tombstones, self.key_records):
            array[:kept_count] = array[:count][is_kept]
        new_arena = np.empty_like(self.arena)
        new_names = np.empty_like(self.names)
        new_name_numbers = np.full(int(self.counts[layout.NAMES]), -1, np.int64)
        self.counts[[layout.NAMES, layout.ARENA_BYTES]] = table.copy_key_texts(
            self.entries, kept_count, self.names, new_name_numbers, new_names, self.arena, new_arena
        )
        if self.follows_fates:
            self._drop_totals(new_name_numbers)
        transactions.move_pending_commits(self.nodes, producers, new_entry_numbers, self.arena, new_arena, self.counts)
        self.names = new_names
        self.arena = new_arena
        self.counts[layout.ENTRIES] = kept_count
        self.counts[layout.UNUSED_BYTES] = 0
        self._rehash_names()
        self._rehash(kept_count)

    def _drop_totals(self, new_name_numbers: Array) -> None:
        """Move the totals of each name to its new number. A name that was dropped has the new number -1."""
        old_totals = self.name_totals[: len(new_name_numbers)]
        self.name_totals = np.zeros_like(self.name_totals)
        is_kept = new_name_numbers >= 0
        self.name_totals[new_name_numbers[is_kept]] = old_totals[is_kept]
        for name in np.flatnonzero(~is_kept).tolist():
            name_bytes = self.read_text(int(self.names[name, layout.NAME_TEXT]))
            earlier_totals = self.totals_of_dropped_names.get(name_bytes, 0)
            self.totals_of_dropped_names[name_bytes] = old_totals[name] + earlier_totals

    def read_text(self, text_reference: int) -> bytes:
        """Return the bytes of a text reference."""
        start = text_reference >> layout.SIZE_BITS
        return self.arena[start : start + (text_reference & layout.SIZE_MASK)].tobytes()

    def _drop_producers(self) -> None:
        """Drop producers that have no pending commits, and make space for several times the remaining producers."""
        self._rehash_producers(self.list_producers())

    def list_producers(self) -> Array:
        """Return the rows of the producers that have pending commits, in the order of the producer ids."""
        is_used = self.producers[:, layout.IS_USED] != 0
        has_pending_commits = self.producers[:, layout.FIRST_NODE] >= 0
        rows = self.producers[is_used & has_pending_commits]
        return rows[np.argsort(rows[:, layout.NUMBER])]

    def _rehash_producers(self, rows: Array) -> None:
        """Make a new hash table of producers from these rows, with space for several times as many producers."""
        row_count = max(INITIAL_PRODUCERS, 1 << (8 * len(rows)).bit_length())
        self.producers = np.zeros((row_count, PRODUCER_COLUMNS), np.int64)
        self.counts[layout.PRODUCERS] = len(rows)
        copy_numbers(rows, self.producers, self.secret)

    def make_groups(self) -> tuple[Array, Array]:
        """Return the array `groups` (columns: layout.py), and an array with the number of the group of each name."""
        name_count = int(self.counts[layout.NAMES])
        group_of_name = np.empty(name_count, np.int64)
        groups = np.empty((name_count, 3), np.int64)
        slots = np.full(1 << (2 * name_count + 1).bit_length(), -1, np.int64)
        group_count = find_groups(self.as_tables(), slots, groups, group_of_name)
        return groups[:group_count], group_of_name

    def arrays_to_save(self) -> dict[str, Array]:
        """Return the used rows of each array, by the array's name. `FoldState.restore` makes the same state from them.

        The array `producers` contains only the producers that have pending commits. It is not a hash table.
        """
        count_by_array = dict.fromkeys(("entries", "extras", "tombstones"), layout.ENTRIES)
        count_by_array |= {
            "names": layout.NAMES,
            "arena": layout.ARENA_BYTES,
            "nodes": layout.NODES,
            "node_extras": layout.NODES,
        }
        used_rows = {name: getattr(self, name)[: self.counts[count]] for name, count in count_by_array.items()}
        return {**used_rows, "counts": self.counts, "producers": self.list_producers()}

    def set_arrays(self, saved_arrays: Mapping[str, Array]) -> None:
        """Use arrays that `arrays_to_save` returned, and make the hash tables again."""
        for name, array in saved_arrays.items():
            setattr(self, name, array)
        self.key_records = np.zeros((len(self.entries), 0), np.int64)
        self.node_records = np.zeros((len(self.nodes), 0), np.int64)
        self.name_totals = np.zeros((len(self.names), 0), np.int64)
        self._rehash_names()
        self._rehash(len(self.entries))
        self._rehash_producers(self.producers)


def _create_slots(slot_count: int) -> Array:
    """Return an empty hash table. A free slot contains -1."""
    slots = _allocate(8 * slot_count)[0].view(np.int64)
    slots[:] = -1
    return slots


def _allocate(*sizes: int) -> list[Array]:
    """Return arrays of these sizes in bytes. Each array starts at a cache line of the CPU.

    The arrays share one allocation, because the operating system uses large memory pages only for a large allocation.
    """
    padded_sizes = [size + -size % _CACHE_LINE_BYTES for size in sizes]
    memory = np.empty(sum(padded_sizes) + _CACHE_LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % _CACHE_LINE_BYTES
    arrays = []
    for size, padded_size in zip(sizes, padded_sizes, strict=True):
        arrays.append(memory[start : start + size])
        start += padded_size
    return arrays


def lengthen(array: Array, length: int) -> Array:
    """Return a longer copy of an array. The new rows are 0."""
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
