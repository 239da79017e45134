"""The statistics of a log (`stats`): live records, bytes, and open transactions.

- A record is live if its fate (fates.py) is "wins" (a broker answers with it) or "pending" (its transaction is open).
- The bytes of a batch on disk, including its header, are divided among its records in proportion to the records' sizes.
- A row counts the records of one group, topic, record type or partition. The row null counts everything without a group
  (or topic, or record type): for example markers and empty batches.

The last stable offset is the first offset of the oldest open transaction, or the end of the log if no transaction is
open. The log cleaner, and consumers with `read_committed`, stop at this offset. The cleaner also never cleans the
active segment, i.e. the last segment. `freed_bytes` estimates how many bytes a first pass of the cleaner would free:
those of each record whose key has a newer record, if the segments of both records may be cleaned. Tombstones and
markers stay until their retention time is over.
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
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.versions import VersionRange

ROW_KINDS = ("group", "topic", "type", "partition")
"""What one row of the statistics can stand for."""
RECORDS_LOADED_PER_SECOND = 400_000
"""How many records a broker of 3.9.2 or 4.3.1 loads per second: 10 million in 26 s, measured on two cores."""


@dataclass
class OpenTransaction:
    """A producer's transaction whose marker is not in the log.

    `first_offset` is the base offset of the transaction's first batch. `since_ms` is the time of this batch, in ms
    since the epoch. `groups` are the ids of the groups for which the transaction commits offsets.
    """

    producer_id: int
    first_offset: int
    since_ms: int
    groups: list[str] = field(default_factory=list)


@dataclass
class Count:
    """The numbers of records and bytes of one row, for example of one group.

    `records` and `bytes` count all records of the row. `live_records` and `live_bytes` count the live records.
    `tombstones` counts the tombstones whose record type the coordinator reads. `in_partitions` are the partitions of
    the offsets topic that contain records of the row.
    """

    records: int = 0
    bytes: int = 0
    live_records: int = 0
    live_bytes: int = 0
    tombstones: int = 0
    in_partitions: list[int | None] = field(default_factory=list)


@dataclass
class PartitionStats(Count):
    """The statistics of a partition of the offsets topic.

    `segments` and `batches` are counts. The timestamps are the smallest and the largest timestamp of the records; None
    if no record has a timestamp. `next_offset` is the offset after the last batch. `uncleanable_bytes` counts the bytes
    that the cleaner cannot clean now. `freed_bytes` estimates how many bytes a pass of the cleaner would free.
    `written_by` names the Kafka versions that can have written the records.
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


def check_row_kind(by: str) -> None:
    """Raise UsageError if `by` is not one of ROW_KINDS."""
    if by not in ROW_KINDS:
        raise UsageError(f"by: expected one of {', '.join(ROW_KINDS)}, found {by!r}")


def count_logs(
    logs: Sequence[Log], dialect: Dialect, by: str = "group", *, path: str = "", partitions: int | None = None
) -> Stats:
    """Load logs and return their statistics. `by` is one of ROW_KINDS: what a row stands for.

    `path` is only used in messages. `partitions` is the partition count of the offsets topic, as in `kafkagroups.load`.
    """
    stats = Stats(dialect, by)
    groups = load_logs(logs, dialect, path, partitions=partitions, engine=create_observed_engine(stats))
    stats.settle(groups.groups, groups.orphans, groups.failed)
    stats.finish(logs, groups.problems)
    return stats


class Stats(Fates):
    """The statistics of logs. An entry is the RecordFate of one record.

    `by` is one of ROW_KINDS. `rows` has a Count for each group, topic, record type or partition, as `by` says, and for
    None. `partitions` has a PartitionStats for each partition. `problems` describe the partitions that are damaged or
    whose load fails. To use this class, load logs with this observer. Then call `settle`, then `finish`. To save
    memory, the observer keeps only the entries of records that may still be live.
    """

    def __init__(self, dialect: Dialect, by: str = "group") -> None:
        super().__init__(dialect)
        self.by = by
        self.partitions: dict[int | None, PartitionStats] = {}
        self.rows: dict[object, Count] = {}
        self.problems: list[str] = []
        self._open: dict[int | None, dict[int, OpenTransaction]] = {}
        """The open transactions of each partition by producer id. Their `groups` are filled at the end."""
        self._open_groups: dict[tuple[int | None, int], set[str]] = {}
        """The group ids of each open transaction. The keys are (partition, producer id)."""
        self._writers: dict[int | None, set[VersionRange]] = {}
        """The Kafka versions that can have written the records of each partition."""
        self._segment_bytes: dict[int | None, Counter[str]] = {}
        """The number of bytes in each segment file of each partition, in the order of the log."""
        self._segment_bases: dict[int | None, list[int]] = {}
        """The base offsets of each partition's segments, in the order of the log."""
        self._replaced_bytes: dict[int | None, Counter[tuple[str, int]]] = {}
        """For each partition, the number of bytes of the records that were replaced by a newer record of the same key.

        The keys of a Counter: (segment file of the replaced record, base offset of the newer record's segment).
        """

    def start_batch(self, partition: int | None, batch: Batch) -> None:
        entries = self.add_batch(partition, batch)
        stats = self.partitions.setdefault(partition, PartitionStats())
        stats.batches += 1
        stats.bytes += batch.size
        stats.records += record_count(batch)
        stats.next_offset = batch.next_offset
        self._count_segment(partition, batch)
        if not entries:
            # The cleaner removed all records of the batch, or the records cannot be read.
            self._find_row(None, partition).bytes += batch.size
            return
        writers = self._writers.setdefault(partition, set())
        sizes = divide(batch.size, [entry.size for entry, _ in entries])
        for (entry, record), size in zip(entries, sizes, strict=True):
            if record is not None:
                writers.add(writers_of(record, is_transactional=batch.is_transactional))
            entry.size = size
            row = self._find_row(entry, partition)
            row.records += 1
            row.bytes += size
            if entry.fate is Fate.TOMBSTONE:
                row.tombstones += 1
                stats.tombstones += 1
            # The fate of a tombstone, a marker or an ignored record is already decided: the record is not live.
            if entry.fate is not None:
                self._drop(entry)
            if entry.timestamp != NO_TIMESTAMP:
                _include_timestamp(stats, entry.timestamp)
        self._follow_transaction(partition, batch, [entry for entry, _ in entries])

    def _count_segment(self, partition: int | None, batch: Batch) -> None:
        segment_bytes = self._segment_bytes.setdefault(partition, Counter())
        file = batch.file or ""
        if file not in segment_bytes:
            self._segment_bases.setdefault(partition, []).append(base_offset_of(file))
        segment_bytes[file] += batch.size

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
            replaced_bytes = self._replaced_bytes.setdefault(self.partition, Counter())
            replaced_bytes[entry.file or "", self._find_segment_base(by)] += entry.size

    def _find_segment_base(self, offset: int) -> int:
        """Return the base offset of the segment that contains `offset` in the current partition."""
        bases = self._segment_bases[self.partition]
        return bases[max(bisect_right(bases, offset) - 1, 0)]

    def _find_row(self, entry: RecordFate | None, partition: int | None) -> Count:
        """Return the row that counts the record of this entry. If `entry` is None, the batch has no readable record."""
        row = self.rows.setdefault(self._get_row_key(entry, partition), Count())
        if partition not in row.in_partitions:
            row.in_partitions.append(partition)
        return row

    def _get_row_key(self, entry: RecordFate | None, partition: int | None) -> object:
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
                self._open_groups.pop((partition, batch.producer_id), None)
        elif batch.is_transactional:
            batch_ms = batch.records[0].timestamp if batch.records else batch.max_timestamp
            new_transaction = OpenTransaction(batch.producer_id, batch.base_offset, batch_ms)
            open_transactions.setdefault(batch.producer_id, new_transaction)
            groups = self._open_groups.setdefault((partition, batch.producer_id), set())
            groups.update(entry.group for entry in entries if entry.group is not None)

    def finish(self, logs: Iterable[Log], problems: list[str]) -> None:
        """Complete the statistics of each partition, and count the live records. Call this method after `settle`."""
        self.problems = problems
        for log in logs:
            stats = self.partitions.setdefault(log.partition, PartitionStats(next_offset=log.start_offset))
            self._finish_partition(log, stats)
        for entry in self:
            if entry.fate in (Fate.WINS, Fate.PENDING):
                for count in (self.partitions[entry.partition], self._find_row(entry, entry.partition)):
                    count.live_records += 1
                    count.live_bytes += entry.size

    def _finish_partition(self, log: Log, stats: PartitionStats) -> None:
        transactions = self._open.get(log.partition, {}).values()
        for transaction in transactions:
            transaction.groups = sorted(self._open_groups[log.partition, transaction.producer_id])
        stats.open_transactions = sorted(transactions, key=lambda transaction: transaction.first_offset)
        stats.last_stable_offset = stats.next_offset
        if stats.open_transactions:
            stats.last_stable_offset = stats.open_transactions[0].first_offset
        segment_bases = [base_offset_of(segment) for segment in log.segments]
        stats.segments = len(segment_bases)
        # The cleaner stops before the segment that contains the last stable offset, and before the active segment.
        active_base = segment_bases[-1]
        stop_offset = min(active_base, stats.last_stable_offset)
        stop_base = max((base for base in segment_bases if base <= stop_offset), default=segment_bases[0])
        for file, size in self._segment_bytes.get(log.partition, {}).items():
            if base_offset_of(file) >= stop_base:
                stats.uncleanable_bytes += size
        for (older_file, newer_base), size in self._replaced_bytes.get(log.partition, {}).items():
            if base_offset_of(older_file) < stop_base and newer_base < stop_base:
                stats.freed_bytes += size
        stats.written_by = describe_writers(self._writers.get(log.partition, ()))


def _include_timestamp(stats: PartitionStats, timestamp: int) -> None:
    """Extend the range from `first_timestamp_ms` to `last_timestamp_ms` so that it contains this timestamp."""
    first_ms = stats.first_timestamp_ms
    last_ms = stats.last_timestamp_ms
    stats.first_timestamp_ms = timestamp if first_ms is None else min(first_ms, timestamp)
    stats.last_timestamp_ms = timestamp if last_ms is None else max(last_ms, timestamp)


def divide(whole: int, sizes: Iterable[int]) -> list[int]:
    """Divide `whole` into parts in proportion to `sizes`. The parts are integers whose sum is `whole`.

    If all sizes are 0, the parts are equal, except for rounding.
    """
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
