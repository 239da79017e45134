"""The gaps in the history of a group: ranges of offsets in which the log cleaner has removed records.

A missing offset does not tell to which group its record belonged. But the log limits what can be missing. The cleaner
keeps the newest record of each key, and removes all older records of this key at the same time. So if an older record
of a key is still in the log, then no later record of the key was removed, except records of aborted transactions. The
records that can be missing before the first remaining record of a key are its older values.
Source: Cleaner.cleanSegments and Cleaner.shouldRetainRecord (4.3.1).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from kafkagroups.history.event import Event
from kafkagroups.history.group_log import GroupRecord, Step
from kafkagroups.history.group_requests import CLASSIC_GROUP, MEMBERS
from kafkagroups.history.words import count_of, list_names
from kafkagroups.log.damage import Gap
from kafkagroups.log.holes import DamagedHole, Hole


class _FirstRecord(NamedTuple):
    """The first record of a key that is in the log.

    `number` is its place in the steps. `name` is the topic partition of an offset, or what other records are about.
    """

    number: int
    name: str
    is_offset: bool


class Gaps:
    """The gaps in the history of a group in one partition.

    `steps` is the log of the group (group_log.py). `start_offset` is the first offset of the log.
    """

    def __init__(self, partition: int | None, steps: list[Step], start_offset: int) -> None:
        self.partition = partition
        self._start_offset = start_offset
        self._number_by_hole = {step: number for number, step in enumerate(steps) if isinstance(step, Hole)}
        self._first_records = _find_first_records(steps)
        self._first_numbers = [first.number for first in self._first_records]

    def describe(self, hole: Hole) -> Event:
        """Return the event of a hole in the log."""
        if isinstance(hole, DamagedHole):
            place = f"offset {hole.first}" if hole.missing == 1 else f"the offsets {hole.first} to {hole.last}"
            what = f"The bytes of {place} are damaged; any record of this group can be there."
            return Event(self.partition, hole.first, None, "gap", what, from_offset=hole.first, to_offset=hole.last)
        what = f"{self._describe_range(hole)}; {self._describe_missing(hole)}."
        return Event(self.partition, hole.first, None, "gap", what, from_offset=hole.first, to_offset=hole.last)

    def _describe_range(self, hole: Hole) -> str:
        """Return what is missing. Offsets before the start of the log were not removed by the cleaner."""
        before_start = max(0, min(self._start_offset, hole.last + 1) - hole.first)
        removed = hole.missing - before_start
        parts = []
        if before_start:
            parts.append(f"The log begins at {self._start_offset}")
        if removed:
            first = max(hole.first, self._start_offset)
            parts.append(f"{count_of(removed, 'record')} cleaned away in {first} to {hole.last}")
        return ", ".join(parts)

    def _describe_missing(self, hole: Hole) -> str:
        """Return which records of the group can be missing."""
        later_keys = self._first_records[bisect_right(self._first_numbers, self._number_by_hole[hole]) :]
        if not later_keys:
            return "of this group only deleted or aborted ones"
        partitions = [first.name for first in later_keys if first.is_offset]
        others = [first.name for first in later_keys if not first.is_offset]
        names = list(dict.fromkeys(others))
        if partitions:
            names.append(f"commits of {list_names(partitions)}")
        return f"perhaps older {' and '.join(names)}"


def mark_damaged(steps: list[Step], damaged: Iterable[Gap]) -> list[Step]:
    """Return the steps with a hole of its own for each range of offsets whose bytes are damaged.

    `damaged` are the damaged bytes that the reader has skipped.
    """
    ranges = [(gap.from_offset, gap.to_offset - 1) for gap in damaged if gap.to_offset > gap.from_offset]
    marked: list[Step] = []
    for step in steps:
        parts = _split(step, ranges) if isinstance(step, Hole) else [step]
        marked += parts
    return marked


def _split(hole: Hole, ranges: Iterable[tuple[int, int]]) -> list[Step]:
    """Return the parts of a hole: the damaged ranges, and what is missing before, between and after them."""
    parts: list[Step] = []
    first = hole.first
    undamaged = hole.missing
    for start, end in ranges:
        if start < hole.first or end > hole.last:
            continue
        undamaged -= end - start + 1
        if start > first and undamaged > 0:
            missing = min(undamaged, start - first)
            parts.append(Hole(first, start - 1, missing))
            undamaged -= missing
        parts.append(DamagedHole(start, end, end - start + 1))
        first = end + 1
    if undamaged > 0:
        parts.append(Hole(first, hole.last, undamaged))
    return parts


def _find_first_records(steps: list[Step]) -> list[_FirstRecord]:
    """Return the first record of each key, in the order of the log."""
    seen_keys = set()
    first_records = []
    for number, step in enumerate(steps):
        if isinstance(step, GroupRecord):
            key = (step.type, step.record.key)
            if key not in seen_keys:
                seen_keys.add(key)
                is_offset = step.is_offset
                first_records.append(_FirstRecord(number, _name_records(step), is_offset))
    return first_records


def _name_records(record: GroupRecord) -> str:
    if record.is_offset:
        return str(record.key)
    if record.type == CLASSIC_GROUP:
        return "generations" if record.value is None else f"generations than {record.value.generation}"
    return "members" if record.type in MEMBERS else "epochs and assignments"
