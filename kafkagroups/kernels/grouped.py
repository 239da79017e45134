"""Which group each key of a fold belongs to, compiled; and a group's offsets, made when somebody looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition
from kafkagroups.kernels import layout
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.layout import NAME, RECORD, SEEN
from kafkagroups.kernels.scan import int16, same_text, short_hash

if TYPE_CHECKING:
    from kafkagroups.kernels.state import Fold

PLACE, LENGTH, NEWEST, LIVE = range(4)
"""A group: its name's bytes in the arena, its newest record with a value (-1: none), how many keys have an offset."""


@kernel
def group_keys(
    entries: Any, count: int, names: Any, many: int, arena: Any, slots: Any, groups: Any, group_of: Any
) -> int:
    """Fills `group_of` (a group for each name) and `groups`; gives how many groups there are. `slots` are all -1."""
    found = 0
    mask = len(slots) - 1
    for name in range(many):
        place = names[name, layout.PLACE] >> 20
        length = int16(arena, place)
        place += 2
        slot = short_hash(arena, place, length) & mask
        while slots[slot] >= 0:
            group = slots[slot]
            if groups[group, LENGTH] == length and same_text(arena, place, arena, groups[group, PLACE], length):
                break
            slot = slot + 1 & mask
        group = slots[slot]
        if group < 0:
            group = found
            slots[slot] = group
            groups[group, PLACE], groups[group, LENGTH], groups[group, NEWEST] = place, length, -1
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
    """Puts the entries that have an offset into `order`; `ends` moves from where each group begins to where it ends."""
    for entry in range(count):
        if entries[entry, RECORD] >= 0:
            group = group_of[entries[entry, NAME] >> 32]
            order[ends[group]] = entry
            ends[group] += 1


class KeptOffsets(Mapping[TopicPartition, OffsetAndMetadata]):
    """The committed offsets of one group: these entries of a fold, read once when somebody looks."""

    def __init__(self, fold: Fold, entries: np.ndarray[Any, Any]) -> None:
        self.fold, self.entries = fold, entries
        self._offsets: PartitionOffsets | None = None

    def __getitem__(self, partition: TopicPartition) -> OffsetAndMetadata:
        return self._all()[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._all(),)

    def _all(self) -> PartitionOffsets:
        if self._offsets is None:
            self._offsets = self.fold.offsets(self.entries)
        return self._offsets
