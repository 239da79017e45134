"""The keys of a fold: found, or made, in an open-addressed table."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.grouped import LIVE, NEWEST
from kafkagroups.kernels.intrinsics import copy, prefetch
from kafkagroups.kernels.layout import (
    AHEAD,
    ARENA,
    BATCH,
    ENTRIES,
    HASH_OF_NAME,
    NAME,
    NAMES,
    NOTE,
    PARTITION,
    PLACE,
    RECORD,
    SEEN,
    SIZE,
)
from kafkagroups.kernels.scan import int16, int32, is_plain_text, same_text, short_hash

STEP = 9
"""From a slot that is taken to the next: in another cache line, for what fills a line would fill much of the next."""


@inlined
def key_hash(name: int, partition: int) -> int:
    """Of a name's hash and a partition. Eight partitions in a row share a cache line of slots: they come together."""
    mixed = (np.uint64(name) ^ np.uint64(partition >> 3)) * np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    place = (mixed >> np.uint64(58)) + np.uint64(partition) & np.uint64(7)
    return np.int64(mixed << np.uint64(3) | place)


@inlined
def entry_of(data: Any, hashed: int, before: int, key: int, size: int, tables: Any) -> int:
    """The entry of a key, made when there is none; -1 for a key that is no plain text.

    `size` is its name's, or negative, where the name is that of the row before.
    """
    counts, slots, entries, names = tables.counts, tables.slots, tables.entries, tables.names
    mask = len(slots) - 1
    tag = _tag(hashed)
    slot = hashed & mask
    partition = int32(data, key + abs(size)) & PARTITION
    found = np.int64(-1)
    while slots[slot] >= 0:
        if slots[slot] >> 32 == tag:
            entry = slots[slot] & 0x7FFFFFFF
            there = entries[entry, NAME]
            if size < 0:
                is_same = there == before << 32 | partition
            else:
                place = names[there >> 32, PLACE]
                is_same = there & PARTITION == partition and place & SIZE == size
                is_same = is_same and same_text(data, key, tables.arena, place >> 20, size)
            if is_same:
                found = entry
                break
        slot = slot + STEP & mask
    if found < 0:
        name = before if size < 0 else _name_of(data, key, size, tables)
        if name >= 0:
            found = counts[ENTRIES]
            counts[ENTRIES] += 1
            slots[slot] = tag << 32 | found
            _new_entry(name << 32 | partition, found, tables)
    return found


@inlined
def _tag(hashed: int) -> int:
    """What a slot has of a hash: both halves, since neighbours' upper halves are alike."""
    return (hashed >> 32 ^ hashed) & 0x7FFFFFFF


@kernel
def _name_of(data: Any, key: int, size: int, tables: Any) -> int:
    """The number of a name, a new one where there is none; -1: it is no plain text."""
    counts, names, slots, arena = tables.counts, tables.names, tables.name_slots, tables.arena
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
    name, place = counts[NAMES], counts[ARENA]
    copy(data, key, arena, place, size)
    counts[NAMES] += 1
    counts[ARENA] += size
    names[name, PLACE], names[name, HASH_OF_NAME] = place << 20 | size, hashed
    slots[slot] = _tag(hashed) << 32 | name
    return name


@kernel
def _new_entry(key: int, entry: int, tables: Any) -> None:
    entries = tables.entries
    for column in range(8):
        entries[entry, column] = 0
    entries[entry, SEEN], entries[entry, NAME] = -1, key
    entries[entry, RECORD], entries[entry, BATCH] = -1, -1
    tables.tombs[entry] = -1


@kernel
def rehash(entries: Any, count: int, names: Any, slots: Any) -> None:
    """Fills empty slots with all entries."""
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
def name_again(names: Any, count: int, arena: Any, slots: Any) -> None:
    """Fills empty slots with all names, which get their hashes."""
    mask = len(slots) - 1
    for name in range(count):
        place = names[name, PLACE]
        hashed = short_hash(arena, place >> 20, place & SIZE)
        slot = hashed & mask
        while slots[slot] >= 0:
            slot = slot + 1 & mask
        slots[slot], names[name, HASH_OF_NAME] = _tag(hashed) << 32 | name, hashed


@kernel
def keep_one(entries: Any, count: int, groups: Any, group_of: Any, wanted: Any) -> None:
    """Makes wanted one entry of each group that has none; and one wanted entry carries the group's newest record.

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
    """Copies names and metadata of entries from one arena to the other; how many names there are, and its end.

    `numbers`, -1 for each old name, gets their new ones.
    """
    end, used = 0, 0
    for entry in range(count):
        name = entries[entry, NAME] >> 32
        if numbers[name] < 0:
            numbers[name] = used
            new_names[used, PLACE], end = moved(names[name, PLACE], old, new, end)
            used += 1
        entries[entry, NAME] = numbers[name] << 32 | (entries[entry, NAME] & PARTITION)
        entries[entry, NOTE], end = moved(entries[entry, NOTE], old, new, end)
    return used, end


@kernel
def moved(text: int, old: Any, new: Any, end: int) -> tuple[int, int]:
    """A text's place in the other arena, and the position after it."""
    place, size = text >> 20, text & SIZE
    for at in range(size):
        new[end + at] = old[place + at]
    return (end << 20 | size) if size else np.int64(0), end + size
