"""The cache of the classic coordinator: partitions are loaded into the cache and unloaded from it.

The coordinator answers requests from `groups` (Kafka's groupMetadataCache). It reads the offsets topic only when it
loads a partition.

Simpler than Kafka: a broker loads partitions in another thread, so requests can arrive during a load. In this package,
the load has finished when `load_partition` returns. A test can add a partition to `loading`: requests then get the
answers that a broker gives during a load.
Source: GroupMetadataManager.scala (3.9).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.group_store import GroupStore
from kafkagroups.coordinator.logs import OffsetsLogs
from kafkagroups.coordinator.settings import Settings
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.fold import fold_batches
from kafkagroups.groups.group import Group
from kafkagroups.groups.living_shard import build_classic_group
from kafkagroups.groups.map_orders import java_map_order
from kafkagroups.groups.states import ClassicState
from kafkagroups.loading.caches import ClassicCache
from kafkagroups.records.serde import Record

logger = logging.getLogger("kafkagroups.coordinator")


class GroupCache(GroupStore):
    """The groups of the partitions that this broker owns, in one cache for all partitions.

    - `groups`: the groups, by id.
    - `open_groups`: for each producer id, the ids of the groups that have offsets in the producer's open transaction.
    """

    def __init__(self, settings: Settings, logs: OffsetsLogs, clock: Clock) -> None:
        super().__init__(settings, logs, clock)
        self.groups: dict[str, ClassicGroup] = {}
        self.open_groups: dict[int, set[str]] = {}

    def get_group(self, group_id: str) -> ClassicGroup | None:
        return self.groups.get(group_id)

    def add_group(self, group: ClassicGroup) -> ClassicGroup:
        return self.groups.setdefault(group.group_id, group)

    def end_join(
        self,
        group: ClassicGroup,
        *,
        is_new: bool,
        refuse: Callable[[Errors], None],
        tombstones: Sequence[Record] = (),
    ) -> None:
        """Do nothing: a refused JoinGroup leaves a group in the cache, and no record."""

    def current_groups(self) -> list[ClassicGroup]:
        """Return all groups, in the order of Kafka's hash map."""
        return [self.groups[group_id] for group_id in java_map_order(self.groups)]

    def complete_transaction(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """Commit or abort the offsets in the producer's open transaction.

        A marker is the record that ends a transaction. `partitions` are the partitions of the offsets topic that
        contain the transaction's marker. Only groups in these partitions change.
        """
        marked_partitions = set(partitions)
        for group_id in sorted(self.open_groups.get(producer_id, ())):
            if self.partition_for(group_id) not in marked_partitions:
                continue
            group = self.groups.get(group_id)
            if group is not None and group.state is not ClassicState.DEAD:
                group.offsets.end_transaction(producer_id, commits=commits, kafka=self.settings.version)
                self.close_transaction(producer_id, group_id)

    def close_transaction(self, producer_id: int, group_id: str) -> None:
        """Remove the group from the producer's open transaction."""
        group_ids = self.open_groups.get(producer_id, set())
        group_ids.discard(group_id)
        if not group_ids:
            self.open_groups.pop(producer_id, None)

    def load_partition(self, partition: int, epoch: int = 0) -> None:
        """Read the partition's log into the cache, as `kafkagroups.load` does. Call `on_loaded` for each group.

        The call is ignored if this broker already owns the partition, or if `epoch` is older than the partition's
        newest coordinator epoch. If the load fails, the broker owns the partition anyway, as in Kafka.
        `ClassicCache.add` (loading/caches.py) decides which groups are then in the cache.
        """
        if not self.accept_epoch(partition, epoch) or partition in self.owned:
            return
        self.loading.add(partition)
        cache = ClassicCache(self.dialect)
        try:
            cache.add(fold_batches(partition, self.logs.read(partition), self.dialect))
        except (BadBytes, LoadFailed) as error:
            logger.error("Error loading offsets from __consumer_offsets-%d: %s", partition, error)
        for group_parts in cache.groups.values():
            group = group_parts.build()
            assert isinstance(group, Group)
            for producer_id in group.pending:
                self.open_groups.setdefault(producer_id, set()).add(group.group_id)
            self.on_loaded(self.add_group(build_classic_group(group, self.settings.version, self.clock.now_ms)))
        self.owned.add(partition)
        self.loading.discard(partition)
        logger.info("Finished loading offsets and group metadata from __consumer_offsets-%d", partition)

    def unload_partition(self, partition: int, epoch: int | None = None) -> None:
        """Call `on_unloaded` for each group of the partition, and remove the group from the cache.

        The call is ignored if `epoch` is older than the partition's newest coordinator epoch. With None, the call is
        never ignored.
        """
        if epoch is not None and not self.accept_epoch(partition, epoch):
            return
        self.owned.discard(partition)
        self.loading.discard(partition)
        groups = [group for group in self.groups.values() if self.partition_for(group.group_id) == partition]
        offset_count = 0
        for group in groups:
            self.on_unloaded(group)
            del self.groups[group.group_id]
            for producer_id in list(self.open_groups):
                self.close_transaction(producer_id, group.group_id)
            offset_count += len(group.offsets.committed)
        logger.info(
            "Finished unloading __consumer_offsets-%d. Removed %d cached offsets and %d cached groups.",
            partition,
            offset_count,
            len(groups),
        )
