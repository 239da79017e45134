"""The cache of groups and offsets: who is in it, how a partition of the topic comes into it and leaves it.

Whoever asks is answered from `groups` (groupMetadataCache); the topic is read only when a partition is loaded.

Simpler than Kafka: no threads, so a load is over when `load_partition` returns; whoever wants to be asked in between
puts the partition into `loading`.
Source: GroupMetadataManager.scala (3.9).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.logs import OffsetsLogs
from kafkagroups.coordinator.settings import Settings
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.classic_group import ClassicGroup, living
from kafkagroups.groups.fold import fold_batches
from kafkagroups.groups.group import Group
from kafkagroups.groups.map_orders import java_map_order
from kafkagroups.groups.states import ClassicState
from kafkagroups.loading.caches import ClassicCache
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.versions import dialect

logger = logging.getLogger("kafkagroups.coordinator")


class GroupCache:
    """`owned` and `loading` are partitions of the offsets topic, `open_groups` the groups of each open transaction."""

    def __init__(self, settings: Settings, logs: OffsetsLogs, clock: Clock) -> None:
        self.settings, self.logs, self.clock = settings, logs, clock
        self.groups: dict[str, ClassicGroup] = {}
        self.owned: set[int] = set()
        self.loading: set[int] = set()
        self.open_groups: dict[int, set[str]] = {}
        self.epochs: dict[int, int] = {}
        self.rules = dialect("classic", settings.kafka)

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.settings.offsets_topic_num_partitions)

    def is_local(self, group_id: str) -> bool:
        return self.partition_for(group_id) in self.owned

    def is_loading(self, group_id: str) -> bool:
        return self.partition_for(group_id) in self.loading

    def not_exists(self, group_id: str) -> bool:
        """Whether it is ours to know the group, and there is none or a Dead one."""
        group = self.groups.get(group_id)
        return self.is_local(group_id) and (group is None or group.state is ClassicState.DEAD)

    def get_group(self, group_id: str) -> ClassicGroup | None:
        """The group; None when no request has made it and no load brought it."""
        return self.groups.get(group_id)

    def get_or_create(self, group_id: str) -> ClassicGroup:
        """The group, or a new Empty one: nothing is written for it yet."""
        return self.add_group(ClassicGroup(group_id, self.settings.version, self.clock.now_ms))

    def add_group(self, group: ClassicGroup) -> ClassicGroup:
        """Puts the group there unless one of its name is there; gives the one that is."""
        return self.groups.setdefault(group.group_id, group)

    def current_groups(self) -> list[ClassicGroup]:
        """All groups, in the order of Kafka's map."""
        return [self.groups[group_id] for group_id in java_map_order(self.groups)]

    def complete_transaction(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """A marker of the producer is in these partitions of the offsets topic: what waits in their groups is decided.

        A group that moved away meanwhile is decided by its new coordinator, from the log.
        """
        ended = set(partitions)
        for group_id in sorted(self.open_groups.get(producer_id, ())):
            if self.partition_for(group_id) not in ended:
                continue
            group = self.groups.get(group_id)
            if group is not None and group.state is not ClassicState.DEAD:
                group.offsets.end_transaction(producer_id, commits=commits, kafka=self.settings.version)
                self.close_transaction(producer_id, group_id)

    def close_transaction(self, producer_id: int, group_id: str) -> None:
        groups = self.open_groups.get(producer_id, set())
        groups.discard(group_id)
        if not groups:
            self.open_groups.pop(producer_id, None)

    def load_partition(
        self, partition: int, epoch: int = 0, loaded: Callable[[ClassicGroup], None] = lambda group: None
    ) -> None:
        """Reads the partition's log into the cache, as `kg.load` does; `loaded` hears of each group of it.

        A coordinator epoch below the newest one of the partition is ignored, a partition that is owned is not loaded
        again. A load that fails leaves what it had put into the cache and owns the partition, as Kafka does.
        """
        if self._is_old(partition, epoch) or partition in self.owned:
            return
        self.loading.add(partition)
        cache = ClassicCache(self.rules)
        try:
            cache.add(fold_batches(partition, self.logs.read(partition), self.rules))
        except (BadBytes, LoadFailed) as error:
            logger.error("Error loading offsets from __consumer_offsets-%d: %s", partition, error)
        for parts in cache.groups.values():
            group = parts.build()
            assert isinstance(group, Group)
            for producer in group.pending:
                self.open_groups.setdefault(producer, set()).add(group.group_id)
            loaded(self.add_group(living(group, self.settings.version, self.clock.now_ms)))
        self.owned.add(partition)
        self.loading.discard(partition)
        logger.info("Finished loading offsets and group metadata from __consumer_offsets-%d", partition)

    def unload_partition(
        self, partition: int, epoch: int | None = None, unloaded: Callable[[ClassicGroup], None] = lambda group: None
    ) -> None:
        """Forgets the partition: `unloaded` ends each group's business, then it is gone. An old epoch is ignored."""
        if epoch is not None and self._is_old(partition, epoch):
            return
        self.owned.discard(partition)
        self.loading.discard(partition)
        offsets = groups = 0
        for group in [each for each in self.groups.values() if self.partition_for(each.group_id) == partition]:
            unloaded(group)
            del self.groups[group.group_id]
            for producer in list(self.open_groups):
                self.close_transaction(producer, group.group_id)
            offsets, groups = offsets + len(group.offsets.committed), groups + 1
        logger.info("Finished unloading __consumer_offsets-%d. Removed %d cached offsets and %d cached groups.",
                    partition, offsets, groups)  # fmt: skip

    def _is_old(self, partition: int, epoch: int) -> bool:
        newest = self.epochs[partition] = max(epoch, self.epochs.get(partition, epoch))
        return epoch < newest
