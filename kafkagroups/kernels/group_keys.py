"""Kernels that find the group of each key, and the keys of each group that have an offset."""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.layout import GROUP_PLACE, GROUP_SIZE, LIVE, NAME, NEWEST, PLACE, RECORD, SEEN
from kafkagroups.kernels.scan import int16, same_text, short_hash


@kernel
def group_keys(
    entries: Any, count: int, names: Any, many: int, arena: Any, slots: Any, groups: Any, group_of: Any
) -> int:
    """Fill `group_of` (a group for each name) and `groups`. Return the number of groups. `slots` are all -1."""
    found = 0
    mask = len(slots) - 1
    for name in range(many):
        place = names[name, PLACE] >> 20
        length = int16(arena, place)
        place += 2
        slot = short_hash(arena, place, length) & mask
        while slots[slot] >= 0:
            group = slots[slot]
            if groups[group, GROUP_SIZE] == length and same_text(
                arena, place, arena, groups[group, GROUP_PLACE], length
            ):
                break
            slot = slot + 1 & mask
        group = slots[slot]
        if group < 0:
            group = found
            slots[slot] = group
            groups[group, GROUP_PLACE] = place
            groups[group, GROUP_SIZE] = length
            groups[group, NEWEST] = -1
            groups[group, LIVE] = 0
            found += 1
        group_of[name] = group
    for entry in range(count):
        group = group_of[entries[entry, NAME] >> 32]
        if entries[entry, SEEN] > groups[group, NEWEST]:
            groups[group, NEWEST] = entries[entry, SEEN]
        groups[group, LIVE] += entries[entry, RECORD] >= 0
    return found


@kernel
def sort_live(entries: Any, count: int, group_of: Any, ends: Any, order: Any) -> None:
    """Put the entries that have an offset into `order`, group by group. `ends` has each start, and then each end."""
    for entry in range(count):
        if entries[entry, RECORD] >= 0:
            group = group_of[entries[entry, NAME] >> 32]
            order[ends[group]] = entry
            ends[group] += 1
