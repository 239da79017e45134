"""Kernels of the hash tables of keys and names: find or add an entry, fill a new table, copy used texts.

A key is a group, a topic and a partition. A name is a key without its partition. An entry is the row of a key in the
array `entries`. The table of names is a hash table of texts, and the table of keys has the same slots (hash_table.py).
A block is an array of records that were read but not folded; each row is one record. A text reference says where bytes
are in the arena, the array with the bytes of names and metadata. layout.py describes the arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.hash_table import find_text, make_slot, make_tag
from kafkagroups.kernels.intrinsics import copy_bytes, prefetch
from kafkagroups.kernels.layout import (
    ARENA_BYTES,
    BATCH_OFFSET,
    ENTRIES,
    ENTRY_MASK,
    FOLLOWS_FATES,
    GROUP_NEWEST_VALUE_OFFSET,
    LIVE_KEYS,
    METADATA,
    NAME_AND_PARTITION,
    NAME_HASH,
    NAME_TEXT,
    NAMES,
    NEWEST_VALUE_OFFSET,
    PARTITION_BITS,
    PARTITION_MASK,
    PREFETCH_DISTANCE,
    RECORD_COLUMNS,
    RECORD_OFFSET,
    SIZE_BITS,
    SIZE_MASK,
    TAG_SHIFT,
)
from kafkagroups.kernels.scan import hash_bytes, is_valid_utf8, load_int16, load_int32, same_bytes

SLOT_DISTANCE = 9
"""The distance from a used slot to the slot that is tried next. A cache line of the CPU contains 8 slots, and they are
often all used (`hash_key`). So the next slot is in another cache line."""
_CHOSEN_ENTRY = LIVE_KEYS
"""In `keep_one_key_of_each_group`, the column LIVE_KEYS of `groups` has another content: the number (index) of the
entry that the function chooses for the group."""


@inlined
def hash_key(name_hash: int, partition: int) -> int:
    """Return the hash of a key.

    Eight neighbouring partitions of a topic are often used together, so their slots are in the same cache line.
    """
    hashed = (np.uint64(name_hash) ^ np.uint64(partition >> 3)) * np.uint64(0xD6E8FEB86659FD93)
    hashed ^= hashed >> np.uint64(32)
    position_in_line = (hashed >> np.uint64(58)) + np.uint64(partition) & np.uint64(7)
    return np.int64(hashed << np.uint64(3) | position_in_line)


@inlined
def find_or_add_entry(
    data: Any, key_hash: int, previous_name: int, name_start: int, name_size: int, tables: Any
) -> int:
    """Return the number of the entry of a key; add the entry if the key is new.

    Return -1 if the key is new and its name is not valid UTF-8. `data` contains the name at `name_start`, and the
    partition after the name. The absolute value of `name_size` is the size of the name. `name_size` is negative if the
    previous record, which is the previous row of the block, has the same name. `previous_name` is the number of the
    name of the previous record.
    """
    counts = tables.counts
    slots = tables.slots
    entries = tables.entries
    names = tables.names
    mask = len(slots) - 1
    tag = make_tag(key_hash)
    slot = key_hash & mask
    partition = load_int32(data, name_start + abs(name_size)) & PARTITION_MASK
    found_entry = np.int64(-1)
    while slots[slot] >= 0:
        if slots[slot] >> TAG_SHIFT == tag:
            entry = slots[slot] & ENTRY_MASK
            name_and_partition = entries[entry, NAME_AND_PARTITION]
            if name_size < 0:
                is_same_key = name_and_partition == previous_name << PARTITION_BITS | partition
            else:
                reference = names[name_and_partition >> PARTITION_BITS, NAME_TEXT]
                is_same_key = name_and_partition & PARTITION_MASK == partition and reference & SIZE_MASK == name_size
                is_same_key = is_same_key and same_bytes(
                    data, name_start, tables.arena, reference >> SIZE_BITS, name_size
                )
            if is_same_key:
                found_entry = entry
                break
        slot = slot + SLOT_DISTANCE & mask
    if found_entry < 0:
        name = previous_name if name_size < 0 else _find_or_add_name(data, name_start, name_size, tables)
        if name >= 0:
            found_entry = counts[ENTRIES]
            counts[ENTRIES] += 1
            slots[slot] = tag << TAG_SHIFT | found_entry
            _initialize_entry(name << PARTITION_BITS | partition, found_entry, tables)
    return found_entry


@kernel
def _find_or_add_name(data: Any, name_start: int, name_size: int, tables: Any) -> int:
    """Return the number of a name; add the name if it is new. Return -1 if the new name is not valid UTF-8."""
    counts = tables.counts
    names = tables.names
    slots = tables.name_slots
    arena = tables.arena
    name_hash = hash_bytes(data, name_start, name_size, tables.secret)
    slot = find_text(data, name_start, name_size, name_hash, slots, names, arena)
    if slots[slot] >= 0:
        return slots[slot] & ENTRY_MASK
    group_size = load_int16(data, name_start)
    topic_start = name_start + 2 + group_size
    if not is_valid_utf8(data, name_start + 2, group_size) or not is_valid_utf8(
        data, topic_start + 2, load_int16(data, topic_start)
    ):
        return -1
    name = counts[NAMES]
    arena_start = counts[ARENA_BYTES]
    copy_bytes(data, name_start, arena, arena_start, name_size)
    counts[NAMES] += 1
    counts[ARENA_BYTES] += name_size
    names[name, NAME_TEXT] = arena_start << SIZE_BITS | name_size
    names[name, NAME_HASH] = name_hash
    slots[slot] = make_slot(name_hash, name)
    return name


@kernel
def _initialize_entry(name_and_partition: int, entry: int, tables: Any) -> None:
    """Write the entry of a new key, which has no committed offset."""
    entries = tables.entries
    for column in range(8):
        entries[entry, column] = 0
    entries[entry, NEWEST_VALUE_OFFSET] = -1
    entries[entry, NAME_AND_PARTITION] = name_and_partition
    entries[entry, RECORD_OFFSET] = -1
    entries[entry, BATCH_OFFSET] = -1
    tables.tombstones[entry] = -1
    if tables.rules[FOLLOWS_FATES]:
        for column in range(RECORD_COLUMNS):
            tables.key_records[entry, column] = 0


@kernel
def rehash(entries: Any, count: int, names: Any, slots: Any) -> None:
    """Add the first `count` entries to `slots`, an empty hash table of the keys."""
    mask = len(slots) - 1
    for step in range(count + PREFETCH_DISTANCE):
        if step < count:
            prefetch(slots, _hash_entry_key(entries[step, NAME_AND_PARTITION], names) & mask)
        entry = step - PREFETCH_DISTANCE
        if entry < 0:
            continue
        key_hash = _hash_entry_key(entries[entry, NAME_AND_PARTITION], names)
        slot = key_hash & mask
        while slots[slot] >= 0:
            slot = slot + SLOT_DISTANCE & mask
        slots[slot] = make_slot(key_hash, entry)


@inlined
def _hash_entry_key(name_and_partition: int, names: Any) -> int:
    partition = np.int64(np.int32(name_and_partition & PARTITION_MASK))
    return hash_key(names[name_and_partition >> PARTITION_BITS, NAME_HASH], partition)


@kernel
def rehash_names(names: Any, count: int, arena: Any, slots: Any, secret: Any) -> None:
    """Add the first `count` names to `slots`, an empty hash table, and store the hash of each name in `names`."""
    for name in range(count):
        start = names[name, NAME_TEXT] >> SIZE_BITS
        size = names[name, NAME_TEXT] & SIZE_MASK
        name_hash = hash_bytes(arena, start, size, secret)
        slots[find_text(arena, start, size, name_hash, slots, names, arena)] = make_slot(name_hash, name)
        names[name, NAME_HASH] = name_hash


@kernel
def keep_one_key_of_each_group(entries: Any, count: int, groups: Any, group_of_name: Any, is_kept: Any) -> None:
    """Choose one key of each group, and mark its entry as kept in `is_kept`.

    The function chooses the first key of the group that is already kept, otherwise the first key of the group. The
    chosen entry receives the group's GROUP_NEWEST_VALUE_OFFSET as its NEWEST_VALUE_OFFSET.

    `is_kept` has a bool for each of the first `count` entries. `groups` (columns: layout.py) has a row for each group
    with an entry. `group_of_name` has the number of the group's row for each name.
    """
    for group in range(len(groups)):
        groups[group, _CHOSEN_ENTRY] = -1
    for entry in range(count):
        group = group_of_name[entries[entry, NAME_AND_PARTITION] >> PARTITION_BITS]
        if groups[group, _CHOSEN_ENTRY] < 0 or (is_kept[entry] and not is_kept[groups[group, _CHOSEN_ENTRY]]):
            groups[group, _CHOSEN_ENTRY] = entry
    for group in range(len(groups)):
        is_kept[groups[group, _CHOSEN_ENTRY]] = True
        entries[groups[group, _CHOSEN_ENTRY], NEWEST_VALUE_OFFSET] = groups[group, GROUP_NEWEST_VALUE_OFFSET]


@kernel
def copy_key_texts(
    entries: Any, count: int, names: Any, new_name_numbers: Any, new_names: Any, arena: Any, new_arena: Any
) -> tuple[int, int]:
    """Copy the names and the metadata of the first `count` entries to a new arena.

    Return the number of copied names, and the number of used bytes in the new arena. `new_name_numbers` receives the
    new number of each name that an entry uses. Before the call, all elements of `new_name_numbers` must be -1.
    """
    end = 0
    name_count = 0
    for entry in range(count):
        name = entries[entry, NAME_AND_PARTITION] >> PARTITION_BITS
        if new_name_numbers[name] < 0:
            new_name_numbers[name] = name_count
            new_names[name_count, NAME_TEXT], end = copy_text(names[name, NAME_TEXT], arena, new_arena, end)
            name_count += 1
        partition = entries[entry, NAME_AND_PARTITION] & PARTITION_MASK
        entries[entry, NAME_AND_PARTITION] = new_name_numbers[name] << PARTITION_BITS | partition
        entries[entry, METADATA], end = copy_text(entries[entry, METADATA], arena, new_arena, end)
    return name_count, end


@kernel
def copy_text(reference: int, arena: Any, new_arena: Any, end: int) -> tuple[int, int]:
    """Copy the bytes of a text reference to position `end` of a new arena.

    Return the text reference in the new arena, and the position after the copied bytes.
    """
    start = reference >> SIZE_BITS
    size = reference & SIZE_MASK
    for step in range(size):
        new_arena[end + step] = arena[start + step]
    return (end << SIZE_BITS | size) if size else np.int64(0), end + size
