"""What happened in a partition's log over time: who wrote how much, and the history of groups that stand out.

The first reading looks at as few bytes of a record as possible, because the group id and the committed offset have
fixed places. It chooses the groups whose exact history the second reading takes from their records, as `timeline` does.
Damage ends the log, as in a load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from kafkagroups.errors import BadBytes
from kafkagroups.history.event import Event
from kafkagroups.history.group_log import GroupLog, GroupLogs
from kafkagroups.history.offset_events import OffsetEvents
from kafkagroups.history.stats import Stats
from kafkagroups.history.timeline import walk
from kafkagroups.log.batch import CODEC, Batch, LogRecord
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.wire import decode_utf8

PARTS = 24
"""Into how many parts the time of a log is divided."""
MAX_STORIES = 12
"""A report tells the history of at most this number of groups."""
MAX_RECORDS = 100_000
"""The groups with a history have together at most this number of records."""
TOLD = ("rewind", "expired", "offset_deleted", "deleted", "transaction_open")
"""The events that make a group stand out."""
_OFFSET_TYPES = (b"\0\0", b"\0\1")
"""The first two bytes of the keys of offset records: their type."""
_GROUP_TYPE = b"\0\2"
_OFFSET_IN_VALUE = slice(2, 10)
"""Where each version of the value of an offset record contains the committed offset."""


@dataclass(frozen=True)
class TimeAxis:
    """The time that a report covers, divided into PARTS equal parts. Times are in ms since the epoch."""

    first_ms: int
    last_ms: int

    def find_part(self, time_ms: int) -> int:
        """Return the number of the part that contains a time; a time outside belongs to the first or last part."""
        part = (time_ms - self.first_ms) * PARTS // (self.last_ms - self.first_ms + 1)
        return min(max(part, 0), PARTS - 1)

    def find_start(self, part: int) -> int:
        """Return the time at which a part begins."""
        return self.first_ms + part * (self.last_ms - self.first_ms + 1) // PARTS


@dataclass
class Activity:
    """What one reading of a partition's log found.

    `bytes` are the bytes of the batches in each part of the time, and `group_bytes` those of the records of some
    groups. `weights` says how much stands out in each group: commits below an earlier one of the same topic partition,
    and tombstones.
    """

    partition: int | None
    bytes: Counter[int] = field(default_factory=Counter)
    group_bytes: list[Counter[str]] = field(default_factory=lambda: [Counter() for _ in range(PARTS)])
    weights: Counter[str] = field(default_factory=Counter)


def read_activity(log: Log, axis: TimeAxis, groups_to_follow: Collection[str]) -> Activity:
    """Read a log once. `groups_to_follow` are the ids of the groups for `group_bytes`."""
    activity = Activity(log.partition)
    followed = {_encode(group): group for group in groups_to_follow}
    committed: dict[bytes, bytes] = {}
    weights: Counter[bytes] = Counter()
    for batch in log:
        part = axis.find_part(batch.max_timestamp)
        activity.bytes[part] += batch.size
        group_bytes = activity.group_bytes[part]
        is_transactional = batch.is_transactional
        for record in _read_records(batch):
            key = record.key or b""
            group = key[4 : 4 + int.from_bytes(key[2:4], "big")]
            if group in followed:
                group_bytes[followed[group]] += record.size
            weight = _weigh(key, record.value, committed, is_transactional)
            if weight:
                weights[group] += weight
    for group, weight in weights.items():
        activity.weights[decode_utf8(group)] += weight
    return activity


def _encode(group: str) -> bytes:
    return group.encode("utf-8", "surrogatepass")


def _read_records(batch: Batch) -> tuple[LogRecord, ...]:
    try:
        return () if batch.is_control else batch.records
    except BadBytes:  # The load fails at this batch, and the report says so.
        return ()


def _weigh(key: bytes, value: bytes | None, committed: dict[bytes, bytes], is_transactional: bool) -> int:
    """Return how much a record stands out. `committed` has the newest committed offset of each key."""
    if key[:2] not in _OFFSET_TYPES:
        return int(value is None and key[:2] == _GROUP_TYPE)
    if value is None:
        committed.pop(key, None)
        return 2
    # Committed offsets are not negative, so their bytes are in the order of the numbers. Whether the transaction of a
    # commit was aborted does not matter here: the second reading is exact.
    offset = value[_OFFSET_IN_VALUE]
    steps_back = offset < committed.get(key, b"")
    if not (steps_back and is_transactional):
        committed[key] = offset
    return 4 * steps_back


@dataclass(frozen=True)
class Story:
    """What stands out in the history of one group in one partition. `events` are in the order of the log."""

    group: str
    partition: int | None
    events: list[Event]


def read_stories(
    logs: Sequence[Log], dialect: Dialect, activities: Sequence[Activity], stats: Stats
) -> tuple[list[Story], int]:
    """Return the histories that stand out most, in this order, and how many more groups stand out."""
    weights = {(one.partition, group): weight for one in activities for group, weight in one.weights.items()}
    for number, counts in stats.partitions.items():
        for group in {group for transaction in counts.open_transactions for group in transaction.groups}:
            weights[number, group] = weights.get((number, group), 0) + 3
    wanted: list[tuple[int | None, str]] = []
    budget = MAX_RECORDS
    for number, group in sorted(weights, key=lambda place: (-weights[place], place[1])):
        records = stats.rows[group].records if group in stats.rows else 0
        if len(wanted) < MAX_STORIES and records <= budget:
            wanted.append((number, group))
            budget -= records
    events = {}
    for log in logs:
        groups = [group for number, group in wanted if number == log.partition]
        for group, found in _tell(log, dialect, groups) if groups else ():
            events[log.partition, group] = found
    stories = [Story(group, number, events[number, group]) for number, group in wanted if events[number, group]]
    return stories, len(weights) - len(wanted)


def _tell(log: Log, dialect: Dialect, groups: Sequence[str]) -> Iterator[tuple[str, list[Event]]]:
    """Yield what stands out in the history of each group. The log is read once for all of them."""
    group_logs = {group: GroupLog(dialect, group) for group in groups}
    fates = GroupLogs(dialect, group_logs)
    for batch in log:
        fates.find_holes(batch)
        # A search in the bytes is faster than reading the records of other groups.
        if batch.is_control or batch.attributes & CODEC or fates.names_group(batch.payload):
            fates.add_found(log.partition, batch)
    fates.end()
    for group, group_log in group_logs.items():
        steps = group_log.steps.get(log.partition, [])
        history = walk(steps, OffsetEvents(log.partition, dialect, skips_routine=True), log.start_offset)
        yield group, [event for event in history.events if event.event in TOLD and not event.is_routine]
