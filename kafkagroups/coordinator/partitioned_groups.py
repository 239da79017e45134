"""The new coordinator's groups: commits, fetches, deletions and the expiration as handlers of each partition's runtime.

Joins and rebalances are those of the classic coordinator (membership.py, rebalance.py), which change a classic group in
memory and write its record.
Source: GroupCoordinatorShard.java, OffsetMetadataManager.java, GroupMetadataManager.java (4.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from kafkagroups.coordinator.clock import Clock, Timer
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.group_records import (
    OFFSET_RECORD_TYPE,
    build_group_deletion,
    build_group_tombstones,
    build_modern_tombstones,
    build_offset_tombstone,
    order_offsets,
)
from kafkagroups.coordinator.group_store import (
    NO_OFFSETS,
    NO_PRODUCER,
    GroupStore,
    OffsetsAndPending,
    Producer,
    Result,
    ignore_refusal,
    is_empty,
)
from kafkagroups.coordinator.logs import OffsetsLogs
from kafkagroups.coordinator.messages import CommitErrors, ResponseFuture
from kafkagroups.coordinator.runtime import PartitionRuntime
from kafkagroups.coordinator.settings import Settings
from kafkagroups.groups.classic_group import Cancellable, ClassicGroup
from kafkagroups.groups.expiration import find_expired_offsets
from kafkagroups.groups.living_shard import LivingGroup, LivingShard
from kafkagroups.groups.map_orders import java_map_order, timeline_map_order, topic_partition_hash
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.records.serde import Record
from kafkagroups.records.wire import utf16_length

T = TypeVar("T")


class PartitionedGroups(GroupStore):
    def __init__(self, settings: Settings, logs: OffsetsLogs, clock: Clock) -> None:
        super().__init__(settings, logs, clock)
        self.runtimes: dict[int, PartitionRuntime] = {}
        self._due: list[Timer] = []

    # Partitions

    def find_runtime(self, group_id: str) -> PartitionRuntime:
        """Return the runtime of the group's partition, which is inactive if this broker does not lead it."""
        partition = self.partition_for(group_id)
        return self.runtimes.get(partition) or PartitionRuntime(partition, self)

    def is_loaded(self, partition: int) -> bool:
        """If the load failed, this broker owns the partition, but does not have its groups."""
        return partition in self.runtimes and self.runtimes[partition].is_active

    def _load(self, partition: int) -> None:
        self.runtimes[partition] = PartitionRuntime(partition, self)
        self.runtimes[partition].load()

    def _unload(self, partition: int) -> None:
        if partition in self.runtimes:
            self.runtimes.pop(partition).unload()

    def _all_groups(self) -> Iterator[LivingGroup]:
        for runtime in self.runtimes.values():
            yield from runtime.shard.groups.values()

    # Groups

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        return {group.group_id: group for group in self._all_groups() if isinstance(group, ClassicGroup)}

    def find_group(self, group_id: str) -> LivingGroup | None:
        group: LivingGroup | None = self.find_runtime(group_id).shard.groups.get(group_id)
        return group

    def remove_empty_group(self, group: ModernGroup) -> Sequence[Record]:
        self.find_runtime(group.group_id).shard.remove_group(group.group_id)
        return build_modern_tombstones(group)

    def current_modern_groups(self) -> list[ModernGroup]:
        return [group for group in self._all_groups() if isinstance(group, ModernGroup)]

    def add_group(self, group: ClassicGroup) -> ClassicGroup:
        existing_group = self.get_group(group.group_id)
        if existing_group is None:
            self.find_runtime(group.group_id).shard.add_group(group)
        return existing_group or group

    def current_groups(self) -> list[ClassicGroup]:
        groups = self.groups
        return [groups[group_id] for group_id in timeline_map_order(groups)]

    @contextmanager
    def committed(self) -> Iterator[None]:
        with ExitStack() as stack:
            for runtime in self.runtimes.values():
                stack.enter_context(runtime.shard.committed())
            yield

    def append_records(self, partition: int, records: Sequence[Record]) -> None:
        self.runtimes[partition].write(lambda shard: Result(None, records), ignore_refusal)

    # Joins

    def after(
        self, group: ClassicGroup, delay_ms: int, action: Callable[[], None], *, is_in_join: bool = False
    ) -> Cancellable:
        """Run the action after a delay, if the group still exists then: a failed append can remove it.

        Without a delay, an action for a JoinGroup runs after it, because the record of a new group comes first.
        """

        def run() -> None:
            if self.get_group(group.group_id) is group:
                action()

        if delay_ms > 0 or not is_in_join:
            return self.clock.after(delay_ms, run)
        due = Timer(self.clock.now_ms, 0, run)
        self._due.append(due)
        return due

    def end_join(
        self,
        group: ClassicGroup,
        *,
        is_new: bool,
        refuse: Callable[[Errors], None],
        tombstones: Sequence[Record] = (),
    ) -> None:
        """Append an Empty record if the JoinGroup created the group. Then run the actions that are due.

        Without this record, the group of a refused JoinGroup would exist only until the next load. If the append fails,
        the group is gone, and a JoinGroup that still waits gets the error.
        """
        if is_new:
            empty_group = self.build_group(group.group_id)
            empty_group.state_timestamp = group.state_timestamp

            def complete(error: Errors) -> None:
                if error is not Errors.NONE:
                    refuse(error)

            record = self.build_group_record(empty_group, {})
            self.find_runtime(group.group_id).append_group_records([*tombstones, record], complete)
        due, self._due = self._due, []
        for timer in due:
            if timer.action is not None:
                timer.action()

    def store_group(
        self, group: ClassicGroup, assignments: Mapping[str, bytes], complete: Callable[[Errors], None]
    ) -> None:
        record = self.build_group_record(group, assignments)
        self.find_runtime(group.group_id).append_group_records([record], complete)

    def write(
        self, group_id: str, handler: Callable[[], Result[T]], refuse: Callable[[Errors, str | None], T]
    ) -> ResponseFuture[T]:
        return self.find_runtime(group_id).write(lambda shard: handler(), refuse)

    # Offsets

    def store_offsets(
        self,
        group: LivingGroup,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        complete: Callable[[CommitErrors], None],
        producer: Producer = NO_PRODUCER,
    ) -> None:
        limit = self.settings.offset_metadata_max_bytes

        def commit(shard: LivingShard) -> Result[CommitErrors]:
            errors = {
                partition: Errors.OFFSET_METADATA_TOO_LARGE if utf16_length(offset.metadata) > limit else Errors.NONE
                for partition, offset in offsets.items()
            }
            records = [
                self.build_offset_record(group.group_id, partition, offset)
                for partition, offset in offsets.items()
                if errors[partition] is Errors.NONE
            ]
            return Result(errors, records)

        def refuse(error: Errors, message: str | None) -> CommitErrors:
            return dict.fromkeys(offsets, error)

        self.find_runtime(group.group_id).write(commit, refuse, producer).then(complete)

    def complete_transaction(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        for partition in partitions:
            runtime = self.runtimes.get(partition)
            if runtime is not None and runtime.is_active:
                runtime.complete_transaction(producer_id, commits=commits)

    def find_offsets(self, group_id: str) -> OffsetsAndPending:
        shard = self.find_runtime(group_id).shard
        if group_id not in shard.groups:
            return NO_OFFSETS
        pending = shard.offsets.producers_by_group_partition
        return shard.offsets.committed.get(group_id, {}), lambda partition: (group_id, partition) in pending

    # Deletions

    def split_by_partition(self, group_ids: Sequence[str]) -> list[Sequence[str]]:
        ids_by_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            ids_by_partition.setdefault(self.partition_for(group_id), []).append(group_id)
        return [ids_by_partition[partition] for partition in java_map_order(ids_by_partition, _partition_hash)]

    def delete_groups(self, groups: Sequence[LivingGroup]) -> Sequence[Record]:
        return [
            record
            for group in groups
            for record in build_group_deletion(self.find_runtime(group.group_id).shard, group.group_id)
        ]

    def delete_offsets(self, group: LivingGroup, partitions: Sequence[TopicPartition]) -> Sequence[Record]:
        committed, is_pending = self.find_offsets(group.group_id)
        deleted = [partition for partition in partitions if partition in committed or is_pending(partition)]
        return [build_offset_tombstone(group.group_id, partition) for partition in deleted]

    def delete_partitions(self, partitions: Collection[TopicPartition], topic_ids: Mapping[str, str]) -> int:
        """The groups stay, and so does an offset that was committed for another topic of this name."""

        def build(groups: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]) -> list[Record]:
            return [
                build_offset_tombstone(group_id, partition)
                for group_id, offsets in groups.items()
                for partition in partitions
                if partition in offsets and offsets[partition].topic_id in (None, topic_ids.get(partition.topic))
            ]

        def build_all(shard: LivingShard) -> tuple[int, list[Record]]:
            committed = build(shard.offsets.committed)
            pending = [record for groups in shard.offsets.pending.values() for record in build(groups)]
            return len(committed), [*committed, *pending]

        return self._delete_everywhere(build_all)

    def delete_expired(self) -> int:
        def build_all(shard: LivingShard) -> tuple[int, list[Record]]:
            group_ids = timeline_map_order(shard.groups)
            records = [record for group_id in group_ids for record in self._build_expiration(shard, group_id)]
            return sum(record.type == OFFSET_RECORD_TYPE for record in records), records

        return self._delete_everywhere(build_all)

    def _delete_everywhere(self, build: Callable[[LivingShard], tuple[int, list[Record]]]) -> int:
        counts = []

        def delete(shard: LivingShard) -> Result[None]:
            count, records = build(shard)
            counts.append(count)
            return Result(None, records, is_atomic=False)

        for runtime in self.runtimes.values():
            runtime.write(delete, ignore_refusal)
        return sum(counts)

    def _build_expiration(self, shard: LivingShard, group_id: str) -> list[Record]:
        """Return the tombstones of a group's expired offsets, and of the group if it is Empty and has no others."""
        group = shard.groups[group_id]
        committed = shard.offsets.committed.get(group_id, {})
        pending = shard.offsets.pending_partitions(group_id)
        expired = find_expired_offsets(group, committed, pending, self.clock.now_ms, self.settings.offsets_retention_ms)
        records = [build_offset_tombstone(group_id, partition) for partition in order_offsets(expired)]
        if is_empty(group) and len(expired) == len(committed) and not pending:
            records += build_group_tombstones(group)
        return records


def _partition_hash(partition: int) -> int:
    return topic_partition_hash(("__consumer_offsets", partition))
