"""The parts of groups and orphans. `Groups` builds the objects from these parts.

`Groups` (loading/groups.py) is the result of a load. It builds a group when a caller uses the group, because most
callers use only a few groups. An orphan is the offsets of a group that the coordinator does not have.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.groups.group import GroupRecord
from kafkagroups.groups.modern_group import AnyGroup, copy_group
from kafkagroups.groups.offsets import OffsetAndMetadata, Orphan, PartitionOffsets, ReadOnlyOffsets, TopicPartition


class GroupParts(NamedTuple):
    """The parts from which a group is built.

    `group` has no offsets yet. A GroupRecord is a group whose record is not decoded yet. `offsets` are the group's
    committed offsets. `pending` contains the offsets of open transactions; the keys are producer ids.
    """

    group: AnyGroup | GroupRecord
    offsets: ReadOnlyOffsets
    pending: dict[int, PartitionOffsets]

    def decode_group(self) -> AnyGroup:
        """Return the group itself, not a copy, and without its offsets. The caller must not change the group."""
        return self.group.decode() if isinstance(self.group, GroupRecord) else self.group

    def build(self) -> AnyGroup:
        """Return a copy of the group with its offsets. The caller may change the copy."""
        group = self.group.decode() if isinstance(self.group, GroupRecord) else copy_group(self.group)
        group.offsets = _copy_offsets(self.offsets)
        group.pending = _copy_pending(self.pending)
        return group


class OrphanParts(NamedTuple):
    """The parts from which an orphan is built.

    `offsets` and `pending` have the same meaning as in GroupParts. `partition` is the partition of the offsets topic
    whose log contains them; None if the name of the log's folder has no number.
    """

    offsets: ReadOnlyOffsets
    pending: dict[int, PartitionOffsets]
    partition: int | None

    def build(self) -> Orphan:
        """Return a copy of the orphan. The caller may change the copy."""
        return Orphan(_copy_offsets(self.offsets), _copy_pending(self.pending), self.partition)


def _copy_offsets(offsets: ReadOnlyOffsets) -> PartitionOffsets:
    """Copy offsets in the order of the log, because the two engines store the offsets in different orders."""
    return dict(sorted(offsets.items(), key=_log_order))


def _log_order(entry: tuple[TopicPartition, OffsetAndMetadata]) -> tuple[int, TopicPartition]:
    partition, offset = entry
    return offset.record_offset, partition


def _copy_pending(pending: dict[int, PartitionOffsets]) -> dict[int, PartitionOffsets]:
    """Copy pending commits, in ascending order of the producer ids."""
    return {producer_id: _copy_offsets(pending[producer_id]) for producer_id in sorted(pending)}
