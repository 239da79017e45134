"""Who wrote a log: the clients that commit, and the Kafka versions of the brokers.

`stats --by writer` separates the commits of each group by the form of their batches.

A record does not contain the client that sent it. But clients of one group differ: in how many offsets they commit at
once, in whether they commit in transactions, and in their rhythm. The leader epoch changes when another broker, or the
same broker after a restart, becomes the coordinator. So a writer is a group, a leader epoch, the transactional bit, and
the number of the group's records in a batch.

A commit is the group's records in one batch that have a value. Since Kafka 4.0, the coordinator can put commits of
several requests into one batch, if they arrive within group.coordinator.append.linger.ms. Tombstones are left out,
because the broker writes most of them. The log is read in plain Python with both engines.

The versions of Kafka that can have written the records are given by ranges of offsets. A range ends where no single
version can have written both the records of the range and the next record: the broker was replaced by another version.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from kafkagroups.anatomy.written_by import describe_writers, writers_of
from kafkagroups.history.second_pass import Follower, list_readable
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, LogRecord
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.serde import decode
from kafkagroups.records.text import decode_utf8
from kafkagroups.records.versions import EVERY_VERSION, VersionRange

_OFFSET_TYPES = (b"\0\0", b"\0\1")
"""The first two bytes of the keys of offset records: their type."""


CommitCount = tuple[int, int, int]
"""The number, the bytes and the first timestamp of the commits of a group in a batch."""


class WriterKey(NamedTuple):
    """What tells writers apart. `leader_epoch` is -1 in the old formats, which do not contain it."""

    group: str
    leader_epoch: int
    is_transactional: bool
    records_per_batch: int


@dataclass(frozen=True)
class WriterCount:
    """What one writer committed in one partition of the offsets topic.

    `commits` is the number of batches with its commits, and `records` the number of its records. `bytes` are the bytes
    of these records, without the headers of the batches. The times are those of the first and the last commit, in ms
    since the epoch; None if the records have no time. `interval_ms` is the median time from one commit to the next;
    None if there is only one commit.
    """

    key: WriterKey
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
        if self.first_timestamp_ms is None or self.last_timestamp_ms in (None, self.first_timestamp_ms):
            return None
        assert self.last_timestamp_ms is not None
        return (self.commits - 1) * 60_000 / (self.last_timestamp_ms - self.first_timestamp_ms)


class WriterCounter(Follower):
    """Counts the writers while the batches of a log are read in order, for example in a second pass."""

    def __init__(self) -> None:
        self._times: dict[tuple[bytes, int, bool, int], array[int]] = {}
        self._sizes: Counter[tuple[bytes, int, bool, int]] = Counter()

    def follow(self, batch: Batch) -> None:
        if not batch.is_control:
            self.add_counts(batch, _count_groups(batch))

    def add_counts(self, batch: Batch, counts: dict[bytes, CommitCount]) -> None:
        """Count the commits in the next batch, which the caller has counted by group."""
        leader_epoch = batch.partition_leader_epoch
        is_transactional = batch.is_transactional
        for group, (count, size, time) in counts.items():
            key = (group, leader_epoch, is_transactional, count)
            times = self._times.get(key)
            if times is None:
                times = self._times[key] = array("q")
            times.append(time)
            self._sizes[key] += size

    def finish(self, partition: int | None) -> list[WriterCount]:
        """Return the writers, in the order of their first commits. `partition` is that of the log."""
        return [_build(partition, key, self._times[key], self._sizes[key]) for key in self._times]


def _count_groups(batch: Batch) -> dict[bytes, CommitCount]:
    """Return the commits of each group in a batch."""
    counts: dict[bytes, CommitCount] = {}
    for record in list_readable(batch):
        group = _find_group(record)
        if group is not None:
            count, size, time = counts.get(group, (0, 0, record.timestamp))
            counts[group] = (count + 1, size + record.size, time)
    return counts


def _find_group(record: LogRecord) -> bytes | None:
    """Return the group id of a commit; None for other records, and if the key is too short."""
    key = record.key
    if record.value is None or key is None or key[:2] not in _OFFSET_TYPES:
        return None
    size = int.from_bytes(key[2:4], "big", signed=True)
    return key[4 : 4 + size] if 0 <= size <= len(key) - 4 else None


def _build(partition: int | None, key: tuple[bytes, int, bool, int], times: array[int], size: int) -> WriterCount:
    group, leader_epoch, is_transactional, count = key
    known_times = sorted(time for time in times if time != NO_TIMESTAMP)
    gaps = [later - earlier for earlier, later in pairwise(known_times)]
    return WriterCount(
        WriterKey(decode_utf8(group), leader_epoch, is_transactional, count),
        partition,
        len(times),
        len(times) * count,
        size,
        known_times[0] if known_times else None,
        known_times[-1] if known_times else None,
        median(gaps) if gaps else None,
    )


_DECISIVE_STARTS = {(b"\0\1", version) for version in (b"\0\0", b"\0\2", b"\0\3")}
"""The first two bytes of key and value of records whose other bytes say nothing about the version of the writer.

Version 1 of a commit's value has an expire timestamp that decides, and version 4 has a topic id.
"""


@dataclass(frozen=True)
class WriterRange:
    """The Kafka versions that can have written the records from offset `first` to offset `last`.

    `versions` is a text such as "0.9 – 2.0"; "" if every version can have written the records. `writers` are the same
    versions.
    """

    first: int
    last: int
    versions: str
    writers: VersionRange


class WriterRanges(Follower):
    """Finds the ranges while the records of a log are read in order: by an observer, or in a second pass.

    Most logs have one range: then the versions of their records need no second pass (`have_common_writer`). In a second
    pass, a record is decoded only if its type and its version do not decide.
    """

    def __init__(self, dialect: Dialect, *, needs_pass: bool = False) -> None:
        self._dialect = dialect
        self.producers = None if needs_pass else ()
        self._known: dict[tuple[bytes, bytes | None], VersionRange] = {}
        self._ranges: list[tuple[int, VersionRange]] = []
        """The first offset of each range, and the versions that can have written all records so far."""
        self._included: set[VersionRange] = set()
        """Versions of records that are in the last range."""

    def follow(self, batch: Batch) -> None:
        for record in () if batch.is_control else batch.records:
            start = (record.key[:2] if record.key else b"", record.value and record.value[:2])
            possible = self._known.get(start)
            if possible is None:
                decoded = decode(record.key, record.value, self._dialect)
                possible = writers_of(decoded, is_transactional=batch.is_transactional)
                if start[1] is None or start in _DECISIVE_STARTS:
                    self._known[start] = possible
            self.add(record.offset, possible)

    def add(self, offset: int, writers: VersionRange) -> None:
        """Add the next record. No Kafka version writes some odd records: they belong to the range before them."""
        if writers in self._included or writers.since >= writers.until:
            return
        if self._ranges:
            first, versions = self._ranges[-1]
            common = versions.intersect(writers)
            if common.since < common.until:
                self._ranges[-1] = (first, common)
                self._included.add(writers)
                return
        self._ranges.append((offset, writers))
        self._included = {writers}

    def finish(self, first_offset: int, next_offset: int) -> list[WriterRange]:
        """Return the ranges of a log that begins at `first_offset` and ends before `next_offset`."""
        if first_offset >= next_offset:
            return []
        ranges = self._ranges or [(first_offset, EVERY_VERSION)]
        firsts = [first_offset, *(first for first, _ in ranges[1:])]
        ends = [*firsts[1:], next_offset]
        return [
            WriterRange(first, end - 1, describe_writers([versions]), versions)
            for first, end, (_, versions) in zip(firsts, ends, ranges, strict=True)
        ]


def have_common_writer(writers: set[VersionRange]) -> bool:
    """Return whether one Kafka version can have written all records. `writers` has the versions of each record."""
    common = EVERY_VERSION
    for versions in writers:
        if versions.since < versions.until:
            common = common.intersect(versions)
    return common.since < common.until
