"""What happened in a partition's log over time, found in one reading: bytes, commits that went back, transactions.

The reading looks at as few bytes of a record as possible: the group id and the committed offset have fixed places. It
finds the groups in whose history something stands out. Their exact history is then read by `stories.py`.
Damage ends the log, as in a load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkagroups.errors import BadBytes
from kafkagroups.history.writers import CommitCount, WriterCount, WriterCounter
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


class _Key:
    """What is known about the key of a record: its group, and for an offset record the newest committed offset.

    Most records have a key that an earlier record had, so a key is read once. `charted` are the bytes of its group by
    time, if the group has a chart. `committed` are the eight bytes of the newest committed offset; None if there is
    none. `records` counts the records with the key.
    """

    __slots__ = ("charted", "committed", "group", "is_offset", "records")

    def __init__(self, group: bytes, charted: list[int] | None, *, is_offset: bool) -> None:
        self.group = group
        self.charted = charted
        self.is_offset = is_offset
        self.committed: bytes | None = None
        self.records = 0


class _Reading:
    """The state of one reading."""

    def __init__(self, log: Log, axis: TimeAxis, groups_to_chart: set[str]) -> None:
        self.axis = axis
        self.activity = Activity(log.partition)
        self.writers = WriterCounter()
        self._charted = {group.encode("utf-8", "surrogatepass"): [0] * BUCKETS for group in groups_to_chart}
        self._signs: dict[bytes, GroupSigns] = {}
        self._keys: dict[bytes, _Key | None] = {}
        """By key; None if the key contains no group id."""
        self._open_since: dict[int, int] = {}
        """The time of the first record of each open transaction, by producer id."""

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
        self._add_records(batch, records, bucket)

    def _end_transaction(self, batch: Batch) -> None:
        since_ms = self._open_since.pop(batch.producer_id, None)
        if since_ms is not None:
            activity = self.activity
            activity.ended_transactions += 1
            activity.longest_transaction_ms = max(activity.longest_transaction_ms or 0, batch.max_timestamp - since_ms)

    def _add_records(self, batch: Batch, records: Iterable[LogRecord], bucket: int) -> None:
        known_keys = self._keys
        is_transactional = batch.is_transactional
        counts: dict[bytes, CommitCount] = {}
        for record in records:
            key = record.key
            if key is None:
                continue
            if key in known_keys:
                known = known_keys[key]
            else:
                known = known_keys[key] = self._read_key(key)
            if known is None:
                continue
            known.records += 1
            if known.charted is not None:
                known.charted[bucket] += record.size
            group = known.group
            value = record.value
            if not known.is_offset:
                if value is None and key[:2] >= _GROUP_TYPE:
                    self._find_signs(group).group_deletions += int(key[:2] == _GROUP_TYPE)
                continue
            if value is None:
                self._find_signs(group).deletions += 1
                known.committed = None
                continue
            count, size, time = counts.get(group) or (0, 0, record.timestamp)
            counts[group] = (count + 1, size + record.size, time)
            offset = value[_OFFSET_IN_VALUE]
            # Committed offsets are not negative, so their bytes are in the order of the numbers. Whether the
            # transaction of a commit was aborted does not matter here: stories.py reads the exact history.
            before = known.committed
            if before is not None and offset < before:
                self._find_signs(group).steps_back += 1
                if is_transactional:
                    continue
            known.committed = offset
        self.writers.add_counts(batch, counts)

    def _read_key(self, key: bytes) -> _Key | None:
        """Return what is known about a key; None if it contains no group id."""
        size = int.from_bytes(key[2:4], "big", signed=True)
        group = key[4 : 4 + size]
        if size < 0 or len(group) < size:
            return None
        return _Key(group, self._charted.get(group), is_offset=key[:2] in _OFFSET_TYPES)

    def _find_signs(self, group: bytes) -> GroupSigns:
        if group not in self._signs:
            self._signs[group] = GroupSigns()
        return self._signs[group]

    def finish(self) -> Activity:
        activity = self.activity
        activity.writers = self.writers.finish(activity.partition)
        activity.group_bytes = {decode_utf8(group): sizes for group, sizes in self._charted.items() if any(sizes)}
        records: Counter[bytes] = Counter()
        for known in self._keys.values():
            if known is not None:
                records[known.group] += known.records
        for group, signs in self._signs.items():
            signs.records = records[group]
            activity.signs[decode_utf8(group)] = signs
        return activity
