"""Kernels that find the group of each name, and list the keys that have a committed offset, group by group.

A key is a group, a topic and a partition. A name is a key without its partition. An entry is the row of a key in the
array `entries`. layout.py describes the arrays.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.hash_table import find_text, make_slot
from kafkagroups.kernels.layout import (
    ENTRIES,
    ENTRY_MASK,
    GROUP_NEWEST_VALUE_OFFSET,
    GROUP_TEXT,
    LIVE_KEYS,
    NAME_AND_PARTITION,
    NAME_TEXT,
    NAMES,
    NEWEST_VALUE_OFFSET,
    PARTITION_BITS,
    RECORD_OFFSET,
    SIZE_BITS,
)
from kafkagroups.kernels.scan import hash_bytes, load_int16


@kernel
def find_groups(tables: Any, slots: Any, groups: Any, group_of_name: Any) -> int:
    """Fill `groups` (columns: layout.py) and `group_of_name`, and return the number of groups.

    `group_of_name` receives, for each name, the number of the group's row in `groups`. `tables` are the arrays of the
    fold state. `slots` is working memory for a hash table of the groups. All its slots must be free (-1).
    """
    entries = tables.entries
    names = tables.names
    arena = tables.arena
    group_count = 0
    for name in range(tables.counts[NAMES]):
        # In the arena, the size of the group id (int16) is before its bytes.
        group_start = names[name, NAME_TEXT] >> SIZE_BITS
        group_size = load_int16(arena, group_start)
        group_start += 2
        group_hash = hash_bytes(arena, group_start, group_size, tables.secret)
        slot = find_text(arena, group_start, group_size, group_hash, slots, groups, arena)
        group = slots[slot] & ENTRY_MASK
        if slots[slot] < 0:
            group = group_count
            slots[slot] = make_slot(group_hash, group)
            groups[group, GROUP_TEXT] = group_start << SIZE_BITS | group_size
            groups[group, GROUP_NEWEST_VALUE_OFFSET] = -1
            groups[group, LIVE_KEYS] = 0
            group_count += 1
        group_of_name[name] = group
    # RECORD_OFFSET is -1 if the key has no committed offset.
    for entry in range(tables.counts[ENTRIES]):
        group = group_of_name[entries[entry, NAME_AND_PARTITION] >> PARTITION_BITS]
        if entries[entry, NEWEST_VALUE_OFFSET] > groups[group, GROUP_NEWEST_VALUE_OFFSET]:
            groups[group, GROUP_NEWEST_VALUE_OFFSET] = entries[entry, NEWEST_VALUE_OFFSET]
        groups[group, LIVE_KEYS] += entries[entry, RECORD_OFFSET] >= 0
    return group_count


@kernel
def sort_live_keys(entries: Any, entry_count: int, group_of_name: Any, ends: Any, sorted_entries: Any) -> None:
    """Fill `sorted_entries` with the numbers of the entries that have a committed offset, group by group.

    Before the call, `ends` must contain the index in `sorted_entries` where each group starts. The kernel moves each
    start to the group's end: the index after the last entry of the group.
    """
    for entry in range(entry_count):
        if entries[entry, RECORD_OFFSET] >= 0:
            group = group_of_name[entries[entry, NAME_AND_PARTITION] >> PARTITION_BITS]
            sorted_entries[ends[group]] = entry
            ends[group] += 1
