"""Compacts a log for a snapshot: copies the records that still count, with their offsets.

A load of the copy gives the same shard as a load of the log, so that the rest of the log can follow after either one.
Kafka's cleaner does not promise that: it removes records by their keys, and knows nothing of groups. These records
count:

- the record of each committed offset, in a batch without a producer, because its transaction is decided;
- the record of each pending offset, in a batch with its producer and epoch, because its transaction is not;
- the newest record of each classic group, also a tombstone: it hides offsets that a broker keeps (new coordinator), or
  lets a load fail (classic coordinator);
- all records of a consumer, share or streams group since it began, because each can depend on those before it.

Two records are written that are not in the log, at the offset of a record that is left out. A group that exists only
because of an offset that is gone becomes an empty classic group, which is the same. If a tombstone of another type has
deleted a group, the tombstone of a classic group says so: it deletes any group, also one that began with a commit.

Every record stays in its batch, and the last batch stays even if it is empty, so that the copy ends where the log ends.
A batch can now begin with a later record. Only the classic coordinator looks at the first offset of a batch, to compare
different batches, so no answer changes. All of this needs offsets that rise. They fall only in logs that no broker
wrote, and of these a snapshot keeps all batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkagroups.groups.fold import fold_batches
from kafkagroups.groups.log_records import LogKeys, read_keys
from kafkagroups.groups.offset_columns import NativeOffsets
from kafkagroups.groups.shard import Shard
from kafkagroups.loading import native
from kafkagroups.log.batch import LOG_APPEND_TIME, NO_PRODUCER_ID, NO_TIMESTAMP, TRANSACTIONAL
from kafkagroups.log.batches import FoundBatch
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.record_filter import encode_replacement
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.serde import Record, encode

KeyAndValue = tuple[bytes, bytes | None]


class Compacted(NamedTuple):
    """A segment, how many batches and records it has, and the ids of the groups with records in it."""

    segment: bytes
    batches: int
    records: int
    group_ids: set[str]


def compact(shard: Shard, batches: Iterable[FoundBatch]) -> Compacted | None:
    """Return a segment with the records that still count; None if the offsets in the log do not always rise.

    `batches` are those that gave `shard`, and are read twice. Raises UsageError if a batch has offsets that cannot be
    written again.
    """
    pending = {
        commit.record_offset: group_id
        for groups in shard.offsets.pending.values()
        for group_id, commits in groups.items()
        for commit in commits.values()
    }
    # A mapping of the native engine decodes all of its offsets for `items`, but each one again for `values`.
    commits = pending | {
        commit.record_offset: group_id
        for group_id, committed in shard.offsets.committed.items()
        for _, commit in committed.items()
    }
    records: dict[int, KeyAndValue] = {}
    try:
        kept = _keep_group_records(shard, batches)
    except _OffsetsFall:
        return None
    for of_group in kept.values():
        # If a commit still counts, it creates its group itself.
        records |= {offset: record for offset, record in of_group.items() if offset not in commits}
    offsets = sorted(commits.keys() | records.keys())
    segment = bytearray()
    copied_batches = copied_records = 0
    is_last_kept = True
    index = 0
    next_offset = None
    for found in batches:
        frame = found.frame
        if frame.last_offset < frame.base_offset or (next_offset is not None and frame.base_offset < next_offset):
            return None
        next_offset = frame.next_offset
        end = bisect_left(offsets, next_offset, index)
        is_last_kept = index < end
        if is_last_kept:
            copy = _copy_batch(found, set(offsets[index:end]), records, pending)
            if copy is None:
                return None
            segment += copy
            copied_batches += 1
            copied_records += end - index
        index = end
    if not is_last_kept:
        last_offset = frame.last_offset
        times = {"base_timestamp": NO_TIMESTAMP, "max_timestamp": NO_TIMESTAMP}
        segment += encode_batch((), base_offset=last_offset, last_offset=last_offset, **times)
        copied_batches += 1
    return Compacted(bytes(segment), copied_batches, copied_records, {*commits.values(), *kept})


class _OffsetsFall(Exception):
    """The offset of a record is not above that of the record before, or not in its batch."""


def _keep_group_records(shard: Shard, batches: Iterable[FoundBatch]) -> dict[str, dict[int, KeyAndValue]]:
    """Return by group id and offset the records from which the groups of a shard can be built again."""
    if isinstance(shard.offsets, NativeOffsets):  # The engine hands a log over if its offsets do not rise.
        others: Iterable[native.OtherRecord] = native.other_records(shard.offsets.reading)
        newest_commits: Mapping[str, int] = shard.offsets.newest_commits
    else:
        others, newest_commits = _list_other_records(shard, batches)
    kept: dict[str, dict[int, KeyAndValue]] = {}
    replayed = fold_batches(shard.partition, (), shard.dialect)
    for group_id, offset, record, begins in native.replay_other_records(replayed, others, newest_commits):
        if begins:
            kept[group_id] = {}
        if record is None:
            is_empty = group_id in replayed.groups
            value = GroupMetadataValue("", 0, None, None, -1, ()) if is_empty else None
            record = encode(Record(2, GroupMetadataKey(group_id), value, 3 if is_empty else None))
        kept.setdefault(group_id, {})[offset] = record
    return kept


def _list_other_records(
    shard: Shard, batches: Iterable[FoundBatch]
) -> tuple[Sequence[native.OtherRecord], Mapping[str, int]]:
    """Return the records that are not offset records, and by group id the offset of its newest commit."""
    rows: list[native.OtherRecord] = []
    newest_commits: dict[str, int] = {}
    newest_others: dict[str, int] = {}
    keys = LogKeys(shard.dialect)
    last_offset = -1
    for found in batches:
        for group_id, key, record in read_keys(found.parse(), keys):
            if not last_offset < record.offset < found.frame.next_offset:
                raise _OffsetsFall
            last_offset = record.offset
            if key.partition is None:
                commit = newest_commits.get(group_id, -1)
                commit_before = commit if commit > newest_others.get(group_id, -1) else -1
                is_plain = isinstance(key.decoded.content, GroupMetadataKey)
                rows.append((record.offset, commit_before, record.key or b"", record.value, is_plain))
                newest_others[group_id] = record.offset
            elif record.value is not None:
                newest_commits[group_id] = record.offset
        last_offset = found.frame.last_offset
    return rows, newest_commits


def _copy_batch(
    found: FoundBatch, kept: set[int], changed: Mapping[int, KeyAndValue], pending: Mapping[int, str]
) -> bytes | None:
    """Return a batch with only some of its records; None if the batch does not have each of them once.

    `changed` has the keys and values of some offsets.
    """
    batch = found.parse()
    is_pending = not kept.isdisjoint(pending)
    records = []
    is_whole = batch.magic == 2
    for record in batch.records:
        key, value = changed.get(record.offset, (record.key, record.value))
        if record.offset in kept:
            records.append(record._replace(key=key, value=value, attributes=0))
        is_whole = is_whole and record.offset in kept and (key, value) == (record.key, record.value)
    if len(records) != len(kept):
        return None
    is_of_producer = batch.producer_id != NO_PRODUCER_ID or batch.is_transactional
    if is_whole and is_pending == is_of_producer:
        return found.data
    attributes = batch.attributes & ((LOG_APPEND_TIME | TRANSACTIONAL) if batch.magic == 2 else 0)
    if not is_pending:
        attributes &= ~TRANSACTIONAL
        batch = replace(batch, producer_id=NO_PRODUCER_ID, producer_epoch=-1, base_sequence=-1)
    return encode_replacement(batch, records, attributes, None)
