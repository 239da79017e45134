"""The input of a cleaner pass: a log's segments, and the offsets to clean.

Source (4.3.1): LogToClean.java; LogCleanerManager.java; Cleaner.groupSegmentsBySize.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.log.batch import CODEC, NO_TIMESTAMP, Batch, LogRecord, record_count
from kafkagroups.log.batch_frames import LOG_OVERHEAD, read_frames
from kafkagroups.log.batches import parse_valid_batch
from kafkagroups.log.producer_state import ProducerStates, add_batch, find_last_stable_offset
from kafkagroups.log.segment_file import MAX_RELATIVE_OFFSET, ByteRange, base_offset_of, open_segment
from kafkagroups.log.segments import Log

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
