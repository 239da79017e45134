"""What both engines note while they count a log, and the observer that counts it for the readable engine.

The native engine counts inside a load and hands over its totals. The readable engine calls the observer for each record
(groups/observer.py). What the records show by themselves, for example steps back in time, has one form for both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from contextlib import suppress
from functools import cached_property
from typing import Any

from kafkagroups.anatomy.written_by import describe_writers, writers_of
from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import LogKeys, read_control_type, read_keys
from kafkagroups.groups.observer import Fate
from kafkagroups.history.clock_jumps import ClockJumps, StepBack
from kafkagroups.history.fates import Fates
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.history.second_pass import list_readable
from kafkagroups.history.static_members import StaticMembers
from kafkagroups.history.stats import (
    Count,
    OpenTransaction,
    PartitionStats,
    SegmentCount,
    Stats,
    Traces,
    add_batch,
    divide,
)
from kafkagroups.history.writers import WriterRanges
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.native import Extent
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, record_count
from kafkagroups.log.segment_file import base_offset_of
from kafkagroups.log.segments import Log, Notes
from kafkagroups.records.control import ControlType
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.versions import VersionRange

_GROUP_KEY = b"\0\2"
"""The first two bytes of the keys of group records: their type."""


class LogSigns:
    """What the records of one log show. `commit_markers` and `abort_markers` count the markers of transactions.

    `types` are the types of the records. The native engine leaves out those of offset records. `totals` is what it has
    counted; None if the records are added one by one.
    """

    def __init__(self, dialect: Dialect, totals: dict[str, Any] | None = None) -> None:
        self._totals = totals
        self.commit_markers = 0
        self.abort_markers = 0
        self.jumps = ClockJumps()
        self.static_members = StaticMembers(dialect)
        self.types: set[int] = set()

    @cached_property
    def extents(self) -> dict[str, Extent]:
        """Where each group has records. Most questions need them for no group, so the totals are not copied before."""
        if self._totals is None:
            return {}
        group_ids = self._totals["group_ids"]
        return {group_ids[number]: Extent(*extent) for number, *extent in self._totals["extents"]}

    def add_batch(self, batch: Batch, keys: LogKeys) -> None:
        """Add the next batch of the log."""
        for record in list_readable(batch):
            self.jumps.add(record.offset, record.timestamp)
            if batch.is_control:
                with suppress(BadBytes):
                    self.add_markers([read_control_type(record).value])
                continue
            if record.key is not None:
                self.types.add(int.from_bytes(record.key[:2], "big", signed=True))
            if record.key is not None and record.key[:2] == _GROUP_KEY:
                self.static_members.add(record.offset, record.timestamp, record.key, record.value)
        for group_id, _, record in read_keys(batch, keys):
            extent = self.extents.get(group_id, Extent(record.offset, record.offset, 0, None))
            self.extents[group_id] = Extent(extent.first, record.offset, extent.records + 1, None)

    def add_markers(self, control_types: list[int]) -> None:
        self.commit_markers += control_types.count(ControlType.COMMIT.value)
        self.abort_markers += control_types.count(ControlType.ABORT.value)


def signs_of(totals: dict[str, Any], dialect: Dialect) -> LogSigns:
    """Return the signs in what the native engine has counted (`Reading.totals`)."""
    signs = LogSigns(dialect, totals)
    signs.abort_markers, signs.commit_markers = totals["markers"]
    signs.jumps.steps = [StepBack(*step) for step in totals["time_steps"]]
    for replacement in totals["static_replacements"]:
        signs.static_members.add_replaced(*replacement)
    signs.types = {record_type for _, record_type, _ in totals["other_rows"]}
    return signs


class StatsObserver(Fates):
    """Counts the records of one log. An entry is the RecordFate of one record.

    `by` is one of ROW_KINDS (stats.py). To use this class, load the log with this observer. Then call `finish`. To save
    memory, the observer keeps only the entries of records that may still be live.
    """

    def __init__(self, dialect: Dialect, log: Log, by: str) -> None:
        super().__init__(dialect)
        self.log = log
        self.notes = Notes()
        self.counts = PartitionStats(next_offset=log.start_offset)
        self.stats = Stats(by, {log.partition: self.counts})
        self._open: dict[int, OpenTransaction] = {}
        """The open transactions by producer id. Their `groups` are filled at the end."""
        self._open_groups: dict[int, set[str]] = {}
        """The group ids of each open transaction, by producer id."""
        self._writers: set[VersionRange] = set()
        """The Kafka versions that can have written the records."""
        self._writer_ranges = WriterRanges(dialect)
        self.signs = LogSigns(dialect)
        self._traces: dict[str, Traces] = {}
        """The traces of the cleaner in each segment file."""
        self._segment_bytes: Counter[str] = Counter()
        """The number of bytes in each segment file, in the order of the log."""
        self._segment_bases: list[int] = []
        """The base offsets of the segments, in the order of the log."""
        self._replaced_bytes: Counter[int] = Counter()
        """The number of bytes of the records that were replaced by a newer record of the same key.

        The keys are the base offsets of the later one of the two records' segments.
        """

    def start_batch(self, partition: int | None, batch: Batch) -> None:
        entries = self.add_batch(partition, batch)
        self.signs.add_batch(batch, self._keys)
        self.counts.batches += 1
        self.counts.bytes += batch.size
        self.counts.records += record_count(batch)
        self._count_segment(batch)
        self.counts.next_offset = batch.next_offset
        if not entries:
            # The cleaner removed all records of the batch, or the records cannot be read.
            self._find_row(None).bytes += batch.size
            return
        sizes = divide(batch.size, [entry.size for entry, _ in entries])
        for (entry, record), size in zip(entries, sizes, strict=True):
            if record is not None:
                writers = writers_of(record, is_transactional=batch.is_transactional)
                self._writers.add(writers)
                self._writer_ranges.add(entry.offset, writers)
            entry.size = size
            row = self._find_row(entry)
            row.records += 1
            row.bytes += size
            if entry.key is not None and entry.committed is not None and entry.group is not None:
                self.stats.commits[entry.group] += 1
            if entry.fate is Fate.TOMBSTONE:
                row.tombstones += 1
                self.counts.tombstones += 1
            # The fate of a tombstone, a marker or an ignored record is already decided: the record is not live.
            if entry.fate is not None:
                self._drop(entry)
            if entry.timestamp != NO_TIMESTAMP:
                self.counts.include_timestamp(entry.timestamp)
        self._follow_transaction(batch, [entry for entry, _ in entries])

    def _count_segment(self, batch: Batch) -> None:
        file = batch.file or ""
        if file not in self._segment_bytes:
            self._segment_bases.append(base_offset_of(file))
        self._segment_bytes[file] += batch.size
        previous_end = self.counts.next_offset
        gaps = self.notes.gaps
        if gaps and gaps[-1].to_offset == batch.base_offset:
            previous_end = batch.base_offset  # The offsets before it are damaged, and not cleaned.
        self._traces[file] = add_batch(self._traces.get(file, Traces()), batch, previous_end)

    def _drop(self, entry: RecordFate) -> None:
        """Remove the entry of a record that can no longer be live."""
        position = (entry.partition, entry.offset)
        others = [other for other in self.records[position] if other is not entry]
        if others:
            self.records[position] = others
        else:
            del self.records[position]

    def decide(self, entry: RecordFate, fate: Fate, by: int, *, has_same_key: bool = True) -> None:
        if fate is Fate.WINS:
            super().decide(entry, fate, by)
            return
        self._drop(entry)
        if has_same_key:
            later_base = max(base_offset_of(entry.file or ""), self._find_segment_base(by))
            self._replaced_bytes[later_base] += entry.size

    def _find_segment_base(self, offset: int) -> int:
        """Return the base offset of the segment that contains `offset`."""
        return self._segment_bases[max(bisect_right(self._segment_bases, offset) - 1, 0)]

    def _find_row(self, entry: RecordFate | None) -> Count:
        """Return the row that counts the record of this entry. If `entry` is None, the batch has no readable record."""
        return self.stats.find_row(self._get_row_name(entry), self.log.partition)

    def _get_row_name(self, entry: RecordFate | None) -> object:
        if self.stats.by == "partition":
            return self.log.partition
        if entry is None:
            return None
        if self.stats.by == "topic":
            return None if entry.key is None else entry.key.topic
        return entry.group if self.stats.by == "group" else entry.type

    def _follow_transaction(self, batch: Batch, entries: list[RecordFate]) -> None:
        if batch.is_control:
            if any(entry.fate is Fate.MARKER for entry in entries):
                self._open.pop(batch.producer_id, None)
                self._open_groups.pop(batch.producer_id, None)
        elif batch.is_transactional:
            new_transaction = OpenTransaction(batch.producer_id, batch.base_offset, batch.records[0].timestamp)
            self._open.setdefault(batch.producer_id, new_transaction)
            groups = self._open_groups.setdefault(batch.producer_id, set())
            groups.update(entry.group for entry in entries if entry.group is not None)

    def finish(self, groups: Groups) -> Stats:
        """Return the statistics. `groups` is the result of the load of all logs."""
        self.settle(groups.groups, groups.orphans, groups.failed)
        for entry in self:
            if entry.fate in (Fate.WINS, Fate.PENDING):
                for count in (self.counts, self._find_row(entry)):
                    count.live_records += 1
                    count.live_bytes += entry.size
        transactions = sorted(self._open.values(), key=lambda transaction: transaction.first_offset)
        for transaction in transactions:
            transaction.groups = sorted(self._open_groups[transaction.producer_id])
        self.counts.add_transactions(transactions)
        segments = []
        for file in self.log.segments:
            base = base_offset_of(file)
            traces = self._traces.get(file, Traces())
            segments.append(SegmentCount(base, self._segment_bytes[file], self._replaced_bytes[base], traces))
        self.counts.add_segments(segments)
        self.counts.written_by = describe_writers(self._writers)
        self.counts.written_by_ranges = self._writer_ranges.finish(self.log.start_offset, self.counts.next_offset)
        return self.stats
