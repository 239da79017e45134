"""Loads logs and counts their records, with the engine that suits the size of the logs.

The compiled engine counts while it folds a log (kernels/followed_log.py). If it cannot fold a log, the readable engine
counts with an observer (observed_stats.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkagroups.anatomy.written_by import describe_writers, writers_of
from kafkagroups.groups import fold as readable
from kafkagroups.groups.answers import Answers
from kafkagroups.groups.shard import CountBytes, Shard, ignore_bytes
from kafkagroups.history.cleaning_traces import Traces
from kafkagroups.history.endless_commits import find_endless_commits
from kafkagroups.history.finding import Finding
from kafkagroups.history.findings import add_findings, find_busy, find_unsubscribed
from kafkagroups.history.group_families import count_families
from kafkagroups.history.hanging import add_details
from kafkagroups.history.load_findings import find_in_partition
from kafkagroups.history.log_signs import read_signs
from kafkagroups.history.look_alikes import find_groups_of
from kafkagroups.history.misplaced_groups import find_misplaced
from kafkagroups.history.moved_offsets import find_moved_offsets
from kafkagroups.history.observed_stats import StatsObserver
from kafkagroups.history.stats import WRITER, OpenTransaction, PartitionStats, SegmentCount, Stats
from kafkagroups.history.value_versions import count_value_versions
from kafkagroups.history.writer_ranges import WriterRange, WriterRanges, have_common_writer
from kafkagroups.history.writers import count_writers
from kafkagroups.loading.engines import MIN_COMPILED_SIZE_TO_COUNT, PYTHON, Engine, choose_engine_for
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import WholeTopic, load_logs
from kafkagroups.log.segment_file import base_offset_of
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.serde import decode
from kafkagroups.records.versions import VersionRange

if TYPE_CHECKING:
    from kafkagroups.kernels.followed_log import FollowedLog

OFFSET_TYPES = (0, 1)
"""The types of offset records."""
_DECISIVE_STARTS = {(b"\0\1", version) for version in (b"\0\0", b"\0\2", b"\0\3")}
"""The first two bytes of key and value of records whose other bytes say nothing about the version of the writer.

Version 1 of a commit's value has an expire timestamp that decides, and version 4 has a topic id.
"""


def count_logs(
    logs: Sequence[Log],
    dialect: Dialect,
    by: str = "group",
    *,
    engine: str = "auto",
    path: str = "",
    partitions: int | None = None,
    threads: int = 0,
) -> Stats:
    """Load logs and return their statistics. `by` is one of ROW_KINDS (stats.py): what a row stands for.

    `engine` is a name that `choose_engine` accepts. `path` is only used in messages. `partitions` is the partition
    count of the offsets topic, and `threads` the number of threads, as in `kafkagroups.load`.
    """
    groups, stats_of_logs = count_each_log(
        logs, dialect, by, engine=engine, path=path, partitions=partitions, threads=threads
    )
    stats = Stats(by, topic_partitions=groups.topic_partitions)
    for log_stats in stats_of_logs:
        stats.add(log_stats)
    if groups.topic_partitions.changed is not None:
        stats.moved_offsets = find_moved_offsets(logs, dialect, groups.topic_partitions.changed, engine)
    add_findings(stats)
    return stats


def count_each_log(
    logs: Sequence[Log],
    dialect: Dialect,
    by: str = "group",
    *,
    engine: str = "auto",
    path: str = "",
    partitions: int | None = None,
    threads: int = 0,
    whole: WholeTopic | None = None,
) -> tuple[Groups, Iterator[Stats]]:
    """Load logs together. Return the groups, and an iterator over the statistics of each log.

    The parameters are those of `count_logs`. `whole` is the one of `load_logs`.
    """
    is_compiled = choose_engine_for(engine, logs, MIN_COMPILED_SIZE_TO_COUNT) is not PYTHON
    counting = _Counting(by, dialect, is_compiled=is_compiled)
    groups = load_logs(logs, dialect, path, partitions=partitions, engine=counting.engine, threads=threads, whole=whole)
    return groups, counting.finish_all(logs, groups, find_misplaced(logs, dialect, groups))


class _Counting:
    """The counting of several logs: an engine that counts while it folds, and what was counted in each log."""

    def __init__(self, by: str, dialect: Dialect, *, is_compiled: bool) -> None:
        self.by = "group" if by == WRITER else by
        self.is_by_writer = by == WRITER
        self.dialect = dialect
        self.is_compiled = is_compiled
        self.engine = Engine("compiled" if is_compiled else "python", self._fold, self._fold)
        self._observers: dict[int, StatsObserver] = {}
        self._followed: dict[int, FollowedLog] = {}
        """What was counted by the readable and by the compiled engine. The keys are Python's `id` of the logs."""

    def _fold(
        self,
        log: Log,
        dialect: Dialect,
        stop: Stop = NO_STOP,
        base: Shard | None = None,
        count_bytes: CountBytes = ignore_bytes,
    ) -> Shard:
        if self.is_compiled:
            from kafkagroups.kernels.fold_log import follow_if_possible

            result = follow_if_possible(log, dialect, stop, count_bytes)
            if result is not None:
                shard, self._followed[id(log)] = result
                return shard
        observer = StatsObserver(dialect, log, self.by)
        self._observers[id(log)] = observer
        return readable.fold(log, dialect, stop, base, count_bytes, observer)

    def finish_all(
        self, logs: Sequence[Log], groups: Groups, misplaced: Mapping[int | None, list[Finding]]
    ) -> Iterator[Stats]:
        """Yield the statistics of each log, after all logs were loaded. `misplaced` are findings by partition."""
        problems = groups.problems_by_partition
        parts = groups.groups.unbuilt()
        answers = Answers(parts, groups.orphans.unbuilt())
        for log in logs:
            stats = self._finish(log, groups, answers)
            stats.problems = problems[log.partition]
            counts = stats.partitions[log.partition]
            counts.gaps = groups.partitions[log.partition].gaps
            add_details(log, counts.open_transactions)
            signs = read_signs(log, self.dialect, groups)
            counts.commit_markers = signs.commit_markers
            counts.abort_markers = signs.abort_markers
            stats.findings = [
                *signs.find(log, self.dialect),
                *misplaced.get(log.partition, []),
                *find_in_partition(log, groups),
                *find_endless_commits(log, groups),
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

    def _finish(self, log: Log, groups: Groups, answers: Answers) -> Stats:
        """Return the statistics of one log, without the problems. `answers` are those of `groups`."""
        followed = self._followed.pop(id(log), None)
        if followed is None:
            return self._observers.pop(id(log)).finish(groups)
        return _finish_followed(followed, log, groups, answers, self.by, self.dialect)


def _finish_followed(
    followed: FollowedLog, log: Log, groups: Groups, answers: Answers, by: str, dialect: Dialect
) -> Stats:
    """Return the statistics of a log that the compiled engine has folded."""
    loaded = groups.partitions[log.partition]
    counts = PartitionStats(
        batches=loaded.batches,
        bytes=followed.disk_bytes,
        records=loaded.records,
        next_offset=loaded.next_offset,
        first_timestamp_ms=followed.first_timestamp,
        last_timestamp_ms=followed.last_timestamp,
        written_by=describe_writers(followed.writers),
    )
    counts.add_transactions([OpenTransaction(*transaction) for transaction in followed.open_transactions])
    bases = [base_offset_of(segment) for segment in log.segments]
    numbers = zip(bases, followed.segment_bytes, followed.replaced_bytes, followed.traces, strict=True)
    counts.add_segments(
        [SegmentCount(base, size, replaced, Traces(*traces)) for base, size, replaced, traces in numbers]
    )
    counts.written_by_ranges = _find_writer_ranges(log, dialect, followed.writers, counts.next_offset)
    stats = Stats(by, {log.partition: counts})
    rows = list(followed.count_rows(by, answers))
    for row in rows if by == "group" else followed.count_rows("group", answers):
        if row.group is not None and row.type in OFFSET_TYPES:
            stats.commits[row.group] += row.records - row.tombstones
    for row in rows:
        if not (row.records or row.bytes or row.live_records):
            continue
        name = log.partition if by == "partition" else getattr(row, by)
        row_count = stats.find_row(name, log.partition)
        row_count.records += row.records
        row_count.bytes += row.bytes
        for count in (counts, row_count):
            count.live_records += row.live_records
            count.live_bytes += row.live_bytes
            count.tombstones += row.tombstones
    return stats


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
