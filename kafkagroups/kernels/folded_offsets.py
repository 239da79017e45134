"""Offsets of a group that stay in the arrays of a compiled fold until they are read.

A fold is the state that the compiled engine keeps of one partition's log: arrays with the newest commits (layout.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition


class OffsetArrays(Protocol):
    """The arrays of a fold that contain offsets. layout.py describes them."""

    arena: Any
    entries: Any
    extras: Any
    names: Any

    def decode_offsets(self, entries: Any) -> PartitionOffsets:
        """Return the committed offsets of these entries. An entry is the number of a row in the array `entries`."""


class FoldedOffsets(Mapping[TopicPartition, OffsetAndMetadata]):
    """The committed offsets of one group, decoded when they are read. Pickling or copying makes a dict.

    Each read decodes all offsets of the group again, except `len`. `entries` has the number of an entry in `arrays` for
    each topic-partition of the group.
    """

    def __init__(self, arrays: OffsetArrays, entries: Any) -> None:
        self.arrays = arrays
        self.entries = entries

    def __getitem__(self, partition: TopicPartition) -> OffsetAndMetadata:
        return self.decode()[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.decode())

    def __len__(self) -> int:
        return len(self.entries)

    def items(self) -> Any:
        """Return the decoded items. With this method, `dict()` and comparisons decode the offsets only once."""
        return self.decode().items()

    def keys(self) -> Any:
        return self.decode().keys()

    def __repr__(self) -> str:
        return repr(self.decode())

    def __reduce__(self) -> tuple[type, tuple[PartitionOffsets]]:
        return dict, (self.decode(),)

    def decode(self) -> PartitionOffsets:
        """Return the offsets as a dict."""
        return self.arrays.decode_offsets(self.entries)
