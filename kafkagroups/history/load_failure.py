"""What `explain` adds to the records of a group: where a load fails, and what single records mean.

For a load that fails, it names the older record of the group that does not fit to the record there. For group records,
tombstones, and commits that survive a tombstone, the events and the causes are those of the timeline (timeline.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Event
from kafkagroups.history.group_events import GroupState
from kafkagroups.history.group_log import GroupLog
from kafkagroups.history.group_records import read_group_records
from kafkagroups.history.group_requests import CLASSIC_GROUP, EPOCHS
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.history.rewound import RewoundPosition
from kafkagroups.history.timeline import walk

_OFFSET = re.compile("offset ([0-9]+): ")
"""How the reason begins if the load fails at one record (groups/fold.py)."""


@dataclass(frozen=True)
class LoadFailure:
    """Why the load of a partition fails.

    Attributes
    ----------
    partition
        The partition of the offsets topic; None if the log's folder has no partition number.
    reason
        The reason, as in `load --json`.
    offset
        The offset of the record at which the load fails; None if the load fails at no single record.
    conflict
        The newest epoch record of the group before, if its group type is not that of the record at `offset`, and no
        tombstone deleted the group. Otherwise None.
    """

    partition: int | None
    reason: str
    offset: int | None = None
    conflict: RecordFate | None = None


def find_load_failures(failed: Mapping[int | None, str], entries: list[RecordFate]) -> list[LoadFailure]:
    """Return the failures of the partitions with records of a group.

    `failed` contains the reason for each partition whose load fails. `entries` are the records of the group.
    """
    partitions = {entry.partition for entry in entries}
    return [
        _describe_failure(partition, reason, [entry for entry in entries if entry.partition == partition])
        for partition, reason in failed.items()
        if partition in partitions
    ]


def _describe_failure(partition: int | None, reason: str, entries: list[RecordFate]) -> LoadFailure:
    match = _OFFSET.match(reason)
    if match is None:
        return LoadFailure(partition, reason)
    offset = int(match[1])
    newest: RecordFate | None = None
    for entry in entries:
        if entry.offset < offset and entry.type in EPOCHS:
            newest = entry
        if entry.offset != offset or newest is None or newest.fate is Fate.TOMBSTONE:
            continue
        group_type = GROUP_TYPE_BY_RECORD_TYPE.get(entry.type or 0)
        if group_type is not None and group_type != GROUP_TYPE_BY_RECORD_TYPE[newest.type or 0]:
            return LoadFailure(partition, reason, offset, newest)
    return LoadFailure(partition, reason, offset)


_SHOWN_EVENTS = ("generation", "empty", "epoch", "deleted", "expired", "offset_deleted")
"""The events whose sentence is shown at their record. The others repeat what the record's columns contain.

The sentence of a rewind is shown at the commit (`OffsetEvents.rewinds`), and not at the marker of its transaction."""
_COUNTING = (Fate.WINS, Fate.PENDING)


class GroupAtEnd(NamedTuple):
    """The group at the end of a partition's log, and its positions that went back."""

    state: GroupState
    rewound: list[RewoundPosition]


def add_details(
    group_log: GroupLog, all_entries: list[RecordFate], retention_ms: int | None = None
) -> dict[int | None, GroupAtEnd]:
    """Set `replaced`, `went_back`, `group_record`, `cause` and `what` of the records in a settled log.

    If a tombstone follows a record that counts, also set its `why`.
    `all_entries` are the records of the log, in its order. `retention_ms` is the broker's offsets.retention.minutes.
    Return the group at the end of each partition of the log.
    """
    ends: dict[int | None, GroupAtEnd] = {}
    group_id = group_log.wanted_group
    assert group_id is not None
    dialect = group_log.dialect
    entries: dict[int | None, list[RecordFate]] = {}
    for entry in all_entries:
        entries.setdefault(entry.partition, []).append(entry)
    for partition, partition_entries in entries.items():
        steps = group_log.steps.get(partition, [])
        events, history = walk(steps, partition, dialect, start_offset=0, skips_routine=True, retention_ms=retention_ms)
        ends[partition] = GroupAtEnd(history.group.state, history.offsets.find_rewound())
        sentences = _join_sentences(events)
        contents = read_group_records(steps, partition, dialect, group_id, events)
        for entry in partition_entries:
            if entry.committed is not None and not entry.is_unreadable:
                entry.replaced = history.offsets.replaced.get(entry.offset)
                entry.what = history.offsets.rewinds.get(entry.offset)
                entry.went_back = entry.what is not None
            if entry.fate is Fate.IGNORED or entry.fate is Fate.MARKER:
                continue
            entry.what = sentences.get(entry.offset, entry.what)
            if entry.key is None:
                entry.group_record = contents.get(entry.offset)
            if entry.fate is Fate.TOMBSTONE:
                entry.cause = history.causes.get(entry.offset)
        _explain_survivors(partition_entries, is_classic=dialect.coordinator == "classic")
    return ends


def _join_sentences(events: Iterable[Event]) -> dict[int, str]:
    """Return what the events at each offset say."""
    sentences: dict[int, str] = {}
    for event in events:
        if event.event in _SHOWN_EVENTS:
            earlier = sentences.get(event.offset)
            sentences[event.offset] = event.what if earlier is None else f"{earlier} {event.what}"
    return sentences


def _explain_survivors(entries: list[RecordFate], *, is_classic: bool) -> None:
    """Set `why` of the records that count although a later tombstone has their key or their group.

    `entries` are the records of one partition, in the order of the log.
    """
    offset_tombstones: dict[TopicPartition, RecordFate] = {}
    group_tombstone: RecordFate | None = None
    for entry in reversed(entries):
        if entry.fate is Fate.TOMBSTONE and entry.key is not None:
            offset_tombstones[entry.key] = entry
        elif entry.fate is Fate.TOMBSTONE and entry.type in (CLASSIC_GROUP, *EPOCHS):
            group_tombstone = entry
        elif entry.fate in _COUNTING and entry.key is not None:
            tombstone = offset_tombstones.get(entry.key)
            if tombstone is not None:
                entry.why = _explain_offset_tombstone(entry, tombstone)
            elif group_tombstone is not None and entry.fate is Fate.WINS:
                entry.why = _explain_group_tombstone(group_tombstone, is_classic=is_classic)


def _explain_offset_tombstone(entry: RecordFate, tombstone: RecordFate) -> str:
    """Return why a record counts although the tombstone has its key. Only the classic coordinator has such records.

    A tombstone in a transaction deletes only the pending commit of its own producer. Any other tombstone deletes only
    the committed offset, so a commit that is pending at this time stays.
    """
    if not tombstone.is_transactional:
        return (
            f"the tombstone at {tombstone.offset} deleted only the committed offset: this commit was pending, because "
            f"the transaction of producer {entry.producer_id} was open"
        )
    if entry.producer_id != tombstone.producer_id or not entry.is_transactional:
        return (
            f"the tombstone at {tombstone.offset} is in a transaction of producer {tombstone.producer_id}: it deletes "
            "only pending commits of this producer"
        )
    return (
        f"the tombstone at {tombstone.offset} is in a later transaction of producer {tombstone.producer_id}: it "
        "deletes only pending commits, and this commit was no longer pending"
    )


def _explain_group_tombstone(tombstone: RecordFate, *, is_classic: bool) -> str:
    if is_classic:
        return (
            f"the tombstone at {tombstone.offset} deleted only the group's own record: a load keeps the group's "
            "offsets, and creates a group without members for them"
        )
    return (
        f"the tombstone at {tombstone.offset} deleted the group, but not this offset: a later record created the group "
        "again"
    )
