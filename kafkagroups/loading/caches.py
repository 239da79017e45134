"""A coordinator's cache: adds the shards of its partitions and decides which groups it knows.

The cache keeps what it needs to build a group. `Groups` builds it when somebody asks for it (groups.py).
Source: GroupMetadataManager.doLoadGroupsAndOffsets (3.9), CoordinatorRuntime, GroupCoordinatorShard.onLoaded (4.3.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from kafkagroups.errors import LoadFailed
from kafkagroups.groups.classic_shard import ClassicShard, keeps_offsets_apart
from kafkagroups.groups.group import Group, GroupRecord
from kafkagroups.groups.modern import check_loaded
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup, copy_group
from kafkagroups.groups.offsets import KnownOffsets, Orphan, PartitionOffsets, pending_by_group
from kafkagroups.groups.shard import Shard
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.versions import Dialect


class GroupParts(NamedTuple):
    """What a known group is built from. `group` has no offsets yet, and may still be a record."""

    group: AnyGroup | GroupRecord
    offsets: KnownOffsets
    pending: dict[int, PartitionOffsets]

    def decode_group(self) -> AnyGroup:
        """Return the group; it may have no offsets. Do not change it."""
        return self.group.decode() if isinstance(self.group, GroupRecord) else self.group

    def build(self) -> AnyGroup:
        """Return an independent group: the caller may change it, and the cache and the shard stay unchanged."""
        group = self.group.decode() if isinstance(self.group, GroupRecord) else copy_group(self.group)
        group.offsets = dict(self.offsets)
        group.pending = {producer: dict(offsets) for producer, offsets in self.pending.items()}
        return group


class OrphanParts(NamedTuple):
    """What an orphan is built from."""

    offsets: KnownOffsets
    pending: dict[int, PartitionOffsets]

    def build(self) -> Orphan:
        """Return an independent orphan."""
        pending = {producer: dict(offsets) for producer, offsets in self.pending.items()}
        return Orphan(dict(self.offsets), pending)


class Cache(ABC):
    """What a coordinator holds in memory. Add its partitions in ascending order."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.groups: dict[str, GroupParts] = {}
        self.orphans: dict[str, OrphanParts] = {}
        self.named: dict[str, list[int | None]] = {}
        """The partitions in which each group has records."""

    def add(self, shard: Shard) -> None:
        """Add a partition; this is the last step of its load. The shard is not changed.

        Raise LoadFailed or BadBytes if that broker's load of the partition fails. The cache is then as that broker's.
        """
        for group_id in shard.names:
            partitions = self.named.setdefault(group_id, [])
            if shard.partition not in partitions:
                partitions.append(shard.partition)
        self._add(shard)

    @abstractmethod
    def _add(self, shard: Shard) -> None: ...


class ClassicCache(Cache):
    """The cache of the classic coordinator: one for all partitions. A group that is in it stays."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._keeps_offsets_apart = keeps_offsets_apart(dialect)
        self._offsets: dict[str, PartitionOffsets] = {}
        """The offsets of all partitions, up to Kafka 0.10.0."""

    def _add(self, shard: Shard) -> None:
        assert isinstance(shard, ClassicShard)
        if self._keeps_offsets_apart:
            self._add_offsets(shard)
        if shard.failure is not None:
            raise shard.failure
        committed = self._offsets if self._keeps_offsets_apart else shard.offsets.committed
        pending = pending_by_group(shard.offsets)
        simple = [] if self._keeps_offsets_apart and self.dialect.since(0, 9) else [*committed, *_pending_ids(shard)]
        for group_id in dict.fromkeys([*shard.groups, *simple]):
            if group_id not in self.groups:
                group = shard.groups.get(group_id)
                if group is None:
                    group = Group(group_id, shard.partition)
                offsets = committed.get(group_id, {})
                self.groups[group_id] = GroupParts(group, offsets, pending.get(group_id, {}) if simple else {})
        if self._keeps_offsets_apart:
            for group_id in self._offsets.keys() & self.groups.keys():
                self.groups[group_id] = self.groups[group_id]._replace(offsets=self._offsets[group_id])
        for group_id in shard.removed_groups:
            if group_id in self.groups and (self._keeps_offsets_apart or group_id not in committed):
                raise LoadFailed(f"Unexpected unload of active group {group_id!r}")

    def _add_offsets(self, shard: ClassicShard) -> None:
        """Add the offsets to those of all partitions. They become known before the load ends, even if it fails."""
        merged = {group_id: dict(offsets) for group_id, offsets in self._offsets.items()}
        for group_id, partition in shard.removed_offsets:
            merged.get(group_id, {}).pop(partition, None)
        for group_id, offsets in shard.offsets.committed.items():
            merged.setdefault(group_id, {}).update(offsets)
        self._offsets = {group_id: offsets for group_id, offsets in merged.items() if offsets}
        self.orphans = {group_id: OrphanParts(offsets, {}) for group_id, offsets in self._offsets.items()}


class NewCache(Cache):
    """The cache of the new coordinator: each partition has separate groups and offsets.

    A group in several partitions is answered from the first one that knows it. If the topic's partition count is
    given, a group is answered from its home partition only.
    """

    def __init__(self, dialect: Dialect, partitions: int | None = None) -> None:
        super().__init__(dialect)
        self._partitions = partitions

    def _add(self, shard: Shard) -> None:
        if shard.failure is not None:
            raise shard.failure
        for group in shard.groups.values():
            if isinstance(group, ModernGroup):
                check_loaded(group)
        committed = shard.offsets.committed
        pending = pending_by_group(shard.offsets)
        for group_id in dict.fromkeys([*shard.groups, *committed, *_pending_ids(shard)]):
            if group_id in self.groups or not self._answers(group_id, shard.partition):
                continue
            offsets = committed.get(group_id, {})
            known = shard.groups.get(group_id)
            if known is None:
                self.orphans.setdefault(group_id, OrphanParts(offsets, pending.get(group_id, {})))
                continue
            if isinstance(known, ModernGroup) and known.type == "share":
                # A broker answers a share group without offsets, whatever was committed under its name.
                offsets = {}
            self.groups[group_id] = GroupParts(known, offsets, pending.get(group_id, {}))
            self.orphans.pop(group_id, None)

    def _answers(self, group_id: str, partition: int | None) -> bool:
        """Return whether a group is answered from this partition. A log without a number counts as its home."""
        if self._partitions is None or partition is None:
            return True
        return partition_for(group_id, self._partitions) == partition


def empty_cache(dialect: Dialect, partitions: int | None = None) -> Cache:
    """Return the cache of a coordinator that has read nothing."""
    return ClassicCache(dialect) if dialect.coordinator == "classic" else NewCache(dialect, partitions)


def _pending_ids(shard: Shard) -> list[str]:
    return [group_id for groups in shard.offsets.pending.values() for group_id in groups]
