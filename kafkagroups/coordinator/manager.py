"""The classic coordinator's cache and log: load and unload partitions; store, fetch and delete records and offsets.

The coordinator answers requests from `groups` (Kafka's groupMetadataCache), and reads the offsets topic only when it
loads a partition. A change that must survive a crash is first appended to the log and then made in the cache.

Simpler than Kafka: a load has finished when `load_partition` returns.
Source: GroupMetadataManager.scala (3.9; tag 1.0.1 where the version matters).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kafkagroups.coordinator import group_store, messages
from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.group_store import AnswerCommit, GroupStore, Producer
from kafkagroups.coordinator.logs import NewBatch, OffsetsLogs
from kafkagroups.coordinator.messages import Errors
from kafkagroups.coordinator.settings import Settings
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.expiration import find_expired_offsets
from kafkagroups.groups.group import ClassicState, Group
from kafkagroups.groups.living_groups import ClassicGroup, LivingGroup, build_classic_group
from kafkagroups.groups.map_orders import java_map_order
from kafkagroups.groups.offsets import ReadOnlyOffsets, TopicPartition
from kafkagroups.groups.replay import fold_batches
from kafkagroups.loading.load import ClassicCache
from kafkagroups.log.batch import NO_PRODUCER_ID
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.wire import utf16_length

logger = logging.getLogger("kafkagroups.coordinator")


class GroupMetadataManager(GroupStore):
    """The groups of the partitions that this broker owns, in one cache for all partitions.

    - `groups`: the groups, by id.
    - `open_groups`: for each producer id, the ids of the groups that have offsets in the producer's open transaction.
    """

    def __init__(self, settings: Settings, logs: OffsetsLogs, clock: Clock) -> None:
        super().__init__(settings, logs, clock)
        self.groups: dict[str, ClassicGroup] = {}
        self.open_groups: dict[int, set[str]] = {}

    def find_group(self, group_id: str) -> ClassicGroup | None:
        return self.groups.get(group_id)

    def add_group(self, group: ClassicGroup) -> ClassicGroup:
        return self.groups.setdefault(group.group_id, group)

    def end_join(self, group: ClassicGroup, **options: Any) -> None:
        """Do nothing: a refused JoinGroup leaves a group in the cache, and no record."""

    def current_groups(self) -> list[ClassicGroup]:
        return [self.groups[group_id] for group_id in java_map_order(self.groups)]

    def complete_transaction(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        marked_partitions = set(partitions)
        for group_id in sorted(self.open_groups.get(producer_id, ())):
            if self.partition_for(group_id) not in marked_partitions:
                continue
            group = self.groups.get(group_id)
            if group is not None and group.state is not ClassicState.DEAD:
                group.offsets.end_transaction(producer_id, commits=commits, kafka=self.settings.version)
                self.close_transaction(producer_id, group_id)

    def close_transaction(self, producer_id: int, group_id: str) -> None:
        group_ids = self.open_groups.get(producer_id, set())
        group_ids.discard(group_id)
        if not group_ids:
            self.open_groups.pop(producer_id, None)

    def _load(self, partition: int) -> None:
        """Read the log as `kafkagroups.load` does. If this fails, `ClassicCache.add` (loading/load.py) decides which
        groups are then in the cache.
        """
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
        logger.info("Finished loading offsets and group metadata from __consumer_offsets-%d", partition)

    def _unload(self, partition: int) -> None:
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

    # Storing

    def store_group(
        self, group: ClassicGroup, assignments: Mapping[str, bytes], complete: Callable[[Errors], None]
    ) -> None:
        partition = self.partition_for(group.group_id)
        if self.logs.magic(partition) is None:
            complete(Errors.NOT_COORDINATOR)
            return
        record = encode(self.build_group_record(group, assignments))
        self.logs.append(
            partition,
            NewBatch([record], self.clock.now_ms),
            lambda error, _: complete(messages.convert_group_append_error(error)),
        )

    def store_offsets(
        self, group: LivingGroup, offsets: ReadOnlyOffsets, complete: AnswerCommit, producer: Producer
    ) -> None:
        """Store a commit as pending, append its records as one batch, and call `complete` when the append is answered.

        After the append, the offsets become committed in the cache; those of a transaction stay pending until its
        marker is written. `complete` receives an error for each partition:

        - OFFSET_METADATA_TOO_LARGE if the metadata exceeds the limit, counted in UTF-16 units. The others are written.
        - NOT_COORDINATOR if the partition of the offsets topic is not on this broker.
        - UNSUPPORTED_FOR_MESSAGE_FORMAT if the log has batch format 0 or 1 and the commit is in a transaction.
        - If the append fails, the error that `convert_commit_append_error` returns.
        """
        assert isinstance(group, ClassicGroup)
        producer_id, _ = producer
        if group.offsets.has_plain_commit and group.offsets.has_transactional_commit:
            logger.warning(
                "group: %s has received offset commits from consumers as well as transactional producers.",
                group.group_id,
            )
        limit = self.settings.offset_metadata_max_bytes
        valid_offsets = {
            partition: offset for partition, offset in offsets.items() if utf16_length(offset.metadata) <= limit
        }
        is_transactional = producer_id != NO_PRODUCER_ID
        log_partition = self.partition_for(group.group_id)
        magic = self.logs.magic(log_partition)

        def answer(error: Errors) -> None:
            too_large = Errors.OFFSET_METADATA_TOO_LARGE
            complete({partition: error if partition in valid_offsets else too_large for partition in offsets})

        if not valid_offsets:  # Every partition gets OFFSET_METADATA_TOO_LARGE.
            answer(Errors.NONE)
            return
        if magic is None:
            complete(dict.fromkeys(offsets, Errors.NOT_COORDINATOR))
            return
        if is_transactional and magic < 2:
            complete(dict.fromkeys(offsets, Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT))
            return

        def complete_append(error: Errors, first_offset: int) -> None:
            is_stored = error is Errors.NONE
            changed_offsets = {} if group.state is ClassicState.DEAD else valid_offsets
            # Kafka checks this before it removes the pending offsets.
            if changed_offsets and not is_stored and producer_id not in group.offsets.transactions:
                self.close_transaction(producer_id, group.group_id)
            for partition, offset in changed_offsets.items():
                if is_stored and is_transactional:
                    group.offsets.complete_txn_append(producer_id, partition, offset, first_offset)
                elif is_stored:
                    group.offsets.complete(partition, offset, first_offset)
                elif is_transactional:
                    group.offsets.fail_txn_commit(producer_id, partition)
                else:
                    group.offsets.drop_pending(partition, offset)
            answer(messages.convert_commit_append_error(error, verifies_transactions=self.settings.is_at_least(3, 7)))

        # Up to 3.7 Kafka also stores the offsets whose metadata is too large as pending. These offsets stay pending.
        prepared_offsets = valid_offsets if self.settings.is_at_least(3, 8) else offsets
        if is_transactional:
            self.open_groups.setdefault(producer_id, set()).add(group.group_id)
            group.offsets.prepare_txn_commit(producer_id, prepared_offsets)
        else:
            group.offsets.prepare(prepared_offsets)
        records = [
            encode(self.build_offset_record(group.group_id, partition, offset))
            for partition, offset in valid_offsets.items()
        ]
        batch = NewBatch.of_coordinator(records, self.clock.now_ms, *producer)
        self.logs.append(log_partition, batch, complete_append)

    # Fetching

    def find_offsets(self, group_id: str) -> group_store.OffsetsAndPending:
        group = self.groups.get(group_id)
        if group is None or group.state is ClassicState.DEAD:
            return group_store.NO_OFFSETS
        return group.offsets.committed, group.offsets.is_unstable

    # Deleting

    def delete_groups(self, groups: Sequence[LivingGroup]) -> Sequence[Record]:
        """Delete Empty groups and their offsets. The records are appended here, so there are none to return."""
        classic_groups = [group for group in groups if isinstance(group, ClassicGroup)]
        for group in classic_groups:
            group.transition_to(ClassicState.DEAD, self.clock.now_ms)
        self.delete_offsets_and_empty_groups(classic_groups, lambda group: list(group.offsets.committed))
        return ()

    def delete_offsets(self, group: LivingGroup, partitions: Sequence[TopicPartition]) -> Sequence[Record]:
        if partitions and isinstance(group, ClassicGroup):
            self.delete_offsets_and_empty_groups([group], lambda _: partitions)
        return ()

    def delete_partitions(self, partitions: Collection[TopicPartition], topic_ids: Mapping[str, str]) -> int:
        return self.delete_offsets_and_empty_groups(self.current_groups(), lambda _: partitions)

    def delete_expired(self) -> int:
        now_ms = self.clock.now_ms
        retention_ms = self.settings.offsets_retention_ms

        def find_expired(group: ClassicGroup) -> list[TopicPartition]:
            return find_expired_offsets(group, group.offsets.committed, group.offsets.pending, now_ms, retention_ms)

        return self.delete_offsets_and_empty_groups(self.current_groups(), find_expired, is_expiration=True)

    def delete_offsets_and_empty_groups(
        self,
        groups: Iterable[ClassicGroup],
        select: Callable[[ClassicGroup], Collection[TopicPartition]],
        *,
        is_expiration: bool = False,
    ) -> int:
        """Delete the offsets that `select` returns for each group, each Empty group without offsets, and Dead groups;
        return the number of tombstones of offsets.

        For each group, one batch is appended: the tombstones of committed offsets, then that of the group's record. A
        group with generation 0 has no record. With `is_expiration`, pending commits stay.
        """
        removed_count = 0
        start_ms = self.clock.now_ms
        for group in groups:
            remove = group.offsets.expire if is_expiration else group.offsets.remove
            removed_partitions = remove(select(group))
            if group.state is ClassicState.EMPTY and not group.offsets:
                logger.info("Group %s transitioned to Dead in generation %d", group.group_id, group.generation)
                group.transition_to(ClassicState.DEAD, self.clock.now_ms)
            if self.logs.magic(self.partition_for(group.group_id)) is None:
                continue
            deletes_group = self._remove_dead_group(group)
            is_appended = self._append_tombstones(group, removed_partitions, deletes_group=deletes_group)
            removed_count += len(removed_partitions) if is_appended else 0
        has_expired_offsets = is_expiration and removed_count > 0
        if has_expired_offsets or self.settings.is_before(2, 0):
            logger.info("Removed %d expired offsets in %d milliseconds.", removed_count, self.clock.now_ms - start_ms)
        return removed_count

    def _remove_dead_group(self, group: ClassicGroup) -> bool:
        if group.state is not ClassicState.DEAD or self.groups.get(group.group_id) is not group:
            return False
        del self.groups[group.group_id]
        for timer in group.pending_members.values():
            timer.cancel()
        return True

    def _append_tombstones(
        self, group: ClassicGroup, partitions: Iterable[TopicPartition], *, deletes_group: bool
    ) -> bool:
        group_id = group.group_id
        records = [encode(group_store.build_offset_tombstone(group_id, partition)) for partition in partitions]
        if deletes_group and group.generation > 0:
            records.append(encode(group_store.build_group_tombstone(group_id)))
        errors: list[Errors] = []
        if records:
            batch = NewBatch(records, self.clock.now_ms)
            self.logs.append(self.partition_for(group_id), batch, lambda error, _: errors.append(error))
        return not any(errors)
