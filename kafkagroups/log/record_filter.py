"""The cleaner's filter: whether a pass keeps a batch, rewrites it, empties it or removes it.

The docstring of cleaner.py lists the rules. Source: Cleaner.cleanInto, MemoryRecords.filterTo (4.3.1).
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
    """The rules of one pass. `horizon_ms` is the delete horizon that it sets.

    `horizon_ms` is None if it does not fit into an int64: then nothing ever expires.
    """

    now_ms: int
    horizon_ms: int | None
    first_uncleanable: int
    offset_map: OffsetMap
    producers: Mapping[int, ProducerState]
    transactions: CleanedTransactions


def filter_batch(batch: Batch, rules: RecordFilter, keeps_old_tombstones: bool) -> tuple[bytes, int]:
    """Return the bytes that the pass keeps of the log's next batch, empty if it is removed, and their record count.

    `keeps_old_tombstones` is for magic 0 and 1, which have no delete horizon. InvalidLog where Kafka's cleaner fails.
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
        content = _empty_batch(batch) if _is_retained_empty(batch, rules) else b""
        return content, 0
    if horizon is None and (can_discard or any(record.value is None for record in kept)):
        return _rewrite_batch(batch, kept, rules.horizon_ms), len(kept)
    if batch.magic >= 2 and len(kept) == batch.count:
        return rebuild_bytes(batch), len(kept)
    return _rewrite_batch(batch, kept, horizon), len(kept)


def _is_retained(record: LogRecord, offset_map: OffsetMap, keeps_tombstones: bool) -> bool:
    if record.offset > offset_map.last_offset:
        return True
    if record.key is None or (record.value is None and not keeps_tombstones):
        return False
    return record.offset >= offset_map.get(record.key)


def _is_retained_empty(batch: Batch, rules: RecordFilter) -> bool:
    """Return whether a batch without records stays, because of an active producer or to mark the cleaned part's end."""
    if batch.next_offset == rules.first_uncleanable:
        return True
    state = rules.producers.get(batch.producer_id)
    if state is None:
        return False
    if state.last_data_offset is None:
        return batch.is_control and batch.producer_epoch == state.epoch
    return batch.last_offset == state.last_data_offset


def _empty_batch(batch: Batch) -> bytes:
    if batch.magic < 2:
        raise InvalidLog(
            f"Kafka's cleaner fails at this batch of magic {batch.magic}: it loses all its records, and it has to stay "
            "as the last batch below the first uncleanable offset, but only a batch of magic 2 can be empty",
            file=batch.file,
            offset=batch.base_offset,
            position=batch.position,
        )
    bits = batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return _encode(batch, (), bits, NO_TIMESTAMP)


def _rewrite_batch(batch: Batch, kept: Sequence[LogRecord], horizon: int | None) -> bytes:
    bits = batch.attributes & (CODEC | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    if batch.magic < 2:
        bits &= CODEC | LOG_APPEND_TIME * batch.magic
    if horizon is not None:
        bits |= DELETE_HORIZON
    return _encode(batch, [record._replace(attributes=0) for record in kept], bits, horizon)


def _encode(batch: Batch, records: Sequence[LogRecord], attributes: int, base_timestamp: int | None) -> bytes:
    """Return the batch of magic 2 that replaces `batch`. If `batch` has magic 0 or 1, the kept records give offsets."""
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
