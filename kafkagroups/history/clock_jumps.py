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

from collections import Counter
from dataclasses import dataclass

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import LogKeys
from kafkagroups.history.event import count_of, describe_duration, describe_time
from kafkagroups.history.finding import Finding, join_words, list_groups
from kafkagroups.history.second_pass import Follower, list_readable
from kafkagroups.log.batch import NO_TIMESTAMP, Batch
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


class JumpRange(Follower):
    """Finds the records before the largest step back in time in a log that are too late, in a second pass.

    `first` is the offset of the first one; -1: none was found. `deleted` are the offsets whose tombstones are in the
    range, by the group ids. `groups` are the ids of the groups whose tombstones are in the range.
    """

    def __init__(self, jumps: ClockJumps, dialect: Dialect) -> None:
        self._jumps = jumps
        self._dialect = dialect
        self._keys = LogKeys(dialect)
        self._step = max(jumps.steps, key=lambda found: found.size_ms, default=StepBack(-1, 0, 0, 0))
        self.producers = None if jumps.steps else ()
        self.first_offset = self._step.after
        self.last_offset = self._step.offset - 1
        self.first = -1
        self.last = -1
        self.deleted: Counter[str] = Counter()
        self.groups: set[str] = set()

    def follow(self, batch: Batch) -> None:
        limit_ms = self._step.timestamp_ms + MIN_STEP_MS
        if batch.next_offset <= self._step.after or (self.first < 0 and batch.max_timestamp < limit_ms):
            return
        for record in list_readable(batch):
            if self.first < 0 and record.offset > self._step.after and record.timestamp >= limit_ms:
                self.first = record.offset
            if self.first < 0:
                continue
            self.last = record.offset
            if record.value is None and not batch.is_control:
                self._add_tombstone(record.key)

    def _add_tombstone(self, key: bytes | None) -> None:
        try:
            log_key = self._keys[key]
        except BadBytes:
            return
        if log_key.group_id is None:
            return
        if log_key.partition is not None:
            self.deleted[log_key.group_id] += 1
        elif log_key.decoded.type in _GROUP_TYPES:
            self.groups.add(log_key.group_id)

    def find(self, log: Log) -> list[Finding]:
        """Return the finding about the largest step back in time, if there is any."""
        if self.first < 0:
            return []
        step = self._step
        dialect = self._dialect
        what = (
            f"The records from offset {self.first} to {self.last} have times up to {describe_time(step.newest_ms)}. "
            f"But record {step.offset} after them has the time {describe_time(step.timestamp_ms)}, "
            f"{describe_duration(step.size_ms)} earlier. The coordinator sets these times. So a broker's clock was "
            "wrong, or records of a copied log are here."
        )
        if len(self._jumps.steps) > 1:
            count = f"at least {MAX_STEPS}" if len(self._jumps.steps) == MAX_STEPS else str(len(self._jumps.steps))
            what += f" This is the largest of {count} steps back in time."
        rules = ("--coordinator", dialect.coordinator, "--kafka", dialect.kafka)
        command = None
        remedy = "Compare the clocks of all brokers first, and correct the one that is wrong."
        offsets = sum(self.deleted.values())
        if offsets or self.groups:
            names = list_groups({*self.deleted, *self.groups})
            what += (
                f" In this range, {count_of(offsets, 'offset')} and {count_of(len(self.groups), 'group')} were deleted "
                f"({names}). With a wrong clock, the check for expired offsets deletes offsets that are not old."
            )
            command = ["kafkagroups", "load", log.path, *rules, "--until", str(self.first)]
            remedy += (
                " Before these groups start again, set the offsets that should not have expired. This shows the "
                f"offsets before the range: {join_words(command)}"
            )
        else:
            remedy += (
                " If a clock is still ahead, the next check for expired offsets can delete the offsets of groups "
                "without members."
            )
        return [Finding(log.partition, self.first, None, None, KIND, what, remedy, command)]
