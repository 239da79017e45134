"""What a log's batches tell of its producers: who is active, and which transactions are open or were aborted.

A broker keeps this in memory and in the transaction index. Both follow from the log: a transaction begins with the
first transactional batch of a producer without one and ends with that producer's marker.

Simpler than Kafka: sequences are not checked, a follower's log takes them as they are. An empty control batch, which
a broker's recovery skips, still tells its producer's epoch: the cleaner leaves one just where that epoch is the newest.
Source: ProducerStateManager.java, ProducerAppendInfo.java, ProducerStateEntry.java (4.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.log.batch import Batch
from kafkagroups.records.control import ControlType, decode_control_key


class AbortedTxn(NamedTuple):
    """An entry of the transaction index: `last_offset` is that of the abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass
class ProducerState:
    """One producer: `last_data_offset` is the last of its newest batch of data, None when a newer epoch has no data."""

    epoch: int
    last_data_offset: int | None = None
    last_timestamp: int = -1
    txn_first_offset: int | None = None


@dataclass
class ProducerStates:
    """All producers of a log, and the transactions that were aborted, in the order of their markers."""

    producers: dict[int, ProducerState] = field(default_factory=dict)
    aborted: list[AbortedTxn] = field(default_factory=list)


def update(states: ProducerStates, batch: Batch) -> None:
    """Takes the next batch of the log. BadBytes when its marker cannot be read."""
    if batch.producer_id < 0:
        return
    state = states.producers.setdefault(batch.producer_id, ProducerState(batch.producer_epoch))
    if state.epoch != batch.producer_epoch:
        state.epoch, state.last_data_offset = batch.producer_epoch, None
    state.last_timestamp = batch.max_timestamp
    if not batch.is_control:
        state.last_data_offset = batch.last_offset
        if batch.is_transactional and state.txn_first_offset is None:
            state.txn_first_offset = batch.base_offset
        return
    kind = read_marker(batch)
    if kind in (ControlType.COMMIT, ControlType.ABORT) and state.txn_first_offset is not None:
        if kind is ControlType.ABORT:
            states.aborted.append(AbortedTxn(batch.producer_id, state.txn_first_offset, batch.last_offset))
        state.txn_first_offset = None


def read_marker(batch: Batch) -> ControlType | None:
    """What a control batch says; None when the cleaner has emptied it. BadBytes when it cannot be read."""
    if not batch.records:
        return None
    try:
        return decode_control_key(batch.records[0].key)
    except BadBytes as error:
        error.file, error.offset = batch.file, batch.base_offset
        raise


def last_stable_offset(states: ProducerStates, end: int) -> int:
    """The first offset of the first open transaction, or the log's end."""
    return min((s.txn_first_offset for s in states.producers.values() if s.txn_first_offset is not None), default=end)


def active_producers(states: ProducerStates, expired_before: int | None) -> dict[int, ProducerState]:
    """The producers that a broker still remembers: not those whose last batch is older.

    A broker keeps a producer with an open transaction too. That changes nothing: its last batch is never cleaned.
    """
    return {
        producer_id: state
        for producer_id, state in states.producers.items()
        if expired_before is None or state.last_timestamp >= expired_before
    }
