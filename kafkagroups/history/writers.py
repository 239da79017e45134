"""Who commits: the commits of each group, separated by the form of their batches (`stats --by writer`).

A record does not contain the client that sent it. But clients of one group differ: in how many offsets they commit at
once, in whether they commit in transactions, and in their rhythm. The leader epoch changes when another broker, or the
same broker after a restart, becomes the coordinator. So a writer is a group, a leader epoch, the transactional bit, and
the number of the group's records in a batch.

A commit is the group's records in one batch that have a value. Since Kafka 4.0, the coordinator can put commits of
several requests into one batch, if they arrive within group.coordinator.append.linger.ms. Tombstones are left out,
because the broker writes most of them. The log is read in plain Python with both engines.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.history.second_pass import Follower
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, LogRecord
from kafkagroups.records.text import decode_utf8

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
    try:
        records = batch.records
    except BadBytes:
        return counts
    for record in records:
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
