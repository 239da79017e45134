"""From which partition a group is answered, and what this means for its records in one partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkagroups.groups.group_parts import GroupParts, OrphanParts
from kafkagroups.groups.observer import Fate


class Answer(NamedTuple):
    """The fates of a group's newest records in one partition, after all partitions are loaded.

    `committed` is the fate of committed offsets, `pending` of pending commits, and `records` of group records.
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
_OTHER_ORPHAN = Answer(Fate.IGNORED, Fate.IGNORED, Fate.IGNORED, has_read=True)


class Answers:
    """The answers after a load. `groups` and `orphans` are the parts of its result, by group id."""

    def __init__(self, groups: Mapping[str, GroupParts], orphans: Mapping[str, OrphanParts]) -> None:
        self._groups = groups
        self._orphans = orphans

    def find(self, group_id: str, partition: int | None) -> Answer:
        """Return the answer of a group for its records in a partition of the offsets topic."""
        known = self._groups.get(group_id)
        if known is not None:
            if known.group.partition != partition:
                return _NOT_USED
            # A broker returns no offsets of a share group, even if offsets were committed for its id.
            return _KNOWN if known.offsets else _WITHOUT_OFFSETS
        orphan = self._orphans.get(group_id)
        if orphan is None:
            return _NOT_USED
        return _ORPHAN if orphan.partition == partition else _OTHER_ORPHAN
