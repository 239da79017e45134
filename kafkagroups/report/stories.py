"""The exact history of a few groups in which something stands out: offsets that went back, deletions, transactions.

The events are those of `kafkagroups timeline`. The log is read a second time for all groups together, and only the
records of these groups are decoded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from kafkagroups.errors import BadBytes
from kafkagroups.groups.log_records import OFFSET_KEYS, read_control_type
from kafkagroups.history.event import Event
from kafkagroups.history.group_log import GroupRecord, Marker, Step
from kafkagroups.history.stats import PartitionStats
from kafkagroups.history.timeline import walk
from kafkagroups.log.batch import CODEC, NO_PRODUCER_ID, Batch
from kafkagroups.log.holes import Hole, HoleFinder, join_holes
from kafkagroups.log.segments import Log
from kafkagroups.records.control import ControlType
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.serde import DecodedKey, UnknownContent, decode_key, decode_with_key
from kafkagroups.report.activity import Activity

MAX_STORIES = 12
"""A report tells the history of at most this number of groups."""
MAX_RECORDS = 100_000
"""The groups with a history have together at most this number of records."""
TOLD = ("rewind", "expired", "offset_deleted", "deleted", "transaction_open")
"""The events that make a group stand out."""


@dataclass
class Story:
    """What happened to one group in one partition. `events` are in the order of the log."""

    group: str
    partition: int | None
    events: list[Event] = field(default_factory=list)

    def count(self, *names: str) -> int:
        """Return the number of events with these names."""
        return sum(event.event in names for event in self.events)


@dataclass
class Stories:
    """The histories, the most striking one first. `left_out` is how many more groups have signs."""

    stories: list[Story] = field(default_factory=list)
    left_out: int = 0


def choose_groups(activity: Activity, counts: PartitionStats) -> list[tuple[int, int, str]]:
    """Return the groups of a partition in which something stands out, each with its weight and number of records."""
    chosen = []
    open_groups = {group for transaction in counts.open_transactions for group in transaction.groups}
    for group in activity.signs.keys() | open_groups:
        signs = activity.signs.get(group)
        weight = 0 if signs is None else 4 * signs.steps_back + 2 * signs.deletions + signs.group_deletions
        weight += 3 * (group in open_groups)
        if weight:
            chosen.append((weight, 0 if signs is None else signs.records, group))
    return sorted(chosen, key=lambda entry: (-entry[0], entry[2]))


def read_stories(
    logs: Sequence[Log], dialect: Dialect, activities: Sequence[Activity], counts: Iterable[PartitionStats]
) -> Stories:
    """Return the histories of the groups that stand out most. The three sequences are in the same order."""
    candidates = [
        (weight, records, group, number)
        for number, (activity, partition_counts) in enumerate(zip(activities, counts, strict=True))
        for weight, records, group in choose_groups(activity, partition_counts)
    ]
    candidates.sort(key=lambda entry: (-entry[0], entry[2], entry[3]))
    wanted: dict[int, list[str]] = {}
    budget = MAX_RECORDS
    told = 0
    for _, records, group, number in candidates:
        if told < MAX_STORIES and records <= budget:
            wanted.setdefault(number, []).append(group)
            budget -= records
            told += 1
    stories = [story for number, groups in wanted.items() for story in _read_partition(logs[number], dialect, groups)]
    stories = [story for story in stories if story.count(*TOLD)]
    stories.sort(key=_rank)
    return Stories(stories, len(candidates) - told)


def _rank(story: Story) -> tuple[int, int, int, str]:
    """Return what sorts the histories: most offsets that went back or were deleted, and then the earliest event."""
    earliest_ms = min(event.timestamp_ms or 0 for event in story.events if event.event in TOLD)
    return -story.count("rewind"), -story.count("expired", "offset_deleted"), earliest_ms, story.group


def _read_partition(log: Log, dialect: Dialect, groups: Collection[str]) -> list[Story]:
    reading = _Reading(dialect, groups)
    for batch in log:
        reading.add(batch)
    stories = []
    for group, steps in reading.steps.items():
        events, _ = walk(steps, log.partition, dialect, log.start_offset, skips_routine=True)
        stories.append(Story(group, log.partition, [event for event in events if not event.is_routine]))
    return stories


class _Reading:
    """Collects the steps of several groups, as GroupLog (history/group_log.py) does for one group."""

    def __init__(self, dialect: Dialect, groups: Collection[str]) -> None:
        self.dialect = dialect
        self.is_classic = dialect.coordinator == "classic"
        self.steps: dict[str, list[Step]] = {group: [] for group in groups}
        self._group_of_bytes = {group.encode("utf-8", "surrogatepass"): group for group in groups}
        self._find_group = re.compile(b"|".join(map(re.escape, self._group_of_bytes))).search
        self._decoded_keys: dict[bytes, DecodedKey] = {}
        self._holes = HoleFinder()
        self._open: dict[int, set[str]] = {}
        """The groups in the open transaction of each producer."""

    def add(self, batch: Batch) -> None:
        for hole in self._holes.find(batch):
            for steps in self.steps.values():
                self._add_hole(steps, hole)
        try:
            if batch.is_control:
                self._add_marker(batch)
            else:
                self._add_records(batch)
        except BadBytes:  # The load fails at this batch, and the report says so.
            return

    def _add_hole(self, steps: list[Step], hole: Hole) -> None:
        previous = steps[-1] if steps else None
        if isinstance(previous, Hole):
            steps[-1] = join_holes(previous, hole)
        else:
            steps.append(hole)

    def _add_records(self, batch: Batch) -> None:
        # A search in the bytes is faster than reading the records of other groups.
        if not batch.attributes & CODEC and self._find_group(batch.payload) is None:
            return
        has_producer = batch.producer_id != NO_PRODUCER_ID
        is_transactional = batch.is_transactional if self.is_classic else has_producer
        records = batch.records
        for log_record in records:
            key = log_record.key
            if key is None:
                continue
            group = self._group_of_bytes.get(key[4 : 4 + int.from_bytes(key[2:4], "big")])
            if group is None:
                continue
            decoded_key = self._decoded_keys.get(key)
            if decoded_key is None:
                decoded_key = self._decoded_keys[key] = decode_key(key, self.dialect)
            record = decode_with_key(decoded_key, log_record.value)
            if isinstance(record.key, UnknownContent):
                continue
            is_pending = is_transactional and isinstance(record.key, OFFSET_KEYS)
            if is_pending:
                self._open.setdefault(batch.producer_id, set()).add(group)
            self.steps[group].append(
                GroupRecord(
                    log_record.offset,
                    log_record.timestamp,
                    record,
                    batch.base_offset,
                    records[0].offset,
                    batch.producer_id,
                    is_pending,
                )
            )

    def _add_marker(self, batch: Batch) -> None:
        groups = self._open.get(batch.producer_id)
        if not groups:
            return
        # The classic coordinator reads only the first record of the batch, and each type except COMMIT aborts.
        for record in batch.records[:1] if self.is_classic else batch.records:
            control_type = read_control_type(record)
            if self.is_classic or control_type in (ControlType.COMMIT, ControlType.ABORT):
                commits = control_type is ControlType.COMMIT
                for group in groups:
                    self.steps[group].append(Marker(record.offset, record.timestamp, batch.producer_id, commits))
                del self._open[batch.producer_id]
                return
