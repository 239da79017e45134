"""The statistics of a log (`stats`): live records, bytes, and open transactions.

- A record is live if its fate (fates.py) is "wins" or "pending": a broker answers from it, or its transaction is open.
- The bytes of a batch on disk, including its header, are divided among its records in proportion to the records' sizes.
  So the bytes of all rows add up to the bytes of the partition.
- A row counts the records of one group, topic, record type or partition. Markers, unknown record types and empty
  batches belong to no group. They are in a row named null.

The last stable offset is the first offset of the oldest open transaction. Consumers with `read_committed` and the log
cleaner stop at this offset. The cleaner also never cleans the active segment (the last one). `freed_bytes` estimates
how many bytes a first pass of the cleaner would free: those of the records whose key has a newer record in the segments
that may be cleaned. Tombstones and markers stay until their retention time is over. `written_by` names the Kafka
versions that can have written the records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kafkagroups.anatomy.written_by import describe_writers, writers_of
from kafkagroups.errors import UsageError
from kafkagroups.groups.observer import Fate
from kafkagroups.history.fates import Fates
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.loading.engines import create_observed_engine
from kafkagroups.loading.load import load_logs
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, record_count
from kafkagroups.log.segment_file import base_offset_of
from kafkagroups.log.segments import Log
from kafkagroups.records.versions import Dialect, VersionRange

BY = ("group", "topic", "type", "partition")
"""What one row of the statistics can count."""
LOAD_RATE = 400_000
"""The records per second that a broker of 3.9.2 or 4.3.1 loads: 10 million in 26 s, measured on two cores."""


@dataclass
class OpenTransaction:
    """A producer's transaction without a marker.

    `first_offset` and `since_ms` are the base offset and the time (ms) of the transaction's first batch. `groups` are
    the groups for which the transaction commits offsets.
    """

    producer_id: int
    first_offset: int
    since_ms: int
    groups: list[str] = field(default_factory=list)


@dataclass
class Count:
    """The records and bytes of one row: of a group, topic, record type or partition.

    `live_records` and `live_bytes` count the live records. `tombstones` counts the records without a value whose type
    the coordinator reads. `in_partitions` are the partitions of the offsets topic that contain these records.
    """

    records: int = 0
    bytes: int = 0
    live_records: int = 0
    live_bytes: int = 0
    tombstones: int = 0
    in_partitions: list[int | None] = field(default_factory=list)


@dataclass
class PartitionStats(Count):
    """A partition of the offsets topic.

    `uncleanable_bytes` counts the bytes that the cleaner may not clean now. `freed_bytes` estimates how many of the
    other bytes a pass of the cleaner would free. `next_offset` is the offset after the last batch.
    """

    segments: int = 0
    batches: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    last_stable_offset: int = 0
    next_offset: int = 0
    open_transactions: list[OpenTransaction] = field(default_factory=list)
    uncleanable_bytes: int = 0
    freed_bytes: int = 0
    written_by: str = ""


def check_row_names(by: str) -> None:
    """Raise UsageError if `by` is not one of BY."""
    if by not in BY:
        raise UsageError(f"by: expected one of {', '.join(BY)}, found {by!r}")


def count_logs(
    logs: Sequence[Log], dialect: Dialect, by: str = "group", *, path: str = "", partitions: int | None = None
) -> Stats:
    """Load logs and return their statistics, with a row for each group, topic, type or partition."""
    stats = Stats(dialect, by)
    groups = load_logs(logs, dialect, path, partitions=partitions, engine=create_observed_engine(stats))
    stats.settle(groups.groups, groups.orphans, groups.failed)
    stats.finish(logs, groups.problems)
    return stats


class Stats(Fates):
    """The statistics of logs. `partitions` has a PartitionStats for each partition.

    `rows` has a Count for each group, topic, type or partition, as `by` says. Load logs with this observer, then call
    `settle`, then `finish`. To save memory, the observer keeps only the entries of records that may still be live.
    """

    def __init__(self, dialect: Dialect, by: str = "group") -> None:
        super().__init__(dialect)
        self.by = by
        self.partitions: dict[int | None, PartitionStats] = {}
        self.rows: dict[object, Count] = {}
        self.problems: list[str] = []
        self._open: dict[int | None, dict[int, OpenTransaction]] = {}
        """The open transactions, by partition and producer id."""
        self._writers: dict[int | None, set[VersionRange]] = {}
        """By partition: which Kafka versions can have written its records."""
        self._segments: dict[int | None, Counter[str]] = {}
        """By partition: the bytes of each segment, in the order of the log."""
        self._base_offsets: dict[int | None, list[int]] = {}
        """By partition: the base offsets of these segments."""
        self._replaced: dict[int | None, Counter[tuple[str, int]]] = {}
        """By partition: the bytes of records whose key has a newer record.

        A key of the counter is the file of the older record, and the base offset of the newer record's segment.
        """

    def batch(self, partition: int | None, batch: Batch) -> None:
        entries = self.add_batch(partition, batch)
        count = self.partitions.setdefault(partition, PartitionStats())
        count.batches += 1
        count.bytes += batch.size
        count.records += record_count(batch)
        count.next_offset = batch.next_offset
        self._count_segment(partition, batch)
        if not entries:
            # The cleaner emptied the batch, or its records cannot be read.
            self._row(None, partition).bytes += batch.size
            return
        writers = self._writers.setdefault(partition, set())
        sizes = divide(batch.size, [entry.size for entry, _ in entries])
        for (entry, record), size in zip(entries, sizes, strict=True):
            if record is not None:
                writers.add(writers_of(record, is_transactional=batch.is_transactional))
            entry.size = size
            row = self._row(entry, partition)
            row.records += 1
            row.bytes += size
            if entry.fate is Fate.TOMBSTONE:
                row.tombstones += 1
                count.tombstones += 1
            if entry.fate is not None:
                self._drop(entry)
            if entry.timestamp != NO_TIMESTAMP:
                _widen_times(count, entry.timestamp)
        self._follow_transaction(partition, batch, [entry for entry, _ in entries])

    def _count_segment(self, partition: int | None, batch: Batch) -> None:
        segments = self._segments.setdefault(partition, Counter())
        file = batch.file or ""
        if file not in segments:
            self._base_offsets.setdefault(partition, []).append(base_offset_of(file))
        segments[file] += batch.size

    def _drop(self, entry: RecordFate) -> None:
        """Remove the entry of a record that can no longer be live."""
        position = (entry.partition, entry.offset)
        others = [other for other in self.records[position] if other is not entry]
        if others:
            self.records[position] = others
        else:
            del self.records[position]

    def decide(self, entry: RecordFate, fate: Fate, by: int, *, same_key: bool = True) -> None:
        if fate is Fate.WINS:
            super().decide(entry, fate, by)
            return
        self._drop(entry)
        if same_key:
            bases = self._base_offsets[self.partition]
            newer_segment = bases[max(bisect_right(bases, by) - 1, 0)]
            replaced = self._replaced.setdefault(self.partition, Counter())
            replaced[entry.file or "", newer_segment] += entry.size

    def _row(self, entry: RecordFate | None, partition: int | None) -> Count:
        row = self.rows.setdefault(self._row_name(entry, partition), Count())
        if partition not in row.in_partitions:
            row.in_partitions.append(partition)
        return row

    def _row_name(self, entry: RecordFate | None, partition: int | None) -> object:
        if self.by == "partition":
            return partition
        if entry is None:
            return None
        if self.by == "topic":
            return None if entry.key is None else entry.key.topic
        return entry.group if self.by == "group" else entry.type

    def _follow_transaction(self, partition: int | None, batch: Batch, entries: list[RecordFate]) -> None:
        open_transactions = self._open.setdefault(partition, {})
        if batch.is_control:
            if any(entry.fate is Fate.MARKER for entry in entries):
                open_transactions.pop(batch.producer_id, None)
        elif batch.is_transactional:
            # `first` is used only if no transaction of this producer is open.
            since_ms = batch.records[0].timestamp if batch.records else batch.max_timestamp
            first = OpenTransaction(batch.producer_id, batch.base_offset, since_ms)
            transaction = open_transactions.setdefault(batch.producer_id, first)
            groups = {entry.group for entry in entries if entry.group is not None}
            transaction.groups = sorted(groups.union(transaction.groups))

    def finish(self, logs: Iterable[Log], problems: list[str]) -> None:
        """Count the live records and the open transactions, which are known only after `settle`."""
        self.problems = problems
        for log in logs:
            count = self.partitions.setdefault(log.partition, PartitionStats(next_offset=log.start_offset))
            self._finish_partition(log, count)
        for entry in self:
            if entry.fate in (Fate.WINS, Fate.PENDING):
                for row in (self.partitions[entry.partition], self._row(entry, entry.partition)):
                    row.live_records += 1
                    row.live_bytes += entry.size

    def _finish_partition(self, log: Log, count: PartitionStats) -> None:
        transactions = self._open.get(log.partition, {}).values()
        count.open_transactions = sorted(transactions, key=lambda transaction: transaction.first_offset)
        count.last_stable_offset = count.next_offset
        if count.open_transactions:
            count.last_stable_offset = count.open_transactions[0].first_offset
        bases = [base_offset_of(segment) for segment in log.segments]
        count.segments = len(bases)
        limit = min(bases[-1], count.last_stable_offset)
        first_uncleanable = max((base for base in bases if base <= limit), default=bases[0])
        for file, size in self._segments.get(log.partition, {}).items():
            if base_offset_of(file) >= first_uncleanable:
                count.uncleanable_bytes += size
        for (file, newer_segment), size in self._replaced.get(log.partition, {}).items():
            if max(base_offset_of(file), newer_segment) < first_uncleanable:
                count.freed_bytes += size
        count.written_by = describe_writers(self._writers.get(log.partition, ()))


def _widen_times(count: PartitionStats, timestamp: int) -> None:
    first_ms = count.first_timestamp_ms
    last_ms = count.last_timestamp_ms
    count.first_timestamp_ms = timestamp if first_ms is None else min(first_ms, timestamp)
    count.last_timestamp_ms = timestamp if last_ms is None else max(last_ms, timestamp)


def divide(whole: int, sizes: Iterable[int]) -> list[int]:
    """Divide the integer `whole` in proportion to `sizes`. The parts are integers and add up to `whole`."""
    weights = list(sizes)
    if not any(weights):
        weights = [1] * len(weights)
    total = sum(weights)
    parts = []
    weight_sum = 0
    part_sum = 0
    for weight in weights:
        weight_sum += weight
        part = whole * weight_sum // total - part_sum
        part_sum += part
        parts.append(part)
    return parts
