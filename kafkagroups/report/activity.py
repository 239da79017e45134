"""What happened in a partition's log over time, found in one reading: bytes, commits that went back, transactions.

The reading looks at as few bytes of a record as possible: the group id and the committed offset have fixed places. It
finds the groups in whose history something stands out. Their exact history is then read by `stories.py`.
Damage ends the log, as in a load.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kafkagroups.errors import BadBytes
from kafkagroups.history.writers import WriterCount, WriterCounter
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.segments import Log
from kafkagroups.records.text import decode_utf8

BUCKETS = 60
"""How many columns a chart over time has."""
_OFFSET_TYPES = (b"\0\0", b"\0\1")
"""The first two bytes of the keys of offset records: their type."""
_GROUP_TYPE = b"\0\2"
_OFFSET_IN_VALUE = slice(2, 10)
"""Where each version of the value of an offset record contains the committed offset."""


@dataclass(frozen=True)
class TimeAxis:
    """The time that a chart covers, divided into BUCKETS equal parts. Times are in ms since the epoch."""

    first_ms: int
    last_ms: int

    def find_bucket(self, time_ms: int) -> int:
        """Return the number of the part that contains a time; a time outside belongs to the first or last part."""
        span = self.last_ms - self.first_ms + 1
        return min(max((time_ms - self.first_ms) * BUCKETS // span, 0), BUCKETS - 1)


@dataclass
class GroupSigns:
    """What stands out in the records of a group in one partition.

    `records` counts all its records. `steps_back` counts the commits below an earlier commit of the same topic
    partition, `deletions` the tombstones of its offsets, and `group_deletions` those of the group.
    """

    records: int = 0
    steps_back: int = 0
    deletions: int = 0
    group_deletions: int = 0


@dataclass
class Activity:
    """What one reading of a partition's log found.

    `bytes_by_bucket` are the bytes of batches by their time. `group_bytes` has the same numbers for some groups: the
    bytes of their records. `signs` are by group id. `longest_transaction_ms` is the longest time between the first
    offset record of a transaction and its marker; None if no transaction ended. `leader_epochs` has the first offset
    and the time of each leader epoch.
    """

    partition: int | None
    bytes_by_bucket: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    group_bytes: dict[str, list[int]] = field(default_factory=dict)
    signs: dict[str, GroupSigns] = field(default_factory=dict)
    writers: list[WriterCount] = field(default_factory=list)
    longest_transaction_ms: int | None = None
    ended_transactions: int = 0
    leader_epochs: list[tuple[int, int, int]] = field(default_factory=list)


def read_activity(log: Log, axis: TimeAxis, groups_to_chart: set[str]) -> Activity:
    """Read a log once. `groups_to_chart` are the ids of the groups for `group_bytes`."""
    reading = _Reading(log, axis, groups_to_chart)
    for batch in log:
        reading.add(batch)
    return reading.finish()


class _Reading:
    """The state of one reading."""

    def __init__(self, log: Log, axis: TimeAxis, groups_to_chart: set[str]) -> None:
        self.axis = axis
        self.activity = Activity(log.partition)
        self.writers = WriterCounter()
        self._charted = {group.encode("utf-8", "surrogatepass"): [0] * BUCKETS for group in groups_to_chart}
        self._signs: dict[bytes, GroupSigns] = {}
        self._committed: dict[bytes, bytes] = {}
        """The newest committed offset of each key, as the eight bytes of the value."""
        self._open_since: dict[int, int] = {}
        """The time of the first record of each open transaction, by producer id."""
        self._records: Counter[bytes] = Counter()

    def add(self, batch: Batch) -> None:
        bucket = self.axis.find_bucket(batch.max_timestamp)
        self.activity.bytes_by_bucket[bucket] += batch.size
        epochs = self.activity.leader_epochs
        if not epochs or epochs[-1][0] != batch.partition_leader_epoch:
            epochs.append((batch.partition_leader_epoch, batch.base_offset, batch.max_timestamp))
        try:
            records = batch.records
        except BadBytes:  # The load fails at this batch, and the report says so.
            return
        if batch.is_control:
            self._end_transaction(batch)
            return
        if batch.is_transactional:
            self._open_since.setdefault(batch.producer_id, batch.base_timestamp)
        self.writers.add(batch)
        for record in records:
            self._add_record(record, bucket, is_transactional=batch.is_transactional)

    def _end_transaction(self, batch: Batch) -> None:
        since_ms = self._open_since.pop(batch.producer_id, None)
        if since_ms is not None:
            activity = self.activity
            activity.ended_transactions += 1
            activity.longest_transaction_ms = max(activity.longest_transaction_ms or 0, batch.max_timestamp - since_ms)

    def _add_record(self, record: LogRecord, bucket: int, *, is_transactional: bool) -> None:
        key = record.key
        if key is None:
            return
        size = int.from_bytes(key[2:4], "big", signed=True)
        group = key[4 : 4 + size]
        if size < 0 or len(group) < size:
            return
        charted = self._charted.get(group)
        if charted is not None:
            charted[bucket] += record.size
        self._records[group] += 1
        value = record.value
        if key[:2] in _OFFSET_TYPES:
            if value is None:
                self._find_signs(group).deletions += 1
                self._committed.pop(key, None)
                return
            offset = value[_OFFSET_IN_VALUE]
            # Committed offsets are not negative, so their bytes are in the order of the numbers. Whether the
            # transaction of a commit was aborted does not matter here: stories.py reads the exact history.
            before = self._committed.get(key)
            if before is not None and offset < before:
                self._find_signs(group).steps_back += 1
            if not is_transactional or before is None or offset > before:
                self._committed[key] = offset
        elif value is None and key[:2] >= _GROUP_TYPE:
            self._find_signs(group).group_deletions += int(key[:2] == _GROUP_TYPE)

    def _find_signs(self, group: bytes) -> GroupSigns:
        if group not in self._signs:
            self._signs[group] = GroupSigns()
        return self._signs[group]

    def finish(self) -> Activity:
        activity = self.activity
        activity.writers = self.writers.finish(activity.partition)
        activity.group_bytes = {decode_utf8(group): sizes for group, sizes in self._charted.items() if any(sizes)}
        for group, signs in self._signs.items():
            signs.records = self._records[group]
            activity.signs[decode_utf8(group)] = signs
        return activity
