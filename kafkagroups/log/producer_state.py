"""The producers of a log: active producers, open transactions and aborted transactions.

A transaction begins with a producer's first transactional batch, and ends with the producer's marker, a control record
of type COMMIT or ABORT. A producer is active if its last batch is recent (`find_active_producers`).

Two rules are different from Kafka's:

- The leader of a partition checks sequence numbers. This module does not, because the batches are already in the log.
- A broker takes a producer's epoch from markers. This module also takes it from a control batch whose marker the
  cleaner has removed. The epoch is the same, because the cleaner keeps an empty control batch only if the batch has the
  producer's newest epoch.

Source (4.3.1): ProducerStateManager.java; ProducerAppendInfo.java; ProducerStateEntry.java;
CleanedTransactionMetadata.java.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.log.batch import Batch
from kafkagroups.records.control import ControlType, decode_control_key


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


@dataclass
class ProducerState:
    """The state of one producer.

    `last_data_offset` is the last Kafka offset of the newest data batch in `epoch`; None if there is none.
    `last_timestamp` is in ms. `txn_first_offset` is the first Kafka offset of the producer's open transaction; None if
    no transaction is open.
    """

    epoch: int
    last_data_offset: int | None = None
    last_timestamp: int = -1
    txn_first_offset: int | None = None


@dataclass
class ProducerStates:
    """The producers of a log, by producer id, and its aborted transactions in the order of their markers."""

    producers: dict[int, ProducerState] = field(default_factory=dict)
    aborted: list[AbortedTxn] = field(default_factory=list)


def add_batch(states: ProducerStates, batch: Batch) -> None:
    if batch.producer_id < 0:
        return
    state = states.producers.setdefault(batch.producer_id, ProducerState(batch.producer_epoch))
    if state.epoch != batch.producer_epoch:
        state.epoch = batch.producer_epoch
        state.last_data_offset = None
    state.last_timestamp = batch.max_timestamp
    if not batch.is_control:
        state.last_data_offset = batch.last_offset
        if batch.is_transactional and state.txn_first_offset is None:
            state.txn_first_offset = batch.base_offset
        return
    marker_type = read_marker(batch)
    if marker_type in (ControlType.COMMIT, ControlType.ABORT) and state.txn_first_offset is not None:
        if marker_type is ControlType.ABORT:
            states.aborted.append(AbortedTxn(batch.producer_id, state.txn_first_offset, batch.last_offset))
        state.txn_first_offset = None


def read_marker(batch: Batch) -> ControlType | None:
    """Return the type of a marker; None if the cleaner has removed it from the batch.

    Raises BadBytes if it cannot be read.
    """
    if not batch.records:
        return None
    try:
        return decode_control_key(batch.records[0].key)
    except BadBytes as error:
        error.file = batch.file
        error.offset = batch.base_offset
        raise


def find_last_stable_offset(states: ProducerStates, log_end: int) -> int:
    first_offsets = [state.txn_first_offset for state in states.producers.values()]
    return min((offset for offset in first_offsets if offset is not None), default=log_end)


def find_active_producers(states: ProducerStates, oldest_ms: int | None) -> dict[int, ProducerState]:
    """Return the producers whose newest batch is not older than `oldest_ms` (in ms; None: all producers).

    In a broker, a producer with an open transaction is active, too. The cleaner's result is the same: an active
    producer only keeps its newest batch, and a pass does not clean the batches of an open transaction.
    """
    return {
        producer_id: state
        for producer_id, state in states.producers.items()
        if oldest_ms is None or state.last_timestamp >= oldest_ms
    }


class CleanedTransactions:
    """The transactions that are open at the current batch, while a pass reads batches in the order of the log."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._later_aborted = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._has_data_by_aborted_producer: dict[int, bool] = {}
        self._committed_producers_with_data: set[int] = set()

    def check_next_batch(self, batch: Batch) -> bool:
        """Move to the next batch of the log, and return whether it is discardable: aborted data or an unused marker."""
        while self._later_aborted and self._later_aborted[0].first_offset <= batch.last_offset:
            transaction = self._later_aborted.popleft()
            self._has_data_by_aborted_producer.setdefault(transaction.producer_id, False)
        if batch.is_control:
            return self._is_unused_marker(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._has_data_by_aborted_producer:
            self._has_data_by_aborted_producer[batch.producer_id] = True
            return True
        self._committed_producers_with_data.add(batch.producer_id)
        return False

    def _is_unused_marker(self, batch: Batch) -> bool:
        marker_type = read_marker(batch)
        producer_id = batch.producer_id
        if marker_type is ControlType.ABORT:
            has_data = self._has_data_by_aborted_producer.pop(producer_id, False)
            return not has_data
        if marker_type is ControlType.COMMIT:
            has_data = producer_id in self._committed_producers_with_data
            self._committed_producers_with_data.discard(producer_id)
            return not has_data
        # The control record has another type, or an earlier pass has removed the marker from its batch.
        return False
