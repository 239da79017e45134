"""Who wrote a log: the clients that commit, the Kafka versions of the brokers, and the versions of their values.

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

A program that reads the topic itself must know the version of each value, because a broker can write a newer one after
an upgrade, for example version 4 of an OffsetCommit value since Kafka 4.1: `stats --by type` counts them.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from itertools import pairwise
from statistics import median
from typing import Any

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import LogKeys, read_keys
from kafkagroups.history.passes import Follower, Partition, list_readable
from kafkagroups.history.stats import TypeAndVersion, VersionCount, WriterCount, WriterKey, WriterRange
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, LogRecord
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.releases import describe_writers, writers_of
from kafkagroups.records.serde import decode
from kafkagroups.records.versions import EVERY_VERSION, VersionRange

_DECISIVE_STARTS = {(b"\0\1", version) for version in (b"\0\0", b"\0\2", b"\0\3")}
"""The first two bytes of key and value of records whose other bytes say nothing about the version of the writer.

Version 1 of a commit's value has an expire timestamp that decides, and version 4 has a topic id.
"""


class WriterCounter(Follower):
    """Counts the writers in a second pass."""

    producers = None

    def __init__(self, dialect: Dialect) -> None:
        self._keys = LogKeys(dialect)
        self._commits: dict[WriterKey, tuple[array[int], array[int]]] = {}
        """The times and the sizes of the commits of each writer."""

    def follow(self, batch: Batch) -> None:
        commits: dict[str, list[LogRecord]] = {}
        for group, key, record in read_keys(batch, self._keys):
            if key.partition is not None and record.value is not None:
                commits.setdefault(group, []).append(record)
        for group, records in commits.items():
            writer = WriterKey(group, batch.partition_leader_epoch, batch.is_transactional, len(records))
            times, sizes = self._commits.setdefault(writer, (array("q"), array("q")))
            times.append(records[0].timestamp)
            sizes.append(sum(record.size for record in records))

    def finish(self, partition: int | None) -> list[WriterCount]:
        """Return the writers, in the order of their first commits. `partition` is that of the log."""
        writers = []
        for writer, (times, sizes) in self._commits.items():
            known_times = sorted(time for time in times if time != NO_TIMESTAMP)
            gaps = [later - earlier for earlier, later in pairwise(known_times)]
            first_ms, last_ms = (known_times[0], known_times[-1]) if known_times else (None, None)
            counts = (len(times), len(times) * writer.records_per_batch, sum(sizes))
            writers.append(WriterCount(writer, partition, *counts, first_ms, last_ms, median(gaps) if gaps else None))
        return writers


class WriterRanges(Follower):
    """Finds the ranges of a log.

    Most logs have one range, which needs no second pass. In a second pass, a record is decoded only if its type and its
    version do not decide, or if the log contains records that cannot be read.
    """

    def __init__(self, partition: Partition) -> None:
        start_offset = partition.log.start_offset
        self._partition = partition
        self._known: dict[tuple[bytes, bytes | None], VersionRange] = {}
        self._ranges: list[tuple[int, VersionRange]] = [(start_offset, EVERY_VERSION)]
        """The first offset of each range, and the versions that can have written all records so far."""
        self._included: set[VersionRange] = set()
        """Versions of records that are in the last range."""
        for versions in partition.totals.writers:
            self._add(start_offset, versions)
        if len(self._ranges) > 1:
            self.producers = None
            self._ranges = [(start_offset, EVERY_VERSION)]
            self._included = set()

    def follow(self, batch: Batch) -> None:
        for record in () if batch.is_control else list_readable(batch):
            start = (record.key[:2] if record.key else b"", record.value and record.value[:2])
            possible = self._known.get(start)
            if possible is None:
                with suppress(BadBytes):
                    decoded = decode(record.key, record.value, self._partition.dialect)
                    possible = writers_of(decoded, is_transactional=batch.is_transactional)
                    is_readable = self._partition.loaded.error is None
                    if is_readable and (start[1] is None or start in _DECISIVE_STARTS):
                        self._known[start] = possible
            if possible is not None:
                self._add(record.offset, possible)

    def _add(self, offset: int, writers: VersionRange) -> None:
        """Add the next record. No Kafka version writes some odd records: they belong to the range before them."""
        if writers in self._included or writers.since >= writers.until:
            return
        first, versions = self._ranges[-1]
        common = versions.intersect(writers)
        if common.since < common.until:
            self._ranges[-1] = (first, common)
            self._included.add(writers)
            return
        self._ranges.append((offset, writers))
        self._included = {writers}

    def finish(self) -> list[WriterRange]:
        next_offset = self._partition.loaded.next_offset
        ends = [*(first for first, _ in self._ranges[1:]), next_offset]
        return [
            WriterRange(first, end - 1, describe_writers([versions]), versions)
            for (first, versions), end in zip(self._ranges, ends, strict=True)
            if self._ranges[0][0] < next_offset
        ]


class VersionCounter(Follower):
    """Counts the value versions in a second pass.

    A record without a key, or with a key or a value of less than two bytes, is not counted.
    """

    producers = None

    def __init__(self) -> None:
        self.counts: dict[TypeAndVersion, VersionCount] = {}

    def follow(self, batch: Batch) -> None:
        for record in () if batch.is_control else list_readable(batch):
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
    return sorted(counts.items(), key=lambda item: (item[0].type, item[0].version is None, item[0].version or 0))
