"""Kernels of the table of keys: find or make a key's entry, rehash, drop dead keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.intrinsics import copy, prefetch
from kafkagroups.kernels.layout import (
    AHEAD,
    ARENA,
    BATCH,
    ENTRIES,
    HASH_OF_NAME,
    LIVE,
    NAME,
    NAMES,
    NEWEST,
    NOTE,
    PARTITION,
    PLACE,
    RECORD,
    SEEN,
    SIZE,
)
from kafkagroups.kernels.scan import int16, int32, is_plain_text, same_text, short_hash

STEP = 9
"""The distance to the next slot if one is taken. It leads to another cache line: if one line is full, its neighbours
often are full too."""


@inlined
def key_hash(name: int, partition: int) -> int:
    """Hash a name's hash and a partition. Eight partitions in a row share a cache line: they are used together."""
    mixed = (np.uint64(name) ^ np.uint64(partition >> 3)) * np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    place = (mixed >> np.uint64(58)) + np.uint64(partition) & np.uint64(7)
    return np.int64(mixed << np.uint64(3) | place)


@inlined
def entry_of(data: Any, hashed: int, before: int, key: int, size: int, tables: Any) -> int:
    """Return the entry of a key; make it if the key is new. Return -1 for a key that is not plain text.

    `size` is the size of its name. It is negative if the row before has the same name, whose number is `before`.
    """
    counts = tables.counts
    slots = tables.slots
    entries = tables.entries
    names = tables.names
    mask = len(slots) - 1
    tag = _tag(hashed)
    slot = hashed & mask
    partition = int32(data, key + abs(size)) & PARTITION
    found = np.int64(-1)
    while slots[slot] >= 0:
        if slots[slot] >> 32 == tag:
            entry = slots[slot] & 0x7FFFFFFF
            known = entries[entry, NAME]
            if size < 0:
                is_same = known == before << 32 | partition
            else:
                place = names[known >> 32, PLACE]
                is_same = known & PARTITION == partition and place & SIZE == size
                is_same = is_same and same_text(data, key, tables.arena, place >> 20, size)
            if is_same:
                found = entry
                break
        slot = slot + STEP & mask
    if found < 0:
        name = before if size < 0 else _find_name(data, key, size, tables)
        if name >= 0:
            found = counts[ENTRIES]
            counts[ENTRIES] += 1
            slots[slot] = tag << 32 | found
            _new_entry(name << 32 | partition, found, tables)
    return found


@inlined
def _tag(hashed: int) -> int:
    """Return the part of a hash that a slot stores. It mixes both halves: neighbours have similar upper halves."""
    return (hashed >> 32 ^ hashed) & 0x7FFFFFFF


@kernel
def _find_name(data: Any, key: int, size: int, tables: Any) -> int:
    """Return the number of a name; add the name if it is new. Return -1 if it is not plain text."""
    counts = tables.counts
    names = tables.names
    slots = tables.name_slots
    arena = tables.arena
    hashed = short_hash(data, key, size)
    slot = hashed & len(slots) - 1
    while slots[slot] >= 0:
        if slots[slot] >> 32 == _tag(hashed):
            name = slots[slot] & 0x7FFFFFFF
            place = names[name, PLACE]
            if place & SIZE == size and same_text(data, key, arena, place >> 20, size):
                return name
        slot = slot + 1 & len(slots) - 1
    group = int16(data, key)
    topic = key + 2 + group
    if not is_plain_text(data, key + 2, group) or not is_plain_text(data, topic + 2, int16(data, topic)):
        return -1
    name = counts[NAMES]
    place = counts[ARENA]
    copy(data, key, arena, place, size)
    counts[NAMES] += 1
    counts[ARENA] += size
    names[name, PLACE] = place << 20 | size
    names[name, HASH_OF_NAME] = hashed
    slots[slot] = _tag(hashed) << 32 | name
    return name


@kernel
def _new_entry(key: int, entry: int, tables: Any) -> None:
    entries = tables.entries
    for column in range(8):
        entries[entry, column] = 0
    entries[entry, SEEN] = -1
    entries[entry, NAME] = key
    entries[entry, RECORD] = -1
    entries[entry, BATCH] = -1
    tables.tombstones[entry] = -1


@kernel
def rehash(entries: Any, count: int, names: Any, slots: Any) -> None:
    """Fill empty slots with all entries."""
    mask = len(slots) - 1
    for step in range(count + AHEAD):
        if step < count:
            prefetch(slots, _hash_of(entries[step, NAME], names) & mask)
        entry = step - AHEAD
        if entry < 0:
            continue
        hashed = _hash_of(entries[entry, NAME], names)
        slot = hashed & mask
        while slots[slot] >= 0:
            slot = slot + STEP & mask
        slots[slot] = _tag(hashed) << 32 | entry


@inlined
def _hash_of(key: int, names: Any) -> int:
    return key_hash(names[key >> 32, HASH_OF_NAME], np.int64(np.int32(key & PARTITION)))


@kernel
def rehash_names(names: Any, count: int, arena: Any, slots: Any) -> None:
    """Fill empty slots with all names, and give each name its hash."""
    mask = len(slots) - 1
    for name in range(count):
        place = names[name, PLACE]
        hashed = short_hash(arena, place >> 20, place & SIZE)
        slot = hashed & mask
        while slots[slot] >= 0:
            slot = slot + 1 & mask
        slots[slot] = _tag(hashed) << 32 | name
        names[name, HASH_OF_NAME] = hashed


@kernel
def want_one_of_each_group(entries: Any, count: int, groups: Any, group_of: Any, wanted: Any) -> None:
    """Make at least one entry of each group wanted. One wanted entry gets the offset of the group's newest record.

    `group_of` has the group of each name.
    """
    for group in range(len(groups)):
        groups[group, LIVE] = -1
    for entry in range(count):
        group = group_of[entries[entry, NAME] >> 32]
        if groups[group, LIVE] < 0 or (wanted[entry] and not wanted[groups[group, LIVE]]):
            groups[group, LIVE] = entry
    for group in range(len(groups)):
        wanted[groups[group, LIVE]] = True
        entries[groups[group, LIVE], SEEN] = groups[group, NEWEST]


@kernel
def copy_texts(
    entries: Any, count: int, names: Any, numbers: Any, new_names: Any, old: Any, new: Any
) -> tuple[int, int]:
    """Copy names and metadata of entries from the old arena to the new one.

    Return the number of names and the end of the new arena. `numbers` is -1 for each old name, and gets the new number.
    """
    end = 0
    used = 0
    for entry in range(count):
        name = entries[entry, NAME] >> 32
        if numbers[name] < 0:
            numbers[name] = used
            new_names[used, PLACE], end = move_text(names[name, PLACE], old, new, end)
            used += 1
        entries[entry, NAME] = numbers[name] << 32 | (entries[entry, NAME] & PARTITION)
        entries[entry, NOTE], end = move_text(entries[entry, NOTE], old, new, end)
    return used, end


@kernel
def move_text(text: int, old: Any, new: Any, end: int) -> tuple[int, int]:
    """Copy a text to the end of the new arena. Return its new place and the new end."""
    place = text >> 20
    size = text & SIZE
    for at in range(size):
        new[end + at] = old[place + at]
    return (end << 20 | size) if size else np.int64(0), end + size
