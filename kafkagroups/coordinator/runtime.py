"""The new coordinator's memory and log: each partition of the offsets topic is one state machine.

    request ──▶ handler(shard) ──▶ Result(response, records)
                                        │ records
                                        ▼
                 LivingShard.apply_new (the code that loads a log) ──▶ append ──▶ the log confirms ──▶ response

A handler reads the state and decides. It changes no hard state: the records that it returns do, and the same code
applies them in memory, after a restart and in a broker that takes over. The response waits until the log has confirmed
the records. A failed append takes back what its records changed, and the request is answered with the error.

To add a kind of request:

1. Write a handler: a function that takes the `LivingShard`, and returns a `Result`.
2. Call `write(handler, refuse)` from the public verb. `refuse(error)` builds the response for an error. A request that
   only reads uses `read`: it sees what the log has confirmed.
3. If the records are new, say in groups/modern_replay.py what they change. Nothing else applies them.

A timer is a write too: its action calls `write` when the timer is due, and the handler looks whether there is still
something to do.

Classic groups are the exception, in Kafka as here: their members and their state are plain memory, which the handlers
change at once. `append_group_records` writes their record without applying it (Kafka: replayRecords = false).

Simpler than Kafka: there are no threads, so an event is a call. Each write is a batch of its own, as it is for a client
that waits for each answer, so `append.linger.ms` has no effect. A method that returns no future answers at once, even
if an append before it is not confirmed yet.

`PartitionedGroups` has the handlers of commits, fetches, deletions and the expiration. Joins and rebalances are those
of the classic coordinator (membership.py, rebalance.py), which change a classic group in memory and write its record.
A group that a request creates without a record becomes visible with the next batch of its partition.
Source: CoordinatorRuntime.java, SnapshottableCoordinator.java, GroupCoordinatorShard.java, OffsetMetadataManager.java,
GroupMetadataManager.java (4.3.1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from kafkagroups.coordinator.clock import Clock, Timer
from kafkagroups.coordinator.error_codes import Errors, convert_event_error
from kafkagroups.coordinator.group_records import (
    OFFSET_RECORD_TYPE,
    build_group_deletion,
    build_group_tombstones,
    build_modern_tombstones,
    build_offset_tombstone,
    order_offsets,
)
from kafkagroups.coordinator.group_store import GroupStore
from kafkagroups.coordinator.logs import NewBatch, OffsetsLogs, build_marker
from kafkagroups.coordinator.messages import CommitErrors, FetchedOffset, ResponseFuture
from kafkagroups.coordinator.settings import Settings
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.classic_group import Cancellable, ClassicGroup
from kafkagroups.groups.expiration import find_expired_offsets
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_shard import LivingGroup, LivingShard
from kafkagroups.groups.log_records import LogKeys
from kafkagroups.groups.map_orders import java_map_order, timeline_map_order, topic_partition_hash
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.modern_replay import check_loaded
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.replay import replay_batches
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.wire import utf16_length

COMMIT_TIMEOUT_MS = 5_000
"""How long a response waits for the log (offsets.commit.timeout.ms). The records stay, and may be confirmed later."""

logger = logging.getLogger("kafkagroups.coordinator")
T = TypeVar("T")


@dataclass(frozen=True)
class Result(Generic[T]):
    """What a handler returns: the response, and the records that must be confirmed before the client gets it.

    If the records are not atomic, a batch that is too large is split.
    """

    response: T
    records: Sequence[Record] = ()
    is_atomic: bool = True


@dataclass(eq=False)
class _Append:
    """A batch that the log has not confirmed. `waiting` are called with NONE or an error."""

    base_offset: int
    next_offset: int
    waiting: list[Callable[[Errors], None]] = field(default_factory=list)
    is_marker: bool = False
    timer: Timer | None = None

    def complete(self, error: Errors) -> None:
        if self.timer is not None:
            self.timer.cancel()
        waiting, self.waiting = self.waiting, []
        for complete in waiting:
            complete(error)


class PartitionRuntime:
    """One partition of the offsets topic on the broker that leads it.

    `shard` is the state. `next_offset` is where the next batch will be in the log. If a load fails, the partition is
    not active: until the next election, every request gets NOT_COORDINATOR.
    """

    def __init__(
        self,
        partition: int,
        dialect: Dialect,
        logs: OffsetsLogs,
        clock: Clock,
        on_loaded: Callable[[LivingGroup], None],
        on_unloaded: Callable[[LivingGroup], None],
    ) -> None:
        self.partition = partition
        self.dialect = dialect
        self.logs = logs
        self.clock = clock
        self.on_loaded = on_loaded
        self.on_unloaded = on_unloaded
        self.shard = LivingShard(partition, dialect)
        self.next_offset = 0
        self.is_active = False
        self._keys = LogKeys(dialect)
        self._unconfirmed: list[_Append] = []

    # Requests

    def write(
        self,
        handler: Callable[[LivingShard], Result[T]],
        refuse: Callable[[Errors], T],
        producer: tuple[int, int] = (NO_PRODUCER_ID, -1),
    ) -> ResponseFuture[T]:
        """Handle a request that may write, and answer it when the log has confirmed all writes until then.

        `producer` is its id and epoch, if the records belong to a transaction.
        """
        response: ResponseFuture[T] = ResponseFuture()
        if not self.is_active:
            response.complete(refuse(Errors.NOT_COORDINATOR))
            return response
        self.shard.now_ms = self.clock.now_ms
        result = handler(self.shard)

        def complete(error: Errors) -> None:
            response.complete(result.response if error is Errors.NONE else refuse(convert_event_error(error)))

        if result.records and result.is_atomic:
            self._append(result.records, complete, producer, applies=True)
        elif result.records:
            self._append_in_parts(result.records, complete)
        elif self._unconfirmed:
            self._unconfirmed[-1].waiting.append(complete)
        else:
            complete(Errors.NONE)
        return response

    def read(self, question: Callable[[LivingShard], T]) -> T:
        with self.shard.committed():
            return question(self.shard)

    def append_group_records(self, records: Sequence[Record], complete: Callable[[Errors], None]) -> None:
        """Append the record of a classic group whose members are in memory already, then call `complete`.

        Before it, there may be the tombstones of the group of another type that it replaces.
        """
        self._append(records, lambda error: complete(convert_event_error(error)))

    def complete_transaction(self, producer_id: int, *, commits: bool) -> None:
        marker = build_marker(producer_id, -1, commits=commits, timestamp=self.clock.now_ms)
        self.shard.apply_new(marker.at(self.next_offset), self._keys)
        self._add_append(1, is_marker=True)
        self._confirm_markers()

    # The log

    def _append_in_parts(self, records: Sequence[Record], complete: Callable[[Errors], None]) -> None:
        """Append the records as one batch, or as two if that is too large for the log, and so on.

        Simpler than Kafka, which fills each batch before it begins the next one.
        """

        def complete_or_split(error: Errors) -> None:
            if error is not Errors.MESSAGE_TOO_LARGE or len(records) == 1:
                complete(error)
                return
            middle = len(records) // 2
            self._append_in_parts(records[:middle], lambda error: None)
            self._append_in_parts(records[middle:], complete)

        self._append(records, complete_or_split, applies=True)

    def _append(
        self,
        records: Sequence[Record],
        complete: Callable[[Errors], None],
        producer: tuple[int, int] = (NO_PRODUCER_ID, -1),
        *,
        applies: bool = False,
    ) -> None:
        encoded = [encode(record, self.dialect) for record in records]
        batch = NewBatch.of_producer(encoded, self.clock.now_ms, *producer)
        if not self.is_active or self.logs.magic(self.partition) is None:
            self.shard.revert(0)
            complete(Errors.NOT_COORDINATOR)
            return
        if applies:
            try:
                self.shard.apply_new(batch.at(self.next_offset), self._keys)
            except (LoadFailed, BadBytes) as error:
                logger.error("Replaying records to __consumer_offsets-%d failed due to: %s", self.partition, error)
                self.shard.revert(0)
                complete(Errors.UNKNOWN_SERVER_ERROR)
                return
        append = self._add_append(len(records))
        append.waiting.append(complete)
        self.logs.append(self.partition, batch, partial(self._answer, append))
        if append in self._unconfirmed:
            append.timer = self.clock.after(COMMIT_TIMEOUT_MS, partial(append.complete, Errors.REQUEST_TIMED_OUT))

    def _add_append(self, record_count: int, *, is_marker: bool = False) -> _Append:
        append = _Append(self.next_offset, self.next_offset + record_count, is_marker=is_marker)
        self.shard.end_batch()
        self._unconfirmed.append(append)
        self.next_offset = append.next_offset
        return append

    def _answer(self, append: _Append, error: Errors, first_offset: int) -> None:
        """Handle the log's answer to an append.

        A replica that confirms a batch has all batches before it. After a timeout the records stay, because the log may
        still confirm them. Every other error takes back the batch and those after it, which were built on it.
        """
        if append not in self._unconfirmed:
            return
        if error is Errors.REQUEST_TIMED_OUT:
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
        """Read the partition's log, and call `on_loaded` for each group. If this fails, stay inactive."""
        self.shard = LivingShard(self.partition, self.dialect, now_ms=self.clock.now_ms)
        self.next_offset = 0
        replay_batches(self.shard, self._count(self.logs.read(self.partition)))
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
            self.on_loaded(group)

    def unload(self) -> None:
        """Answer all requests that wait with NOT_COORDINATOR, and call `on_unloaded` for each group."""
        self.is_active = False
        waiting, self._unconfirmed = self._unconfirmed, []
        for append in waiting:
            append.complete(Errors.NOT_COORDINATOR)
        for group in list(self.shard.groups.values()):
            self.on_unloaded(group)

    def classic_groups(self) -> list[ClassicGroup]:
        return [group for group in self.shard.groups.values() if isinstance(group, ClassicGroup)]

    def _count(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self.next_offset = batch.next_offset
            yield batch


class PartitionedGroups(GroupStore):
    """The groups of the partitions that this broker leads. `runtimes` are the partitions, by number."""

    def __init__(self, settings: Settings, logs: OffsetsLogs, clock: Clock) -> None:
        super().__init__(settings, logs, clock)
        self.runtimes: dict[int, PartitionRuntime] = {}
        self._due: list[Timer] = []

    # Partitions

    def find_runtime(self, group_id: str) -> PartitionRuntime:
        """Return the runtime of the group's partition, which is inactive if this broker does not lead it."""
        partition = self.partition_for(group_id)
        return self.runtimes.get(partition) or self._create_runtime(partition)

    def is_local(self, group_id: str) -> bool:
        """Return whether this broker owns the group's partition, and its load did not fail."""
        return super().is_local(group_id) and self.find_runtime(group_id).is_active

    def load_partition(self, partition: int, epoch: int = 0) -> None:
        is_active = partition in self.runtimes and self.runtimes[partition].is_active
        if not self.accept_epoch(partition, epoch) or is_active:
            return
        self.runtimes[partition] = self._create_runtime(partition)
        self.runtimes[partition].load()
        self.owned.add(partition)
        self.loading.discard(partition)

    def unload_partition(self, partition: int, epoch: int | None = None) -> None:
        if epoch is not None and not self.accept_epoch(partition, epoch):
            return
        self.owned.discard(partition)
        self.loading.discard(partition)
        if partition in self.runtimes:
            self.runtimes.pop(partition).unload()

    def _create_runtime(self, partition: int) -> PartitionRuntime:
        return PartitionRuntime(partition, self.dialect, self.logs, self.clock, self.on_loaded, self.on_unloaded)

    # Groups

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        return {group.group_id: group for runtime in self.runtimes.values() for group in runtime.classic_groups()}

    def get_group(self, group_id: str) -> ClassicGroup | None:
        group = self.find_runtime(group_id).shard.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def find_modern_group(self, group_id: str) -> ModernGroup | None:
        group = self.find_runtime(group_id).shard.groups.get(group_id)
        return group if isinstance(group, ModernGroup) else None

    def remove_empty_group(self, group: ModernGroup) -> Sequence[Record]:
        self.find_runtime(group.group_id).shard.remove_group(group.group_id)
        return build_modern_tombstones(group)

    def current_modern_groups(self) -> list[ModernGroup]:
        groups = (group for runtime in self.runtimes.values() for group in runtime.shard.groups.values())
        return [group for group in groups if isinstance(group, ModernGroup)]

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
        self._write(self.runtimes[partition], lambda shard: Result(Errors.NONE, records))

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

        Without it, the group of a refused JoinGroup would exist until the next load only. If the append fails, the
        group is gone, and a JoinGroup that still waits gets the error.
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

    # Offsets

    def store_offsets(
        self,
        group: LivingGroup,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        complete: Callable[[CommitErrors], None],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
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

        def refuse(error: Errors) -> CommitErrors:
            return dict.fromkeys(offsets, error)

        producer = (producer_id, producer_epoch)
        self.find_runtime(group.group_id).write(commit, refuse, producer).then(complete)

    def complete_transaction(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """Commit or abort the offsets. The marker must be the newest batch in the log of each of these partitions."""
        for partition in partitions:
            runtime = self.runtimes.get(partition)
            if runtime is not None and runtime.is_active:
                runtime.complete_transaction(producer_id, commits=commits)

    def get_offsets(
        self, group_id: str, require_stable: bool = False, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, FetchedOffset]:
        def fetch(shard: LivingShard) -> dict[TopicPartition, FetchedOffset]:
            if group_id not in shard.groups:
                return {partition: FetchedOffset() for partition in partitions or ()}
            pending = shard.offsets.producers_by_group_partition
            committed = shard.offsets.committed.get(group_id, {})
            return self.build_fetched(
                committed, partitions, lambda each: require_stable and (group_id, each) in pending
            )

        runtime = self.find_runtime(group_id)
        return fetch(runtime.shard) if require_stable else runtime.read(fetch)

    # Deletions

    def delete_groups(self, groups: Sequence[LivingGroup]) -> dict[str, Errors]:
        """Delete Empty groups and their offsets, with one batch for each partition of the offsets topic."""
        ids_by_partition: dict[int, list[str]] = {}
        for group in groups:
            ids_by_partition.setdefault(self.partition_for(group.group_id), []).append(group.group_id)
        errors = {}
        for partition in java_map_order(ids_by_partition, _partition_hash):
            group_ids = ids_by_partition[partition]

            def delete(shard: LivingShard, group_ids: Sequence[str] = group_ids) -> Result[Errors]:
                return Result(
                    Errors.NONE, [record for each in group_ids for record in build_group_deletion(shard, each)]
                )

            error = self._write(self.runtimes[partition], delete)
            errors.update(dict.fromkeys(group_ids if error else (), error))
        return errors

    def delete_offsets(self, group: LivingGroup, partitions: Sequence[TopicPartition]) -> Errors:
        group_id = group.group_id

        def delete(shard: LivingShard) -> Result[Errors]:
            committed = shard.offsets.committed.get(group_id, {})
            pending = shard.offsets.producers_by_group_partition
            return Result(
                Errors.NONE,
                [
                    build_offset_tombstone(group_id, partition)
                    for partition in partitions
                    if partition in committed or (group_id, partition) in pending
                ],
            )

        return self._write(self.find_runtime(group_id), delete)

    def delete_partitions(self, partitions: Collection[TopicPartition], topic_ids: Mapping[str, str]) -> int:
        """Delete the committed and pending offsets for these partitions in all groups. The groups stay.

        An offset that was committed for another topic of this name stays.
        """
        deleted_count = 0
        for runtime in self.runtimes.values():

            def delete(shard: LivingShard) -> Result[Errors]:
                nonlocal deleted_count
                records = []
                pending = [(groups, 0) for groups in shard.offsets.pending.values()]
                for groups, counts in [(shard.offsets.committed, 1), *pending]:
                    for group_id, offsets in groups.items():
                        for partition in partitions:
                            offset = offsets.get(partition)
                            if offset is not None and offset.topic_id in (None, topic_ids.get(partition.topic)):
                                records.append(build_offset_tombstone(group_id, partition))
                                deleted_count += counts
                return Result(Errors.NONE, records, is_atomic=False)

            self._write(runtime, delete)
        return deleted_count

    def delete_expired(self) -> int:
        deleted_count = 0
        for runtime in self.runtimes.values():

            def delete(shard: LivingShard) -> Result[Errors]:
                nonlocal deleted_count
                records = []
                for group_id in timeline_map_order(shard.groups):
                    expired = self._build_expiration(shard, group_id)
                    deleted_count += sum(record.type == OFFSET_RECORD_TYPE for record in expired)
                    records += expired
                return Result(Errors.NONE, records, is_atomic=False)

            self._write(runtime, delete)
        return deleted_count

    def _build_expiration(self, shard: LivingShard, group_id: str) -> list[Record]:
        """Return the tombstones of a group's expired offsets, and of the group if it is Empty and has no others."""
        group = shard.groups[group_id]
        committed = shard.offsets.committed.get(group_id, {})
        pending = shard.offsets.pending_partitions(group_id)
        expired = find_expired_offsets(group, committed, pending, self.clock.now_ms, self.settings.offsets_retention_ms)
        records = [build_offset_tombstone(group_id, partition) for partition in order_offsets(expired)]
        is_empty = not group.members if isinstance(group, ModernGroup) else group.state is ClassicState.EMPTY
        if is_empty and len(expired) == len(committed) and not pending:
            records += build_group_tombstones(group)
        return records

    def _write(self, runtime: PartitionRuntime, handler: Callable[[LivingShard], Result[Errors]]) -> Errors:
        """Write, and return the error; NONE if the log has not answered yet."""
        response = runtime.write(handler, lambda error: error)
        return response.value if response.done else Errors.NONE


def _partition_hash(partition: int) -> int:
    return topic_partition_hash(("__consumer_offsets", partition))
