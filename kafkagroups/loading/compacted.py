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
different batches, so no answer changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from kafkagroups.groups.classic_shard import ClassicShard
from kafkagroups.groups.fold import fold_batches
from kafkagroups.groups.group import Group, GroupRecord
from kafkagroups.groups.log_records import LogKeys, read_keys
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.offset_columns import NativeOffsets
from kafkagroups.groups.shard import Shard
from kafkagroups.loading import native
from kafkagroups.log.batch import LOG_APPEND_TIME, NO_PRODUCER_ID, NO_TIMESTAMP, TRANSACTIONAL
from kafkagroups.log.batches import FoundBatch
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.record_filter import encode_replacement
from kafkagroups.records.consumer_group import GroupIdKey
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.serde import Record, decode_with_key, encode

KeyAndValue = tuple[bytes, bytes | None]
OtherRecord = tuple[int, int, bytes, bytes | None]
"""A record that is not an offset record: its offset, the offset of the newest commit of its group if it is newer than
the record before of this kind (otherwise -1), its key and its value."""


def compact(shard: Shard, batches: Iterable[FoundBatch]) -> bytes:
    """Return a segment with the records that still count. `batches` are those that gave `shard`, and are read twice.

    Raises UsageError if a batch has offsets that no broker writes. The caller must check with `has_same_state` that a
    load of the segment gives the same shard: for a log with odd offsets, it may not.
    """
    records = _find_group_records(shard, batches)
    pending = {offset for _, offset in _list_pending(shard)}
    commits = pending.union(_list_committed(shard))
    offsets = sorted(commits | records.keys())
    for offset in commits:
        records.pop(offset, None)  # The commit itself creates its group.
    segment = bytearray()
    is_last_kept = True
    index = 0
    for found in batches:
        end = bisect_left(offsets, found.frame.next_offset, index)
        is_last_kept = index < end
        if is_last_kept:
            segment += _copy_batch(found, set(offsets[index:end]), records, pending)
        index = end
        last_offset = found.frame.last_offset
    if not is_last_kept:
        times = {"base_timestamp": NO_TIMESTAMP, "max_timestamp": NO_TIMESTAMP}
        segment += encode_batch((), base_offset=last_offset, last_offset=last_offset, **times)
    return bytes(segment)


def has_same_state(shard: Shard, compacted: Shard) -> bool:
    """Return whether a load of a compacted segment has given the state of the whole log.

    Offsets are compared by the offsets of their records, because the records were copied.
    """
    return (
        compacted.failure is None
        and compacted.loaded.damage is None
        and compacted.loaded.next_offset == shard.loaded.next_offset
        and compacted.groups.keys() == shard.groups.keys()
        and _list_removed(compacted) == _list_removed(shard)
        and sorted(_list_committed(compacted)) == sorted(_list_committed(shard))
        and sorted(_list_pending(compacted)) == sorted(_list_pending(shard))
        and all(_is_same_group(group, compacted.groups[group_id]) for group_id, group in shard.groups.items())
    )


def _list_removed(shard: Shard) -> set[str]:
    """Return the groups whose last group record is a tombstone, which the classic coordinator remembers."""
    return set(shard.removed_groups) if isinstance(shard, ClassicShard) else set()


def _is_same_group(group: AnyGroup | GroupRecord, other: AnyGroup | GroupRecord) -> bool:
    return group == other or _decode(group) == _decode(other)


def _decode(group: AnyGroup | GroupRecord) -> AnyGroup:
    return group.decode() if isinstance(group, GroupRecord) else group


def _list_committed(shard: Shard) -> Iterator[int]:
    """Yield the offset of the record of each committed offset."""
    # A mapping of the native engine decodes all of its offsets for `items`, but each one again for `values`.
    return (offset.record_offset for offsets in shard.offsets.committed.values() for _, offset in offsets.items())


def _list_pending(shard: Shard) -> Iterator[tuple[int, int]]:
    """Yield the producer id and the offset of the record of each pending offset."""
    for producer_id, groups in shard.offsets.pending.items():
        for offsets in groups.values():
            yield from ((producer_id, offset.record_offset) for offset in offsets.values())


def _find_group_records(shard: Shard, batches: Iterable[FoundBatch]) -> dict[int, KeyAndValue]:
    """Return by offset the records that give the groups of a shard, apart from those that commits create."""
    others, newest_commits = _list_other_records(shard, batches)
    kept: dict[str, dict[int, KeyAndValue]] = {}
    replayed = fold_batches(shard.partition, (), shard.dialect)
    groups = replayed.groups
    removals: dict[str, int] = {}
    keys = LogKeys(shard.dialect)

    def create(group_id: str, commit: int) -> None:
        groups[group_id] = Group(group_id, shard.partition)
        kept[group_id] = {commit: _encode_group(group_id, GroupMetadataValue("", 0, None, None, -1, ()))}

    is_classic = isinstance(shard, ClassicShard)
    for offset, commit_before, key, value in others:
        decoded, group_id, *_ = keys[key]
        if group_id is None:
            continue
        if isinstance(decoded.content, GroupMetadataKey):
            kept[group_id] = {offset: (key, value)}
            groups.pop(group_id, None)
            if value is not None:
                groups[group_id] = GroupRecord(shard.partition, offset, key, value, shard.dialect)
        elif not is_classic:
            if commit_before >= 0 and group_id not in groups:
                create(group_id, commit_before)
            was_known = group_id in groups
            replayed.replay_group(offset, decode_with_key(decoded, value), group_id)
            if group_id in groups and isinstance(decoded.content, GroupIdKey):
                kept.setdefault(group_id, {})[offset] = (key, value)
            elif was_known and group_id not in groups:
                kept[group_id] = {offset: _encode_group(group_id, None)}
        if group_id not in groups:
            removals[group_id] = offset
    for group_id, commit in {} if is_classic else newest_commits.items():
        if group_id not in groups and commit > removals.get(group_id, -1):
            create(group_id, commit)
    return {offset: record for records in kept.values() for offset, record in records.items()}


def _list_other_records(shard: Shard, batches: Iterable[FoundBatch]) -> tuple[Sequence[OtherRecord], Mapping[str, int]]:
    """Return the records that are not offset records, and by group id the offset of its newest commit.

    The native engine leaves out records of classic groups that a later one replaces.
    """
    if isinstance(shard.offsets, NativeOffsets):
        return [row[:4] for row in native.other_records(shard.offsets.reading)], shard.offsets.newest_commits
    rows: list[OtherRecord] = []
    newest_commits: dict[str, int] = {}
    newest_others: dict[str, int] = {}
    keys = LogKeys(shard.dialect)
    for found in batches:
        for group_id, key, record in read_keys(found.parse(), keys):
            if key.partition is None:
                commit = newest_commits.get(group_id, -1)
                is_newer = commit > newest_others.get(group_id, -1)
                rows.append((record.offset, commit if is_newer else -1, record.key or b"", record.value))
                newest_others[group_id] = record.offset
            elif record.value is not None:
                newest_commits[group_id] = record.offset
    return rows, newest_commits


def _encode_group(group_id: str, value: GroupMetadataValue | None) -> KeyAndValue:
    return encode(Record(2, GroupMetadataKey(group_id), value, None if value is None else 3))


def _copy_batch(found: FoundBatch, kept: set[int], changed: Mapping[int, KeyAndValue], pending: set[int]) -> bytes:
    """Return a batch with only some of its records. `changed` has the keys and values of some offsets."""
    batch = found.parse()
    is_pending = not pending.isdisjoint(kept)
    records = []
    is_whole = batch.magic == 2
    for record in batch.records:
        key, value = changed.get(record.offset, (record.key, record.value))
        if record.offset in kept:
            records.append(record._replace(key=key, value=value, attributes=0))
        is_whole = is_whole and record.offset in kept and (key, value) == (record.key, record.value)
    is_of_producer = batch.producer_id != NO_PRODUCER_ID or batch.is_transactional
    if is_whole and is_pending == is_of_producer:
        return found.data
    attributes = batch.attributes & ((LOG_APPEND_TIME | TRANSACTIONAL) if batch.magic == 2 else 0)
    if not is_pending:
        attributes &= ~TRANSACTIONAL
        batch = replace(batch, producer_id=NO_PRODUCER_ID, producer_epoch=-1, base_sequence=-1)
    return encode_replacement(batch, records, attributes, None) if records else b""  # Odd logs: an offset occurs twice.
