"""Loads logs and counts their records, with the engine that suits the size of the logs.

The native engine counts while it folds a log. If it cannot fold a log, the readable engine counts with an observer
(observed_stats.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafkagroups.anatomy.written_by import describe_writers, writers_of
from kafkagroups.groups import fold as readable
from kafkagroups.groups.answers import Answers
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.shard import CountBytes, Shard
from kafkagroups.history.cleaning_traces import Traces
from kafkagroups.history.endless_commits import find_endless_commits
from kafkagroups.history.finding import Finding
from kafkagroups.history.findings import add_findings, find_busy, find_unsubscribed
from kafkagroups.history.group_families import count_families
from kafkagroups.history.hanging import add_details
from kafkagroups.history.load_findings import find_in_partition
from kafkagroups.history.log_signs import read_signs, signs_of
from kafkagroups.history.look_alikes import find_groups_of
from kafkagroups.history.misplaced_groups import find_misplaced
from kafkagroups.history.moved_offsets import find_moved_offsets
from kafkagroups.history.observed_stats import StatsObserver
from kafkagroups.history.stats import WRITER, OpenTransaction, PartitionStats, SegmentCount, Stats
from kafkagroups.history.value_versions import count_value_versions
from kafkagroups.history.writer_ranges import WriterRange, WriterRanges, have_common_writer
from kafkagroups.history.writers import count_writers
from kafkagroups.loading import native
from kafkagroups.loading.engines import PYTHON, Engine
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.log.segment_file import base_offset_of
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_types import has_type
from kafkagroups.records.serde import decode
from kafkagroups.records.versions import EVERY_VERSION, VersionRange

OFFSET_TYPES = (0, 1)
"""The types of offset records."""
_DECISIVE_STARTS = {(b"\0\1", version) for version in (b"\0\0", b"\0\2", b"\0\3")}
"""The first two bytes of key and value of records whose other bytes say nothing about the version of the writer.

Version 1 of a commit's value has an expire timestamp that decides, and version 4 has a topic id.
"""


def count_logs(topic: OpenTopic, by: str = "group") -> Stats:
    """Load a topic and return its statistics. `by` is one of ROW_KINDS (stats.py): what a row stands for."""
    groups, stats_of_logs = count_each_log(topic, by)
    stats = Stats(by, topic_partitions=groups.topic_partitions)
    for log_stats in stats_of_logs:
        stats.add(log_stats)
    if groups.topic_partitions.changed is not None:
        stats.moved_offsets = find_moved_offsets(topic, groups.topic_partitions.changed)
    add_findings(stats)
    return stats


def count_each_log(
    topic: OpenTopic, by: str = "group", whole: WholeTopic | None = None
) -> tuple[Groups, Iterator[Stats]]:
    """Load a topic. Return the groups, and an iterator over the statistics of each log.

    The parameters are those of `count_logs`. `whole` is the one of `OpenTopic.load`.
    """
    counting = _Counting(by, topic.dialect, topic.chosen_engine)
    groups = topic.load(engine=counting.engine, whole=whole)
    misplaced = find_misplaced(topic.logs, topic.dialect, groups, topic.chosen_engine)
    return groups, counting.finish_all(topic.logs, groups, misplaced)


class _Counting:
    """The counting of several logs: an engine that counts while it folds, and what was counted in each log."""

    def __init__(self, by: str, dialect: Dialect, engine: Engine) -> None:
        self.by = "group" if by == WRITER else by
        self.is_by_writer = by == WRITER
        self.dialect = dialect
        self.engine = Engine(engine.name, self._fold)
        self._observers: dict[int, StatsObserver] = {}
        self._followed: dict[int, tuple[Shard, dict[str, Any]]] = {}
        """What was counted by the readable and by the native engine. The keys are Python's `id` of the logs."""

    def _fold(self, log: Log, dialect: Dialect, stop: Stop, *, count_bytes: CountBytes) -> Shard:
        if self.engine.name == "compiled":
            shard = native.fold_if_possible(log, dialect, stop, follow=native.COUNTS, count_bytes=count_bytes)
            if shard is not None:
                self._followed[id(log)] = shard, native.reading_of(shard).totals(self.by == "topic")
                return shard
        observer = StatsObserver(dialect, log, self.by)
        self._observers[id(log)] = observer
        return readable.fold(log, dialect, stop, count_bytes=count_bytes, observer=observer)

    def finish_all(
        self, logs: Sequence[Log], groups: Groups, misplaced: Mapping[int | None, list[Finding]]
    ) -> Iterator[Stats]:
        """Yield the statistics of each log, after all logs were loaded. `misplaced` are findings by partition."""
        problems = groups.problems_by_partition
        parts = groups.groups.unbuilt()
        answers = Answers(parts, groups.orphans.unbuilt())
        for log in logs:
            followed = self._followed.pop(id(log), None)
            if followed is None:
                stats = self._observers.pop(id(log)).finish(groups)
                signs = read_signs(log, self.dialect, PYTHON)
            else:
                stats = _finish_followed(*followed, log, groups, answers, self.by, self.dialect)
                signs = signs_of(followed[1], self.dialect)
            stats.problems = problems[log.partition]
            counts = stats.partitions[log.partition]
            counts.gaps = groups.partitions[log.partition].gaps
            add_details(log, counts.open_transactions, self.engine)
            open_producers = {transaction.producer_id for transaction in counts.open_transactions}
            counts.commit_markers = signs.commit_markers
            counts.abort_markers = signs.abort_markers
            stats.findings = [
                *signs.find(log, self.dialect),
                *misplaced.get(log.partition, []),
                *find_in_partition(log, groups),
                *find_endless_commits(log, groups, self.engine, open_producers),
                *find_busy(log.partition, counts, parts, stats.commits),
                *find_unsubscribed(log.partition, counts, parts),
            ]
            stats.families = count_families(log.partition, parts)
            stats.partition_of_group = find_groups_of(log.partition, parts)
            if self.by == "type":
                stats.value_versions = count_value_versions(log)
            if self.is_by_writer:
                stats.by = WRITER
                stats.rows = {}
                stats.writers = count_writers(log)
            yield stats


def _finish_followed(
    shard: Shard, totals: dict[str, Any], log: Log, groups: Groups, answers: Answers, by: str, dialect: Dialect
) -> Stats:
    """Return the statistics of a log that the native engine has counted. `totals` is what it has counted."""
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
    counts.written_by_ranges = _find_writer_ranges(log, dialect, writers, counts.next_offset)
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
    return stats


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


def _find_writer_ranges(log: Log, dialect: Dialect, writers: set[VersionRange], next_offset: int) -> list[WriterRange]:
    """Return the ranges of offsets by the Kafka versions that can have written them.

    `writers` has the versions of each record. Most logs have one range. To find where several ranges begin, the log is
    read a second time, in plain Python. A record is decoded only if its type and its version do not decide.
    """
    ranges = WriterRanges()
    if not have_common_writer(writers):
        known: dict[tuple[bytes, bytes | None], VersionRange] = {}
        for batch in log:
            for record in () if batch.is_control else batch.records:
                start = (record.key[:2] if record.key else b"", record.value and record.value[:2])
                possible = known.get(start)
                if possible is None:
                    decoded = decode(record.key, record.value, dialect)
                    possible = writers_of(decoded, is_transactional=batch.is_transactional)
                    if start[1] is None or start in _DECISIVE_STARTS:
                        known[start] = possible
                ranges.add(record.offset, possible)
    else:
        for versions in writers:
            ranges.add(log.start_offset, versions)
    return ranges.finish(log.start_offset, next_offset)
