"""Log compaction: one pass of the cleaner of Kafka 4.3.1 over one partition.

A record stays when no newer record of its key stands in the offset map (offset_map.py) and it is no expired tombstone.
All segments from the log's start to the end of the map are read and written again, in groups that become one segment
each; what comes behind, the active segment too, is copied. The pass ends where the map ends: the next dirty offset.

- Tombstones are marked by the batch: the pass that keeps one sets attribute bit 6, and base timestamp = its own time +
  delete.retention.ms. The first pass at or after that horizon removes them. It never changes.
- Data of aborted transactions goes at once. An unused marker (cleaned_transactions.py) gets a horizon like a tombstone.
- A batch that loses all its records stays, empty, when it holds an active producer's last data (without any: when it is
  a marker of its newest epoch), or when it is the last below the first uncleanable offset.
- A batch that loses nothing is copied byte for byte. What is written again keeps offsets, producer, sequence, leader
  epoch, codec and time type; its base timestamp is the horizon or its first record's. An empty one keeps no codec, no
  horizon and no base timestamp. Messages of magic 0 and 1 become batches of magic 2 from their first kept offset on.
- Records without a key go. Records past the map's end stay, unless they were aborted.

Simpler than Kafka: index files and their size limits do not exist; a segment whose offsets span more than an int32 is
not split. Source: Cleaner.java, LogToClean.java, MemoryRecords.filterTo (4.3.1).
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
    between,
    group_by_size,
    log_to_clean,
    reader,
    with_next_base,
)
from kafkagroups.log.offset_map import DEFAULT_CAPACITY, OffsetMap, fill
from kafkagroups.log.producer_state import active_producers
from kafkagroups.log.record_filter import RecordFilter, filter_batch
from kafkagroups.log.segment_file import SEGMENT_BYTES, segment_name
from kafkagroups.log.segments import Damage, Log
from kafkagroups.log.writer import create_folder

MOST_MS = 2**63 - 1


@dataclass(frozen=True)
class CleanerConfig:
    """A pass's time and the topic's settings. None: the log's newest time, all is dirty, as far as may be."""

    now_ms: int | None = None
    delete_retention_ms: int = 86_400_000
    first_dirty: int | None = None
    first_uncleanable: int | None = None
    segment_bytes: int = SEGMENT_BYTES
    map_entries: int = DEFAULT_CAPACITY
    producer_expiration_ms: int = 86_400_000


@dataclass(frozen=True)
class Size:
    """How much a log holds. A message of magic 0 or 1 outside a wrapper is a batch."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Compaction:
    """What a pass did: `groups` are the base offsets that became one segment each.

    `damage` is where the log ended because of damaged bytes. With nothing dirty no group is cleaned and
    `next_dirty_offset` is 0, as Kafka's cleaner has it.
    """

    next_dirty_offset: int
    groups: list[list[int]]
    before: Size
    after: Size
    damage: Damage | None


def clean(log: Log, out: Path, config: CleanerConfig, progress: Progress | None = None) -> Compaction:
    """Writes what one pass over `log` leaves into the new or empty folder `out`: all segments, cleaned or not.

    Memory holds one segment and the offset map. UsageError for a number out of range or a folder that is not empty;
    InvalidLog or InvalidRecord for what makes Kafka's cleaner fail: then the folder stays empty.
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
            raise UsageError(f"{name}: a number from {least.get(name, 0)} to {MOST_MS} was expected, not {value}")


def _clean(log: Log, out: Path, config: CleanerConfig, report: Progress) -> Compaction:
    source = log_to_clean(log, config.first_dirty, config.first_uncleanable, report)
    offset_map = _offset_map(source, config.map_entries, report)
    next_dirty = offset_map.last_offset + 1
    cleaned = between(source.segments, 0, next_dirty)
    groups = group_by_size(cleaned, config.segment_bytes, source.first_uncleanable)
    rules = _record_filter(source, offset_map, config)
    old_horizon_ms = _old_horizon_ms(source, config)
    read = reader("clean", cleaned, report)
    written = [_clean_group(group, out, read, rules, old_horizon_ms) for group in groups]
    written += [_copy(segment, out) for segment in source.segments[len(cleaned) :]]
    bases = [[segment.base_offset for segment in group] for group in groups]
    return Compaction(next_dirty, bases, _size(source.segments), _size(written), log.damage)


def _offset_map(source: LogToClean, entries: int, report: Progress) -> OffsetMap:
    offset_map = OffsetMap(entries)
    dirty = between(source.segments, source.first_dirty, source.first_uncleanable)
    aborted = [txn for txn in source.states.aborted if txn.last_offset >= source.first_dirty]
    read = reader("map", dirty, report)
    content = ((read(segment), next_base) for segment, next_base in with_next_base(dirty, source.first_uncleanable))
    fill(offset_map, content, source.first_dirty, CleanedTransactions(aborted))
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
    """Tombstones of magic 0 and 1 go from segments that were last modified up to then: they have no other time."""
    clean_part = between(source.segments, 0, source.first_dirty)
    return clean_part[-1].modified_ns // 1_000_000 - config.delete_retention_ms if clean_part else 0


def _clean_group(
    group: Sequence[Segment],
    out: Path,
    read: Callable[[Segment], Iterator[Batch]],
    rules: RecordFilter,
    old_horizon_ms: int,
) -> Segment:
    """Writes one segment, with the base of the group's first and the time of its last, even if nothing is left."""
    base, modified = group[0].base_offset, group[-1].modified_ns
    target = Segment(base, os.path.join(out, segment_name(base)), modified)
    with open(target.path, "wb") as file:
        for segment in group:
            keeps_old_tombstones = segment.modified_ns // 1_000_000 > old_horizon_ms
            for batch in read(segment):
                left, records = filter_batch(batch, rules, keeps_old_tombstones)
                file.write(left)
                target.size += len(left)
                target.batches += bool(left)
                target.records += records
    os.utime(target.path, ns=(modified, modified))
    return target


def _copy(segment: Segment, out: Path) -> Segment:
    """Copies a segment as far as it can be read."""
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
