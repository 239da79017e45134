"""What a pass of the cleaner leaves of one batch: its bytes as they are, rewritten, emptied, or nothing.

The rules stand in cleaner.py. Source: Cleaner.cleanInto, MemoryRecords.filterTo (4.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import (
    CODEC,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Batch,
    LogRecord,
)
from kafkagroups.log.cleaned_transactions import CleanedTransactions
from kafkagroups.log.offset_map import OffsetMap
from kafkagroups.log.producer_state import ProducerState
from kafkagroups.log.record_batch import encode_batch, rebuild_bytes


@dataclass(frozen=True)
class RecordFilter:
    """`horizon_ms` is what this pass sets, None when it lies past the end of time (then nothing ever expires)."""

    now_ms: int
    horizon_ms: int | None
    first_uncleanable: int
    offset_map: OffsetMap
    producers: Mapping[int, ProducerState]
    transactions: CleanedTransactions


def filter_batch(batch: Batch, rules: RecordFilter, keeps_old_tombstones: bool) -> tuple[bytes, int]:
    """The bytes that are left of the log's next batch, none if it goes, and the number of its records.

    `keeps_old_tombstones` speaks of magic 0 and 1, which have no horizon. InvalidLog where Kafka's cleaner fails.
    """
    can_discard = rules.transactions.can_discard(batch)
    horizon = batch.delete_horizon_ms
    is_over = horizon is not None and horizon <= rules.now_ms
    kept: Sequence[LogRecord]
    if batch.is_control:
        kept = () if can_discard and is_over else batch.records
    elif can_discard:
        kept = ()
    else:
        keeps_tombstones = not is_over if batch.magic >= 2 else keeps_old_tombstones
        kept = [record for record in batch.records if _is_retained(record, rules.offset_map, keeps_tombstones)]
    if not kept:
        return _emptied(batch) if _is_retained_empty(batch, rules) else b"", 0
    if horizon is None and (can_discard or any(record.value is None for record in kept)):
        return _rewritten(batch, kept, rules.horizon_ms), len(kept)
    if batch.magic >= 2 and len(kept) == batch.count:
        return rebuild_bytes(batch), len(kept)
    return _rewritten(batch, kept, horizon), len(kept)


def _is_retained(record: LogRecord, offset_map: OffsetMap, keeps_tombstones: bool) -> bool:
    if record.offset > offset_map.last_offset:
        return True
    if record.key is None or (record.value is None and not keeps_tombstones):
        return False
    return record.offset >= offset_map.get(record.key)


def _is_retained_empty(batch: Batch, rules: RecordFilter) -> bool:
    """Whether it stays without records: for an active producer's sake, or so that the cleaned part's end is known."""
    if batch.next_offset == rules.first_uncleanable:
        return True
    state = rules.producers.get(batch.producer_id)
    if state is None:
        return False
    if state.last_data_offset is None:
        return batch.is_control and batch.producer_epoch == state.epoch
    return batch.last_offset == state.last_data_offset


def _emptied(batch: Batch) -> bytes:
    if batch.magic < 2:
        raise InvalidLog(
            f"the last batch below the first uncleanable offset has magic {batch.magic} and loses all its records: "
            "Kafka's cleaner fails here, only magic 2 can be kept empty",
            file=batch.file,
            offset=batch.base_offset,
            position=batch.position,
        )
    bits = batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return _encode(batch, (), bits, NO_TIMESTAMP)


def _rewritten(batch: Batch, kept: Sequence[LogRecord], horizon: int | None) -> bytes:
    bits = batch.attributes & (CODEC | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    if batch.magic < 2:
        bits &= CODEC | LOG_APPEND_TIME * batch.magic
    if horizon is not None:
        bits |= DELETE_HORIZON
    return _encode(batch, [record._replace(attributes=0) for record in kept], bits, horizon)


def _encode(batch: Batch, records: Sequence[LogRecord], attributes: int, base_timestamp: int | None) -> bytes:
    """A batch of magic 2 in the place of `batch`; one of magic 0 or 1 begins and ends with its kept records."""
    is_old = batch.magic < 2
    return encode_batch(
        records,
        base_offset=None if is_old else batch.base_offset,
        last_offset=None if is_old else batch.last_offset,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=None if records else batch.max_timestamp,
        partition_leader_epoch=batch.partition_leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )
