"""The statistics of a log (`stats`): live records, bytes, open transactions, value versions, and traces of the cleaner.

- A record is live if its fate (fates.py) is "wins" (a broker answers with it) or "pending" (its transaction is open).
- The bytes of a batch on disk, including its header, are divided among its records in proportion to the records' sizes.
- A row counts the records of one group, topic, record type or partition. The row null counts everything without a group
  (or topic, or record type): for example markers and empty batches.

The last stable offset is the first offset of the oldest open transaction, or the end of the log if no transaction is
open. The log cleaner, and consumers with `read_committed`, stop at this offset. The cleaner also never cleans the
active segment, i.e. the last segment. `freed_bytes` estimates how many bytes a first pass of the cleaner would free:
those of each record whose key has a newer record, if the segments of both records may be cleaned. Tombstones and
markers stay until their retention time is over.

Passes of the cleaner leave traces. A broker writes the offsets of a partition without holes, so the cleaner has been at
a place where offsets are missing. A batch with a delete horizon has been through a pass, too: the pass sets the horizon
in the first batch with a tombstone or an unused marker that it keeps. A pass that removes nothing and keeps no
tombstone leaves no trace.

A program that reads the topic itself must know the version of each value, because a broker can write a newer one after
an upgrade, for example version 4 of an OffsetCommit value since Kafka 4.1: `stats --by type` counts them.
Source: Cleaner.cleanInto and MemoryRecords.filterTo (4.3.1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkagroups.errors import UsageError
from kafkagroups.history.finding import Finding
from kafkagroups.history.group_names import Family
from kafkagroups.history.moved_groups import MovedOffset
from kafkagroups.history.second_pass import Follower, list_readable
from kafkagroups.history.writers import WriterCount, WriterRange
from kafkagroups.loading.topic_partitions import TopicPartitions
from kafkagroups.log.batch import DELETE_HORIZON, NO_TIMESTAMP, Batch, record_count
from kafkagroups.log.damage import Gap

NO_TRACE = -1
DELETE_RETENTION_MS = 86_400_000
"""The default of the topic's setting delete.retention.ms, which the log does not contain."""


class Traces(NamedTuple):
    """The traces in one segment.

    Attributes
    ----------
    end
        The Kafka offset after the last trace; NO_TRACE if there is none.
    horizon_ms
        The newest delete horizon, in ms since the epoch; NO_TIMESTAMP if no batch has one.
    newest_ms
        The largest timestamp of the batches that have a delete horizon; NO_TIMESTAMP if no batch has one.
    """

    end: int = NO_TRACE
    horizon_ms: int = NO_TIMESTAMP
    newest_ms: int = NO_TIMESTAMP


def add_batch(traces: Traces, batch: Batch, previous_end: int) -> Traces:
    """Return the traces of a segment up to a batch. `previous_end` is the offset after the batch before it.

    The native engine follows the same rules (`Follow::start_batch`, follow.rs). A batch that begins before
    `previous_end` is odd: only its delete horizon is a trace.
    """
    end = traces.end
    if batch.base_offset >= previous_end:
        if batch.base_offset > previous_end:
            end = batch.base_offset
        if batch.last_offset - batch.base_offset + 1 > record_count(batch):
            end = batch.next_offset
    if batch.magic >= 2 and batch.attributes & DELETE_HORIZON:
        horizon_ms = max(traces.horizon_ms, batch.base_timestamp)
        return Traces(batch.next_offset, horizon_ms, max(traces.newest_ms, batch.max_timestamp))
    return traces if end == traces.end else traces._replace(end=end)


def find_cleaned_up_to(segment_bases: Sequence[int], traces: Sequence[Traces]) -> int | None:
    """Return the Kafka offset up to which the log was cleaned; None if it contains no trace.

    A pass cleans whole segments. So the offset is the base offset of the segment after the last one with a trace. If
    the last segment of the log has a trace, the log is a copy, and the offset is the one after the last trace. Later
    passes can have cleaned more, without a trace. A pass whose offset map was full stopped inside the segment.
    """
    for number in range(len(traces) - 1, -1, -1):
        if traces[number].end != NO_TRACE:
            return traces[number].end if number == len(segment_bases) - 1 else segment_bases[number + 1]
    return None


def find_last_cleaned(traces: Sequence[Traces]) -> int | None:
    """Return the time of the newest pass that set a delete horizon, in ms since the epoch.

    The horizon is the time of the pass plus delete.retention.ms. The default of this setting is assumed. The result is
    None if no batch has a horizon. It is also None if the pass would then be older than a record that it cleaned: the
    setting was smaller. Later passes can have set no horizon.
    """
    horizon_ms = max((trace.horizon_ms for trace in traces), default=NO_TIMESTAMP)
    newest_ms = max((trace.newest_ms for trace in traces), default=NO_TIMESTAMP)
    if horizon_ms == NO_TIMESTAMP or horizon_ms - DELETE_RETENTION_MS < newest_ms:
        return None
    return horizon_ms - DELETE_RETENTION_MS


class TypeAndVersion(NamedTuple):
    """A record type and the version of a value. The version is None for tombstones."""

    type: int
    version: int | None


@dataclass
class VersionCount:
    """The number of the records with a value version, and their first and last timestamps (None: no timestamps)."""

    records: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None

    def add(self, other: VersionCount) -> None:
        """Add the records of another count."""
        self.records += other.records
        firsts = [time for time in (self.first_timestamp_ms, other.first_timestamp_ms) if time is not None]
        lasts = [time for time in (self.last_timestamp_ms, other.last_timestamp_ms) if time is not None]
        self.first_timestamp_ms = min(firsts, default=None)
        self.last_timestamp_ms = max(lasts, default=None)


class VersionCounter(Follower):
    """Counts the value versions in a second pass.

    A record without a key, or with a key or a value of less than two bytes, is not counted.
    """

    def __init__(self) -> None:
        self.counts: dict[TypeAndVersion, VersionCount] = {}

    def follow(self, batch: Batch) -> None:
        if batch.is_control:
            return
        for record in list_readable(batch):
            if record.key is None or len(record.key) < 2 or (record.value is not None and len(record.value) < 2):
                continue
            version = None if record.value is None else int.from_bytes(record.value[:2], "big", signed=True)
            name = TypeAndVersion(int.from_bytes(record.key[:2], "big", signed=True), version)
            time_ms = None if record.timestamp == NO_TIMESTAMP else record.timestamp
            self.counts.setdefault(name, VersionCount()).add(VersionCount(1, time_ms, time_ms))


def value_versions_json(counts: dict[TypeAndVersion, VersionCount]) -> list[dict[str, Any]]:
    """Return the counts as `stats --by type --json` prints them, sorted by type and version."""
    return [{**name._asdict(), **vars(count)} for name, count in sort_versions(counts)]


def sort_versions(counts: dict[TypeAndVersion, VersionCount]) -> list[tuple[TypeAndVersion, VersionCount]]:
    """Return the counts in the order of the types and versions. The tombstones of a type are the last ones."""

    def sort_key(item: tuple[TypeAndVersion, VersionCount]) -> tuple[int, bool, int]:
        name = item[0]
        return name.type, name.version is None, name.version or 0

    return sorted(counts.items(), key=sort_key)


WRITER = "writer"
ROW_KINDS = ("group", "topic", "type", "partition", WRITER)
"""What one row of the statistics can stand for."""
RECORDS_LOADED_PER_SECOND = 400_000
"""How many records a broker of 3.9.2 or 4.3.1 loads per second: 10 million in 26 s, measured on two cores."""


@dataclass
class OpenTransaction:
    """A producer's transaction whose marker is not in the log.

    `first_offset` is the base offset of the transaction's first batch. `since_ms` is the time of this batch, in ms
    since the epoch. `groups` are the ids of the groups for which the transaction commits offsets. `producer_epoch` is
    the epoch of the first batch.

    `aborted_at` and `aborted_ms` are the offset and the time of the last marker of the producer before the transaction,
    if this marker aborted another transaction with the same epoch; otherwise None (hanging.py).
    """

    producer_id: int
    first_offset: int
    since_ms: int
    groups: list[str] = field(default_factory=list)
    producer_epoch: int | None = field(default=None, repr=False)
    aborted_at: int | None = field(default=None, repr=False)
    aborted_ms: int | None = field(default=None, repr=False)


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


class SegmentCount(NamedTuple):
    """The numbers of one segment.

    `bytes` is the size of its batches. `replaced_bytes` counts the bytes of the records that were replaced by a newer
    record of the same key, if this segment contains the later one of the two records. `traces` are those of the
    cleaner.
    """

    base_offset: int
    bytes: int
    replaced_bytes: int
    traces: Traces


@dataclass
class PartitionStats(Count):
    """The statistics of a partition of the offsets topic.

    `segments` and `batches` are counts. The timestamps are the smallest and the largest timestamp of the records; None
    if no record has a timestamp. `next_offset` is the offset after the last batch. `uncleanable_bytes` counts the bytes
    that the cleaner cannot clean now. `freed_bytes` estimates how many bytes a pass of the cleaner would free.
    `written_by` names the Kafka versions that can have written the records. `written_by_ranges` has a range of offsets
    for each change of the versions (writer_ranges.py).

    `commit_markers` and `abort_markers` count the markers of transactions.

    `first_uncleanable_offset` is the base offset of the first segment that the cleaner cannot clean (`find_stop_base`).
    `cleaned_up_to` and `last_cleaned_ms` say how far and when the cleaner has cleaned the log, as far as the log
    contains traces (cleaning_traces.py); None if there are no traces. `dirty_segments` and `dirty_bytes` count the
    segments from there on that the cleaner can clean. `gaps` are the damaged bytes that the reader has skipped; None
    without `past_damage`. `active_base_offset` is the base offset of the active segment.
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
    first_uncleanable_offset: int = 0
    last_cleaned_ms: int | None = None
    cleaned_up_to: int | None = None
    dirty_segments: int = 0
    dirty_bytes: int = 0
    written_by_ranges: list[WriterRange] = field(default_factory=list)
    gaps: list[Gap] | None = None
    active_base_offset: int = 0
    commit_markers: int = 0
    abort_markers: int = 0

    def include_timestamp(self, timestamp: int) -> None:
        """Extend the range from `first_timestamp_ms` to `last_timestamp_ms` so that it contains this timestamp."""
        first_ms = self.first_timestamp_ms
        last_ms = self.last_timestamp_ms
        self.first_timestamp_ms = timestamp if first_ms is None else min(first_ms, timestamp)
        self.last_timestamp_ms = timestamp if last_ms is None else max(last_ms, timestamp)

    def add_transactions(self, transactions: list[OpenTransaction]) -> None:
        """Set the open transactions, in the order of their first offsets, and the last stable offset."""
        self.open_transactions = transactions
        self.last_stable_offset = transactions[0].first_offset if transactions else self.next_offset

    @property
    def is_stopped_by_transaction(self) -> bool:
        """Whether the cleaner would clean less than it can because of an open transaction: not the active segment."""
        return self.first_uncleanable_offset < self.active_base_offset

    def add_segments(self, segments: Sequence[SegmentCount]) -> None:
        """Set what the segments of the log say about its cleaning. Call `add_transactions` first."""
        bases = [segment.base_offset for segment in segments]
        traces = [segment.traces for segment in segments]
        self.segments = len(segments)
        self.active_base_offset = bases[-1]
        self.first_uncleanable_offset = find_stop_base(bases, self.last_stable_offset)
        self.cleaned_up_to = find_cleaned_up_to(bases, traces)
        self.last_cleaned_ms = find_last_cleaned(traces)
        for segment in segments:
            if segment.base_offset >= self.first_uncleanable_offset:
                self.uncleanable_bytes += segment.bytes
            else:
                self.freed_bytes += segment.replaced_bytes
                if segment.base_offset >= (self.cleaned_up_to or 0):
                    self.dirty_segments += 1
                    self.dirty_bytes += segment.bytes


def check_row_kind(by: str) -> None:
    """Raise UsageError if `by` is not one of ROW_KINDS."""
    if by not in ROW_KINDS:
        raise UsageError(f"by: expected one of {', '.join(ROW_KINDS)}, found {by!r}")


@dataclass
class Stats:
    """The statistics of logs.

    `by` is one of ROW_KINDS: what a row stands for. `rows` has a Count for each group, topic, record type or partition,
    as `by` says, and for None. If `by` is "writer", `rows` is empty, and `writers` has a WriterCount for each writer.
    `partitions` has a PartitionStats for each partition. `problems` describe the partitions that are damaged or whose
    load fails. `findings` say what is wrong with the logs, and what to do (findings.py).
    `topic_partitions` is the partition count of the offsets topic, and how it was found. If the count was changed,
    `moved_offsets` has the old and the new positions of the groups that moved to another partition.
    """

    by: str = "group"
    partitions: dict[int | None, PartitionStats] = field(default_factory=dict)
    rows: dict[object, Count] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    writers: list[WriterCount] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    topic_partitions: TopicPartitions = field(default_factory=TopicPartitions)
    moved_offsets: list[MovedOffset] = field(default_factory=list)
    commits: Counter[str] = field(default_factory=Counter)
    """The number of commits in one partition, by group id. `add` does not add them."""
    families: dict[str, Family] = field(default_factory=dict)
    """The groups with similar names (group_families.py), by what their names begin with."""
    partition_of_group: dict[str, int | None] = field(default_factory=dict)
    """The partition of each group that a broker knows after the load."""
    value_versions: dict[TypeAndVersion, VersionCount] = field(default_factory=dict)
    """The value versions of each record type; empty if `by` is not "type"."""

    def find_row(self, name: object, partition: int | None) -> Count:
        """Return the row with a name, for a record in a partition of the offsets topic. Add the row if it is new."""
        row = self.rows.setdefault(name, Count())
        if partition not in row.in_partitions:
            row.in_partitions.append(partition)
        return row

    @property
    def live_records(self) -> int:
        """The number of live records in all partitions."""
        return sum(partition.live_records for partition in self.partitions.values())

    def count_commits(self, partition: int | None) -> int:
        """Return the number of commits of all writers in a partition of the offsets topic."""
        return sum(writer.commits for writer in self.writers if writer.partition == partition)

    def add(self, other: Stats) -> None:
        """Add the statistics of another partition."""
        self.partitions |= other.partitions
        self.problems += other.problems
        self.findings += other.findings
        self.writers += other.writers
        self.partition_of_group |= other.partition_of_group
        for version, version_count in other.value_versions.items():
            self.value_versions.setdefault(version, VersionCount()).add(version_count)
        for prefix, family in other.families.items():
            self.families.setdefault(prefix, Family()).add(family)
        for name, count in other.rows.items():
            for partition in count.in_partitions:
                row = self.find_row(name, partition)
            row.records += count.records
            row.bytes += count.bytes
            row.live_records += count.live_records
            row.live_bytes += count.live_bytes
            row.tombstones += count.tombstones


def sort_rows(stats: Stats) -> list[tuple[object, Count]]:
    """Return the name and the counts of each row; the row with the most bytes is first."""

    def sort_key(row: tuple[object, Count]) -> tuple[int, str]:
        name, count = row
        return -count.bytes, str(name)

    return sorted(stats.rows.items(), key=sort_key)


def sort_writers(stats: Stats) -> list[WriterCount]:
    """Return the writers; the one with the most commits is first."""
    return sorted(stats.writers, key=lambda writer: (-writer.commits, writer.key))


def find_stop_base(segment_bases: Sequence[int], last_stable_offset: int) -> int:
    """Return the base offset of the first segment that the cleaner cannot clean.

    The cleaner stops before the segment that contains the last stable offset, and before the active segment, which is
    the last one. `segment_bases` are the base offsets of all segments of a partition.
    """
    stop_offset = min(segment_bases[-1], last_stable_offset)
    return max((base for base in segment_bases if base <= stop_offset), default=segment_bases[0])


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
