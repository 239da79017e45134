"""Log compaction: one pass of the cleaner of Kafka 4.3.1 over one partition.

A record stays if the offset map (offset_map.py) has no newer record of its key, and if it is not an expired tombstone.
The pass reads and rewrites all segments from the log's start to the end of the map. It writes them in groups, and each
group becomes one segment. It copies all later segments, and also the active one. The pass ends where the map ends: the
next dirty offset.

- The batch marks its tombstones. The pass that keeps a tombstone sets attribute bit 6, and sets the base timestamp to
  its own time + delete.retention.ms: the delete horizon. The horizon never changes. The first pass at or after the
  horizon removes the tombstones.
- Data of aborted transactions is removed immediately. An unused marker (cleaned_transactions.py) gets a delete horizon
  like a tombstone.
- A batch that loses all its records is removed, with three exceptions. It stays, empty, if it contains an active
  producer's last data, or if the producer has no data and this is a marker of its newest epoch. It also stays if it is
  the last batch below the first uncleanable offset.
- A batch that loses no record is copied byte for byte. A rewritten batch keeps offsets, producer, sequence, leader
  epoch, codec and timestamp type. Its base timestamp is the horizon or that of its first record. An empty batch has no
  codec, no horizon and no base timestamp.
- Messages of magic 0 and 1 become batches of magic 2 that begin at their first kept offset.
- Records without a key are removed. Records after the map's end stay, unless they were aborted.

Simpler than Kafka: there are no index files, so their size limits do not apply. A segment whose offsets span more than
an int32 is not split.
Source: Cleaner.java, LogToClean.java, MemoryRecords.filterTo (4.3.1).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kafkagroups.errors import UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.log.cleaned_transactions import CleanedTransactions
from kafkagroups.log.log_to_clean import (
    LogToClean,
    Progress,
    Segment,
    group_by_size,
    make_reader,
    pair_with_next_base,
    read_log,
    select_segments,
)
from kafkagroups.log.offset_map import DEFAULT_CAPACITY, OffsetMap, fill_map
from kafkagroups.log.producer_state import active_producers
from kafkagroups.log.record_filter import RecordFilter, filter_batch
from kafkagroups.log.segment_file import SEGMENT_BYTES, segment_name
from kafkagroups.log.segments import Damage, Log
from kafkagroups.log.writer import create_folder

MOST_MS = 2**63 - 1


@dataclass(frozen=True)
class CleanerConfig:
    """The time of a pass and the topic's settings.

    None means: for `now_ms` the newest timestamp in the log, for `first_dirty` the log's start, and for
    `first_uncleanable` as far as Kafka may clean.
    """

    now_ms: int | None = None
    delete_retention_ms: int = 86_400_000
    first_dirty: int | None = None
    first_uncleanable: int | None = None
    segment_bytes: int = SEGMENT_BYTES
    map_entries: int = DEFAULT_CAPACITY
    producer_expiration_ms: int = 86_400_000


@dataclass(frozen=True)
class Size:
    """The size of a log. A message of magic 0 or 1 outside a wrapper counts as a batch."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Compaction:
    """The result of a pass. Each of `groups` contains the base offsets of the segments that became one segment.

    `damage` is where the log ended because of damaged bytes. If nothing is dirty, no group is cleaned and
    `next_dirty_offset` is 0, as in Kafka's cleaner.
    """

    next_dirty_offset: int
    groups: list[list[int]]
    before: Size
    after: Size
    damage: Damage | None


def clean(log: Log, out: Path, config: CleanerConfig, progress: Progress | None = None) -> Compaction:
    """Write the log as one pass leaves it to the new or empty folder `out`: all segments, cleaned or not.

    Memory contains one segment and the offset map. UsageError: a number is out of range, or the folder is not empty.
    InvalidLog or InvalidRecord: Kafka's cleaner fails at this log. Then the folder stays empty.
    """
    _check(config)
    create_folder(out)
    try:
        return _clean(log, out, config, progress or (lambda step, done, total: None))
    except BaseException:
        for file in out.iterdir():
            file.unlink()
        raise


def _check(config: CleanerConfig) -> None:
    least = {"segment_bytes": 1, "map_entries": 1, "producer_expiration_ms": -1}
    for name, value in vars(config).items():
        if value is not None and not least.get(name, 0) <= value <= MOST_MS:
            raise UsageError(f"{name}: expected a number from {least.get(name, 0)} to {MOST_MS}, found {value}")


def _clean(log: Log, out: Path, config: CleanerConfig, report: Progress) -> Compaction:
    source = read_log(log, config.first_dirty, config.first_uncleanable, report)
    offset_map = _offset_map(source, config.map_entries, report)
    next_dirty = offset_map.last_offset + 1
    cleaned = select_segments(source.segments, 0, next_dirty)
    groups = group_by_size(cleaned, config.segment_bytes, source.first_uncleanable)
    rules = _record_filter(source, offset_map, config)
    old_horizon_ms = _old_horizon_ms(source, config)
    read = make_reader("clean", cleaned, report)
    written = [_clean_group(group, out, read, rules, old_horizon_ms) for group in groups]
    written += [_copy(segment, out) for segment in source.segments[len(cleaned) :]]
    bases = [[segment.base_offset for segment in group] for group in groups]
    return Compaction(next_dirty, bases, _size(source.segments), _size(written), log.damage)


def _offset_map(source: LogToClean, entries: int, report: Progress) -> OffsetMap:
    offset_map = OffsetMap(entries)
    dirty = select_segments(source.segments, source.first_dirty, source.first_uncleanable)
    aborted = [txn for txn in source.states.aborted if txn.last_offset >= source.first_dirty]
    read = make_reader("map", dirty, report)
    content = (
        (read(segment), next_base) for segment, next_base in pair_with_next_base(dirty, source.first_uncleanable)
    )
    fill_map(offset_map, content, source.first_dirty, CleanedTransactions(aborted))
    return offset_map


def _record_filter(source: LogToClean, offset_map: OffsetMap, config: CleanerConfig) -> RecordFilter:
    now = max(source.newest_ms, 0) if config.now_ms is None else config.now_ms
    horizon = now + config.delete_retention_ms
    expiration = config.producer_expiration_ms
    return RecordFilter(
        now,
        horizon if horizon <= MOST_MS else None,
        source.first_uncleanable,
        offset_map,
        active_producers(source.states, None if expiration < 0 else now - expiration),
        CleanedTransactions(source.states.aborted),
    )


def _old_horizon_ms(source: LogToClean, config: CleanerConfig) -> int:
    """Return the time up to which a segment was last modified, if its tombstones of magic 0 and 1 are removed.

    These tombstones have no delete horizon, so the time of the segment's file decides.
    """
    clean_part = select_segments(source.segments, 0, source.first_dirty)
    if not clean_part:
        return 0
    return clean_part[-1].modified_ns // 1_000_000 - config.delete_retention_ms


def _clean_group(
    group: Sequence[Segment],
    out: Path,
    read: Callable[[Segment], Iterator[Batch]],
    rules: RecordFilter,
    old_horizon_ms: int,
) -> Segment:
    """Write one segment of a group, even if no record stays.

    It has the base offset of the group's first segment and the modification time of its last one.
    """
    base = group[0].base_offset
    modified = group[-1].modified_ns
    target = Segment(base, os.path.join(out, segment_name(base)), modified)
    with open(target.path, "wb") as file:
        for segment in group:
            keeps_old_tombstones = segment.modified_ns // 1_000_000 > old_horizon_ms
            for batch in read(segment):
                kept, records = filter_batch(batch, rules, keeps_old_tombstones)
                file.write(kept)
                target.size += len(kept)
                target.batches += bool(kept)
                target.records += records
    os.utime(target.path, ns=(modified, modified))
    return target


def _copy(segment: Segment, out: Path) -> Segment:
    """Copy the readable part of a segment."""
    path = os.path.join(out, segment_name(segment.base_offset))
    shutil.copyfile(segment.path, path)
    os.truncate(path, segment.size)
    os.utime(path, ns=(segment.modified_ns, segment.modified_ns))
    return replace(segment, path=path)


def _size(segments: Sequence[Segment]) -> Size:
    return Size(
        len(segments),
        sum(segment.batches for segment in segments),
        sum(segment.records for segment in segments),
        sum(segment.size for segment in segments),
    )
