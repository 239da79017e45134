"""Who wrote a log: the clients that commit, the Kafka versions of the brokers, and the versions of their values.

A record does not contain the client that sent it, but clients of one group differ in how many offsets they commit at
once, in whether they use transactions, and in their rhythm. The leader epoch changes with each new coordinator. So a
writer (`stats --by writer`) is a group, a leader epoch, the transactional bit, and the number of the group's records in
a batch. A commit is the group's records in one batch that have a value: the broker writes most tombstones. Since Kafka
4.0, a batch can join commits of requests that arrive within group.coordinator.append.linger.ms.

A range of offsets ends where no single Kafka version can have written both the range and what follows.

A program that reads the topic itself must know the version of each value, because a broker can write a newer one after
an upgrade, for example version 4 of an OffsetCommit value since Kafka 4.1.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from kafkagroups.errors import BadBytes
from kafkagroups.groups.replay import LogKeys, read_keys
from kafkagroups.history.passes import Partition, list_readable
from kafkagroups.history.stats import TypeAndVersion, VersionCount, WriterCount, WriterRange
from kafkagroups.log.batch import NO_TIMESTAMP, LogRecord
from kafkagroups.records.releases import EVERY_VERSION, VersionRange
from kafkagroups.records.serde import decode
from kafkagroups.records.written_versions import describe_writers, writers_of

NO_EPOCH = -1
"""The leader epoch in batches of the formats 0 and 1, which have none."""
_DECISIVE_STARTS = {(b"\0\1", version) for version in (b"\0\0", b"\0\2", b"\0\3")}
"""The first two bytes of key and value of records whose other bytes say nothing about the version of the writer.

Version 1 of a commit's value has an expire timestamp that decides, and version 4 has a topic id.
"""


def count_writers(partition: Partition) -> Iterator[WriterCount]:
    """Yield the writers, in the order of their first commits."""
    keys = LogKeys(partition.dialect)
    commits_of: dict[tuple[str, int, bool, int], tuple[array[int], array[int]]] = {}
    """The times and the sizes of the commits of each writer."""
    for batch in partition.read():
        commits: dict[str, list[LogRecord]] = {}
        for group, key, record in read_keys(batch, keys):
            if key.partition is not None and record.value is not None:
                commits.setdefault(group, []).append(record)
        for group, records in commits.items():
            writer = (group, batch.partition_leader_epoch, batch.is_transactional, len(records))
            times, sizes = commits_of.setdefault(writer, (array("q"), array("q")))
            times.append(records[0].timestamp)
            sizes.append(sum(record.size for record in records))
    for writer, (times, sizes) in commits_of.items():
        known_times = sorted(time for time in times if time != NO_TIMESTAMP)
        gaps = [later - earlier for earlier, later in pairwise(known_times)]
        first_ms, last_ms = (known_times[0], known_times[-1]) if known_times else (None, None)
        *_, records_per_batch = writer
        counts = (len(times), len(times) * records_per_batch, sum(sizes))
        interval_ms = median(gaps) if gaps else None
        yield WriterCount(*writer, partition.number, *counts, first_ms, last_ms, interval_ms)


@dataclass
class _Stretch:
    """Records that one broker wrote in one leader epoch; `writers` are the versions that can have written them."""

    first: int
    epoch: int
    writers: VersionRange


class Stretches(list[_Stretch]):
    """The stretches of a log, or of the records of one group in it."""

    def add(self, offset: int, epoch: int, writers: VersionRange) -> None:
        last = self[-1] if self else None
        common = writers if last is None else last.writers.intersect(writers)
        if last is not None and last.epoch == epoch != NO_EPOCH and not common.is_empty():
            last.writers = common
        elif last is None or last.writers != writers:
            self.append(_Stretch(offset, epoch, writers))
        else:
            last.epoch = epoch

    def join(self) -> list[tuple[int, list[VersionRange]]]:
        """Return the first offset and the versions of each range; of two brokers if either can have written it."""
        common = EVERY_VERSION
        of_range: list[_Stretch] = []
        parts: list[tuple[int, VersionRange | None]] = []
        for stretch in self:
            narrower = common.intersect(stretch.writers)
            if narrower.is_empty():
                parts += _split(of_range, stretch.writers)
                of_range = []
                narrower = stretch.writers
            of_range.append(stretch)
            common = narrower
        parts += _split(of_range, None) if of_range else []
        known = [versions for _, versions in parts]
        return [
            (first, [each for each in known[max(index - 1, 0) : index + 2] if each] if versions is None else [versions])
            for index, (first, versions) in enumerate(parts)
        ]


def find_ranges(partition: Partition) -> Iterator[WriterRange]:
    """Yield the ranges of a log.

    Most logs have one range, and are not read for it. Otherwise, a record is decoded only if its type and its version
    do not decide, or if the log contains records that cannot be read.

    A broker that is replaced by another version starts again, and the partition gets a new leader epoch. So a range
    begins with an epoch, and records that any version can have written, such as tombstones, belong to the version that
    wrote the rest of their epoch. If an epoch has only such records, and the versions before and after it differ, its
    records are a range of their own, whose versions are those of both.
    """
    start_offset = partition.log.start_offset
    next_offset = partition.loaded.next_offset
    if start_offset >= next_offset:
        return
    common = VersionRange.common_to(each for each in partition.totals.writers if not each.is_empty())
    stretches = _read_stretches(partition) if common.is_empty() else Stretches()
    if not common.is_empty():
        stretches.add(start_offset, NO_EPOCH, common)
    ranges = stretches.join() or [(start_offset, [EVERY_VERSION])]
    firsts = [start_offset, *(first for first, _ in ranges[1:])]
    ends = [*firsts[1:], next_offset]
    for first, end, (_, possible) in zip(firsts, ends, ranges, strict=True):
        names = " or ".join(describe_writers([versions]) for versions in possible)
        versions = VersionRange(min(each.since for each in possible), max(each.until for each in possible))
        yield WriterRange(first, end - 1, names, versions)


def _read_stretches(partition: Partition) -> Stretches:
    stretches = Stretches()
    known: dict[tuple[bytes, bytes | None], VersionRange] = {}
    for batch in partition.read():
        for record in () if batch.is_control else list_readable(batch):
            start = (record.key[:2] if record.key else b"", record.value and record.value[:2])
            possible = known.get(start)
            if possible is None:
                with suppress(BadBytes):
                    decoded = decode(record.key, record.value, partition.dialect)
                    possible = writers_of(decoded, is_transactional=batch.is_transactional)
                    is_readable = partition.loaded.error is None
                    if is_readable and (start[1] is None or start in _DECISIVE_STARTS):
                        known[start] = possible
            # No Kafka version writes some odd records, which therefore say nothing about the broker.
            if possible is not None and not possible.is_empty():
                stretches.add(record.offset, batch.partition_leader_epoch, possible)
    return stretches


def _split(stretches: list[_Stretch], next_writers: VersionRange | None) -> list[tuple[int, VersionRange | None]]:
    """Return the range of these stretches, and apart from it the last ones that the next writers can have written."""
    certain = len(stretches)
    while next_writers and not next_writers.intersect(stretches[certain - 1].writers).is_empty():
        certain -= 1
        next_writers = next_writers.intersect(stretches[certain].writers)
    common = VersionRange.common_to(stretch.writers for stretch in stretches[:certain])
    open_part = [(stretch.first, None) for stretch in stretches[certain : certain + 1]]
    return [(stretches[0].first, common), *open_part]


def count_versions(partition: Partition) -> dict[TypeAndVersion, VersionCount]:
    """Count the value versions, apart from keys and values of less than two bytes."""
    counts: dict[TypeAndVersion, VersionCount] = {}
    for batch in partition.read():
        for record in () if batch.is_control else list_readable(batch):
            if record.key is None or len(record.key) < 2 or (record.value is not None and len(record.value) < 2):
                continue
            version = None if record.value is None else int.from_bytes(record.value[:2], "big", signed=True)
            name = TypeAndVersion(int.from_bytes(record.key[:2], "big", signed=True), version)
            time_ms = None if record.timestamp == NO_TIMESTAMP else record.timestamp
            counts.setdefault(name, VersionCount()).add(VersionCount(1, time_ms, time_ms))
    return counts
