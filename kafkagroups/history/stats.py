"""The statistics of a log (`stats`): live records, bytes, open transactions, value versions, and traces of the cleaner.

- A record is live if its fate (fates.py) is "wins" (a broker answers with it) or "pending" (its transaction is open).
- The bytes of a batch, including its header, are divided among its records in proportion to the records' sizes.
- The row null counts everything without a group (or topic, or record type): for example markers and empty batches.

The cleaner stops at the last stable offset (the first offset of the oldest open transaction, or the end of the log),
and never cleans the active segment. `freed_bytes` estimates what a first pass would free: each record whose key has a
newer record, if both segments may be cleaned.

A broker writes offsets without holes, so a hole shows a pass of the cleaner. So does a delete horizon, which the pass
sets in the first batch with a tombstone or an unused marker that it keeps. A pass that removes nothing and keeps no
tombstone leaves no trace.
Source: Cleaner.cleanInto and MemoryRecords.filterTo (4.3.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from kafkagroups.errors import UsageError
from kafkagroups.history.event import Recreation
from kafkagroups.history.finding import Finding
from kafkagroups.loading.partition_count import TopicPartitions
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, record_count
from kafkagroups.log.batches import Gap
from kafkagroups.log.cleaner import DELETE_RETENTION_MS
from kafkagroups.records.releases import VersionRange

NO_TRACE = -1
MAX_DIRTY_SHARE = 0.5
WRITER = "writer"
ROW_KINDS = ("group", "topic", "type", "partition", WRITER)
RECORDS_LOADED_PER_SECOND = 400_000
"""How many records a broker of 3.9.2 or 4.3.1 loads per second: 10 million in 26 s, measured on two cores."""


def check_row_kind(by: str) -> None:
    if by not in ROW_KINDS:
        raise UsageError(f"by: expected one of {', '.join(ROW_KINDS)}, found {by!r}")


@dataclass
class OpenTransaction:
    """A producer's transaction whose marker is not in the log.

    `first_offset`, `since_ms` (ms since 1970) and `producer_epoch` are those of its first batch. `groups` are the
    groups for which it commits offsets. `aborted_at` and `aborted_ms` are the place and time of the producer's last
    marker before it, if that marker aborted another transaction with the same epoch (transactions.py).
    `coordinator_epoch` is the one in that last marker; 0 if the log has none. `groups_with_members` are those of
    `groups` that have members after the load, or have had some since the transaction began.
    """

    producer_id: int
    first_offset: int
    since_ms: int
    groups: list[str] = field(default_factory=list)
    producer_epoch: int | None = field(default=None, repr=False)
    aborted_at: int | None = field(default=None, repr=False)
    aborted_ms: int | None = field(default=None, repr=False)
    coordinator_epoch: int = field(default=0, repr=False)
    groups_with_members: list[str] = field(default_factory=list, repr=False)


@dataclass
class Count:
    """The records and bytes of one row, for example of one group.

    `tombstones` counts only those whose record type the coordinator reads. `in_partitions` are the partitions of the
    offsets topic that contain records of the row.
    """

    records: int = 0
    bytes: int = 0
    live_records: int = 0
    live_bytes: int = 0
    tombstones: int = 0
    in_partitions: list[int | None] = field(default_factory=list)

    def add(self, other: Count) -> None:
        for name in ("records", "bytes", "live_records", "live_bytes", "tombstones"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.in_partitions += [number for number in other.in_partitions if number not in self.in_partitions]


@dataclass
class SegmentCount:
    """The numbers of one segment, and the traces of the cleaner in it.

    `replaced_bytes` counts the records that were replaced by a newer record of the same key, if this segment contains
    the later one. `trace_end` is the offset after the last trace (NO_TRACE: none). `horizon_ms` is the newest delete
    horizon, and `newest_ms` the largest timestamp of the batches, in ms since 1970 (NO_TIMESTAMP: none).
    """

    base_offset: int
    bytes: int = 0
    replaced_bytes: int = 0
    trace_end: int = NO_TRACE
    horizon_ms: int = NO_TIMESTAMP
    newest_ms: int = NO_TIMESTAMP

    def add_batch(self, batch: Batch, previous_end: int) -> None:
        """Add the next batch, by the rules of the native engine (`Follow::start_batch`, follow.rs).

        A batch that begins before `previous_end`, the end of the batch before it, is odd: only its delete horizon is a
        trace.
        """
        self.bytes += batch.size
        if batch.base_offset > previous_end:
            self.trace_end = batch.base_offset
        is_sparse = batch.last_offset - batch.base_offset + 1 > record_count(batch)
        horizon_ms = batch.delete_horizon_ms
        if horizon_ms is not None or (is_sparse and batch.base_offset >= previous_end):
            self.trace_end = batch.next_offset
        if horizon_ms is not None:
            self.horizon_ms = max(self.horizon_ms, horizon_ms)
            self.newest_ms = max(self.newest_ms, batch.max_timestamp)


@dataclass
class PartitionStats(Count):
    """The statistics of a partition of the offsets topic; times are in ms since 1970, or None if there are none.

    `next_offset` is the offset after the last batch. `uncleanable_bytes` are those from `first_uncleanable_offset`, the
    base offset of the first segment that the cleaner cannot clean now, and `stops_because_of` says why ("active", or
    "txn" or "damage" with an offset). `freed_bytes` estimates what a pass would free.
    `cleaned_up_to` and `last_cleaned_ms` say how far and when the cleaner has cleaned, as far as the log contains
    traces, and `cleaned_after_ms` when it has run at the earliest. `dirty_segments` and `dirty_bytes` count what it can
    clean from there on; if it has left out most of what it can clean, `left_out_since_ms` is when the last of these
    segments was closed at the latest. `written_by` names the Kafka versions that can have written the records, and
    `written_by_ranges` has a range for each change of them (writers.py). `gaps` are the damaged bytes that the reader
    has skipped; None without `past_damage`.
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
    stops_because_of: str = "active"
    last_cleaned_ms: int | None = None
    cleaned_up_to: int | None = None
    dirty_segments: int = 0
    dirty_bytes: int = 0
    written_by_ranges: list[WriterRange] = field(default_factory=list)
    gaps: list[Gap] | None = None
    active_base_offset: int = 0
    commit_markers: int = 0
    abort_markers: int = 0
    left_out_since_ms: int | None = None
    cleaned_after_ms: int | None = None
    lost_before: list[int] = field(default_factory=list)
    """The base offsets of the segments before which whole segments are missing, although no cleaner came so far."""

    @property
    def is_left_out(self) -> bool:
        """Whether the cleaner has not cleaned most of what it can, and a pass would free at least half of that.

        It begins with the partition that has the largest such share, if this is above min.cleanable.dirty.ratio.
        """
        is_dirty = self.dirty_bytes > MAX_DIRTY_SHARE * (self.bytes - self.uncleanable_bytes)
        return is_dirty and 2 * self.freed_bytes >= self.dirty_bytes

    @property
    def span_ms(self) -> int:
        return (self.last_timestamp_ms or 0) - (self.first_timestamp_ms or 0)

    def add_segments(self, segments: Sequence[SegmentCount], damage: Sequence[int]) -> None:
        """Set what the segments say about the cleaning, after `last_stable_offset` was set. `damage` are the offsets of
        damaged bytes.
        """
        bases = [segment.base_offset for segment in segments]
        self.segments = len(segments)
        self.active_base_offset = bases[-1]
        # The active segment can be empty, and begin above the end of the last record.
        stops = {offset: f"damage {offset}" for offset in damage}
        stops |= {self.last_stable_offset: f"txn {self.last_stable_offset}"} if self.open_transactions else {}
        stop_offset = min([bases[-1], *stops])
        self.first_uncleanable_offset = max((base for base in bases if base <= stop_offset), default=bases[0])
        if self.first_uncleanable_offset < bases[-1]:
            self.stops_because_of = stops[stop_offset]
        self.lost_before = list(_find_lost(segments))
        self.cleaned_up_to = _find_cleaned_up_to(segments, self.lost_before)
        self.last_cleaned_ms = _find_last_cleaned(segments)
        for segment in segments:
            if segment.base_offset >= self.first_uncleanable_offset:
                self.uncleanable_bytes += segment.bytes
            else:
                self.freed_bytes += segment.replaced_bytes
                if segment.base_offset >= (self.cleaned_up_to or 0):
                    self.dirty_segments += 1
                    self.dirty_bytes += segment.bytes


def _find_lost(segments: Sequence[SegmentCount]) -> Iterator[int]:
    """Yield the base offset of each segment after a gap that the cleaner has not made.

    A pass begins at the start of the log, and leaves no record there that a later one of the same segment has replaced.
    So where such records and no other gap stand before the gap, no pass came so far.
    """
    has_replaced = False
    for segment in segments:
        if segment.trace_end == segment.base_offset and has_replaced:
            yield segment.base_offset
        elif segment.trace_end != NO_TRACE:
            return
        has_replaced = has_replaced or segment.replaced_bytes > 0


def _find_cleaned_up_to(segments: Sequence[SegmentCount], lost_before: Collection[int]) -> int | None:
    """A pass cleans whole segments, so this is the base offset of the one after the last trace.

    If the last segment has a trace, the log is a copy, and the offset is the one after the trace. Later passes can have
    cleaned more without a trace, and a pass whose offset map was full stopped inside the segment.
    """
    cleaned_up_to = None
    for number, segment in enumerate(segments, start=1):
        if segment.trace_end != NO_TRACE and segment.base_offset not in lost_before:
            cleaned_up_to = segment.trace_end if number == len(segments) else segments[number].base_offset
    return cleaned_up_to


def _find_last_cleaned(segments: Sequence[SegmentCount]) -> int | None:
    """The delete horizon is the time of the pass plus delete.retention.ms, whose default is assumed.

    If the pass would then be older than a record that it cleaned, the setting was smaller, and the time is not known.
    """
    horizon_ms = max(segment.horizon_ms for segment in segments)
    pass_ms = horizon_ms - DELETE_RETENTION_MS
    return None if horizon_ms == NO_TIMESTAMP or pass_ms < max(each.newest_ms for each in segments) else pass_ms


class WriterCount(NamedTuple):
    """What one writer committed in one partition of the offsets topic.

    The first four fields are the writer: a `group`, a `leader_epoch` (-1 in the old formats, which do not contain it),
    whether its commits are `transactional`, and its `records_per_batch`. `commits` counts batches, and `bytes` are
    without their headers. The times are those of the first and the last commit, in ms since 1970; None if the records
    have no time. `interval_ms` is the median time between commits, if there are several.
    """

    group: str
    leader_epoch: int
    transactional: bool
    records_per_batch: int
    partition: int | None
    commits: int
    records: int
    bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    interval_ms: float | None

    @property
    def commits_per_minute(self) -> float | None:
        """The rate from the first to the last commit; None if there is only one time."""
        span_ms = (self.last_timestamp_ms or 0) - (self.first_timestamp_ms or 0)
        return (self.commits - 1) * 60_000 / span_ms if span_ms else None


@dataclass(frozen=True)
class WriterRange:
    """The Kafka versions that can have written the records from offset `first` to offset `last`.

    `versions` is a text such as "0.9 – 2.0"; "" if it can be every version.
    """

    first: int
    last: int
    versions: str
    writers: VersionRange


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
        self.records += other.records
        times = (self.first_timestamp_ms, self.last_timestamp_ms, other.first_timestamp_ms, other.last_timestamp_ms)
        known_times = [time for time in times if time is not None]
        self.first_timestamp_ms = min(known_times, default=None)
        self.last_timestamp_ms = max(known_times, default=None)


class KnownGroup(NamedTuple):
    """A group that a broker knows after the load.

    `idle_records` counts its live records if it has no members and one of many similar names (group_rules.py).
    """

    partition: int | None
    idle_records: int = 0


@dataclass
class Stats:
    """The statistics of logs.

    `rows` has a Count for each group, topic, record type or partition, as `by` says, and for None. If `by` is "writer",
    `rows` is empty, and `writers` has a WriterCount for each writer. `partitions` has a PartitionStats for each
    partition. `problems` describe the partitions that are damaged or whose load fails. `findings` say what is wrong
    with the logs, and what to do. `topic_partitions` is the partition count of the offsets topic, and how it was found.
    If the count was changed, `moved_offsets` has the positions of the groups that moved to another partition: "old" in
    their old home partition, and "new" in the new one. "newest" says which one was committed last.
    """

    by: str = "group"
    partitions: dict[int | None, PartitionStats] = field(default_factory=dict, repr=False)
    rows: dict[object, Count] = field(default_factory=dict, repr=False)
    problems: list[str] = field(default_factory=list)
    writers: list[WriterCount] = field(default_factory=list, repr=False)
    findings: list[Finding] = field(default_factory=list, repr=False)
    topic_partitions: TopicPartitions = field(default_factory=TopicPartitions, repr=False)
    moved_offsets: list[dict[str, Any]] = field(default_factory=list, repr=False)
    known_groups: dict[str, KnownGroup] = field(default_factory=dict, repr=False)
    value_versions: dict[TypeAndVersion, VersionCount] = field(default_factory=dict, repr=False)
    """The value versions of each record type; empty if `by` is not "type"."""
    groups_lost: dict[int | None, list[str]] = field(default_factory=dict, repr=False)
    """By the number of each partition whose load fails: the groups that a broker does not answer for."""

    recreated: list[tuple[int | None, str, Recreation]] = field(default_factory=list, compare=False, repr=False)
    """The signs that topics were created again, each with the partition and the id of the group that shows it."""

    waiting: list[tuple[int, Finding]] = field(default_factory=list, compare=False, repr=False)
    """The findings about members that have not given partitions back, with the time since which they wait."""

    unwatched: list[str] = field(default_factory=list, compare=False, repr=False)
    """The groups with too many records to look for storms, skips and second writers in their history."""

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        """Return what `stats --json` prints after the path: all rows, or the first ones."""
        versions = [{**name._asdict(), **vars(count)} for name, count in sort_versions(self.value_versions)]
        return {
            "partitions": {number: _partition_json(part) for number, part in self.partitions.items()},
            "findings": [asdict(finding) for finding in self.findings],
            "by": self.by,
            "rows": self._rows_json()[:top],
            **({"value_versions": versions} if self.by == "type" else {}),
            "topic_partitions": self.topic_partitions.to_json(),
            "moved_offsets": self.moved_offsets,
            **({"unwatched": self.unwatched} if self.unwatched else {}),
        }

    def _rows_json(self) -> list[dict[str, Any]]:
        if self.by != WRITER:
            return [{self.by: name, **asdict(count)} for name, count in sort_rows(self)]
        commit_count = sum(writer.commits for writer in self.writers)
        return [
            {
                **writer._asdict(),
                "share": writer.commits / commit_count,
                "share_of_partition": writer.commits / self.count_commits(writer.partition),
                "commits_per_minute": writer.commits_per_minute,
            }
            for writer in sorted(self.writers, key=lambda writer: (-writer.commits, *writer[:4]))
        ]

    @property
    def newest_ms(self) -> int:
        """The time of the newest record of all logs; 0 if there is none."""
        return max((partition.last_timestamp_ms or 0 for partition in self.partitions.values()), default=0)

    def total(self, name: str) -> int:
        """The sum of a count over all partitions."""
        return sum(getattr(partition, name) for partition in self.partitions.values())

    def count_commits(self, partition: int | None) -> int:
        return sum(writer.commits for writer in self.writers if writer.partition == partition)

    def add_row(self, name: object, count: Count) -> None:
        self.rows.setdefault(name, Count()).add(count)

    def add(self, other: Stats) -> None:
        for field_name in ("problems", "findings", "waiting", "recreated", "writers", "unwatched"):
            getattr(self, field_name).extend(getattr(other, field_name))
        for field_name in ("partitions", "known_groups", "groups_lost"):
            getattr(self, field_name).update(getattr(other, field_name))
        for version, version_count in other.value_versions.items():
            self.value_versions.setdefault(version, VersionCount()).add(version_count)
        for name, count in other.rows.items():
            self.add_row(name, count)


def sort_rows(stats: Stats) -> list[tuple[object, Count]]:
    """The name and the counts of each row, the one with the most bytes first."""
    return sorted(stats.rows.items(), key=lambda row: (-row[1].bytes, str(row[0])))


def _partition_json(partition: PartitionStats) -> dict[str, Any]:
    fields = asdict(partition)
    del fields["in_partitions"]  # It only repeats the partition's own number.
    for transaction in fields["open_transactions"]:
        for name in ("coordinator_epoch", "groups_with_members"):  # Only the findings need them.
            del transaction[name]
    ranges = partition.written_by_ranges
    fields["written_by_ranges"] = [{"from": each.first, "to": each.last, "versions": each.versions} for each in ranges]
    if partition.gaps is None:
        del fields["gaps"]
    return fields


def sort_versions(counts: dict[TypeAndVersion, VersionCount]) -> list[tuple[TypeAndVersion, VersionCount]]:
    """Sorted by type and version, the tombstones of a type last."""
    return sorted(counts.items(), key=lambda item: (item[0].type, item[0].version is None, item[0].version or 0))
