"""The input of a cleaner pass: a log's segments and producers, and the range of offsets to clean.

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
from kafkagroups.log.segment_file import MOST_OFFSETS, base_offset_of, read_segment
from kafkagroups.log.segments import Log

Progress = Callable[[str, int, int], None]
"""Called with the name of the step, the bytes that were read, and the bytes of the whole step."""


@dataclass
class Segment:
    """The readable part of a segment: `size` ends with its last whole batch."""

    base_offset: int
    path: str
    modified_ns: int
    size: int = 0
    batches: int = 0
    records: int = 0


@dataclass(frozen=True)
class LogToClean:
    """A log's segments and producers, and where cleaning may begin and end.

    `first_uncleanable` is the base offset of a segment. This segment and all later ones stay unchanged; the active
    segment is always one of them. `newest_ms` is the newest time in the log.
    """

    segments: list[Segment]
    states: ProducerStates
    newest_ms: int
    first_dirty: int
    first_uncleanable: int


def read_log(log: Log, first_dirty: int | None, first_uncleanable: int | None, report: Progress) -> LogToClean:
    """Read the whole log, and decide which offsets the pass cleans.

    Damage ends the log, as in a broker's recovery: then the damaged segment is the active one. The whole log is dirty
    if `first_dirty` is None or outside the log. If `first_uncleanable` is None, the pass stops at the active segment or
    at the last stable offset. In both cases it moves down to the base offset of the segment that contains it.
    """
    try:
        segments = {path: Segment(base_offset_of(path), path, os.stat(path).st_mtime_ns) for path in log.segments}
        total = sum(os.path.getsize(path) for path in segments)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None
    states = ProducerStates()
    newest = NO_TIMESTAMP
    end = log.start_offset
    done = 0
    for batch in log:
        segment = segments[batch.file or ""]
        segment.size = batch.position + batch.size
        segment.batches += 1
        segment.records += record_count(batch)
        add_batch(states, batch)
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
    """Return the base of the segment that contains an offset; that of the first segment for lower offsets."""
    bases = [segment.base_offset for segment in segments]
    return max((base for base in bases if base <= offset), default=bases[0])


def select_segments(segments: Sequence[Segment], first: int, end: int) -> list[Segment]:
    """Return the segments that can contain offsets from `first` up to, not including, `end`."""
    if first >= end:
        return []
    floor = _floor(segments, first)
    return [segment for segment in segments if floor <= segment.base_offset < end]


def pair_with_next_base(segments: Sequence[Segment], end: int) -> list[tuple[Segment, int]]:
    """Return each segment with the base offset of the next one, and the last segment with `end`."""
    next_bases = [segment.base_offset for segment in segments[1:]]
    return list(zip(segments, [*next_bases, end], strict=False))


def group_by_size(segments: Sequence[Segment], most_bytes: int, first_uncleanable: int) -> list[list[Segment]]:
    """Return the groups of neighbouring segments; each group becomes one segment.

    A group has at most `most_bytes` before cleaning, and its offsets are at most MOST_OFFSETS above its first base. The
    offset before the next base counts as a segment's last offset. An empty segment always fits this second rule.
    """
    groups: list[list[Segment]] = []
    size = 0
    for segment, next_base in pair_with_next_base(segments, first_uncleanable):
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


def make_reader(step: str, segments: Sequence[Segment], report: Progress) -> Callable[[Segment], Iterator[Batch]]:
    """Return a function that reads a segment's batches, and reports the progress in all these segments."""
    total = sum(segment.size for segment in segments)
    done = 0

    def read(segment: Segment) -> Iterator[Batch]:
        nonlocal done
        for batch in read_batches(read_segment(segment.path), segment.path):
            yield batch
            done += batch.size
            report(step, done, total)

    return read
