"""What `explain` adds to the records of a group: where a load fails, and what single records mean.

For a load that fails, it names the older record of the group that does not fit to the record there. For group records,
tombstones, and commits that survive a tombstone, the events and the causes are those of the timeline (timeline.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.newest_values import GROUP_ENDING_TYPES
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Event
from kafkagroups.history.group_log import GroupLog
from kafkagroups.history.group_records import read_group_records
from kafkagroups.history.group_requests import EPOCHS
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.history.timeline import PartitionHistory, walk
from kafkagroups.loading.groups import Groups

_SHOWN_EVENTS = ("generation", "empty", "epoch", "deleted", "expired", "offset_deleted")
"""The events whose sentence is shown at their record. The others repeat what the record's columns contain.

The sentence of a rewind is shown at the commit (`OffsetEvents.rewinds`), and not at the marker of its transaction."""
_COUNTING = (Fate.WINS, Fate.PENDING)


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


def find_load_failures(groups: Groups, entries: list[RecordFate]) -> Iterator[LoadFailure]:
    """Yield the failures of the partitions with records of a group. `entries` are its records."""
    for partition, reason in groups.failed.items():
        own = [entry for entry in entries if entry.partition == partition]
        if own:
            offset = groups.partitions[partition].record_offset
            yield LoadFailure(partition, reason, offset, None if offset is None else _find_conflict(own, offset))


def _find_conflict(entries: list[RecordFate], offset: int) -> RecordFate | None:
    newest: RecordFate | None = None
    for entry in entries:
        if entry.offset < offset and entry.type in EPOCHS:
            newest = entry
        if entry.offset != offset or newest is None or newest.fate is Fate.TOMBSTONE:
            continue
        group_type = GROUP_TYPE_BY_RECORD_TYPE.get(entry.type or 0)
        if group_type not in (None, GROUP_TYPE_BY_RECORD_TYPE[newest.type or 0]):
            return newest
    return None


def add_details(
    group_log: GroupLog, all_entries: list[RecordFate], retention_ms: int | None = None
) -> dict[int | None, PartitionHistory]:
    """Set `replaced`, `went_back`, `group_record`, `cause` and `what` of the records in a settled log.

    If a tombstone follows a record that counts, also set its `why`.
    `all_entries` are the records of the log, in its order. `retention_ms` is the broker's offsets.retention.minutes.
    Return the history of the group in each partition of the log.
    """
    histories: dict[int | None, PartitionHistory] = {}
    dialect = group_log.dialect
    entries: dict[int | None, list[RecordFate]] = {}
    for entry in all_entries:
        entries.setdefault(entry.partition, []).append(entry)
    for partition, partition_entries in entries.items():
        steps = group_log.steps.get(partition, [])
        history = walk(steps, partition, dialect, start_offset=0, skips_routine=True, retention_ms=retention_ms)
        histories[partition] = history
        sentences = _join_sentences(history.events)
        contents = read_group_records(steps, partition, dialect, group_log.wanted_group or "", history.events)
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
    return histories


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
        elif entry.fate is Fate.TOMBSTONE and entry.type in GROUP_ENDING_TYPES:
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
