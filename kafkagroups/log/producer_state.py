"""The producers of a log: which are active, and which transactions are open or were aborted.

A broker keeps this in memory and in the transaction index. Both follow from the log. A transaction begins with a
producer's first transactional batch, and it ends with that producer's marker.

Simpler than Kafka: sequences are not checked, because a follower does not check them either. A broker's recovery skips
an empty control batch; here it still sets its producer's epoch. That is harmless: the cleaner leaves an empty control
batch only where its epoch is the newest.
Source: ProducerStateManager.java, ProducerAppendInfo.java, ProducerStateEntry.java (4.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.log.batch import Batch
from kafkagroups.records.control import ControlType, decode_control_key


class AbortedTxn(NamedTuple):
    """An entry of the transaction index. `last_offset` is the offset of the abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass
class ProducerState:
    """One producer. `last_data_offset` is the last offset of its newest data batch; None if its epoch has no data."""

    epoch: int
    last_data_offset: int | None = None
    last_timestamp: int = -1
    txn_first_offset: int | None = None


@dataclass
class ProducerStates:
    """All producers of a log, and its aborted transactions in the order of their markers."""

    producers: dict[int, ProducerState] = field(default_factory=dict)
    aborted: list[AbortedTxn] = field(default_factory=list)


def add_batch(states: ProducerStates, batch: Batch) -> None:
    """Update the states with the next batch of the log. BadBytes if its marker cannot be read."""
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
    kind = read_marker(batch)
    if kind in (ControlType.COMMIT, ControlType.ABORT) and state.txn_first_offset is not None:
        if kind is ControlType.ABORT:
            states.aborted.append(AbortedTxn(batch.producer_id, state.txn_first_offset, batch.last_offset))
        state.txn_first_offset = None


def read_marker(batch: Batch) -> ControlType | None:
    """Return the type of a control batch's marker; None if the cleaner has emptied it. BadBytes if it is unreadable."""
    if not batch.records:
        return None
    try:
        return decode_control_key(batch.records[0].key)
    except BadBytes as error:
        error.file = batch.file
        error.offset = batch.base_offset
        raise


def last_stable_offset(states: ProducerStates, end: int) -> int:
    """Return the first offset of the first open transaction, or the log's end if none is open."""
    first_offsets = [state.txn_first_offset for state in states.producers.values()]
    return min((offset for offset in first_offsets if offset is not None), default=end)


def active_producers(states: ProducerStates, expired_before: int | None) -> dict[int, ProducerState]:
    """Return the producers whose state a broker still holds: their last batch is not older than `expired_before`.

    A broker also keeps a producer with an open transaction. That changes nothing, because a pass does not clean the
    producer's last batch.
    """
    return {
        producer_id: state
        for producer_id, state in states.producers.items()
        if expired_before is None or state.last_timestamp >= expired_before
    }
