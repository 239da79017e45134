"""One partition of the offsets topic in the new coordinator: a state machine whose changes are records of its log.

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

Source: CoordinatorRuntime.java, SnapshottableCoordinator.java (4.3.1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from kafkagroups.coordinator.clock import Timer
from kafkagroups.coordinator.error_codes import Errors, convert_event_error
from kafkagroups.coordinator.group_store import GroupStore
from kafkagroups.coordinator.logs import NewBatch, build_marker
from kafkagroups.coordinator.messages import ResponseFuture
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.living_shard import LivingShard
from kafkagroups.groups.log_records import LogKeys
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.modern_replay import check_loaded
from kafkagroups.groups.replay import replay_batches
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch
from kafkagroups.records.serde import Record, encode

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

    def __init__(self, partition: int, store: GroupStore) -> None:
        self.partition = partition
        self.store = store
        self.dialect = store.dialect
        self.logs = store.logs
        self.clock = store.clock
        self.shard = LivingShard(partition, self.dialect)
        self.next_offset = 0
        self.is_active = False
        self._keys = LogKeys(self.dialect)
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
            self.store.on_loaded(group)

    def unload(self) -> None:
        """Answer all requests that wait with NOT_COORDINATOR, and call `on_unloaded` for each group."""
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
