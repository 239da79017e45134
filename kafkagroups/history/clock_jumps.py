"""The finding about records whose times are far later than the time of a record after them.

The coordinator sets the timestamp of each record from the clock of its broker, and the leader of the partition sets
those of markers. A client cannot set them. So the times of a partition rise, except for small differences between the
clocks of brokers. A step back of MIN_STEP_MS or more has one of two causes: a clock was wrong, or somebody has copied
records of another log into this one.

- `clock_jump`: a record is at least MIN_STEP_MS later than a later record of the partition. The finding is about the
  largest step of the partition.

A wrong clock is dangerous for groups without members: the check for expired offsets deletes their offsets as soon as
the clock says that they are older than offsets.retention.minutes.
Source: GroupMetadataManager.storeGroup, storeOffsets and cleanupExpiredOffsets (3.9); CoordinatorRuntime (4.3.1);
MemoryRecords.withEndTransactionMarker (4.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import LogKeys
from kafkagroups.history.event import count_of, describe_duration, describe_time
from kafkagroups.history.finding import Finding, join_words, list_groups
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect

KIND = "clock_jump"
MIN_STEP_MS = 3_600_000
MAX_STEPS = 100
"""After this number of steps, the rest of the log is not examined. Its times have no order at all."""
_GROUP_TYPES = (2, 3, 11, 17)
"""The record types whose tombstone deletes a group."""


@dataclass(frozen=True)
class StepBack:
    """A record that is at least MIN_STEP_MS earlier than a record before it.

    `after` is the offset of the previous step's record, or -1. `newest_ms` is the newest time since that record.
    `offset` and `timestamp_ms` are those of the record that is earlier.
    """

    after: int
    newest_ms: int
    offset: int
    timestamp_ms: int

    @property
    def size_ms(self) -> int:
        return self.newest_ms - self.timestamp_ms


class ClockJumps:
    """Follows the times of the records of one log, in order. `steps` are the steps back in time."""

    def __init__(self) -> None:
        self.steps: list[StepBack] = []
        self._after = -1
        self._newest_ms = NO_TIMESTAMP

    def add(self, offset: int, timestamp_ms: int) -> None:
        """Add the next record. Records without a time are ignored."""
        if timestamp_ms > self._newest_ms:
            self._newest_ms = timestamp_ms
        elif 0 <= timestamp_ms <= self._newest_ms - MIN_STEP_MS and len(self.steps) < MAX_STEPS:
            self.steps.append(StepBack(self._after, self._newest_ms, offset, timestamp_ms))
            self._after = offset
            self._newest_ms = timestamp_ms


@dataclass
class _Range:
    """The records before a step back that are too late.

    `first` is the offset of the first one; -1: none was found. `deleted` are the offsets whose tombstones are in the
    range, by the group ids. `groups` are the ids of the groups whose tombstones are in the range.
    """

    first: int = -1
    last: int = -1
    deleted: dict[str, int] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)


def find_jump(log: Log, jumps: ClockJumps, dialect: Dialect) -> list[Finding]:
    """Return the finding about the largest step back in time in a log, if there is any. The log is read again."""
    if not jumps.steps:
        return []
    step = max(jumps.steps, key=lambda found: found.size_ms)
    found = _read_range(log, step, dialect)
    if found.first < 0:  # The file has changed since.
        return []
    what = (
        f"The records from offset {found.first} to {found.last} have times up to {describe_time(step.newest_ms)}. But "
        f"record {step.offset} after them has the time {describe_time(step.timestamp_ms)}, "
        f"{describe_duration(step.size_ms)} earlier. The coordinator sets these times. So a broker's clock was wrong, "
        "or records of a copied log are here."
    )
    if len(jumps.steps) > 1:
        count = f"at least {MAX_STEPS}" if len(jumps.steps) == MAX_STEPS else str(len(jumps.steps))
        what += f" This is the largest of {count} steps back in time."
    rules = ("--coordinator", dialect.coordinator, "--kafka", dialect.kafka)
    command = None
    remedy = "Compare the clocks of all brokers first, and correct the one that is wrong."
    offsets = sum(found.deleted.values())
    if offsets or found.groups:
        names = list_groups({*found.deleted, *found.groups})
        what += (
            f" In this range, {count_of(offsets, 'offset')} and {count_of(len(found.groups), 'group')} were deleted "
            f"({names}). With a wrong clock, the check for expired offsets deletes offsets that are not old."
        )
        command = ["kafkagroups", "load", log.path, *rules, "--until", str(found.first)]
        remedy += (
            " Before these groups start again, set the offsets that should not have expired. This shows the offsets "
            f"before the range: {join_words(command)}"
        )
    else:
        remedy += (
            " If a clock is still ahead, the next check for expired offsets can delete the offsets of groups without "
            "members."
        )
    return [Finding(log.partition, found.first, None, None, KIND, what, remedy, command)]


def _read_range(log: Log, step: StepBack, dialect: Dialect) -> _Range:
    """Return the range of records before a step back, from the first one that is too late."""
    found = _Range()
    keys = LogKeys(dialect)
    limit_ms = step.timestamp_ms + MIN_STEP_MS
    for batch in log:
        if batch.base_offset >= step.offset:
            break
        if batch.next_offset <= step.after or (found.first < 0 and batch.max_timestamp < limit_ms):
            continue
        try:
            records = batch.records
        except BadBytes:
            continue
        for record in records:
            if found.first < 0 and record.offset > step.after and record.timestamp >= limit_ms:
                found.first = record.offset
            if found.first < 0:
                continue
            found.last = record.offset
            if record.value is None and not batch.is_control:
                _add_tombstone(found, record.key, keys)
    return found


def _add_tombstone(found: _Range, key: bytes | None, keys: LogKeys) -> None:
    try:
        log_key = keys[key]
    except BadBytes:
        return
    if log_key.group_id is None:
        return
    if log_key.partition is not None:
        found.deleted[log_key.group_id] = found.deleted.get(log_key.group_id, 0) + 1
    elif log_key.decoded.type in _GROUP_TYPES:
        found.groups.add(log_key.group_id)
