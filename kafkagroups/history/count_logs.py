"""Loads a topic and counts its records in the same pass: `stats`, `check` and `report` are questions to the result.

The native engine counts while it folds a log. If it cannot fold a log, the readable engine counts with an observer
(observed_stats.py). What only the load can decide is looked up in a second pass (second_pass.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from kafkagroups.anatomy.written_by import describe_writers, writers_of
from kafkagroups.groups import fold as readable
from kafkagroups.groups.answers import Answers
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.shard import CountBytes, Shard
from kafkagroups.history.clock_jumps import JumpRange
from kafkagroups.history.failures import FailedLoad, find_bad_bytes
from kafkagroups.history.finding import Finding
from kafkagroups.history.findings import add_findings, find_busy, find_unsubscribed
from kafkagroups.history.group_names import count_families, find_groups_of
from kafkagroups.history.moved_groups import find_misplaced, find_moved_offsets
from kafkagroups.history.observed_stats import LogSigns, StatsObserver, signs_of
from kafkagroups.history.second_pass import Follower, read_again
from kafkagroups.history.stats import (
    WRITER,
    OpenTransaction,
    PartitionStats,
    SegmentCount,
    Stats,
    Traces,
    VersionCounter,
)
from kafkagroups.history.transactions import EndlessCommits, TransactionDetails
from kafkagroups.history.writers import WriterCounter, WriterRanges, have_common_writer
from kafkagroups.loading import native
from kafkagroups.loading.engines import Engine
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.log.segment_file import base_offset_of
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_types import has_type
from kafkagroups.records.serde import decode
from kafkagroups.records.versions import EVERY_VERSION, VersionRange

MAX_BYTES_IN_MEMORY = 32 * 2**20
"""Logs up to this size together are read from the disk once. What needs further readings then reads from memory."""
OFFSET_TYPES = (0, 1)
"""The types of offset records."""


def count_logs(topic: OpenTopic, by: str = "group") -> Stats:
    """Load a topic and return its statistics. `by` is one of ROW_KINDS (stats.py): what a row stands for."""
    counted = CountedTopic(topic, by)
    return counted.sum_stats(counted.read_stats())


class CountedTopic:
    """A load of a topic that counts. `groups` is the result of the load, and `signs` has those of each partition.

    After `read_stats`, `lost_groups` has the groups that a broker does not answer for, by the number of each partition
    whose load fails. `failure_kind` is the kind of the findings about failures. `whole` is the one of `OpenTopic.load`.

    `topic_partitions` is the partition count of the topic. It does not say that the count was changed if files that
    were copied into the wrong folder explain what the log shows.
    """

    def __init__(
        self,
        topic: OpenTopic,
        by: str = "group",
        whole: WholeTopic | None = None,
        failure_kind: str = "load_failure",
    ) -> None:
        if sum(log.size for log in topic.logs) <= MAX_BYTES_IN_MEMORY:
            topic = replace(topic, logs=[log.in_memory() for log in topic.logs])
        self.topic = topic
        self.lost_groups: dict[int | None, list[str]] = {}
        self._failure_kind = failure_kind
        self.by = "group" if by == WRITER else by
        self.is_by_writer = by == WRITER
        self._observers: dict[int, StatsObserver] = {}
        self._followed: dict[int, tuple[Shard, dict[str, Any]]] = {}
        """What was counted by the readable and by the native engine. The keys are Python's `id` of the logs."""
        self.signs: dict[int | None, LogSigns] = {}
        self.groups = topic.load(engine=Engine(topic.chosen_engine.name, self._fold), whole=whole)
        self._misplaced = find_misplaced(topic.logs, self.groups, lambda number: self.signs[number].extents)
        self.topic_partitions = self.groups.topic_partitions
        if self._misplaced.explains_change:
            self.topic_partitions = replace(self.topic_partitions, changed=None)

    def _fold(self, log: Log, dialect: Dialect, stop: Stop, *, count_bytes: CountBytes) -> Shard:
        if self.topic.chosen_engine.name == "compiled":
            shard = native.fold_if_possible(log, dialect, stop, follow=native.COUNTS, count_bytes=count_bytes)
            if shard is not None:
                totals = native.reading_of(shard).totals(self.by == "topic")
                self._followed[id(log)] = shard, totals
                self.signs[log.partition] = signs_of(totals, dialect)
                return shard
        observer = StatsObserver(dialect, log, self.by)
        self._observers[id(log)] = observer
        self.signs[log.partition] = observer.signs
        return readable.fold(log, dialect, stop, count_bytes=count_bytes, observer=observer, notes=observer.notes)

    def read_stats(self) -> Iterator[Stats]:
        """Yield the statistics of each log, after a second pass over it if something needs one."""
        groups = self.groups
        problems = groups.problems_by_partition
        parts = groups.groups.unbuilt()
        answers = Answers(parts, groups.orphans.unbuilt())
        for log in self.topic.logs:
            followed = self._followed.pop(id(log), None)
            ranges = None
            if followed is None:
                stats = self._observers.pop(id(log)).finish(groups)
            else:
                stats, ranges = _finish_followed(*followed, log, groups, answers, self.by, self.topic.dialect)
            stats.problems = problems[log.partition]
            counts = stats.partitions[log.partition]
            counts.gaps = groups.partitions[log.partition].gaps
            stats.findings = self._read_again(log, stats, ranges)
            stats.findings += [
                *self._misplaced.findings.get(log.partition, []),
                *find_bad_bytes(log.partition, groups),
                *self._find_failures(log),
                *find_busy(log.partition, counts, parts, stats.commits),
                *find_unsubscribed(log.partition, counts, parts),
            ]
            stats.families = count_families(log.partition, parts)
            stats.partition_of_group = find_groups_of(log.partition, parts)
            yield stats

    def sum_stats(self, stats_of_logs: Iterable[Stats]) -> Stats:
        """Return the statistics of the topic. `stats_of_logs` are those of its logs."""
        stats = Stats(WRITER if self.is_by_writer else self.by, topic_partitions=self.topic_partitions)
        for log_stats in stats_of_logs:
            stats.add(log_stats)
        if stats.topic_partitions.changed is not None:
            stats.moved_offsets = find_moved_offsets(self.topic, stats.topic_partitions.changed)
        add_findings(stats)
        return stats

    def _find_failures(self, log: Log) -> list[Finding]:
        """Return the findings about a load that fails, and note the groups that are lost."""
        if self.groups.partitions[log.partition].error is None:
            return []
        failed = FailedLoad(log, self.groups)
        self.lost_groups[log.partition] = failed.lost
        return failed.find(self._failure_kind)

    def _read_again(self, log: Log, stats: Stats, ranges: WriterRanges | None) -> list[Finding]:
        """Add to the statistics what only a second pass can know, and return the findings that need it."""
        counts = stats.partitions[log.partition]
        signs = self.signs[log.partition]
        counts.commit_markers = signs.commit_markers
        counts.abort_markers = signs.abort_markers
        open_producers = {transaction.producer_id for transaction in counts.open_transactions}
        endless = EndlessCommits(log.partition, self.groups, open_producers)
        jump = JumpRange(signs.jumps, self.topic.dialect)
        followers: list[Follower] = [TransactionDetails(counts.open_transactions), endless, jump]
        versions = VersionCounter()
        writers = WriterCounter()
        followers += [ranges] if ranges is not None else []
        followers += [versions] if stats.by == "type" else []
        followers += [writers] if self.is_by_writer else []
        read_again(log, followers, self.topic.chosen_engine)
        if ranges is not None:
            counts.written_by_ranges = ranges.finish(log.start_offset, counts.next_offset)
        stats.value_versions = versions.counts
        if self.is_by_writer:
            stats.by = WRITER
            stats.rows = {}
            stats.writers = writers.finish(log.partition)
        return [*jump.find(log), *signs.static_members.find(log.partition), *endless.find()]


def _finish_followed(
    shard: Shard, totals: dict[str, Any], log: Log, groups: Groups, answers: Answers, by: str, dialect: Dialect
) -> tuple[Stats, WriterRanges]:
    """Return the statistics of a log that the native engine has counted, and its writers, which may need a second pass.

    `totals` is what the engine has counted.
    """
    loaded = groups.partitions[log.partition]
    first_time, last_time = totals["times"] or (None, None)
    writers = _find_writers(shard, totals, dialect)
    counts = PartitionStats(
        batches=loaded.batches,
        bytes=sum(segment[0] for segment in totals["segments"]),
        records=loaded.records,
        next_offset=loaded.next_offset,
        first_timestamp_ms=first_time,
        last_timestamp_ms=last_time,
        written_by=describe_writers(writers),
    )
    group_ids = totals["group_ids"]
    transactions = [
        OpenTransaction(producer_id, first_offset, since_ms, sorted(group_ids[number] for number in numbers))
        for producer_id, first_offset, since_ms, numbers in totals["open_transactions"]
    ]
    counts.add_transactions(sorted(transactions, key=lambda transaction: transaction.first_offset))
    counts.add_segments(
        [
            SegmentCount(base_offset_of(segment), size, replaced, Traces(*traces))
            for segment, (size, replaced, *traces) in zip(log.segments, totals["segments"], strict=True)
        ]
    )
    ranges = WriterRanges(dialect, needs_pass=not have_common_writer(writers))
    if ranges.producers is not None:
        for versions in writers:
            ranges.add(log.start_offset, versions)
    stats = Stats(by, {log.partition: counts})
    for row in _count_rows(totals, answers, log.partition):
        name = log.partition if by == "partition" else getattr(row, by)
        if row.group is not None and row.type in OFFSET_TYPES:
            stats.commits[row.group] += row.records - row.tombstones
        if not (row.records or row.bytes or row.live_records):
            continue
        row_count = stats.find_row(name, log.partition)
        row_count.records += row.records
        row_count.bytes += row.bytes
        for count in (counts, row_count):
            count.live_records += row.live_records
            count.live_bytes += row.live_bytes
            count.tombstones += row.tombstones
    return stats, ranges


class _Row(NamedTuple):
    """How many records belong to a group, a topic and a record type. The fields are None if the records have none."""

    group: str | None
    topic: str | None
    type: int | None
    records: int
    bytes: int
    tombstones: int = 0
    live_records: int = 0
    live_bytes: int = 0


def _count_rows(totals: dict[str, Any], answers: Answers, partition: int | None) -> Iterator[_Row]:
    """Yield the counts of all records of a log."""
    group_ids = totals["group_ids"]
    found = [None if group_id is None else answers.find(group_id, partition) for group_id in group_ids]
    yield _Row(None, None, None, *totals["control"])
    for number, topic, record_type, counts in totals["rows"]:
        records, size, tombstones, committed_records, committed_bytes, pending_records, pending_bytes = counts
        is_committed = found[number].committed is Fate.WINS
        is_pending = found[number].pending is Fate.PENDING
        live_records = is_committed * committed_records + is_pending * pending_records
        live_bytes = is_committed * committed_bytes + is_pending * pending_bytes
        yield _Row(group_ids[number], topic, record_type, records, size, tombstones, live_records, live_bytes)
    for number, record_type, counts in totals["other_rows"]:
        yield _Row(None if number is None else group_ids[number], None, record_type, *counts)
    for number, record_type, size in totals["live_group_records"]:
        if found[number].records is Fate.WINS:
            yield _Row(group_ids[number], None, record_type, 0, 0, 0, 1, size)


def _find_writers(shard: Shard, totals: dict[str, Any], dialect: Dialect) -> set[VersionRange]:
    """Return the Kafka versions that can have written each record of a log.

    The engine keeps one example of the records that the same versions write. In records of the new protocols, any
    field can decide, so each of them is decoded.
    """
    writers = set()
    for key, value, is_transactional in totals["examples"]:
        writers.add(writers_of(decode(key, value, dialect), is_transactional=is_transactional))
    for _, _, key, value, is_plain in native.reading_of(shard).other_records():
        if not is_plain and value is not None:
            writers.add(writers_of(decode(key, value, dialect)))
    if any(not has_type(dialect, record_type) for _, record_type, _ in totals["other_rows"]):
        writers.add(EVERY_VERSION)
    return writers
