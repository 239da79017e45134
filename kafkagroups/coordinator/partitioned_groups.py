"""The new coordinator's groups: each partition of the offsets topic is a state machine whose changes are records of its
log (`PartitionRuntime`), and commits, fetches, deletions and the expiration are its handlers (`PartitionedGroups`).

    request ──▶ handler(shard) ──▶ Result(response, records)
                                        │ records
                                        ▼
                 LivingShard.apply_new (the code that loads a log) ──▶ append ──▶ the log confirms ──▶ response

A handler reads the state, decides, and changes no hard state: the records that it returns do, and the same code applies
them in memory, after a restart and in a broker that takes over. The response waits until the log has confirmed the
records. A response without records waits for all records before it, because the handler has seen what they changed. A
failed append takes back what its records changed, and every request that waits for it gets the error. A request that
the handler refuses (Refusal) is answered at once.

A request that only reads looks at the state within `GroupStore.committed`, which shows what the log has confirmed. What
a new record changes is said in groups/modern_replay.py: nothing else applies it.

Classic groups are the exception, in Kafka as here: their joins and rebalances are those of the classic coordinator
(classic_requests.py, rebalance.py), which change members and state, plain memory, at once. `append_group_records`
writes their record without applying it (Kafka: replayRecords = false).

Simpler than Kafka: there are no threads, so an event is a call. Each write is a batch of its own, as it is for a client
that waits for each answer, so `append.linger.ms` has no effect.
Source: CoordinatorRuntime.java, SnapshottableCoordinator.java, GroupCoordinatorShard.java, OffsetMetadataManager.java,
GroupMetadataManager.java (4.3.1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from kafkagroups.coordinator import group_store
from kafkagroups.coordinator.clock import Clock, Timer
from kafkagroups.coordinator.group_store import NO_PRODUCER, AnswerCommit, GroupStore, Producer, Refuse, Result
from kafkagroups.coordinator.logs import NewBatch, OffsetsLogs, build_marker
from kafkagroups.coordinator.messages import CommitErrors, Errors, Refusal, ResponseFuture, convert_event_error
from kafkagroups.coordinator.settings import Settings
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.expiration import find_expired_offsets
from kafkagroups.groups.living_groups import Cancellable, ClassicGroup, LivingGroup, LivingShard
from kafkagroups.groups.map_orders import java_map_order, timeline_map_order, topic_partition_hash
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.modern_replay import check_loaded
from kafkagroups.groups.offsets import OffsetAndMetadata, ReadOnlyOffsets, TopicPartition
from kafkagroups.groups.replay import LogKeys, replay_batches
from kafkagroups.log.batch import Batch, parse_record_batch
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.wire import utf16_length

COMMIT_TIMEOUT_MS = 5_000
"""How long a response waits for the log (offsets.commit.timeout.ms). The records stay, and may be confirmed later."""

logger = logging.getLogger("kafkagroups.coordinator")
T = TypeVar("T")


@dataclass(eq=False)
class _Append:
    """A batch that the log has not confirmed. `waiting` are completed with NONE or an error."""

    base_offset: int
    next_offset: int
    waiting: list[ResponseFuture[Errors]] = field(default_factory=list)
    is_marker: bool = False

    def complete(self, error: Errors) -> None:
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            answer.complete(error)


class PartitionRuntime:
    """One partition of the offsets topic on the broker that leads it.

    `shard` is the state. `next_offset` is where the next batch will be in the log. If a load fails, the partition is
    not active: until the next election, every request gets NOT_COORDINATOR.
    """

    def __init__(self, partition: int, store: GroupStore) -> None:
        self.partition = partition
        self.store = store
        self.dialect = store.dialect
        self.clock = store.clock
        self.shard = LivingShard(partition, self.dialect)
        self.next_offset = 0
        self.is_active = False
        self._keys = LogKeys(self.dialect)
        self._unconfirmed: list[_Append] = []
        # The answer to the group record that the running handler has appended.
        self._group_answer: ResponseFuture[Errors] | None = None

    # Requests

    def write(
        self, handler: Callable[[LivingShard], Result[T]], refuse: Refuse[T], producer: Producer = NO_PRODUCER
    ) -> ResponseFuture[T]:
        """Handle a request that may write, and answer it when the log has confirmed all writes until then.

        `producer` is its id and epoch, if the records belong to a transaction.
        """
        if not self.is_active:
            return ResponseFuture.of(refuse(Errors.NOT_COORDINATOR, None))
        self.shard.now_ms = self.clock.now_ms
        # A response that the handler sends can bring the client's next request, which is handled meanwhile.
        outer_answer, self._group_answer = self._group_answer, None
        try:
            result = handler(self.shard)
        except Refusal as refusal:
            return ResponseFuture.of(refuse(refusal.error, refusal.message))
        finally:
            group_answer, self._group_answer = self._group_answer, outer_answer
        if result.records and result.is_atomic:
            answer = self._append(result.records, producer, applies=True)
        elif result.records:
            answer = self._append_in_parts(result.records)
        else:
            answer = group_answer or self._await_last_append()

        def respond(error: Errors) -> T:
            return result.response if error is Errors.NONE else refuse(convert_event_error(error), None)

        return answer.map(respond)

    def append_group_records(self, records: Sequence[Record], complete: Callable[[Errors], None]) -> None:
        """Append the record of a classic group whose members are in memory already, then call `complete`.

        Before it, there may be the tombstones of the group of another type that it replaces.
        """
        self._group_answer = self._append(records)
        self._group_answer.then(lambda error: complete(convert_event_error(error)))

    def complete_transaction(self, producer_id: int, *, commits: bool) -> None:
        self._apply(build_marker(producer_id, -1, commits=commits, timestamp=self.clock.now_ms))
        self._add_append(1, is_marker=True)
        self._confirm_markers()

    # The log

    def _append_in_parts(self, records: Sequence[Record]) -> ResponseFuture[Errors]:
        """Append the records as one batch, or as two if that is too large for the log, and so on.

        Simpler than Kafka, which fills each batch before it begins the next one.
        """

        def split(error: Errors) -> ResponseFuture[Errors]:
            if error is not Errors.MESSAGE_TOO_LARGE or len(records) == 1:
                return ResponseFuture.of(error)
            middle = len(records) // 2
            self._append_in_parts(records[:middle])
            return self._append_in_parts(records[middle:])

        return self._append(records, applies=True).bind(split)

    def _append(
        self, records: Sequence[Record], producer: Producer = NO_PRODUCER, *, applies: bool = False
    ) -> ResponseFuture[Errors]:
        encoded = [encode(record, self.dialect) for record in records]
        batch = NewBatch.of_coordinator(encoded, self.clock.now_ms, *producer)
        if not self.is_active or self.store.logs.magic(self.partition) is None:
            self.shard.revert(0)
            return ResponseFuture.of(Errors.NOT_COORDINATOR)
        if applies:
            try:
                self._apply(batch)
            except (LoadFailed, BadBytes) as error:
                logger.error("Replaying records to __consumer_offsets-%d failed due to: %s", self.partition, error)
                self.shard.revert(0)
                return ResponseFuture.of(Errors.UNKNOWN_SERVER_ERROR)
        append = self._add_append(len(records))
        answer = self._await(append)
        self.store.logs.append(self.partition, batch, partial(self._answer, append))
        return answer

    def _apply(self, batch: NewBatch) -> None:
        self.shard.apply_new(parse_record_batch(batch.encode(self.next_offset), 0), self._keys)

    def _await_last_append(self) -> ResponseFuture[Errors]:
        return self._await(self._unconfirmed[-1]) if self._unconfirmed else ResponseFuture.of(Errors.NONE)

    def _await(self, append: _Append) -> ResponseFuture[Errors]:
        answer: ResponseFuture[Errors] = ResponseFuture()
        append.waiting.append(answer)
        timer = self.clock.after(COMMIT_TIMEOUT_MS, partial(answer.complete, Errors.REQUEST_TIMED_OUT))
        answer.then(lambda error: timer.cancel())
        return answer

    def _add_append(self, record_count: int, *, is_marker: bool = False) -> _Append:
        append = _Append(self.next_offset, self.next_offset + record_count, is_marker=is_marker)
        self.shard.end_batch()
        self._unconfirmed.append(append)
        self.next_offset = append.next_offset
        return append

    def _answer(self, append: _Append, error: Errors, first_offset: int) -> None:
        """Handle the log's answer to an append.

        A replica that confirms a batch has all batches before it. After a timeout a batch in the log stays, because the
        log may still confirm it. Every other error takes back the batch and those after it, which were built on it.
        """
        if append not in self._unconfirmed:
            return
        if error is Errors.REQUEST_TIMED_OUT and first_offset == append.base_offset:
            append.complete(error)
        elif error is not Errors.NONE:
            self._fail(self._unconfirmed.index(append), error)
        elif first_offset != append.base_offset:
            logger.error("The state machine of __consumer_offsets-%d is out of sync with its log", self.partition)
            self.unload()
            self.load()
        else:
            self._confirm(self._unconfirmed.index(append) + 1)

    def _confirm(self, count: int) -> None:
        confirmed = self._unconfirmed[:count]
        del self._unconfirmed[:count]
        for _ in confirmed:
            self.shard.confirm()
        for append in confirmed:
            append.complete(Errors.NONE)
        self._confirm_markers()

    def _confirm_markers(self) -> None:
        """Confirm the markers that no unconfirmed batch precedes: they are in the log already."""
        while self._unconfirmed and self._unconfirmed[0].is_marker:
            self._confirm(1)

    def _fail(self, index: int, error: Errors) -> None:
        failed = self._unconfirmed[index:]
        del self._unconfirmed[index:]
        self.shard.revert(len(failed))
        self.next_offset = failed[0].base_offset
        for append in failed:
            append.complete(error)

    # Load and unload

    def load(self) -> None:
        self.shard = LivingShard(self.partition, self.dialect, now_ms=self.clock.now_ms)
        self.next_offset = 0
        replay_batches(self.shard, self._count(self.store.logs.read(self.partition)))
        try:
            if self.shard.failure is not None:
                raise self.shard.failure
            for group in self.shard.groups.values():
                if isinstance(group, ModernGroup):
                    check_loaded(group)
        except (BadBytes, LoadFailed) as error:
            logger.error("Failed to load metadata from __consumer_offsets-%d due to %s", self.partition, error)
            self.shard = LivingShard(self.partition, self.dialect)
            return
        self.is_active = True
        for group in list(self.shard.groups.values()):
            self.store.on_loaded(group)

    def unload(self) -> None:
        self.is_active = False
        waiting, self._unconfirmed = self._unconfirmed, []
        for append in waiting:
            append.complete(Errors.NOT_COORDINATOR)
        for group in list(self.shard.groups.values()):
            self.store.on_unloaded(group)

    def _count(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.next_offset = batch.next_offset
            yield batch


class PartitionedGroups(GroupStore):
    def __init__(self, settings: Settings, logs: OffsetsLogs, clock: Clock) -> None:
        super().__init__(settings, logs, clock)
        self.runtimes: dict[int, PartitionRuntime] = {}
        self.after_write: list[Callable[[], None]] = []
        """What is done after the request that is being handled."""
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
        return group_store.build_modern_tombstones(group)

    def add_group(self, group: ClassicGroup) -> ClassicGroup:
        existing_group = self.get_group(group.group_id)
        if existing_group is None:
            self.find_runtime(group.group_id).shard.add_group(group)
        return existing_group or group

    def current_groups(self) -> list[LivingGroup]:
        groups = self.groups
        modern_groups = [group for group in self._all_groups() if isinstance(group, ModernGroup)]
        return [*(groups[group_id] for group_id in timeline_map_order(groups)), *modern_groups]

    @contextmanager
    def committed(self) -> Iterator[None]:
        with ExitStack() as stack:
            for runtime in self.runtimes.values():
                stack.enter_context(runtime.shard.committed())
            yield

    def append_records(self, partition: int, records: Sequence[Record]) -> None:
        self.runtimes[partition].write(lambda shard: Result(None, records), group_store.ignore_refusal)

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
        self, group: ClassicGroup, *, is_new: bool, refuse: Callable[[Errors], object], tombstones: Sequence[Record]
    ) -> None:
        """Append an Empty record if the JoinGroup created the group. Then run the actions that are due.

        Without this record, the group of a refused JoinGroup would exist only until the next load. If the append fails,
        the group is gone, and `refuse` answers a JoinGroup that still waits. `tombstones` delete the group of another
        type that had this id.
        """
        if is_new:
            empty_group = self.build_group(group.group_id)
            empty_group.current_state_timestamp = group.current_state_timestamp

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

    def write(self, group_id: str, handler: Callable[[], Result[T]], refuse: Refuse[T]) -> ResponseFuture[T]:
        response = self.find_runtime(group_id).write(lambda shard: handler(), refuse)
        actions, self.after_write = self.after_write, []
        for act in actions:
            act()
        return response

    # Offsets

    def store_offsets(
        self, group: LivingGroup, offsets: ReadOnlyOffsets, complete: AnswerCommit, producer: Producer
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

    def find_offsets(self, group_id: str) -> group_store.OffsetsAndPending:
        """Return the group's committed offsets, and whether a partition has a pending commit."""
        shard = self.find_runtime(group_id).shard
        if group_id not in shard.groups:
            return group_store.NO_OFFSETS
        pending = shard.offsets.producers_by_group_partition
        return shard.offsets.committed.get(group_id, {}), lambda partition: (group_id, partition) in pending

    # Deletions

    def split_by_partition(self, group_ids: Sequence[str]) -> list[Sequence[str]]:
        ids_by_partition: dict[int, list[str]] = {}
        for group_id in group_ids:
            ids_by_partition.setdefault(self.partition_for(group_id), []).append(group_id)
        order = java_map_order(ids_by_partition, lambda number: topic_partition_hash(("__consumer_offsets", number)))
        return [ids_by_partition[partition] for partition in order]

    def delete_groups(self, groups: Sequence[LivingGroup]) -> Sequence[Record]:
        """Return the records that delete Empty groups of one partition, and their offsets."""
        return [
            record
            for group in groups
            for record in group_store.build_group_deletion(self.find_runtime(group.group_id).shard, group.group_id)
        ]

    def delete_offsets(self, group: LivingGroup, partitions: Sequence[TopicPartition]) -> Sequence[Record]:
        committed, is_pending = self.find_offsets(group.group_id)
        deleted = [partition for partition in partitions if partition in committed or is_pending(partition)]
        return [group_store.build_offset_tombstone(group.group_id, partition) for partition in deleted]

    def delete_partitions(self, partitions: Collection[TopicPartition], topic_ids: Mapping[str, str]) -> int:
        """The groups stay, and so does an offset that was committed for another topic of this name."""

        def build(groups: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]) -> list[Record]:
            return [
                group_store.build_offset_tombstone(group_id, partition)
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
            return sum(record.type == group_store.OFFSET_RECORD_TYPE for record in records), records

        return self._delete_everywhere(build_all)

    def _delete_everywhere(self, build: Callable[[LivingShard], tuple[int, list[Record]]]) -> int:
        counts = []

        def delete(shard: LivingShard) -> Result[None]:
            count, records = build(shard)
            counts.append(count)
            return Result(None, records, is_atomic=False)

        for runtime in self.runtimes.values():
            runtime.write(delete, group_store.ignore_refusal)
        return sum(counts)

    def _build_expiration(self, shard: LivingShard, group_id: str) -> list[Record]:
        """Return the tombstones of a group's expired offsets, and of the group if it is Empty and has no others."""
        group = shard.groups[group_id]
        committed = shard.offsets.committed.get(group_id, {})
        pending = shard.offsets.pending_partitions(group_id)
        expired = find_expired_offsets(group, committed, pending, self.clock.now_ms, self.settings.offsets_retention_ms)
        records = [
            group_store.build_offset_tombstone(group_id, partition) for partition in group_store.order_offsets(expired)
        ]
        if group_store.is_empty(group) and len(expired) == len(committed) and not pending:
            records += group_store.build_group_tombstones(group)
        return records
