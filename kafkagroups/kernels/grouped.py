"""Which group each key of a fold belongs to, compiled; and a group's offsets, made when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition
from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.events import same_text, short_hash
from kafkagroups.kernels.layout import NAME, SEEN
from kafkagroups.kernels.scan import int16

PLACE, LENGTH, NEWEST = range(3)
"""A group: its name's bytes in the arena, and its newest record with a value (-1: none)."""


@kernel
def group_keys(entries: Any, count: int, arena: Any, slots: Any, groups: Any, group_of: Any) -> int:
    """Fills `group_of` (a group for each entry) and `groups`; gives how many groups there are. `slots` are all -1."""
    found = 0
    mask = len(slots) - 1
    for entry in range(count):
        place = entries[entry, NAME] >> 20
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
            found += 1
        group_of[entry] = group
        if entries[entry, SEEN] > groups[group, NEWEST]:
            groups[group, NEWEST] = entries[entry, SEEN]
    return found


class KeptOffsets(Mapping[TopicPartition, OffsetAndMetadata]):
    """The committed offsets of one group. `read` makes them, once."""

    def __init__(self, count: int, read: Callable[[], PartitionOffsets]) -> None:
        self._count = count
        self._read = read
        self._offsets: PartitionOffsets | None = None

    def __getitem__(self, partition: TopicPartition) -> OffsetAndMetadata:
        return self._all()[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._all())

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self._all(),)

    def _all(self) -> PartitionOffsets:
        if self._offsets is None:
            self._offsets = self._read()
        return self._offsets
