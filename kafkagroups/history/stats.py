"""Why is the log so big, and so slow: records, bytes, what of them still lives, and what an open transaction pins.

A record lives when a broker answers from it or waits for it: its fate is wins or pending. A batch's bytes on disk, its
header included, are shared out among its records in proportion to their own; so the rows' bytes add up to the
partition's. What belongs to no group (markers, unknown types) and batches without records stand in a row of null.

The last stable offset is the first one of the oldest open transaction: consumers that read committed data stop there,
and so does the cleaner, which also leaves the active segment alone. What a first pass over the rest would free is an
estimate: the records whose key has a newer one there. Tombstones and markers wait for their time. The records tell who
wrote them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkagroups.anatomy.written_by import writers_of, written_by
from kafkagroups.groups.observer import Fate
from kafkagroups.history.fates import Fates, RecordFate
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, record_count
from kafkagroups.log.segments import Log, base_offset_of
from kafkagroups.records.dialect import Dialect
from kafkagroups.records.writers import Range

BY = ("group", "topic", "type", "partition")
LOAD_RATE = 400_000
"""Records a second that a broker loads, 3.9.2 and 4.3.1 alike: ten million in 26 s, measured on two cores."""


@dataclass
class OpenTransaction:
    """A producer's transaction without a marker, from its first batch on. `groups` are those it commits for."""

    producer_id: int
    first_offset: int
    since_ms: int
    groups: list[str] = field(default_factory=list)


@dataclass
class Count:
    """Records and bytes of something.

    `live_*` are those that still count, `tombstones` the records without a value, of types that the coordinator reads.
    `in_partitions` are the partitions of the topic that it stands in.
    """

    records: int = 0
    bytes: int = 0
    live_records: int = 0
    live_bytes: int = 0
    tombstones: int = 0
    in_partitions: list[int | None] = field(default_factory=list)


@dataclass
class PartitionStats(Count):
    """A partition of the topic.

    `uncleanable_bytes` is what the cleaner may not touch now, `freed_bytes` about what a pass over the rest would free.
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


class Stats(Fates):
    """Counts while a loader reads; hand it to one, then `settle`, then `finish`.

    `by` is what the rows are: "group", "topic", "type" or "partition". Only records that may still live are kept.
    """

    def __init__(self, rules: Dialect, by: str = "group") -> None:
        super().__init__(rules)
        self.by = by
        self.partitions: dict[int | None, PartitionStats] = {}
        self.rows: dict[object, Count] = {}
        self.problems: list[str] = []
        self._open: dict[int | None, dict[int, OpenTransaction]] = {}
        self._ranges: dict[int | None, set[Range]] = {}
        self._segments: dict[int | None, Counter[str]] = {}
        """By partition: the bytes of each segment, in the order of the log."""
        self._bases: dict[int | None, list[int]] = {}
        """By partition: the base offsets of these segments."""
        self._lost: dict[int | None, Counter[tuple[str, int]]] = {}
        """By partition: bytes of records whose key has a newer one, by their segment and that one's base offset."""

    def batch(self, partition: int | None, batch: Batch) -> None:
        entries = self.entries(partition, batch)
        count = self.partitions.setdefault(partition, PartitionStats())
        count.batches += 1
        count.bytes += batch.size
        count.records += record_count(batch)
        count.next_offset = batch.next_offset
        segments, file = self._segments.setdefault(partition, Counter()), batch.file or ""
        if file not in segments:
            self._bases.setdefault(partition, []).append(base_offset_of(file))
        segments[file] += batch.size
        if not entries:  # emptied by the cleaner, or unreadable
            self._row(None, partition).bytes += batch.size
            return
        parts = shares(batch.size, [entry.size for entry, _ in entries])
        ranges = self._ranges.setdefault(partition, set())
        for (entry, record), share in zip(entries, parts, strict=True):
            if record is not None:
                ranges.add(writers_of(record))
            entry.size = share
            row = self._row(entry, partition)
            row.records += 1
            row.bytes += entry.size
            for each in (row, count):
                each.tombstones += entry.fate is Fate.TOMBSTONE
            if entry.fate is not None:
                del self.records[partition, entry.offset]
            if entry.timestamp != NO_TIMESTAMP:
                first_ms, last_ms = count.first_timestamp_ms, count.last_timestamp_ms
                count.first_timestamp_ms = entry.timestamp if first_ms is None else min(first_ms, entry.timestamp)
                count.last_timestamp_ms = entry.timestamp if last_ms is None else max(last_ms, entry.timestamp)
        self._transactions(partition, batch, [entry for entry, _ in entries])

    def decide(self, offset: int, fate: Fate, by: int, *, same_key: bool = True) -> bool:
        if fate is Fate.WINS:
            return super().decide(offset, fate, by)
        entry = self.records.pop((self.partition, offset), None)
        if entry is not None and same_key:
            bases = self._bases[self.partition]
            newer = bases[max(bisect_right(bases, by) - 1, 0)]
            self._lost.setdefault(self.partition, Counter())[entry.file or "", newer] += entry.size
        return entry is not None

    def _row(self, entry: RecordFate | None, partition: int | None) -> Count:
        name: object = partition if self.by == "partition" else None
        if entry is not None and self.by == "topic":
            name = None if entry.key is None else entry.key.topic
        elif entry is not None and self.by in ("group", "type"):
            name = entry.group if self.by == "group" else entry.type
        row = self.rows.setdefault(name, Count())
        if partition not in row.in_partitions:
            row.in_partitions.append(partition)
        return row

    def _transactions(self, partition: int | None, batch: Batch, entries: list[RecordFate]) -> None:
        open_ones = self._open.setdefault(partition, {})
        if batch.is_control:
            if any(entry.fate is Fate.MARKER for entry in entries):
                open_ones.pop(batch.producer_id, None)
        elif batch.is_transactional:
            since = batch.records[0].timestamp if batch.records else batch.max_timestamp
            there = open_ones.setdefault(
                batch.producer_id, OpenTransaction(batch.producer_id, batch.base_offset, since)
            )
            there.groups = sorted({*there.groups, *(entry.group for entry in entries if entry.group is not None)})

    def finish(self, logs: Iterable[Log], problems: list[str]) -> None:
        """What can be said only at the end: fates are settled, transactions that are open stay so."""
        self.problems = problems
        for log in logs:
            partition = log.partition
            count = self.partitions.setdefault(partition, PartitionStats(next_offset=log.start_offset))
            bases = [base_offset_of(segment) for segment in log.segments]
            count.segments = len(bases)
            count.open_transactions = sorted(self._open.get(partition, {}).values(), key=lambda each: each.first_offset)
            stable = [each.first_offset for each in count.open_transactions]
            count.last_stable_offset = min(stable, default=count.next_offset)
            pinned = min(bases[-1], count.last_stable_offset)
            first_uncleanable = max((base for base in bases if base <= pinned), default=bases[0])
            for file, size in self._segments.get(partition, {}).items():
                if base_offset_of(file) >= first_uncleanable:
                    count.uncleanable_bytes += size
            for (file, newer), size in self._lost.get(partition, {}).items():
                if max(base_offset_of(file), newer) < first_uncleanable:
                    count.freed_bytes += size
            count.written_by = written_by(self._ranges.get(partition, ()))
        for entry in self.records.values():
            if entry.fate in (Fate.WINS, Fate.PENDING):
                for each in (self.partitions[entry.partition], self._row(entry, entry.partition)):
                    each.live_records += 1
                    each.live_bytes += entry.size


def shares(whole: int, sizes: Iterable[int]) -> list[int]:
    """A whole number shared out in proportion to sizes, exactly: the parts add up to it."""
    weights = list(sizes)
    if not any(weights):
        weights = [1] * len(weights)
    total, given, reached, out = sum(weights), 0, 0, []
    for weight in weights:
        reached += weight
        share = whole * reached // total - given
        given += share
        out.append(share)
    return out
