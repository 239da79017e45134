"""Offsets of a group that stay in the arrays of the compiled engine until they are read.

The compiled engine stores the newest commits of a log partition in arrays (layout.py). These arrays are the fold state
of the partition. An entry is the row of one group and topic-partition in the array `entries`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition


class OffsetArrays(Protocol):
    """The arrays of a fold state that contain offsets."""

    arena: Any
    entries: Any
    extras: Any
    names: Any

    def decode_offsets(self, entry_numbers: Any) -> PartitionOffsets:
        """Return the committed offsets of the entries (rows of `self.entries`) with these numbers."""


class FoldedOffsets(Mapping[TopicPartition, OffsetAndMetadata]):
    """The committed offsets of one group, which are decoded when they are read.

    Every operation except `len` decodes all offsets of the group again. A copy or a pickle of this object is a dict.
    `entry_numbers` contains the numbers of the group's entries.
    """

    def __init__(self, arrays: OffsetArrays, entry_numbers: Any) -> None:
        self.arrays = arrays
        self.entry_numbers = entry_numbers

    def __getitem__(self, partition: TopicPartition) -> OffsetAndMetadata:
        return self.decode()[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.decode())

    def __len__(self) -> int:
        return len(self.entry_numbers)

    def items(self) -> Any:
        """Return the decoded items. Without this method, `dict()` and comparisons would decode once per item."""
        return self.decode().items()

    def keys(self) -> Any:
        return self.decode().keys()

    def __repr__(self) -> str:
        return repr(self.decode())

    def __reduce__(self) -> tuple[type, tuple[PartitionOffsets]]:
        return dict, (self.decode(),)

    def decode(self) -> PartitionOffsets:
        """Return the offsets as a dict."""
        return self.arrays.decode_offsets(self.entry_numbers)
