"""The keys of a fold: found, or made, in an open-addressed table."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import inlined, kernel
from kafkagroups.kernels.grouped import LIVE, NEWEST
from kafkagroups.kernels.intrinsics import copy, prefetch
from kafkagroups.kernels.layout import AHEAD, ARENA, BATCH, ENTRIES, NAME, NOTE, RECORD, SEEN, SIZE
from kafkagroups.kernels.scan import hash_bytes, int16, is_plain_text, same_bytes


@inlined
def entry_of(
    data: Any,
    hashed: int,
    key: int,
    size: int,
    mask: int,
    counts: Any,
    slots: Any,
    entries: Any,
    tombs: Any,
    arena: Any,
) -> int:
    """The entry of a key, made when there is none; -1 for a key that is no plain text."""
    tag = hashed >> 32 & 0x7FFFFFFF
    slot = hashed & mask
    found = np.int64(-1)
    while slots[slot] >= 0:
        if slots[slot] >> 32 == tag:
            entry = slots[slot] & 0x7FFFFFFF
            name = entries[entry, NAME]
            if name & SIZE == size and same_bytes(data, key, arena, name >> 20, size):
                found = entry
                break
        slot = slot + 1 & mask
    if found < 0 and _is_key_plain(data, key):
        found = counts[ENTRIES]
        counts[ENTRIES] += 1
        slots[slot] = tag << 32 | found
        _new_entry(data, key, size, found, counts, entries, tombs, arena)
    return found


@kernel
def _is_key_plain(data: Any, key: int) -> bool:
    group = int16(data, key)
    topic = key + 2 + group
    return is_plain_text(data, key + 2, group) and is_plain_text(data, topic + 2, int16(data, topic))


@kernel
def _new_entry(data: Any, key: int, size: int, entry: int, counts: Any, entries: Any, tombs: Any, arena: Any) -> None:
    place = counts[ARENA]
    copy(data, key, arena, place, size)
    counts[ARENA] += size
    for column in range(8):
        entries[entry, column] = 0
    entries[entry, SEEN], entries[entry, NAME] = -1, place << 20 | size
    entries[entry, RECORD], entries[entry, BATCH] = -1, -1
    tombs[entry] = -1


@inlined
def _hash_of(entries: Any, entry: int, arena: Any) -> int:
    name = entries[entry, NAME]
    return hash_bytes(arena, name >> 20, name & SIZE)


@kernel
def rehash(entries: Any, count: int, arena: Any, slots: Any) -> None:
    """Fills empty slots with all entries."""
    mask = len(slots) - 1
    for step in range(count + AHEAD):
        if step < count:
            prefetch(slots, _hash_of(entries, step, arena) & mask)
        entry = step - AHEAD
        if entry < 0:
            continue
        hashed = _hash_of(entries, entry, arena)
        slot = hashed & mask
        while slots[slot] >= 0:
            slot = slot + 1 & mask
        slots[slot] = (hashed >> 32 & 0x7FFFFFFF) << 32 | entry


@kernel
def keep_one(entries: Any, count: int, groups: Any, group_of: Any, wanted: Any) -> None:
    """Makes wanted one entry of each group that has none; and one wanted entry carries the group's newest record."""
    for group in range(len(groups)):
        groups[group, LIVE] = -1
    for entry in range(count):
        group = group_of[entry]
        if groups[group, LIVE] < 0 or (wanted[entry] and not wanted[groups[group, LIVE]]):
            groups[group, LIVE] = entry
    for group in range(len(groups)):
        wanted[groups[group, LIVE]] = True
        entries[groups[group, LIVE], SEEN] = groups[group, NEWEST]


@kernel
def copy_texts(entries: Any, count: int, old: Any, new: Any, end: int) -> int:
    """Copies keys and metadata of entries from one arena to the other, from `end` on; the position after them."""
    for entry in range(count):
        for column in (NAME, NOTE):
            entries[entry, column], end = moved(entries[entry, column], old, new, end)
    return end


@kernel
def moved(text: int, old: Any, new: Any, end: int) -> tuple[int, int]:
    """A text's place in the other arena, and the position after it."""
    place, size = text >> 20, text & SIZE
    for at in range(size):
        new[end + at] = old[place + at]
    return (end << 20 | size) if size else np.int64(0), end + size
