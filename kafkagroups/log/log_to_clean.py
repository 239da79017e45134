"""The input of a cleaner pass: a log's segments, the offsets to clean, and the producers with their transactions.

Source (4.3.1): LogToClean.java; LogCleanerManager.java; Cleaner.groupSegmentsBySize.

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

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkagroups.errors import BadBytes, InvalidLog, UsageError
from kafkagroups.log.batch import CODEC, NO_TIMESTAMP, Batch, LogRecord, record_count
from kafkagroups.log.batch_frames import LOG_OVERHEAD, read_frames
from kafkagroups.log.batches import parse_valid_batch
from kafkagroups.log.segment_file import MAX_RELATIVE_OFFSET, ByteRange, base_offset_of, open_segment
from kafkagroups.log.segments import Log
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


Progress = Callable[[str, int, int], None]
"""A function that is called with the name of a step, the number of bytes that the step has read, and the number of
bytes that the step reads in total."""


@dataclass
class Segment:
    """The readable part of a segment, which ends with its last valid batch."""

    base_offset: int
    path: str
    modified_ns: int
    size: int = 0
    batches: int = 0
    records: int = 0


@dataclass(frozen=True)
class LogToClean:
    """A log's segments and producers, and where cleaning may begin and end.

    `first_uncleanable` is the base offset of a segment: this segment and all later segments stay unchanged. The last
    segment of a log, the active segment, always stays unchanged.
    """

    segments: list[Segment]
    producers: ProducerStates
    newest_ms: int
    first_dirty: int
    first_uncleanable: int
    max_batch_bytes: int


def read_log(log: Log, first_dirty: int | None, first_uncleanable: int | None, report: Progress) -> LogToClean:
    """Return its segments, its producers, and the offsets that the pass cleans.

    If `first_dirty` is None or outside the log, the whole log is dirty. If `first_uncleanable` is None, the pass stops
    at the active segment or at the first open transaction, whichever comes first. A segment is cleaned as a whole or
    not at all. Damaged bytes end the log, as in a broker's recovery. The damaged segment is then the active segment.
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
        first_uncleanable = min(segments[-1].base_offset, find_last_stable_offset(states, log_end))
    first_uncleanable = _find_containing_base(segments, first_uncleanable)
    return LogToClean(segments, states, newest_ms, first_dirty, first_uncleanable, log.max_batch_bytes)


def list_segments(log: Log) -> list[Segment]:
    try:
        return [Segment(base_offset_of(path), path, os.stat(path).st_mtime_ns) for path in log.segments]
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None


def _find_containing_base(segments: Sequence[Segment], offset: int) -> int:
    bases = [segment.base_offset for segment in segments]
    return max((base for base in bases if base <= offset), default=bases[0])


def select_segments(segments: Sequence[Segment], first: int, end: int) -> list[Segment]:
    """Return the segments that can contain offsets from `first` up to, not including, `end`."""
    if first >= end:
        return []
    first_base = _find_containing_base(segments, first)
    return [segment for segment in segments if first_base <= segment.base_offset < end]


def pair_with_next_base(segments: Sequence[Segment], end: int) -> list[tuple[Segment, int]]:
    next_bases = [segment.base_offset for segment in segments[1:]]
    return list(zip(segments, [*next_bases, end], strict=False))


def group_by_size(segments: Sequence[Segment], max_bytes: int, first_uncleanable: int) -> list[list[Segment]]:
    """Divide neighbouring segments into groups.

    A group with more than one segment follows two rules:

    - Before cleaning, the group has at most `max_bytes`.
    - The last offset of the group is at most MAX_RELATIVE_OFFSET above the group's first base offset. An empty segment
      always follows this rule.

    Like Kafka, this function takes the offset before the base offset of the next segment for the last one of a segment.
    """
    groups: list[list[Segment]] = []
    group_bytes = 0
    for segment, next_base in pair_with_next_base(segments, first_uncleanable):
        fits_into_group = False
        if groups:
            first_base = groups[-1][0].base_offset
            has_near_offsets = segment.size == 0 or next_base - 1 - first_base <= MAX_RELATIVE_OFFSET
            fits_into_group = has_near_offsets and group_bytes + segment.size <= max_bytes
        if fits_into_group:
            groups[-1].append(segment)
            group_bytes += segment.size
        else:
            groups.append([segment])
            group_bytes = segment.size
    return groups


def make_reader(
    step: str, segments: Sequence[Segment], report: Progress, max_batch_bytes: int, max_record_bytes: int
) -> Callable[[Segment], Iterator[Batch]]:
    """Return a function that yields the batches of a segment.

    It raises InvalidLog at a record of more than `max_record_bytes` in a compressed batch.
    """
    total_bytes = sum(segment.size for segment in segments)
    bytes_read = 0

    def read(segment: Segment) -> Iterator[Batch]:
        nonlocal bytes_read
        with open_segment(segment.path, byte_range=ByteRange(0, segment.size)) as file:
            for frame, data in read_frames(file, end=file.end, max_batch_bytes=max_batch_bytes):
                batch = parse_valid_batch(frame, data, segment.path, max_batch_bytes)
                if max_record_bytes < max_batch_bytes and batch.attributes & CODEC:
                    _check_record_sizes(batch, max_record_bytes)
                yield batch
                bytes_read += batch.size
                report(step, bytes_read, total_bytes)

    return read


def _check_record_sizes(batch: Batch, max_record_bytes: int) -> None:
    for record in batch.records:
        size = _count_body_bytes(record)
        if size > max_record_bytes:
            reason = (
                f"this compressed batch has a record of {size} bytes at offset {record.offset}, more than "
                f"max.decompressed.message.bytes={max_record_bytes}: Kafka's cleaner gives the partition up"
            )
            raise InvalidLog(reason, file=batch.file, position=batch.position, offset=batch.base_offset)


def _count_body_bytes(record: LogRecord) -> int:
    if record.magic < 2:
        return record.size - LOG_OVERHEAD
    return next(record.size - width for width in range(1, 6) if 2 * (record.size - width) < 128**width)
