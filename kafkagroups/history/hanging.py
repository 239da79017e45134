"""Open transactions: what the log tells about each one, the findings about hanging ones, and the command that ends one.

A transaction hangs if no coordinator will end it. The log does not contain the state of the transaction coordinator, so
it never proves this. Two signs are findings:

- The transaction is open HANGING_MS or longer before the newest record of all logs. Clients write offsets right before
  they end a transaction, so here a transaction is usually open for milliseconds. HANGING_MS is the default of the
  producer's transaction.timeout.ms.
- The transaction is open LATE_OPEN_MS or longer, and began within LATE_START_MS after a marker that aborted another
  transaction of the same producer id and epoch. This is how a commit looks that arrives after the end of its
  transaction. If the coordinator had aborted the transaction after its time-out, the marker would have a higher epoch.
  With transaction version 2 (Kafka 4.0), each marker has a higher epoch than its transaction: there is no such sign.
  LATE_START_MS is the default of the producer's request.timeout.ms.

Source: TransactionsCommand (4.x); KIP-890.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Collection, Iterator

from kafkagroups.errors import BadBytes, InvalidLog
from kafkagroups.history.finding import TRANSACTIONS_TOOL, Finding, join_words
from kafkagroups.history.stats import OpenTransaction, PartitionStats
from kafkagroups.loading import native
from kafkagroups.loading.engines import Engine
from kafkagroups.log.batch import Batch
from kafkagroups.log.segment_file import WHOLE_FILE, base_offset_of
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.dialects import DEFAULT_DIALECT

HANGING_MS = 60_000
LATE_OPEN_MS = 10_000
LATE_START_MS = 30_000
_PRODUCER_ID_POSITION = 43
"""The position of the producer id in a batch of magic 2."""
_producer_id = struct.Struct(">q")


def add_details(log: Log, transactions: list[OpenTransaction], engine: Engine) -> None:
    """Set the fields `producer_epoch`, `aborted_at` and `aborted_ms` of the open transactions of a log.

    The log is read a second time: only the segments with first batches of open transactions, and the segment before
    them. Only the batches of the producers with open transactions are parsed.
    """
    if not transactions:
        return
    bases = [base_offset_of(segment) for segment in log.segments]
    offsets = [transaction.first_offset for transaction in transactions]
    first = max(0, bisect_right(bases, min(offsets)) - 2)
    end = max(1, bisect_right(bases, max(offsets)))
    part = log.select_ranges({segment: log.ranges.get(segment, WHOLE_FILE) for segment in log.segments[first:end]})
    part.skips_damage = log.skips_damage
    producers = {transaction.producer_id: _Producer(transaction) for transaction in transactions}
    for batch in read_batches_of(part, producers, max(offsets), engine):
        producers[batch.producer_id].follow(batch)


def read_batches_of(log: Log, producer_ids: Collection[int], last_offset: int, engine: Engine) -> Iterator[Batch]:
    """Yield the batches of some producers in a log, up to the batch that begins at an offset."""
    if engine.name == "compiled":
        stop = Stop(until_offset=last_offset + 1)
        reading = native.read_if_possible(log, DEFAULT_DIALECT, stop, producers=producer_ids)
        if reading is not None:
            yield from native.read_batches_at(log, reading.found_batches()[0])
            return
    if log.skips_damage:
        yield from (batch for batch in log if batch.producer_id in producer_ids and batch.base_offset <= last_offset)
        return
    try:
        for found in log.find_batches(None):
            frame = found.frame
            if frame.base_offset > last_offset:
                return
            if frame.magic == 2 and _producer_id.unpack_from(found.data, _PRODUCER_ID_POSITION)[0] in producer_ids:
                yield found.parse()
    except InvalidLog:
        return  # The load has found the damage, too.


class _Producer:
    """The batches of one producer, up to the first batch of its open transaction."""

    def __init__(self, transaction: OpenTransaction) -> None:
        self._transaction = transaction
        self._epoch: int | None = None
        """The epoch of the transaction that is open at this place of the log; None if no transaction is open."""
        self._abort: tuple[int, int, int] | None = None
        """The offset, the epoch and the time of the newest marker, if it aborted a transaction of the same epoch."""

    def follow(self, batch: Batch) -> None:
        transaction = self._transaction
        if batch.base_offset > transaction.first_offset:
            return
        if batch.base_offset == transaction.first_offset:
            transaction.producer_epoch = batch.producer_epoch
            if self._abort is not None and self._abort[1] == batch.producer_epoch:
                transaction.aborted_at, _, transaction.aborted_ms = self._abort
        elif batch.is_control:
            is_abort = self._epoch == batch.producer_epoch and _aborts(batch)
            self._abort = (batch.base_offset, batch.producer_epoch, batch.max_timestamp) if is_abort else None
            self._epoch = None
        elif batch.is_transactional and self._epoch is None:
            self._epoch = batch.producer_epoch


def _aborts(batch: Batch) -> bool:
    """Return whether a control batch aborts a transaction. The cleaner can have removed its marker."""
    try:
        return bool(batch.records) and decode_control_key(batch.records[0].key) is ControlType.ABORT
    except BadBytes:
        return False


def find_hanging(number: int | None, counts: PartitionStats, now_ms: int) -> Iterator[Finding]:
    """Yield the findings about open transactions. `now_ms` is the time of the newest record of all logs."""
    for transaction in counts.open_transactions:
        age_ms = now_ms - transaction.since_ms
        is_late = _is_late(transaction, age_ms)
        if transaction.since_ms < 0 or not (age_ms >= HANGING_MS or is_late):
            continue
        group_ids = transaction.groups
        names = f" with offsets of {', '.join(group_ids)}" if group_ids else ""
        what = (
            f"The transaction of producer {transaction.producer_id} from offset {transaction.first_offset}{names} is "
            f"still open {age_ms / 1000:.0f} s later, at the newest record of the log. The cleaner stops at it, and "
            "clients that fetch stable offsets get UNSTABLE_OFFSET_COMMIT."
        )
        if is_late:
            assert transaction.aborted_ms is not None
            delay = (transaction.since_ms - transaction.aborted_ms) / 1000
            what += (
                f" It began {delay:.1f} s after the marker at offset {transaction.aborted_at}, which aborted another "
                f"transaction of the same producer and epoch ({transaction.producer_epoch}). This is how a commit "
                "looks that arrived after the end of its transaction: then no coordinator ends it."
            )
        remedy = (
            "The log alone does not prove that it hangs. If kafka-transactions.sh list does not show the transaction "
            "of this producer id as Ongoing, end it"
        )
        command = abort_command(number, transaction.first_offset)
        group = group_ids[0] if len(group_ids) == 1 else None
        remedy += f": {join_words(command)}"
        yield Finding(number, transaction.first_offset, group, None, "hanging_transaction", what, remedy, command)


def _is_late(transaction: OpenTransaction, age_ms: int) -> bool:
    """Return whether a transaction looks like a commit that arrived after the end of its transaction."""
    if transaction.aborted_ms is None or age_ms < LATE_OPEN_MS:
        return False
    return 0 <= transaction.since_ms - transaction.aborted_ms <= LATE_START_MS


def abort_command(partition: object, first_offset: object) -> list[str]:
    """Return the words of the command that ends a hanging transaction, for brokers from Kafka 3.0 on.

    If `partition` is None, the command contains the word PARTITION.
    Source: TransactionsCommand.AbortTransactionCommand (4.x).
    """
    number = "PARTITION" if partition is None else partition
    place = ("--topic", "__consumer_offsets", "--partition", str(number), "--start-offset", str(first_offset))
    return [*TRANSACTIONS_TOOL, "abort", *place]
