"""What a broker knows of its groups after it has read a partition of the topic from begin to end.

Two coordinators read the same bytes, each in its own way. Both apply records in the order of the log; where they
differ, the difference is Kafka's, and is kept:

                                  classic (Scala, up to 3.9)            new (Java, from 4.0)
    a commit is transactional     its batch has the transactional bit   its batch has a producer id
    a group tombstone             its offsets stay: it comes back as    hides its offsets until a later record
                                  a simple group                        of the group shows them again
    all offsets removed           a group without record is gone        stays, Empty
    groups are built              when the log has been read            record by record
    a control batch               its first record counts               each record counts
    a load that fails             serves what was in the cache: nothing serves nothing: NOT_COORDINATOR
                                  while scanning, all at its last step
    an id in two partitions       one cache: the first one loaded stays each partition has its own groups
    consumer, share, streams      are skipped                           modern.py

A marker resolves everything pending of its producer id; epochs are not compared. A pending commit becomes the
group's offset only if the record of the one that is there is older. Group records ignore transactions. Under the
new coordinator a tombstone of type 2 deletes a group of any type, and a value of type 2 takes its place.

Simpler than Kafka: the log is complete when it is read (no high watermark, no coordinator epochs), and nothing runs
afterwards: sessions, expiry and group.max.size are a living broker's business.
Source: GroupMetadataManager.doLoadGroupsAndOffsets (3.9; tags 0.8.2.2 to 2.8.2 for older rules),
CoordinatorLoaderImpl, OffsetMetadataManager.replay, GroupMetadataManager.replay (trunk of October 2024).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.group import Group, group_from_record
from kafkagroups.groups.modern import GROUP_TYPES, check_loaded, new_group, replay
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup
from kafkagroups.groups.observer import NOBODY, Observer
from kafkagroups.groups.offsets import KnownOffsets, Offsets, PartitionOffsets, TopicPartition, offset_and_metadata
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.group_keys import GroupIdKey
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkagroups.records.serde import Record, UnknownContent, decode
from kafkagroups.records.structs import reader
from kafkagroups.records.versions import Dialect

OFFSET_KEYS = (OffsetCommitKey, LegacyOffsetCommitKey)
OFFSET_VALUES = (OffsetCommitValue, LegacyOffsetCommitValue)


@dataclass
class Orphan:
    """Offsets that a coordinator keeps of a group that it does not know. `pending` is by producer id."""

    offsets: KnownOffsets = field(default_factory=dict)
    pending: dict[int, PartitionOffsets] = field(default_factory=dict)


class Cache(ABC):
    """What a coordinator holds in memory. Load partitions into it in ascending order."""

    def __init__(self, rules: Dialect, observer: Observer = NOBODY) -> None:
        self.rules = rules
        self.observer = observer
        self.groups: dict[str, AnyGroup] = {}
        self.orphans: dict[str, Orphan] = {}
        self.named: dict[str, list[int | None]] = {}
        """In which partitions a group has records."""

    @abstractmethod
    def load(self, partition: int | None, batches: Iterable[Batch]) -> None:
        """Loads one partition. LoadFailed or BadBytes when that broker's load would fail; the cache is then as its."""

    def decode(self, partition: int | None, file: str | None, log_record: LogRecord) -> tuple[Record, str]:
        """The record and its group, noted as living in this partition."""
        try:
            record = decode(log_record.key, log_record.value, self.rules)
        except BadBytes as error:
            error.file, error.offset = file, log_record.offset
            raise
        group_id = group_of(record)
        if group_id is None:
            return record, ""
        self.name_groups(partition, [group_id])
        return record, group_id

    def name_groups(self, partition: int | None, group_ids: Iterable[str]) -> None:
        for group_id in group_ids:
            if (where := self.named.setdefault(group_id, []))[-1:] != [partition]:
                where.append(partition)


@dataclass
class ClassicShard:
    """One partition while the classic coordinator loads it; `removed` has groups in the order of their tombstones."""

    partition: int | None
    offsets: Offsets
    groups: dict[str, Group] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)


class ClassicCache(Cache):
    """The classic coordinator's: one cache for all partitions, in which a group that is there stays."""

    def __init__(self, rules: Dialect, observer: Observer = NOBODY) -> None:
        super().__init__(rules, observer)
        self.separate = not rules.since(0, 10, 1)
        """Whether offsets go straight into a cache of their own, whatever becomes of the load."""

    def load(self, partition: int | None, batches: Iterable[Batch]) -> None:
        shard = ClassicShard(partition, Offsets(self.observer))
        if self.separate:
            shard.offsets.committed = {group: dict(orphan.offsets) for group, orphan in self.orphans.items()}
        try:
            self.scan(shard, batches)
        finally:
            if self.separate:
                self.orphans = {group: Orphan(there) for group, there in shard.offsets.committed.items()}
        self.add(shard)

    def add(self, shard: ClassicShard) -> None:
        """The last step of a load: everything goes into the cache."""
        offsets, groups = shard.offsets, shard.groups
        pending = [group for by_group in offsets.pending.values() for group in by_group]
        simple = [] if self.rules.since(0, 9) and self.separate else [*offsets.committed, *pending]
        for group_id in dict.fromkeys(simple):
            group = groups.setdefault(group_id, Group(group_id, shard.partition))
            group.offsets = offsets.committed.get(group_id, {})
            group.pending = offsets.pending_of(group_id)
        for group_id, group in groups.items():
            self.groups.setdefault(group_id, group)
        if self.separate:
            for group_id in self.orphans.keys() & self.groups.keys():
                self.groups[group_id].offsets = self.orphans[group_id].offsets
        for group_id in shard.removed:
            if group_id in self.groups and (self.separate or group_id not in offsets.committed):
                raise LoadFailed(f"Unexpected unload of active group {group_id!r}")

    def scan(self, shard: ClassicShard, batches: Iterable[Batch]) -> None:
        """Replays batches onto what was replayed before."""
        for batch in batches:
            if batch.is_control:
                self._end_transaction(shard.offsets, batch)
                continue
            for log_record in batch.records:
                record, group_id = self.decode(shard.partition, batch.file, log_record)
                if isinstance(record.key, OFFSET_KEYS):
                    self._replay_offset(shard.offsets, batch, log_record.offset, record)
                else:
                    self.replay_group(shard, log_record.offset, record, group_id)

    def replay_group(self, shard: ClassicShard, offset: int, record: Record, group_id: str) -> None:
        """A group's record; other types are none of its business."""
        if not isinstance(record.key, GroupMetadataKey):
            return
        was_known = group_id in shard.groups
        if record.value is None:
            shard.groups.pop(group_id, None)
            shard.removed[group_id] = None
        else:
            shard.groups[group_id] = group_from_record(shard.partition, record, offset, self.rules)
            shard.removed.pop(group_id, None)
        self.observer.group(group_id, record, offset, was_known, group_id in shard.groups)

    def _replay_offset(self, offsets: Offsets, batch: Batch, record_offset: int, record: Record) -> None:
        group, partition = _offset_key(record)
        if isinstance(record.value, OFFSET_VALUES):
            offset = offset_and_metadata(record.value, record_offset, batch.records[0].offset)
            if batch.is_transactional:
                offsets.put_pending(batch.producer_id, group, partition, offset)
            else:
                offsets.put(group, partition, offset)
        elif batch.is_transactional:
            offsets.remove_pending(batch.producer_id, group, partition, record_offset)
        else:
            offsets.remove(group, partition, record_offset)

    def _end_transaction(self, offsets: Offsets, batch: Batch) -> None:
        if not batch.records:  # the cleaner took the marker and left its batch
            if self.rules.since(2, 0, 1):
                return
            raise LoadFailed(f"Kafka {self.rules.kafka} expects a record in every control batch", batch.base_offset)
        commits = control_type(batch.records[0]) is ControlType.COMMIT
        marker = batch.records[0].offset
        offsets.end_transaction(batch.producer_id, commits=commits, by=marker, whole_batches=True)


class NewCache(Cache):
    """The new coordinator's: each partition has groups and offsets of its own (a shard).

    A group of several partitions is answered from the first that knows it, or, when the topic's partition count is
    given, from its home partition only.
    """

    def __init__(self, rules: Dialect, observer: Observer = NOBODY, partitions: int | None = None) -> None:
        super().__init__(rules, observer)
        self.partitions = partitions

    def load(self, partition: int | None, batches: Iterable[Batch]) -> None:
        shard = Shard(partition, Offsets(self.observer))
        self.scan(shard, batches)
        self.add(shard)

    def scan(self, shard: Shard, batches: Iterable[Batch]) -> None:
        """Replays batches onto what was replayed before."""
        for batch in batches:
            if batch.is_control:
                for log_record in batch.records:
                    kind, by = control_type(log_record), log_record.offset
                    commits = kind is ControlType.COMMIT
                    if commits or kind is ControlType.ABORT:
                        shard.offsets.end_transaction(batch.producer_id, commits=commits, by=by, whole_batches=False)
                continue
            for log_record in batch.records:
                record, group_id = self.decode(shard.partition, batch.file, log_record)
                if isinstance(record.key, OFFSET_KEYS):
                    shard.replay_offset(batch.producer_id, log_record.offset, record)
                elif isinstance(record.key, GroupMetadataKey | GroupIdKey):
                    was_known = group_id in shard.groups
                    try:
                        shard.replay_group(group_id, log_record.offset, record, self.rules)
                    except LoadFailed as error:
                        error.offset = log_record.offset
                        raise
                    self.observer.group(group_id, record, log_record.offset, was_known, group_id in shard.groups)

    def add(self, shard: Shard) -> None:
        """The last step of a load. LoadFailed when a group cannot be what it is; then nothing is added."""
        for group in shard.groups.values():
            if isinstance(group, ModernGroup):
                check_loaded(group)
        offsets = shard.offsets
        pending = [group for by_group in offsets.pending.values() for group in by_group]
        for group_id in dict.fromkeys([*shard.groups, *offsets.committed, *pending]):
            if group_id in self.groups or not self._answers(group_id, shard.partition):
                continue
            committed, waiting = offsets.committed.get(group_id, {}), offsets.pending_of(group_id) if pending else {}
            if group_id in shard.groups:
                group = self.groups[group_id] = shard.groups[group_id]
                # whatever was committed under a share group's name, it is answered without offsets
                group.offsets, group.pending = {} if group.type == "share" else committed, waiting
                self.orphans.pop(group_id, None)
            else:
                self.orphans.setdefault(group_id, Orphan(committed, waiting))

    def _answers(self, group_id: str, partition: int | None) -> bool:
        """Whether a group of this partition is asked for there; a log without a number is taken for its home."""
        if self.partitions is None or partition is None:
            return True
        return partition_for(group_id, self.partitions) == partition


@dataclass
class Shard:
    """One partition under the new coordinator."""

    partition: int | None
    offsets: Offsets
    groups: dict[str, AnyGroup] = field(default_factory=dict)

    def replay_offset(self, producer: int, record_offset: int, record: Record) -> None:
        group, partition = _offset_key(record)
        if not isinstance(record.value, OFFSET_VALUES):
            self.offsets.remove(group, partition, record_offset)
            self.offsets.remove_all_pending(group, partition, record_offset)
            return
        if group not in self.groups:
            self.groups[group] = Group(group, self.partition)
        offset = offset_and_metadata(record.value, record_offset, record_offset)
        if producer == NO_PRODUCER_ID:
            self.offsets.put(group, partition, offset)
        else:
            self.offsets.put_pending(producer, group, partition, offset)

    def replay_group(self, group_id: str, record_offset: int, record: Record, rules: Dialect) -> None:
        """A record of a group: it makes, changes or ends it."""
        if not isinstance(record.key, GroupMetadataKey):
            self._replay_modern(group_id, record, rules)
        elif record.value is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = group_from_record(self.partition, record, record_offset, rules)

    def _replay_modern(self, group_id: str, record: Record, rules: Dialect) -> None:
        """A record of a consumer, share or streams group: makes the group where that is Kafka's rule."""
        kind = GROUP_TYPES[record.type]
        group = self.groups.get(group_id)
        preview = kind == "share" and rules.version < (4, 1)  # where most records did not make their group
        if group is None:
            if preview and (record.value is None or record.type not in (10, 11)):
                raise LoadFailed(f"record type {record.type} names share group {group_id!r}, which is not known")
            if record.value is None:
                return
        elif group.type != kind and not (kind != "share" and isinstance(group, Group) and group.is_simple):
            raise LoadFailed(f"record type {record.type} is of a {kind} group, and {group_id!r} is a {group.type} one")
        if not isinstance(group, ModernGroup):
            group = self.groups[group_id] = new_group(group_id, self.partition, kind, rules)
        if not replay(group, record):
            del self.groups[group_id]


def control_type(log_record: LogRecord) -> ControlType:
    """The type of a control record, with its offset in the error."""
    try:
        return decode_control_key(log_record.key)
    except BadBytes as error:
        error.offset = log_record.offset
        raise


_first_string: Callable[[bytes, int], tuple[GroupMetadataKey, int]] = reader(GroupMetadataKey, 0)


def group_of(record: Record) -> str | None:
    """The group that a record is about, None for types that nobody knows: all known keys begin with the group id."""
    if isinstance(record.key, (*OFFSET_KEYS, GroupMetadataKey)):
        return record.key.group
    if isinstance(record.key, GroupIdKey):
        return record.key.group_id
    if isinstance(record.key, UnknownContent) and record.type in GROUP_TYPES:
        try:
            return _first_string(record.key.data, 2)[0].group
        except BadBytes:
            return None
    return None


def _offset_key(record: Record) -> tuple[str, TopicPartition]:
    key = record.key
    assert isinstance(key, OFFSET_KEYS)
    return key.group, TopicPartition(key.topic, key.partition)
