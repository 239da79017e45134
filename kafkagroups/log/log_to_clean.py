"""The input of a cleaner pass: a log's segments and producers, and the offsets to clean.

A pass is one run of the cleaner over a log (cleaner.py). The dirty part of the log was not cleaned by an earlier pass.
Source: LogToClean.java, LogCleanerManager.java, Cleaner.groupSegmentsBySize (4.3.1).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kafkagroups.errors import UsageError
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, record_count
from kafkagroups.log.batches import read_batches
from kafkagroups.log.producer_state import ProducerStates, add_batch, last_stable_offset
from kafkagroups.log.segment_file import MAX_RELATIVE_OFFSET, base_offset_of, read_segment
from kafkagroups.log.segments import Log

Progress = Callable[[str, int, int], None]
"""Called with the name of the step, the bytes that were read, and the bytes of the whole step."""


@dataclass
class Segment:
    """The readable part of a segment. `size` counts the bytes up to the end of its last valid batch.

    `modified_ns` is the modification time of the file in ns. `batches` and `records` are counts.
    """

    base_offset: int
    path: str
    modified_ns: int
    size: int = 0
    batches: int = 0
    records: int = 0


@dataclass(frozen=True)
class LogToClean:
    """A log's segments and producers, and where cleaning may begin and end.

    The dirty part begins at the offset `first_dirty`. `first_uncleanable` is the base offset of a segment. This segment
    and all later segments stay unchanged. The active segment (the last one) is never cleaned, so it is always one of
    them. `newest_ms` is the newest timestamp in the log. `states` are the states of the producers.
    """

    segments: list[Segment]
    states: ProducerStates
    newest_ms: int
    first_dirty: int
    first_uncleanable: int


def read_log(log: Log, first_dirty: int | None, first_uncleanable: int | None, report: Progress) -> LogToClean:
    """Read the whole log, and decide which offsets the pass cleans.

    Damage ends the log, as in a broker's recovery: the damaged segment is then the active segment. The whole log is
    dirty if `first_dirty` is None or outside the log. If `first_uncleanable` is None, the pass stops at the active
    segment or at the first offset of the oldest open transaction, whichever is lower. The result's `first_uncleanable`
    is always the base offset of the segment that contains this limit. Raises UsageError if a file cannot be read.
    """
    try:
        segments = {path: Segment(base_offset_of(path), path, os.stat(path).st_mtime_ns) for path in log.segments}
        total = sum(os.path.getsize(path) for path in segments)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None
    states = ProducerStates()
    newest_ms = NO_TIMESTAMP
    log_end = log.start_offset
    bytes_read = 0
    for batch in log:
        segment = segments[batch.file or ""]
        segment.size = batch.position + batch.size
        segment.batches += 1
        segment.records += record_count(batch)
        add_batch(states, batch)
        newest_ms = max(newest_ms, batch.max_timestamp)
        log_end = batch.next_offset
        bytes_read += batch.size
        report("read", bytes_read, total)
    readable = list(segments.values())
    if log.damage:
        readable = readable[: log.segments.index(log.damage.file) + 1]
    active_base = readable[-1].base_offset
    log_end = max(log_end, active_base)
    if first_dirty is None or not log.start_offset <= first_dirty <= log_end:
        first_dirty = log.start_offset
    limit = first_uncleanable
    if limit is None:
        limit = min(active_base, last_stable_offset(states, log_end))
    return LogToClean(readable, states, newest_ms, first_dirty, _containing_base(readable, limit))


def _containing_base(segments: Sequence[Segment], offset: int) -> int:
    """Return the base offset of the segment that contains an offset, or of the first segment if the offset is lower."""
    bases = [segment.base_offset for segment in segments]
    return max((base for base in bases if base <= offset), default=bases[0])


def select_segments(segments: Sequence[Segment], first: int, end: int) -> list[Segment]:
    """Return the segments that can contain offsets from `first` up to, not including, `end`."""
    if first >= end:
        return []
    first_base = _containing_base(segments, first)
    return [segment for segment in segments if first_base <= segment.base_offset < end]


def pair_with_next_base(segments: Sequence[Segment], end: int) -> list[tuple[Segment, int]]:
    """Pair each segment with the base offset of the next segment, and the last segment with `end`."""
    next_bases = [segment.base_offset for segment in segments[1:]]
    return list(zip(segments, [*next_bases, end], strict=False))


def group_by_size(segments: Sequence[Segment], max_bytes: int, first_uncleanable: int) -> list[list[Segment]]:
    """Divide neighbouring segments into groups; the pass cleans each group into one segment.

    Two rules limit a group. It has at most `max_bytes` before cleaning. Its last offset is at most MAX_RELATIVE_OFFSET
    above its first base offset; the second rule does not apply to an empty segment. For this rule, the last offset of a
    segment is the offset before the next segment's base offset. This is an estimate that Kafka uses, too, because the
    exact offset is only inside the segment.
    """
    groups: list[list[Segment]] = []
    size = 0
    for segment, next_base in pair_with_next_base(segments, first_uncleanable):
        if (
            groups
            and size + segment.size <= max_bytes
            and (segment.size == 0 or next_base - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def make_reader(step: str, segments: Sequence[Segment], report: Progress) -> Callable[[Segment], Iterator[Batch]]:
    """Return a function that reads a segment's batches and reports the progress through all of `segments` together.

    `step` is the name of the step for `report`.
    """
    total = sum(segment.size for segment in segments)
    bytes_read = 0

    def read(segment: Segment) -> Iterator[Batch]:
        nonlocal bytes_read
        for batch in read_batches(read_segment(segment.path), segment.path):
            yield batch
            bytes_read += batch.size
            report(step, bytes_read, total)

    return read
