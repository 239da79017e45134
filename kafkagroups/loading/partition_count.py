"""The partition count of the topic `__consumer_offsets`: given, found in a folder, or unknown.

The hash of a group id and the partition count decide in which partition a group is stored: its home partition. A folder
of partition folders shows the count if the partitions 0 to n-1 are all there, and each group has its newest record, the
one with the largest timestamp, in its home partition of n. If two partitions have the same largest timestamp, or
records have no timestamps, the count is unknown.

- One partition alone (a partition folder or a segment as PATH) never shows the count.
- A folder with only partition 0 shows a topic of one partition. If this is wrong, no answer depends on it.
- A folder with the first n partitions of a topic with 2n partitions shows n, but its groups have the same home
  partition with both counts.

If the partition count was changed, older records of a group stay in the home partition of the old count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, NamedTuple

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.replay import LogKeys
from kafkagroups.loading import native
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.log.segment_file import DEFAULT_PARTITION_COUNT, hash_group, partition_for
from kafkagroups.log.segments import Log, Stop, batches_until
from kafkagroups.records.releases import DEFAULT_DIALECT, Dialect

_MAX_OLD_COUNT = 10_000
_MAX_PLACES = 1000
"""The limits of the search for the partition count before a change: the largest count, and the number of groups."""
_FIRST_BATCHES = 1000
MAX_FITTING = 1000
PartitionsOf = Mapping[str, Sequence[int | None]]


class RecordTimes(NamedTuple):
    first_ms: int
    last_ms: int


@dataclass(frozen=True)
class LogTimes:
    """The times of the records in loaded logs, which are read a second time for groups with records in several
    partitions. `logs` has each log by its partition, and where its reading has ended.
    """

    logs: Mapping[int | None, tuple[Log, Stop]] = field(default_factory=dict)
    dialect: Dialect = DEFAULT_DIALECT
    engine: str = "python"

    def of_groups(self, partition: int | None, group_ids: Collection[str]) -> dict[str, RecordTimes]:
        """A group without timestamps in the partition is left out."""
        if self.engine == "compiled" and partition in self.logs:
            log, stop = self.logs[partition]
            extents = native.read_extents(log, self.dialect, stop)
            if extents is not None:
                found = {group_id: extents[group_id].times for group_id in group_ids if group_id in extents}
                return {group_id: RecordTimes(*times) for group_id, times in found.items() if times is not None}
        return _collect_times(self._read_records(partition), frozenset(group_ids))

    def of_first_records(self, partition: int | None) -> dict[str, RecordTimes]:
        return _collect_times(self._read_records(partition, _FIRST_BATCHES), None)

    def _read_records(self, partition: int | None, max_batches: int | None = None) -> Iterator[tuple[str, int]]:
        if partition not in self.logs:
            return
        keys = LogKeys(self.dialect)
        with suppress(BadBytes):  # The load has ended at this batch, too.
            for batch in islice(batches_until(*self.logs[partition]), max_batches):
                for record in () if batch.is_control else batch.records:
                    with suppress(BadBytes):
                        group_id = keys[record.key].group_id
                        if group_id is not None:
                            yield group_id, record.timestamp


def _collect_times(records: Iterable[tuple[str, int]], group_ids: Collection[str] | None) -> dict[str, RecordTimes]:
    times: dict[str, RecordTimes] = {}
    for group_id, timestamp in records:
        if timestamp != NO_TIMESTAMP and (group_ids is None or group_id in group_ids):
            first_ms, last_ms = times.get(group_id, (timestamp, timestamp))
            times[group_id] = RecordTimes(min(first_ms, timestamp), max(last_ms, timestamp))
    return times


NO_TIMES = LogTimes()


@dataclass(frozen=True)
class PartitionCountChange:
    """A change of the topic's partition count.

    `groups` are those whose newest record is in their home partition of the new count, with older ones in the old one.
    `since_ms` is the time of their first record in the new one, so the change was not later. `possible_counts` are the
    old counts that agree with the log, in ascending order, with `from_count`.
    """

    from_count: int
    to_count: int
    groups: list[str]
    since_ms: int
    possible_counts: list[int]

    def to_json(self) -> dict[str, Any]:
        row = {"from": self.from_count, "to": self.to_count, "groups": self.groups, "since_ms": self.since_ms}
        return row | ({"possible_from": self.possible_counts} if len(self.possible_counts) > 1 else {})

    def describe_old_counts(self) -> str:
        *others, last = [str(count) for count in self.possible_counts]
        return f"{', '.join(others)} or {last}" if others else last


@dataclass(frozen=True)
class TopicPartitions:
    """The partition count of the topic `__consumer_offsets`, and how it was found.

    `origin` is "option" (the caller gave the count), "folder" (the folder shows it) or "unknown". `misplaced_groups`
    keep a folder from showing a count: their newest record is not in their home partition, or this cannot be decided.
    `missing` are the partitions that a folder lacks; if the count is unknown, some after its last one can be missing,
    too. `beyond` are those that a topic with the count of the caller does not have. If the count is unknown, `fitting`
    are the counts up to MAX_FITTING with which each group has records in its home partition.
    """

    count: int | None = None
    origin: str = "unknown"
    changed: PartitionCountChange | None = None
    shared_groups: list[str] = field(default_factory=list)
    misplaced_groups: list[str] = field(default_factory=list)
    missing: list[range] = field(default_factory=list)
    beyond: list[int] = field(default_factory=list)
    fitting: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        changed = None if self.changed is None else self.changed.to_json()
        return {"count": self.count, "from": self.origin, "changed": changed}


@dataclass
class FoundPartitions:
    """`numbers` are those at the path; None is a log without a number. `is_folder` says whether the path is a folder of
    partition folders, and `option` is the count that the caller gave.
    """

    numbers: list[int | None] = field(default_factory=list)
    is_folder: bool = False
    option: int | None = None

    def decide(self, partitions_of: PartitionsOf, read_times: LogTimes = NO_TIMES) -> TopicPartitions:
        """`read_times` is only used for groups with records in several partitions."""
        shared_groups = sorted(group_id for group_id, numbers in partitions_of.items() if len(numbers) > 1)
        numbers = {number for number in self.numbers if number is not None}
        has_all = self.is_folder and numbers == set(range(len(self.numbers)))
        count = self.option
        if count is None and has_all:
            count = len(self.numbers)
        if count is None:
            end = max(numbers, default=0)
            fitting = _find_fitting(partitions_of, end + 1) if self.is_folder and shared_groups else []
            return TopicPartitions(shared_groups=shared_groups, missing=self._find_missing(end), fitting=fitting)
        places = _Places(partitions_of, count, read_times)
        missing = self._find_missing(count)
        misplaced = sorted(group_id for group_id in places.other_partitions if group_id not in places.moved)
        if self.option is None and misplaced:
            return TopicPartitions(shared_groups=shared_groups, misplaced_groups=misplaced, missing=missing)
        changed = _find_change(places, self.numbers, count)
        origin = "folder" if self.option is None else "option"
        beyond = sorted(number for number in numbers if number >= count)
        return TopicPartitions(count, origin, changed, shared_groups, missing=missing, beyond=beyond)

    def _find_missing(self, count: int) -> list[range]:
        if not self.is_folder:
            return []
        present = sorted(number for number in self.numbers if number is not None and number < count)
        holes = (range(before + 1, after) for before, after in pairwise([-1, *present, count]))
        return [hole for hole in holes if hole]


def _find_fitting(partitions_of: PartitionsOf, lowest: int) -> list[int]:
    counts = [*range(lowest, MAX_FITTING + 1)]
    for group_id, numbers in islice(partitions_of.items(), _MAX_PLACES):
        group_hash = hash_group(group_id)
        counts = [count for count in counts if group_hash % count in numbers]
    return counts


class _Places:
    """Where the records of the groups are, compared with their home partitions for a partition count.

    `other_partitions` has, by group id, the other partitions with records of the group, and `moved` the time of the
    first record at home of each group whose newest record is there all the same. Before a change of the count, nothing
    was written there. So if most of these groups began at home, there was no change, and none has moved.
    """

    def __init__(self, partitions_of: PartitionsOf, count: int, read_times: LogTimes) -> None:
        self.read_times = read_times
        self.other_partitions: dict[str, list[int]] = {}
        groups_in: dict[int, list[str]] = {}
        home_of: dict[str, int] = {}
        for group_id, numbers in partitions_of.items():
            home = partition_for(group_id, count)
            others = [number for number in numbers if number is not None and number != home]
            if not others:
                continue
            self.other_partitions[group_id] = others
            if len(others) < len(numbers):
                home_of[group_id] = home
                for number in (home, *others):
                    groups_in.setdefault(number, []).append(group_id)
        times = {number: read_times.of_groups(number, group_ids) for number, group_ids in groups_in.items()}
        self.moved: dict[str, int] = {}
        began_at_home = 0
        for group_id, home in home_of.items():
            home_times = times[home].get(group_id)
            other_times = [times[number].get(group_id) for number in self.other_partitions[group_id]]
            if home_times and all(other and other.last_ms < home_times.last_ms for other in other_times):
                self.moved[group_id] = home_times.first_ms
                began_at_home += all(other and other.first_ms > home_times.first_ms for other in other_times)
        if 2 * began_at_home > len(self.moved):
            self.moved.clear()


def _find_change(places: _Places, numbers: Iterable[int | None], count: int) -> PartitionCountChange | None:
    """Return the change of the partition count to `count` that the groups in several partitions show.

    The old count is the one that explains most places of records before the change. If several do, the default count is
    preferred, and then the largest one. Return None if no count explains three of four places.
    """
    old_places = {(group_id, number) for group_id in places.moved for number in places.other_partitions[group_id]}
    explained_by = _count_explained(old_places, count)
    if not explained_by or 4 * max(explained_by.values()) < 3 * min(len(old_places), _MAX_PLACES):
        return None
    since_ms = min(places.moved.values())
    possible_counts = _find_largest(explained_by)
    if len(possible_counts) > 1:
        # Other groups with records before the change can tell which of these counts is right.
        for number in numbers:
            for group_id, times in places.read_times.of_first_records(number).items():
                if number is not None and times.first_ms < since_ms:
                    old_places.add((group_id, number))
        explained_by = _count_explained(old_places, count)
        possible_counts = _find_largest({old_count: explained_by[old_count] for old_count in possible_counts})
    is_default_possible = DEFAULT_PARTITION_COUNT in possible_counts
    from_count = DEFAULT_PARTITION_COUNT if is_default_possible else possible_counts[-1]
    groups = sorted(
        group_id
        for group_id in places.moved
        if partition_for(group_id, from_count) in places.other_partitions[group_id]
    )
    since_ms = min(places.moved[group_id] for group_id in groups)
    return PartitionCountChange(from_count, count, groups, since_ms, possible_counts)


def _count_explained(old_places: Collection[tuple[str, int]], count: int) -> Counter[int]:
    explained_by: Counter[int] = Counter()
    for group_id, number in sorted(old_places)[:_MAX_PLACES]:
        group_hash = hash_group(group_id)
        old_counts = range(number + 1, min(count, _MAX_OLD_COUNT))
        explained_by.update(old for old in old_counts if group_hash % old == number)
    return explained_by


def _find_largest(explained_by: Mapping[int, int]) -> list[int]:
    largest = max(explained_by.values())
    return sorted(count for count, explained in explained_by.items() if explained == largest)


def match_groups(group_ids: Iterable[str], pattern: str) -> list[str]:
    """Return the group with exactly this id, or all that the pattern matches, or else the text itself."""
    known = set(group_ids)
    if pattern in known or not has_wildcard(pattern):
        return [pattern]
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    matches = re.compile(expression, re.DOTALL).fullmatch
    return sorted(group_id for group_id in known if matches(group_id)) or [pattern]


def refuse_pattern(group: str, *, is_known: bool) -> None:
    """Raise UsageError if an unknown group id looks like a pattern: an empty answer would say that nothing matches."""
    if has_wildcard(group) and not is_known:
        raise UsageError(f"no group has the id {group}: expected the id of one group. `explain_groups` takes a pattern")


def has_wildcard(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern
