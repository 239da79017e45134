"""The parts of a known group or an orphan, from which `Groups` builds it when it is first asked for."""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.groups.group import GroupRecord
from kafkagroups.groups.modern_group import AnyGroup, copy_group
from kafkagroups.groups.offsets import KnownOffsets, Orphan, PartitionOffsets


class GroupParts(NamedTuple):
    """The parts from which a group is built. `group` has no offsets yet, and may be a record that is not decoded."""

    group: AnyGroup | GroupRecord
    offsets: KnownOffsets
    pending: dict[int, PartitionOffsets]

    def decode_group(self) -> AnyGroup:
        """Return the group, perhaps without its offsets. The caller must not change it."""
        return self.group.decode() if isinstance(self.group, GroupRecord) else self.group

    def build(self) -> AnyGroup:
        """Return an independent group: the caller may change it, and the cache and the shard stay unchanged."""
        group = self.group.decode() if isinstance(self.group, GroupRecord) else copy_group(self.group)
        group.offsets = dict(sorted(self.offsets.items()))
        group.pending = _copy_pending(self.pending)
        return group


class OrphanParts(NamedTuple):
    """The parts from which an orphan is built."""

    offsets: KnownOffsets
    pending: dict[int, PartitionOffsets]

    def build(self) -> Orphan:
        """Return an independent orphan."""
        return Orphan(dict(sorted(self.offsets.items())), _copy_pending(self.pending))


def _copy_pending(pending: dict[int, PartitionOffsets]) -> dict[int, PartitionOffsets]:
    """Copy pending commits. Producers and partitions are sorted, because the engines store them in different orders."""
    return {producer: dict(sorted(pending[producer].items())) for producer in sorted(pending)}
