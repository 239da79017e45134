"""Log compaction: one pass of the cleaner of Kafka 4.3.1 over one partition.

The dirty part of the log has not been cleaned yet. It begins at the first dirty offset, where the earlier passes ended,
and ends at the first uncleanable offset. The offset map contains the newest offset of each key in the dirty part,
except for control batches and aborted transactions. It is full when it contains `capacity` keys, and then does not
cover the rest of the dirty part; as in Kafka, a full map also refuses records whose key it already has.

A record stays if the offset map has no newer record of its key, and if it is not an expired tombstone. The pass cleans
all segments up to the last offset that the map covers, divides them into groups of neighbours, and writes each group as
one segment.

The cleaner may remove the tombstones of a batch at the delete horizon, a time in the batch's header. A marker is unused
if the pass has read no data batch of its transaction (`CleanedTransactions`). The filter discards aborted data
immediately, and unused markers from the delete horizon on. docs/facts/cleaner.yaml lists all rules, with their places
in Kafka's code.

A producer is active if its last batch is recent (`run_pass`). Two rules are different from Kafka's:

- Sequence numbers are not checked, because the batches are already in the log.
- A broker takes a producer's epoch from markers. This module also takes it from a control batch whose marker the
  cleaner has removed: it is the same, because the cleaner keeps an empty control batch only if it has the producer's
  newest epoch.

Simpler than Kafka: the size of a group's index files is not limited, and a segment whose offsets differ by more than an
int32 is not split. So segments can begin at other offsets than Kafka's, but the records that stay are the same. The
offset map is a dict of MD5 hashes, and not one byte buffer.
Source (4.3.1): Cleaner.java; LogToClean.java; LogCleanerManager.java; MemoryRecords.filterTo; SkimpyOffsetMap.java;
ProducerStateManager.java; ProducerAppendInfo.java; ProducerStateEntry.java; CleanedTransactionMetadata.java.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import md5
from pathlib import Path
from typing import NamedTuple

import msgspec

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.helpers import MAX_INT32, MAX_INT64
from kafkagroups.log import segment_file
from kafkagroups.log.batch import (
    CODEC,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Batch,
    LogRecord,
    encode_batch,
    record_count,
)
from kafkagroups.log.batches import Damage
from kafkagroups.log.folders import new_folder
from kafkagroups.log.segment_file import ByteRange
from kafkagroups.log.segments import Log
from kafkagroups.records.serde import ControlType, decode_control_key

DEFAULT_CAPACITY = 128 * 1024 * 1024 // 24 * 9 // 10
"""The number of keys that fit into the map, with Kafka's default settings.

128 MiB (log.cleaner.dedupe.buffer.size) / 24 bytes per entry * 0.9 (log.cleaner.io.buffer.load.factor)."""


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


@dataclass
class ProducerState:
    """The state of one producer.

    `last_data_offset` is the last Kafka offset of the newest data batch in `epoch`, `last_timestamp` is in ms, and
    `txn_first_offset` is the first Kafka offset of the open transaction. None: there is none.
    """

    epoch: int
    last_data_offset: int | None = None
    last_timestamp: int = -1
    txn_first_offset: int | None = None


@dataclass
class ProducerStates:
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
    """Return the type of a marker; None if the cleaner has removed it. Raises BadBytes if it cannot be read."""
    if not batch.records:
        return None
    try:
        return decode_control_key(batch.records[0].key)
    except BadBytes as error:
        error.file = batch.file
        error.offset = batch.base_offset
        raise


class CleanedTransactions:
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
            return not self._has_data_by_aborted_producer.pop(producer_id, False)
        if marker_type is ControlType.COMMIT:
            has_data = producer_id in self._committed_producers_with_data
            self._committed_producers_with_data.discard(producer_id)
            return not has_data
        # The control record has another type, or an earlier pass has removed the marker from its batch.
        return False


Progress = Callable[[str, int, int], None]
"""A function that is called with the name of a step, the number of bytes that the step has read, and the number of
bytes that the step reads in total."""


@dataclass
class Segment:
    base_offset: int
    path: str
    modified_ns: int
    size: int = 0
    batches: int = 0
    records: int = 0


@dataclass(frozen=True)
class LogToClean:
    """`first_uncleanable` is the base offset of a segment. This one and all later ones stay unchanged, and always the
    last one, the active segment.
    """

    log: Log
    segments: list[Segment]
    producers: ProducerStates
    newest_ms: int
    first_dirty: int
    first_uncleanable: int


def read_log(log: Log, first_dirty: int | None, first_uncleanable: int | None, report: Progress) -> LogToClean:
    """Return the segments and producers of a log, and the offsets that the pass cleans.

    If `first_dirty` is None or outside the log, the whole log is dirty. If `first_uncleanable` is None, the pass stops
    at the active segment or at the first open transaction, whichever comes first. A segment is cleaned as a whole or
    not at all. Damaged bytes end the log, as in a broker's recovery, and the damaged segment is then the active
    segment.
    """
    segments = list_segments(log)
    segment_of_path = {segment.path: segment for segment in segments}
    total_bytes = log.size
    states = ProducerStates()
    newest_ms = NO_TIMESTAMP
    log_end = log.start_offset
    bytes_read = 0
    for batch in log:
        segment = segment_of_path[batch.file or ""]
        segment.size = batch.position + batch.size
        segment.batches += 1
        segment.records += record_count(batch)
        add_batch(states, batch)
        newest_ms = max(newest_ms, batch.max_timestamp)
        log_end = batch.next_offset
        bytes_read += batch.size
        report("read", bytes_read, total_bytes)
    if log.damage:
        segments = segments[: log.segments.index(log.damage.file) + 1]
    log_end = max(log_end, segments[-1].base_offset)
    if first_dirty is None or not log.start_offset <= first_dirty <= log_end:
        first_dirty = log.start_offset
    if first_uncleanable is None:
        open_txns = [state.txn_first_offset for state in states.producers.values()]
        first_uncleanable = min([segments[-1].base_offset, *(first for first in open_txns if first is not None)])
    first_uncleanable = _find_containing_base(segments, first_uncleanable)
    return LogToClean(log, segments, states, newest_ms, first_dirty, first_uncleanable)


def list_segments(log: Log) -> list[Segment]:
    try:
        return [Segment(segment_file.base_offset_of(path), path, os.stat(path).st_mtime_ns) for path in log.segments]
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None


def _find_containing_base(segments: Sequence[Segment], offset: int) -> int:
    bases = [segment.base_offset for segment in segments]
    return max((base for base in bases if base <= offset), default=bases[0])


def select_segments(segments: Sequence[Segment], first: int, end: int) -> list[Segment]:
    if first >= end:
        return []
    first_base = _find_containing_base(segments, first)
    return [segment for segment in segments if first_base <= segment.base_offset < end]


def pair_with_next_base(segments: Sequence[Segment], end: int) -> list[tuple[Segment, int]]:
    next_bases = [segment.base_offset for segment in segments[1:]]
    return list(zip(segments, [*next_bases, end], strict=False))


def group_by_size(segments: Sequence[Segment], max_bytes: int, first_uncleanable: int) -> list[list[Segment]]:
    """Divide neighbouring segments into groups.

    A group has at most `max_bytes` before cleaning, and its last offset is at most MAX_RELATIVE_OFFSET above its first
    base offset, which an empty segment never changes. A segment alone may break both rules. Like Kafka, this takes the
    offset before the base offset of the next segment for the last one of a segment.
    """
    groups: list[list[Segment]] = []
    group_bytes = 0
    for segment, next_base in pair_with_next_base(segments, first_uncleanable):
        offsets = next_base - 1 - (groups[-1][0].base_offset if groups else 0)
        has_near_offsets = segment.size == 0 or offsets <= segment_file.MAX_RELATIVE_OFFSET
        if groups and has_near_offsets and group_bytes + segment.size <= max_bytes:
            groups[-1].append(segment)
            group_bytes += segment.size
        else:
            groups.append([segment])
            group_bytes = segment.size
    return groups


def make_reader(
    step: str, log: Log, segments: Sequence[Segment], report: Progress, max_record_bytes: int
) -> Callable[[Segment], Iterator[Batch]]:
    """The function raises InvalidLog at a record of more than `max_record_bytes` in a compressed batch."""
    total_bytes = sum(segment.size for segment in segments)
    bytes_read = 0

    def read(segment: Segment) -> Iterator[Batch]:
        nonlocal bytes_read
        for found in log.select_ranges({segment.path: ByteRange(0, segment.size)}).find_batches(None):
            batch = found.parse()
            if max_record_bytes < log.max_batch_bytes and batch.attributes & CODEC:
                _check_record_sizes(batch, max_record_bytes)
            yield batch
            bytes_read += batch.size
            report(step, bytes_read, total_bytes)

    return read


def _check_record_sizes(batch: Batch, max_record_bytes: int) -> None:
    for record in batch.records:
        size = _count_body_bytes(record)
        if size > max_record_bytes:
            raise batch.make_error(
                f"this compressed batch has a record of {size} bytes at offset {record.offset}, more than "
                f"max.decompressed.message.bytes={max_record_bytes}: Kafka's cleaner gives the partition up"
            )


def _count_body_bytes(record: LogRecord) -> int:
    if record.magic < 2:
        return record.size - segment_file.LOG_OVERHEAD
    return next(record.size - width for width in range(1, 6) if 2 * (record.size - width) < 128**width)


class OffsetMap:
    """The newest Kafka offset of each key, up to `last_offset`; -1 if the map covers no offset."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.last_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def get(self, key: bytes) -> int:
        return self._offsets.get(md5(key, usedforsecurity=False).digest(), -1)

    def put(self, key: bytes, offset: int) -> bool:
        if len(self._offsets) >= self.capacity:
            return False
        self._offsets[md5(key, usedforsecurity=False).digest()] = offset
        self.last_offset = offset
        return True


@dataclass(frozen=True)
class RecordFilter:
    """What decides which records a pass keeps.

    `new_horizon_ms` is the delete horizon that the pass sets; None if the time does not fit into an int64.
    """

    now_ms: int
    new_horizon_ms: int | None
    first_uncleanable: int
    offset_map: OffsetMap
    producers: Mapping[int, ProducerState]
    transactions: CleanedTransactions


def filter_batch(batch: Batch, record_filter: RecordFilter, keeps_old_tombstones: bool) -> tuple[bytes, int]:
    """Return the bytes of the next batch after the pass (empty if it is removed), and its new number of records.

    `keeps_old_tombstones` is about magic 0 and 1, which have no delete horizon. Raises InvalidLog if Kafka's cleaner
    fails at this batch.
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
    if horizon_ms is None and (is_discardable or any(record.value is None for record in kept_records)):
        return _rewrite_batch(batch, kept_records, record_filter.new_horizon_ms), len(kept_records)
    if batch.magic >= 2 and len(kept_records) == batch.count:
        return batch.data, len(kept_records)
    return _rewrite_batch(batch, kept_records, horizon_ms), len(kept_records)


def _is_kept(record: LogRecord, offset_map: OffsetMap, keeps_tombstones: bool) -> bool:
    if record.offset > offset_map.last_offset:
        return True
    if record.key is None or (record.value is None and not keeps_tombstones):
        return False
    return record.offset >= offset_map.get(record.key)


def _is_kept_when_empty(batch: Batch, record_filter: RecordFilter) -> bool:
    """A batch without records stays if a broker needs it for the state of an active producer, or as the last one below
    the first uncleanable offset."""
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
        raise batch.make_error(
            f"Kafka's cleaner fails at this batch of magic {batch.magic}: the batch loses all its records, and has to "
            "stay as the last batch below the first uncleanable offset, but only a batch of magic 2 can be empty"
        )
    attributes = batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return encode_replacement(batch, (), attributes, NO_TIMESTAMP)


_KEPT_BITS = (CODEC, CODEC | LOG_APPEND_TIME, CODEC | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
"""The attributes that a batch keeps when it is written again, by its magic. In older ones, other bits mean nothing."""


def _rewrite_batch(batch: Batch, records: Sequence[LogRecord], horizon_ms: int | None) -> bytes:
    attributes = batch.attributes & _KEPT_BITS[batch.magic]
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON
    rewritten = [msgspec.structs.replace(record, attributes=0) for record in records]
    return encode_replacement(batch, rewritten, attributes, horizon_ms)


def encode_replacement(
    batch: Batch, records: Sequence[LogRecord], attributes: int, base_timestamp: int | None
) -> bytes:
    """Return the bytes of the batch of magic 2 that replaces `batch`.

    If `batch` has magic 0 or 1, the new batch begins and ends with the offsets of `records`.
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


DELETE_RETENTION_MS = 86_400_000
"""The default of the topic's setting delete.retention.ms, which the log does not contain."""


@dataclass(frozen=True)
class CleanerConfig:
    """The settings of a pass.

    `now_ms` is the time of the pass, in ms since 1970; None: the newest timestamp in the log. The dirty part begins at
    the offset `first_dirty` (None: the start of the log) and ends at `first_uncleanable` (None: the highest that Kafka
    allows, `read_log`). `segment_bytes` limits the segments of a group together, before the pass, and `map_entries` the
    keys in the offset map. A producer without a batch in `producer_expiration_ms` before `now_ms` is not active; -1:
    producers never expire. `max_decompressed_message_bytes`, a setting that 4.2.2 and 4.4.0 have, is the largest size
    of one record in a compressed batch; the default is Kafka's, and larger than any record.
    """

    now_ms: int | None = None
    delete_retention_ms: int = DELETE_RETENTION_MS
    first_dirty: int | None = None
    first_uncleanable: int | None = None
    segment_bytes: int = segment_file.SEGMENT_BYTES
    map_entries: int = DEFAULT_CAPACITY
    producer_expiration_ms: int = 86_400_000
    max_decompressed_message_bytes: int = MAX_INT32 - 8


@dataclass(frozen=True)
class LogSize:
    """In magic 0 and 1, each wrapper and each message outside a wrapper counts as one batch."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Compaction:
    """What a pass has done.

    `next_dirty_offset` is the first dirty offset of the next pass. Each list in `groups` has the base offsets of the
    segments that became one segment. `damage` is where the log ended. If no segment is dirty, `groups` is empty and
    `next_dirty_offset` is 0, as in Kafka's cleaner.
    """

    next_dirty_offset: int
    groups: list[list[int]]
    before: LogSize
    after: LogSize
    damage: Damage | None


def clean(log: Log, out: Path, config: CleanerConfig, progress: Progress | None = None) -> Compaction:
    """Run one pass over a log, and write the cleaned log to the folder `out`, which must be new or empty.

    Only one segment and the offset map are in memory. Raises UsageError if a number in `config` is out of range, or if
    the folder is not empty, and InvalidLog or InvalidRecord if Kafka's cleaner fails at this log.
    """
    _check_numbers(config)
    with new_folder(out) as folder:
        return run_pass(log, folder, config, progress or (lambda step, done, total: None))


def _check_numbers(config: CleanerConfig) -> None:
    minimums = {"segment_bytes": 1, "map_entries": 1, "producer_expiration_ms": -1}
    for name, value in vars(config).items():
        minimum = minimums.get(name, 0)
        if value is not None and not minimum <= value <= MAX_INT64:
            raise UsageError(f"{name}: expected a number from {minimum} to {MAX_INT64}, found {value}")


def run_pass(log: Log, out: Path, config: CleanerConfig, report: Progress) -> Compaction:
    source = read_log(log, config.first_dirty, config.first_uncleanable, report)
    offset_map = _build_offset_map(source, config, report)
    next_dirty = offset_map.last_offset + 1
    to_clean = select_segments(source.segments, 0, next_dirty)
    groups = group_by_size(to_clean, config.segment_bytes, source.first_uncleanable)
    now_ms = max(source.newest_ms, 0) if config.now_ms is None else config.now_ms
    horizon_ms = now_ms + config.delete_retention_ms
    oldest_ms = None if config.producer_expiration_ms < 0 else now_ms - config.producer_expiration_ms
    # In a broker, a producer with an open transaction is active, too. The cleaner's result is the same: an active
    # producer only keeps its newest batch, and a pass does not clean the batches of an open transaction.
    active_producers = {
        producer_id: state
        for producer_id, state in source.producers.producers.items()
        if oldest_ms is None or state.last_timestamp >= oldest_ms
    }
    record_filter = RecordFilter(
        now_ms,
        horizon_ms if horizon_ms <= MAX_INT64 else None,
        source.first_uncleanable,
        offset_map,
        active_producers,
        CleanedTransactions(source.producers.aborted),
    )
    old_tombstone_limit_ms = _find_old_tombstone_limit(source, config)
    read = make_reader("clean", log, to_clean, report, config.max_decompressed_message_bytes)
    written = [_clean_group(group, out, read, record_filter, old_tombstone_limit_ms) for group in groups]
    written += [copy_segment(segment, out) for segment in source.segments[len(to_clean) :]]
    base_offsets = [[segment.base_offset for segment in group] for group in groups]
    return Compaction(next_dirty, base_offsets, _sum_sizes(source.segments), _sum_sizes(written), log.damage)


def _build_offset_map(source: LogToClean, config: CleanerConfig, report: Progress) -> OffsetMap:
    """Return the keys of the dirty segments, until the map is full.

    The map also covers the offsets between a segment's last batch and the next segment, at the end those below the
    first uncleanable offset.
    """
    offset_map = OffsetMap(config.map_entries)
    dirty_segments = select_segments(source.segments, source.first_dirty, source.first_uncleanable)
    aborted = [txn for txn in source.producers.aborted if txn.last_offset >= source.first_dirty]
    transactions = CleanedTransactions(aborted)
    read = make_reader("map", source.log, dirty_segments, report, config.max_decompressed_message_bytes)
    for segment, next_base in pair_with_next_base(dirty_segments, source.first_uncleanable):
        for batch in read(segment):
            has_keys = not transactions.check_next_batch(batch) and not batch.is_control
            for record in batch.records if has_keys else ():
                is_dirty = record.offset >= source.first_dirty
                if record.key is not None and is_dirty and not offset_map.put(record.key, record.offset):
                    return offset_map
            if batch.last_offset >= source.first_dirty:
                offset_map.last_offset = batch.last_offset
        offset_map.last_offset = next_base - 1
    return offset_map


def _find_old_tombstone_limit(source: LogToClean, config: CleanerConfig) -> int:
    """Return the limit (ms since 1970) for tombstones of magic 0 and 1: a segment whose file is not newer loses them.

    It is the time at which the last segment that an earlier pass has cleaned was modified, minus delete.retention.ms.
    """
    clean_segments = select_segments(source.segments, 0, source.first_dirty)
    if not clean_segments:
        return 0
    return clean_segments[-1].modified_ns // 1_000_000 - config.delete_retention_ms


def _clean_group(
    group: Sequence[Segment],
    out: Path,
    read: Callable[[Segment], Iterator[Batch]],
    record_filter: RecordFilter,
    old_tombstone_limit_ms: int,
) -> Segment:
    """Write a group as one segment, even if no record stays.

    It has the base offset of the group's first segment and the modification time of the last one.
    """
    base_offset = group[0].base_offset
    target = Segment(base_offset, os.path.join(out, segment_file.segment_name(base_offset)), group[-1].modified_ns)
    with open(target.path, "wb") as file:
        for segment in group:
            keeps_old_tombstones = segment.modified_ns // 1_000_000 > old_tombstone_limit_ms
            for batch in read(segment):
                content, record_count = filter_batch(batch, record_filter, keeps_old_tombstones)
                file.write(content)
                target.size += len(content)
                target.records += record_count
                if content:
                    target.batches += 1
    os.utime(target.path, ns=(target.modified_ns, target.modified_ns))
    return target


def copy_segment(segment: Segment, out: Path) -> Segment:
    path = os.path.join(out, segment_file.segment_name(segment.base_offset))
    with (
        segment_file.open_segment(segment.path, byte_range=ByteRange(0, segment.size)) as source,
        open(path, "wb") as target,
    ):
        shutil.copyfileobj(source, target)
    os.utime(path, ns=(segment.modified_ns, segment.modified_ns))
    return replace(segment, path=path)


def _sum_sizes(segments: Sequence[Segment]) -> LogSize:
    return LogSize(
        segments=len(segments),
        batches=sum(segment.batches for segment in segments),
        records=sum(segment.records for segment in segments),
        bytes=sum(segment.size for segment in segments),
    )
