"""One partition of the offsets topic in the new coordinator: a state machine whose changes are records of its log.

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

Classic groups are the exception, in Kafka as here: the handlers change their members and their state, which are plain
memory, at once. `append_group_records` writes their record without applying it (Kafka: replayRecords = false).

Simpler than Kafka: there are no threads, so an event is a call. Each write is a batch of its own, as it is for a client
that waits for each answer, so `append.linger.ms` has no effect.

Source: CoordinatorRuntime.java, SnapshottableCoordinator.java (4.3.1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from kafkagroups.coordinator.error_codes import Errors, Refusal, convert_event_error
from kafkagroups.coordinator.group_store import NO_PRODUCER, GroupStore, Producer, Result
from kafkagroups.coordinator.logs import NewBatch, build_marker
from kafkagroups.coordinator.messages import ResponseFuture
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.living_shard import LivingShard
from kafkagroups.groups.log_records import LogKeys
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.modern_replay import check_loaded
from kafkagroups.groups.replay import replay_batches
from kafkagroups.log.batch import Batch
from kafkagroups.records.serde import Record, encode

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
        self.logs = store.logs
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
        self,
        handler: Callable[[LivingShard], Result[T]],
        refuse: Callable[[Errors, str | None], T],
        producer: Producer = NO_PRODUCER,
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
        marker = build_marker(producer_id, -1, commits=commits, timestamp=self.clock.now_ms)
        self.shard.apply_new(marker.at(self.next_offset), self._keys)
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
        batch = NewBatch.of_producer(encoded, self.clock.now_ms, *producer)
        if not self.is_active or self.logs.magic(self.partition) is None:
            self.shard.revert(0)
            return ResponseFuture.of(Errors.NOT_COORDINATOR)
        if applies:
            try:
                self.shard.apply_new(batch.at(self.next_offset), self._keys)
            except (LoadFailed, BadBytes) as error:
                logger.error("Replaying records to __consumer_offsets-%d failed due to: %s", self.partition, error)
                self.shard.revert(0)
                return ResponseFuture.of(Errors.UNKNOWN_SERVER_ERROR)
        append = self._add_append(len(records))
        answer: ResponseFuture[Errors] = ResponseFuture()
        append.waiting.append(answer)
        self.logs.append(self.partition, batch, partial(self._answer, append))
        return self._limit_time(answer)

    def _await_last_append(self) -> ResponseFuture[Errors]:
        if not self._unconfirmed:
            return ResponseFuture.of(Errors.NONE)
        answer: ResponseFuture[Errors] = ResponseFuture()
        self._unconfirmed[-1].waiting.append(answer)
        return self._limit_time(answer)

    def _limit_time(self, answer: ResponseFuture[Errors]) -> ResponseFuture[Errors]:
        if not answer.done:
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
