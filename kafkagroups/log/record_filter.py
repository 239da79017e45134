"""The cleaner's filter, which decides whether a batch is kept, rewritten, emptied or removed.

docs/facts/cleaner.yaml lists the rules. The cleaner may remove the tombstones of a batch at the delete horizon, a time
in the batch's header. A marker is unused if the pass has read no data batch of its transaction (`CleanedTransactions`).
The filter discards aborted data immediately, and unused markers from the delete horizon on.
Source: Cleaner.cleanInto (4.3.1); MemoryRecords.filterTo (4.3.1).
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
from kafkagroups.log.offset_map import OffsetMap
from kafkagroups.log.producer_state import CleanedTransactions, ProducerState
from kafkagroups.log.record_batch import encode_batch, rebuild_bytes


@dataclass(frozen=True)
class RecordFilter:
    """What decides which records a pass keeps. A pass is one run of the cleaner.

    `now_ms` is the time of the pass, in ms since 1970. `new_horizon_ms` is the delete horizon that the pass sets; None
    (no horizon) if the time does not fit into an int64. `first_uncleanable` is the Kafka offset at which the cleaned
    part of the log ends. `offset_map` contains the newest offset of each key. `producers` are the active producers, by
    producer id. `transactions` are the transactions that are open at the current batch.
    """

    now_ms: int
    new_horizon_ms: int | None
    first_uncleanable: int
    offset_map: OffsetMap
    producers: Mapping[int, ProducerState]
    transactions: CleanedTransactions


def filter_batch(batch: Batch, record_filter: RecordFilter, keeps_old_tombstones: bool) -> tuple[bytes, int]:
    """Filter the next batch of the log. Return the new bytes of the batch, and its new number of records.

    The bytes are empty if the batch is removed. `keeps_old_tombstones` says whether the pass keeps tombstones of magic
    0 and 1, which have no delete horizon. Raises InvalidLog if Kafka's cleaner fails at this batch.
    """
    is_discardable = record_filter.transactions.check_next_batch(batch)
    horizon_ms = batch.delete_horizon_ms
    is_past_horizon = horizon_ms is not None and horizon_ms <= record_filter.now_ms
    kept_records: Sequence[LogRecord]
    if batch.is_control:
        kept_records = () if is_discardable and is_past_horizon else batch.records
    elif is_discardable:
        kept_records = ()
    else:
        keeps_tombstones = not is_past_horizon if batch.magic >= 2 else keeps_old_tombstones
        offset_map = record_filter.offset_map
        kept_records = [record for record in batch.records if _is_kept(record, offset_map, keeps_tombstones)]
    if not kept_records:
        content = _encode_empty_batch(batch) if _is_kept_when_empty(batch, record_filter) else b""
        return content, 0
    # The first pass that keeps a tombstone or an unused marker sets the delete horizon of its batch.
    if horizon_ms is None and (is_discardable or _contains_tombstone(kept_records)):
        return _rewrite_batch(batch, kept_records, record_filter.new_horizon_ms), len(kept_records)
    if batch.magic >= 2 and len(kept_records) == batch.count:
        return rebuild_bytes(batch), len(kept_records)
    return _rewrite_batch(batch, kept_records, horizon_ms), len(kept_records)


def _contains_tombstone(records: Sequence[LogRecord]) -> bool:
    return any(record.value is None for record in records)


def _is_kept(record: LogRecord, offset_map: OffsetMap, keeps_tombstones: bool) -> bool:
    if record.offset > offset_map.last_offset:
        return True
    if record.key is None or (record.value is None and not keeps_tombstones):
        return False
    return record.offset >= offset_map.get(record.key)


def _is_kept_when_empty(batch: Batch, record_filter: RecordFilter) -> bool:
    """Return whether a batch stays although it loses all its records.

    The batch stays if a broker needs it for the state of an active producer, or if the batch is the last one below the
    first uncleanable offset.
    """
    if batch.next_offset == record_filter.first_uncleanable:
        return True
    state = record_filter.producers.get(batch.producer_id)
    if state is None:
        return False
    if state.last_data_offset is None:
        return batch.is_control and batch.producer_epoch == state.epoch
    return batch.last_offset == state.last_data_offset


def _encode_empty_batch(batch: Batch) -> bytes:
    if batch.magic < 2:
        raise InvalidLog(
            f"Kafka's cleaner fails at this batch of magic {batch.magic}: the batch loses all its records, and has to "
            "stay as the last batch below the first uncleanable offset, but only a batch of magic 2 can be empty",
            file=batch.file,
            offset=batch.base_offset,
            position=batch.position,
        )
    attributes = batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return encode_replacement(batch, (), attributes, NO_TIMESTAMP)


def _rewrite_batch(batch: Batch, records: Sequence[LogRecord], horizon_ms: int | None) -> bytes:
    """Return a batch of magic 2 with the records that stay.

    `horizon_ms` becomes the batch's delete horizon. If `horizon_ms` is None, the batch has no delete horizon.
    """
    kept_bits = CODEC  # In magic 0, all other bits have no meaning.
    if batch.magic >= 1:
        kept_bits |= LOG_APPEND_TIME
    if batch.magic >= 2:
        kept_bits |= TRANSACTIONAL | CONTROL
    attributes = batch.attributes & kept_bits
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON
    return encode_replacement(batch, [record._replace(attributes=0) for record in records], attributes, horizon_ms)


def encode_replacement(
    batch: Batch, records: Sequence[LogRecord], attributes: int, base_timestamp: int | None
) -> bytes:
    """Return the bytes of the batch of magic 2 that replaces `batch` and contains `records`.

    If `base_timestamp` is None, the base timestamp is the timestamp of the first record. If `batch` has magic 0 or 1,
    its offsets are not kept: the new batch begins and ends with the offsets of `records`.
    """
    keeps_offsets = batch.magic >= 2
    return encode_batch(
        records,
        base_offset=batch.base_offset if keeps_offsets else None,
        last_offset=batch.last_offset if keeps_offsets else None,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=None if records else batch.max_timestamp,
        partition_leader_epoch=batch.partition_leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )
