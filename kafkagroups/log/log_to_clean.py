"""What a pass of the cleaner starts from: a log's segments and producers, and the range that it may clean.

Source: LogToClean.java, LogCleanerManager.java, Cleaner.groupSegmentsBySize (4.3.1).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kafkagroups.errors import UsageError
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, record_count
from kafkagroups.log.batches import read_batches
from kafkagroups.log.producer_state import ProducerStates, last_stable_offset, update
from kafkagroups.log.segment_file import MOST_OFFSETS, base_offset_of, read_segment
from kafkagroups.log.segments import Log

Progress = Callable[[str, int, int], None]
"""Called with what is being done and the bytes that were read of how many."""


@dataclass
class Segment:
    """A segment as far as it can be read: `size` ends with its last whole batch."""

    base_offset: int
    path: str
    modified_ns: int
    size: int = 0
    batches: int = 0
    records: int = 0


@dataclass(frozen=True)
class LogToClean:
    """`first_uncleanable` is the base of a segment. What lies there and above, the active segment too, stays as it is.

    `newest_ms` is the newest time in the log.
    """

    segments: list[Segment]
    states: ProducerStates
    newest_ms: int
    first_dirty: int
    first_uncleanable: int


def log_to_clean(log: Log, first_dirty: int | None, first_uncleanable: int | None, report: Progress) -> LogToClean:
    """Reads the whole log. Damage ends it there, as a broker's recovery: the damaged segment is then the active one.

    Without `first_dirty`, or when it lies outside the log, all is dirty. Without `first_uncleanable` the pass stops at
    the active segment or the last stable offset; it is moved down to the base of the segment that holds it.
    """
    try:
        segments = {path: Segment(base_offset_of(path), path, os.stat(path).st_mtime_ns) for path in log.segments}
        total = sum(os.path.getsize(path) for path in segments)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None
    states, newest, end, done = ProducerStates(), NO_TIMESTAMP, log.start_offset, 0
    for batch in log:
        segment = segments[batch.file or ""]
        segment.size = batch.position + batch.size
        segment.batches += 1
        segment.records += record_count(batch)
        update(states, batch)
        newest = max(newest, batch.max_timestamp)
        end = batch.next_offset
        done += batch.size
        report("read", done, total)
    found = list(segments.values())
    if log.damage:
        found = found[: log.segments.index(log.damage.file) + 1]
    active = found[-1].base_offset
    end = max(end, active)
    if first_dirty is None or not log.start_offset <= first_dirty <= end:
        first_dirty = log.start_offset
    limit = min(active, last_stable_offset(states, end)) if first_uncleanable is None else first_uncleanable
    return LogToClean(found, states, newest, first_dirty, _floor(found, limit))


def _floor(segments: Sequence[Segment], offset: int) -> int:
    """The base of the segment that holds an offset; the first one's for offsets below."""
    return max((s.base_offset for s in segments if s.base_offset <= offset), default=segments[0].base_offset)


def between(segments: Sequence[Segment], first: int, end: int) -> list[Segment]:
    """The segments that may hold offsets of [first, end)."""
    floor = _floor(segments, first)
    return [segment for segment in segments if floor <= segment.base_offset < end] if first < end else []


def with_next_base(segments: Sequence[Segment], end: int) -> list[tuple[Segment, int]]:
    """Each segment with the base of the next one, the last with `end`."""
    return list(zip(segments, [*(segment.base_offset for segment in segments[1:]), end], strict=False))


def group_by_size(segments: Sequence[Segment], most_bytes: int, first_uncleanable: int) -> list[list[Segment]]:
    """Neighbours that become one segment: by their sizes before cleaning, and no offset too far from the first base.

    A segment's last offset is taken to be the one before the next base; an empty segment always fits that rule.
    """
    groups: list[list[Segment]] = []
    size = 0
    for segment, next_base in with_next_base(segments, first_uncleanable):
        if (
            groups
            and size + segment.size <= most_bytes
            and (segment.size == 0 or next_base - 1 - groups[-1][0].base_offset <= MOST_OFFSETS)
        ):
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups


def reader(step: str, segments: Sequence[Segment], report: Progress) -> Callable[[Segment], Iterator[Batch]]:
    """Reads the batches of one of these segments, and reports how far it has come in all of them."""
    total, done = sum(segment.size for segment in segments), 0

    def read(segment: Segment) -> Iterator[Batch]:
        nonlocal done
        for batch in read_batches(read_segment(segment.path), segment.path):
            yield batch
            done += batch.size
            report(step, done, total)

    return read
