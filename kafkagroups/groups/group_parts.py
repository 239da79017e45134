"""The parts from which `Groups` builds groups and orphans, and what a broker answers from them.

`Groups` (loading/groups.py) is the result of a load. An orphan is the offsets of a group that the coordinator does not
have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkagroups.groups.group import GroupRecord
from kafkagroups.groups.modern_group import AnyGroup, copy_group
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import OffsetAndMetadata, Orphan, PartitionOffsets, ReadOnlyOffsets, TopicPartition


class GroupParts(NamedTuple):
    """The parts from which a group is built: the group without offsets, or its record, which is not decoded yet, and
    its offsets.
    """

    group: AnyGroup | GroupRecord
    offsets: ReadOnlyOffsets
    pending: dict[int, PartitionOffsets]

    def decode_group(self) -> AnyGroup:
        """Return the group itself, not a copy, and without its offsets."""
        return self.group.decode() if isinstance(self.group, GroupRecord) else self.group

    def build(self) -> AnyGroup:
        """Return a copy of the group with its offsets."""
        group = self.group.decode() if isinstance(self.group, GroupRecord) else copy_group(self.group)
        group.offsets = _copy_offsets(self.offsets)
        group.pending = _copy_pending(self.pending)
        return group


class OrphanParts(NamedTuple):
    """The parts from which an orphan is built."""

    offsets: ReadOnlyOffsets
    pending: dict[int, PartitionOffsets]
    partition: int | None
    is_answered: bool = False

    def build(self) -> Orphan:
        return Orphan(_copy_offsets(self.offsets), _copy_pending(self.pending), self.partition, self.is_answered)


def _copy_offsets(offsets: ReadOnlyOffsets) -> PartitionOffsets:
    """Copy offsets in the order of the log, because the two engines store the offsets in different orders."""
    return dict(sorted(offsets.items(), key=_log_order))


def _log_order(entry: tuple[TopicPartition, OffsetAndMetadata]) -> tuple[int, TopicPartition]:
    partition, offset = entry
    return offset.record_offset, partition


def _copy_pending(pending: dict[int, PartitionOffsets]) -> dict[int, PartitionOffsets]:
    return {producer_id: _copy_offsets(pending[producer_id]) for producer_id in sorted(pending)}


class Answer(NamedTuple):
    """The fates of a group's newest records in one partition, after all partitions are loaded.

    `has_read` says whether the coordinator has used the partition's records of the group.
    """

    committed: Fate
    pending: Fate
    records: Fate
    has_read: bool


_NOT_USED = Answer(Fate.IGNORED, Fate.IGNORED, Fate.IGNORED, has_read=False)
_KNOWN = Answer(Fate.WINS, Fate.PENDING, Fate.WINS, has_read=True)
_WITHOUT_OFFSETS = Answer(Fate.IGNORED, Fate.PENDING, Fate.WINS, has_read=True)
_ORPHAN = Answer(Fate.HIDDEN, Fate.PENDING, Fate.IGNORED, has_read=True)
_ANSWERED_ORPHAN = Answer(Fate.WINS, Fate.PENDING, Fate.IGNORED, has_read=True)
_OTHER_ORPHAN = Answer(Fate.IGNORED, Fate.IGNORED, Fate.IGNORED, has_read=True)


class Answers:
    """The answers after a load."""

    def __init__(self, groups: Mapping[str, GroupParts], orphans: Mapping[str, OrphanParts]) -> None:
        self._groups = groups
        self._orphans = orphans

    def find(self, group_id: str, partition: int | None) -> Answer:
        known = self._groups.get(group_id)
        if known is not None:
            if known.group.partition != partition:
                return _NOT_USED
            # A broker returns no offsets of a share group, even if offsets were committed for its id.
            return _KNOWN if known.offsets else _WITHOUT_OFFSETS
        orphan = self._orphans.get(group_id)
        if orphan is None:
            return _NOT_USED
        if orphan.partition != partition:
            return _OTHER_ORPHAN
        return _ANSWERED_ORPHAN if orphan.is_answered else _ORPHAN
