"""Log compaction: one pass of the cleaner of Kafka 4.3.1 over one partition.

The offset map (offset_map.py) contains the newest offset of each key in the dirty part of the log. This part begins at
the first dirty offset, where the earlier passes ended, and ends at the first uncleanable offset. A record stays if the
offset map has no newer record of its key, and if the record is not an expired tombstone (a record without a value). The
pass reads and rewrites all segments from the log's start to the last offset that the map covers. It divides these
segments into groups, and writes each group as one segment. It copies all later segments, including the active segment
(the last one). The next pass begins after the last offset of the map: the next dirty offset.

- The first pass that keeps a tombstone sets a delete horizon in the header of its batch: attribute bit 6 is set, and
  the base timestamp becomes the time of the pass + delete.retention.ms. The horizon never changes. The first pass at or
  after the horizon removes the tombstones of the batch.
- Data of aborted transactions is removed immediately. A marker is the control record that ends a transaction. An unused
  marker (cleaned_transactions.py) gets a delete horizon like a tombstone.
- A batch that loses all its records is removed, with three exceptions. An empty batch stays if the batch contained the
  last data of an active producer (producer_state.py). It stays if it is a marker of the newest epoch of a producer that
  has no data in this epoch. It also stays if it is the last batch below the first uncleanable offset.
- A batch that loses no record is copied byte for byte. A rewritten batch keeps its offsets, producer, sequence, leader
  epoch, codec and timestamp type. Its base timestamp is the delete horizon, or the timestamp of its first record. An
  empty batch has no codec, no horizon and no base timestamp.
- Messages of magic 0 and 1 (the formats before Kafka 0.11) become batches of magic 2. The base offset of such a batch
  is the first offset that the pass keeps.
- Records without a key are removed. Records after the last offset of the map stay, unless they were aborted.

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

MAX_INT64 = 2**63 - 1


@dataclass(frozen=True)
class CleanerConfig:
    """The time of a pass and the topic's settings.

    `now_ms` is the time of the pass; None means the newest timestamp in the log. `delete_retention_ms` is the topic's
    delete.retention.ms. The dirty part of the log begins at `first_dirty` (None: the log's start) and ends at
    `first_uncleanable` (None: the highest offset that Kafka allows). `segment_bytes` is the largest size of a new
    segment. `map_entries` is the number of keys that fit into the offset map. A producer without a batch in the last
    `producer_expiration_ms` is no longer active; -1 means that producers never expire.
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
    """The size of a log. A message of magic 0 or 1 counts as a batch, unless it is in a compressed wrapper."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Compaction:
    """The result of a pass. Each list in `groups` contains the base offsets of the segments that became one segment.

    `next_dirty_offset` is the `first_dirty` of the next pass. `before` and `after` are the sizes of the log before and
    after the pass. `damage` is where the log ended because of damaged bytes; None if the log is not damaged. If no
    segment is dirty, no group is cleaned and `next_dirty_offset` is 0, as in Kafka's cleaner.
    """

    next_dirty_offset: int
    groups: list[list[int]]
    before: Size
    after: Size
    damage: Damage | None


def clean(log: Log, out: Path, config: CleanerConfig, progress: Progress | None = None) -> Compaction:
    """Run one pass, and write all segments, cleaned or not, to the new or empty folder `out`.

    Only one segment and the offset map are in memory. Raises UsageError if a number is out of range or the folder is
    not empty. Raises InvalidLog or InvalidRecord if Kafka's cleaner fails at this log. If the pass fails, it deletes
    the files that it has written.
    """
    _check_numbers(config)
    create_folder(out)
    try:
        return _clean(log, out, config, progress or (lambda step, done, total: None))
    except BaseException:
        for file in out.iterdir():
            file.unlink()
        raise


def _check_numbers(config: CleanerConfig) -> None:
    minimums = {"segment_bytes": 1, "map_entries": 1, "producer_expiration_ms": -1}
    for name, value in vars(config).items():
        minimum = minimums.get(name, 0)
        if value is not None and not minimum <= value <= MAX_INT64:
            raise UsageError(f"{name}: expected a number from {minimum} to {MAX_INT64}, found {value}")


def _clean(log: Log, out: Path, config: CleanerConfig, report: Progress) -> Compaction:
    source = read_log(log, config.first_dirty, config.first_uncleanable, report)
    offset_map = _build_offset_map(source, config.map_entries, report)
    next_dirty = offset_map.last_offset + 1
    to_clean = select_segments(source.segments, 0, next_dirty)
    groups = group_by_size(to_clean, config.segment_bytes, source.first_uncleanable)
    record_filter = _build_record_filter(source, offset_map, config)
    old_horizon_ms = _calculate_old_horizon(source, config)
    read = make_reader("clean", to_clean, report)
    written = [_clean_group(group, out, read, record_filter, old_horizon_ms) for group in groups]
    written += [_copy_segment(segment, out) for segment in source.segments[len(to_clean) :]]
    base_offsets = [[segment.base_offset for segment in group] for group in groups]
    return Compaction(next_dirty, base_offsets, _sum_sizes(source.segments), _sum_sizes(written), log.damage)


def _build_offset_map(source: LogToClean, capacity: int, report: Progress) -> OffsetMap:
    offset_map = OffsetMap(capacity)
    dirty_segments = select_segments(source.segments, source.first_dirty, source.first_uncleanable)
    aborted = [txn for txn in source.states.aborted if txn.last_offset >= source.first_dirty]
    read = make_reader("map", dirty_segments, report)
    pairs = pair_with_next_base(dirty_segments, source.first_uncleanable)
    content = ((read(segment), next_base) for segment, next_base in pairs)
    fill_map(offset_map, content, source.first_dirty, CleanedTransactions(aborted))
    return offset_map


def _build_record_filter(source: LogToClean, offset_map: OffsetMap, config: CleanerConfig) -> RecordFilter:
    now_ms = max(source.newest_ms, 0) if config.now_ms is None else config.now_ms
    horizon_ms = now_ms + config.delete_retention_ms
    expiration_ms = config.producer_expiration_ms
    return RecordFilter(
        now_ms,
        horizon_ms if horizon_ms <= MAX_INT64 else None,
        source.first_uncleanable,
        offset_map,
        active_producers(source.states, None if expiration_ms < 0 else now_ms - expiration_ms),
        CleanedTransactions(source.states.aborted),
    )


def _calculate_old_horizon(source: LogToClean, config: CleanerConfig) -> int:
    """Return the time (ms) that decides whether tombstones of the old formats, magic 0 and 1, are removed.

    A batch of magic 0 or 1 cannot contain a delete horizon. Instead, the pass removes the tombstones of these formats
    from a segment whose file was last modified at or before the returned time. This time is delete.retention.ms before
    the last change of the last segment that an earlier pass has cleaned. It is 0 if no segment has been cleaned.
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
    old_horizon_ms: int,
) -> Segment:
    """Clean a group of segments and write the result as one segment, even if no record stays.

    The new segment has the base offset of the group's first segment and the modification time of the group's last
    segment. `old_horizon_ms` is the result of `_calculate_old_horizon`.
    """
    base_offset = group[0].base_offset
    modified_ns = group[-1].modified_ns
    target = Segment(base_offset, os.path.join(out, segment_name(base_offset)), modified_ns)
    with open(target.path, "wb") as file:
        for segment in group:
            keeps_old_tombstones = segment.modified_ns // 1_000_000 > old_horizon_ms
            for batch in read(segment):
                content, record_count = filter_batch(batch, record_filter, keeps_old_tombstones)
                file.write(content)
                target.size += len(content)
                target.batches += bool(content)
                target.records += record_count
    os.utime(target.path, ns=(modified_ns, modified_ns))
    return target


def _copy_segment(segment: Segment, out: Path) -> Segment:
    """Copy a segment to the folder `out`, up to the end of its last valid batch."""
    path = os.path.join(out, segment_name(segment.base_offset))
    shutil.copyfile(segment.path, path)
    os.truncate(path, segment.size)
    os.utime(path, ns=(segment.modified_ns, segment.modified_ns))
    return replace(segment, path=path)


def _sum_sizes(segments: Sequence[Segment]) -> Size:
    return Size(
        len(segments),
        sum(segment.batches for segment in segments),
        sum(segment.records for segment in segments),
        sum(segment.size for segment in segments),
    )
