"""A shard, which is what one partition's log contains, and the readable engine that folds a log into it (`fold`).

A simple group has offset records but no group record. The table shows how Kafka's two coordinators differ:

                                  classic (Scala, up to 3.9)            new (Java, from 4.0)
    a commit is transactional if  its batch has the transactional bit   its batch has a producer id
    a group tombstone             keeps the offsets: the group becomes  hides the offsets until a newer commit or
                                  a simple group                        group record creates the group again
    the last offset is deleted    a simple group no longer exists       a simple group stays, Empty
    a group is created            after the whole log was read          at the group's first record
    a control batch               only its first record is a marker     each record is a marker
    a load fails at a record      the broker has no group of the        the broker has no group: every request gets
                                  partition                             the error NOT_COORDINATOR
    a load fails after the last   the broker has all groups             does not happen
    record
    a group id in two partitions  one cache for all partitions: the     each partition has its own groups
                                  group that was loaded first stays
    records of consumer, share    are skipped                           are loaded (modern_replay.py)
    and streams groups

A marker commits or aborts all pending commits of its producer id. Producer epochs are not compared. A pending commit
becomes the group's offset only if the committed offset is older. A group record takes effect immediately, even in a
transaction. In the new coordinator a tombstone of record type 2, that of a classic group, deletes a group of any type,
and a value replaces one.

Simpler than Kafka: the log does not change during a load, so the high watermark and the coordinator epoch are not
checked. `fold` does not start what a broker starts after a load: the session timers, the expiration and the check of
group.max.size.
Source: GroupMetadataManager.doLoadGroupsAndOffsets (3.9; tags 0.8.2.2 to 2.8.2 for older rules); CoordinatorLoaderImpl,
OffsetMetadataManager.replay and GroupMetadataManager.replay (4.0.2 to 4.3.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import msgspec

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.group import Group, UndecodedGroup, build_group
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup
from kafkagroups.groups.modern_replay import GROUP_TYPE_BY_RECORD_TYPE, apply_record, create_group
from kafkagroups.groups.offsets import (
    NO_OBSERVER,
    Observer,
    Offsets,
    ShardOffsets,
    TopicPartition,
    build_offset_and_metadata,
)
from kafkagroups.helpers import MAX_INT64
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord, record_count
from kafkagroups.log.batches import Damage, Gap, StartFailure
from kafkagroups.log.segment_file import Zeros, base_offset_of
from kafkagroups.log.segments import NO_STOP, Log, Notes, Stop, batches_until
from kafkagroups.records import releases, serde
from kafkagroups.records.consumer_group import GroupIdKey
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.releases import Dialect
from kafkagroups.records.serde import ControlType, Record, decode_control_key
from kafkagroups.records.structs import Message, read_message

MAX_KEPT_KEYS = 100_000
"""The largest number of decoded keys in memory."""
_RECORD_TYPE_BYTES = 2


def find_group_id(record: Record) -> str | None:
    """Return the group id; None if no Kafka version has the record type, or if the key is too short.

    It is the first field of every key, so the chosen Kafka version need not have the record type.
    """
    return _find_group_id(record.type, record.key)


def _find_group_id(record_type: int, key: Message | serde.UnknownContent) -> str | None:
    if isinstance(key, (OffsetCommitKey, GroupMetadataKey)):
        return key.group
    if isinstance(key, GroupIdKey):
        return key.group_id
    if isinstance(key, serde.UnknownContent) and record_type in GROUP_TYPE_BY_RECORD_TYPE:
        try:
            return read_message(GroupMetadataKey, key.data, _RECORD_TYPE_BYTES, 0)[0].group
        except BadBytes:
            return None
    return None


def get_topic_partition(record: Record) -> TopicPartition:
    key = record.key
    assert isinstance(key, OffsetCommitKey)
    return TopicPartition(key.topic, key.partition)


class LogKey(msgspec.Struct, frozen=True, gc=False):
    decoded: serde.DecodedKey
    group_id: str | None
    partition: TopicPartition | None


class LogKeys(dict[bytes | None, LogKey]):
    """The decoded keys of a log, by their bytes, each of which is decoded only once."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self._dialect = dialect

    def __missing__(self, key: bytes | None) -> LogKey:
        if len(self) == MAX_KEPT_KEYS:
            self.clear()
        decoded = serde.decode_key(key, self._dialect)
        content = decoded.content
        partition = TopicPartition(content.topic, content.partition) if isinstance(content, OffsetCommitKey) else None
        log_key = LogKey(decoded, _find_group_id(decoded.type, content), partition)
        self[key] = log_key
        return log_key


def read_keys(batch: Batch, keys: LogKeys) -> Iterator[tuple[str, LogKey, LogRecord]]:
    """Markers, keys that cannot be read, and the records of a batch that cannot be read are left out."""
    if batch.is_control:
        return
    try:
        records = batch.records
    except BadBytes:
        return
    for record in records:
        try:
            key = keys[record.key]
        except BadBytes:
            continue
        if key.group_id is not None:
            yield key.group_id, key, record


def find_group_ids(batch: Batch, keys: LogKeys) -> Iterator[str]:
    return (group_id for group_id, _, _ in read_keys(batch, keys))


def read_control_type(log_record: LogRecord) -> ControlType:
    try:
        return decode_control_key(log_record.key)
    except BadBytes as error:
        error.offset = log_record.offset
        raise


def describe_rest(log: Log, damage: Damage | None, dialect: Dialect) -> Damage | None:
    """Return the damage of a log, with the batches that a reader with `Log.skip_damage` finds after it."""
    if damage is None:
        return None
    batch_count = 0
    total_records = 0
    group_ids: set[str] = set()
    rest = log.select_after(damage)
    if rest is not None:
        keys = LogKeys(dialect)
        for batch in rest.skip_damage():
            batch_count += 1
            total_records += record_count(batch)
            group_ids.update(find_group_ids(batch, keys))
    return replace(
        damage,
        bytes_after=log.count_bytes_from(damage),
        readable_batches_after=batch_count,
        readable_records_after=total_records,
        groups_after=tuple(sorted(group_ids)),
    )


@dataclass
class LoadedPartition:
    """How much was read from one partition of the topic, and how its load ended.

    `error` says why the load fails on a broker of the chosen version, and `record_offset` is the record at which it
    does, if there is one. `gaps` are the damaged bytes between two batches; None if `Log.skips_damage` is false.
    `start` says why a broker does not start with the log.
    """

    segments: int = 0
    batches: int = 0
    records: int = 0
    start_offset: int = 0
    next_offset: int = 0
    error: str | None = None
    damage: Damage | None = None
    zeros: Zeros | None = None
    gaps: list[Gap] | None = None
    record_offset: int | None = None
    start: StartFailure | None = None

    def describe_damage(self) -> list[str]:
        places = [*(self.gaps or []), self.damage]
        return [str(place) for place in places if place is not None]


class CountBytes(Protocol):
    def __call__(self, count: int, /) -> None: ...


def ignore_bytes(count: int, /) -> None:
    """Ignore the progress, for callers that do not show it."""


DecodedRecord = tuple[int, str, TopicPartition | None, Record]
"""A record's offset in the log, its group id ("" if none was found), its topic partition, and the record."""


@dataclass
class Shard(ABC):
    """What one partition's log contains, as one coordinator reads it. `offsets` are those of all groups, also of groups
    that the coordinator does not have. `groups` are the groups that records created, and `seen_group_ids` all with
    records in this log, in its order. `failure` is the error that ended the load; the effects of the records before it
    stay.
    """

    partition: int | None
    dialect: Dialect
    loaded: LoadedPartition = field(default_factory=LoadedPartition)
    offsets: ShardOffsets = field(default_factory=Offsets)
    groups: dict[str, AnyGroup | UndecodedGroup] = field(default_factory=dict)
    seen_group_ids: dict[str, None] = field(default_factory=dict)
    failure: LoadFailed | BadBytes | None = None
    group_keys: ClassVar[tuple[type[Message], ...]] = (GroupMetadataKey,)
    """The keys of the records that change groups. The others that are not offset records are skipped."""

    def replay(self, batches: Iterable[Batch], observer: Observer = NO_OBSERVER) -> None:
        """Raises LoadFailed or BadBytes if a broker's load would fail."""
        self.offsets = Offsets.copy_of(self.offsets, observer)
        keys = LogKeys(self.dialect)
        for batch in batches:
            self.apply(batch, keys, observer)

    @abstractmethod
    def apply(self, batch: Batch, keys: LogKeys, observer: Observer = NO_OBSERVER) -> None:
        """Apply one batch. A load and a running coordinator of 4.x change a shard only here."""

    def replay_group(self, offset: int, record: Record, group_id: str) -> None:
        """Apply a record that is not an offset record."""
        if isinstance(record.key, GroupMetadataKey):
            is_tombstone = record.value is None
            group = None if is_tombstone else build_group(self.partition, record, offset, self.dialect)
            self.keep_group(group_id, group)

    def keep_group(self, group_id: str, group: Group | UndecodedGroup | None) -> None:
        """Keep a classic group instead of the group with this id; None: a tombstone deletes the group."""
        if group is None:
            self.groups.pop(group_id, None)
        else:
            self.groups[group_id] = group

    def replay_observed(self, offset: int, record: Record, group_id: str, observer: Observer) -> None:
        if isinstance(record.key, self.group_keys):
            was_known = group_id in self.groups
            try:
                self.replay_group(offset, record, group_id)
            except LoadFailed as error:
                error.offset = offset
                raise
            observer.end_group_record(group_id, record, offset, was_known, group_id in self.groups)

    def decode_record(self, log_record: LogRecord, keys: LogKeys) -> DecodedRecord:
        try:
            key = keys[log_record.key]
            record = serde.decode_with_key(key.decoded, log_record.value)
        except BadBytes as error:
            error.offset = log_record.offset
            raise
        if key.group_id is not None:
            self.seen_group_ids[key.group_id] = None
        return log_record.offset, key.group_id or "", key.partition, record

    def decode_records(self, batch: Batch, keys: LogKeys, observer: Observer) -> Iterator[DecodedRecord]:
        for index, log_record in enumerate(batch.records):
            observer.start_record(index)
            try:
                decoded = self.decode_record(log_record, keys)
            except BadBytes as error:
                error.file = batch.file
                raise
            yield decoded


def has_separate_offset_cache(dialect: Dialect) -> bool:
    """With this cache (before 0.10.1), even a load that fails adds its offsets."""
    return not dialect.since(0, 10, 1)


@dataclass
class ClassicShard(Shard):
    """Only in a separate offset cache, a tombstone also deletes an offset of another partition's log
    (`removed_offsets`).
    """

    removed_groups: dict[str, None] = field(default_factory=dict)
    removed_offsets: set[tuple[str, TopicPartition]] = field(default_factory=set)

    def apply(self, batch: Batch, keys: LogKeys, observer: Observer = NO_OBSERVER) -> None:
        offsets = self.offsets
        assert isinstance(offsets, Offsets)
        if batch.is_control:
            observer.start_record(0)
            self._end_transaction(offsets, batch)
            return
        # If the batch has no records, nothing uses this offset.
        batch_offset = batch.records[0].offset if batch.records else batch.base_offset
        is_transactional = batch.is_transactional
        for record_offset, group_id, partition, record in self.decode_records(batch, keys, observer):
            if partition is None:
                self.replay_observed(record_offset, record, group_id, observer)
            elif record.value is None and is_transactional:
                offsets.remove_pending(batch.producer_id, group_id, partition, record_offset)
            elif record.value is None:
                offsets.remove(group_id, partition, record_offset)
                if has_separate_offset_cache(self.dialect):
                    self.removed_offsets.add((group_id, partition))
            else:
                offset = build_offset_and_metadata(record, record_offset, batch_offset)
                if is_transactional:
                    offsets.put_pending(batch.producer_id, group_id, partition, offset)
                else:
                    offsets.put(group_id, partition, offset)

    def keep_group(self, group_id: str, group: Group | UndecodedGroup | None) -> None:
        super().keep_group(group_id, group)
        if group is None:
            self.removed_groups[group_id] = None
        else:
            self.removed_groups.pop(group_id, None)

    def _end_transaction(self, offsets: Offsets, batch: Batch) -> None:
        if not batch.records:
            # The log cleaner removed the marker but kept its empty batch.
            if self.dialect.since(2, 0, 1):
                return
            raise LoadFailed(f"Kafka {self.dialect.kafka} expects a record in every control batch", batch.base_offset)
        marker = batch.records[0]
        commits = read_control_type(marker) is ControlType.COMMIT
        offsets.end_transaction(batch.producer_id, commits=commits, by=marker.offset, compares_batches=True)


GROUP_CREATING_RECORD_TYPES = (3, 5, 10, 11)
"""The group records and member records of consumer and share groups. They always create a missing group.

Some releases refuse other records of these groups if the group does not exist (REFUSALS_WITHOUT_GROUP). In later
releases, and in streams groups, a record of any type creates the group.
"""
REFUSALS_WITHOUT_GROUP = {
    "consumer": releases.CONSUMER_RECORD_WITHOUT_GROUP,
    "share": releases.SHARE_RECORD_WITHOUT_GROUP,
}
"""For each group type: the refusal (records/releases.py) of a record whose group does not exist."""
REFUSALS_AFTER_COMMIT = {
    "consumer": releases.CONSUMER_RECORD_AFTER_COMMIT,
    "share": releases.SHARE_RECORD_AFTER_COMMIT,
    "streams": releases.STREAMS_RECORD_AFTER_COMMIT,
}
"""For each group type: the refusal of a record whose group is a simple group (created by an offset commit)."""


@dataclass
class NewShard(Shard):
    group_keys = (GroupMetadataKey, GroupIdKey)

    def apply(self, batch: Batch, keys: LogKeys, observer: Observer = NO_OBSERVER) -> None:
        offsets = self.offsets
        assert isinstance(offsets, Offsets)
        if batch.is_control:
            _end_transactions(offsets, batch, observer)
            return
        producer = batch.producer_id
        groups = self.groups
        for record_offset, group_id, partition, record in self.decode_records(batch, keys, observer):
            if partition is None:
                self.replay_observed(record_offset, record, group_id, observer)
            elif record.value is None:
                offsets.remove(group_id, partition, record_offset)
                offsets.remove_all_pending(group_id, partition, record_offset)
            else:
                if group_id not in groups:
                    self.keep_group(group_id, Group(group_id, self.partition))
                offset = build_offset_and_metadata(record, record_offset, batch_offset=record_offset)
                if producer == NO_PRODUCER_ID:
                    offsets.put(group_id, partition, offset)
                else:
                    offsets.put_pending(producer, group_id, partition, offset)

    def replay_group(self, offset: int, record: Record, group_id: str) -> None:
        if isinstance(record.key, GroupIdKey):
            self._replay_modern(record, group_id)
        else:
            super().replay_group(offset, record, group_id)

    def _replay_modern(self, record: Record, group_id: str) -> None:
        group_type = GROUP_TYPE_BY_RECORD_TYPE[record.type]
        stored = self.groups.get(group_id)
        group = stored.decode() if isinstance(stored, UndecodedGroup) else stored
        # Type 15: the partition states of a share group.
        if record.type == 15 and releases.SHARE_PARTITION_STATES.applies_to(self.dialect.version):
            raise LoadFailed(f"Kafka {self.dialect.kafka} reads record type 15, but cannot replay it")
        if group is None:
            is_tombstone = record.value is None
            always_creates_group = record.type in GROUP_CREATING_RECORD_TYPES and not is_tombstone
            refusal = REFUSALS_WITHOUT_GROUP.get(group_type)
            if not always_creates_group and refusal is not None and refusal.applies_to(self.dialect.version):
                raise LoadFailed(f"{_name_type(record)} names {group_type} group {group_id!r}, which is not known")
            if is_tombstone:
                return
        elif group.type != group_type and (
            isinstance(group, ModernGroup)
            or not group.is_simple
            or REFUSALS_AFTER_COMMIT[group_type].applies_to(self.dialect.version)
        ):
            raise LoadFailed(
                f"{_name_type(record)} belongs to a {group_type} group, but {group_id!r} is a {group.type} group"
            )
        if not isinstance(group, ModernGroup):
            group = create_group(group_id, self.partition, group_type, self.dialect)
            self.groups[group_id] = group
        if not apply_record(group, record):
            del self.groups[group_id]


def _end_transactions(offsets: Offsets, batch: Batch, observer: Observer) -> None:
    for index, log_record in enumerate(batch.records):
        observer.start_record(index)
        control_type = read_control_type(log_record)
        if control_type in (ControlType.COMMIT, ControlType.ABORT):
            commits = control_type is ControlType.COMMIT
            offsets.end_transaction(batch.producer_id, commits=commits, by=log_record.offset, compares_batches=False)


def _name_type(record: Record) -> str:
    return f"{serde.RECORD_TYPES[record.type].name} (record type {record.type})"


def fold(
    log: Log,
    dialect: Dialect,
    stop: Stop = NO_STOP,
    count_bytes: CountBytes = ignore_bytes,
    observer: Observer = NO_OBSERVER,
    notes: Notes | None = None,
) -> Shard:
    """Return the shard of a log. The methods of `observer` are called for each batch and record."""
    notes = Notes() if notes is None else notes
    shard = create_shard(log, dialect)
    falls = FallingOffsets(log)
    batches = falls.skip_unread(_count_batches(batches_until(log, stop, notes), shard, count_bytes, observer))
    replay_batches(shard, batches, observer)
    if dialect.coordinator == "new" and shard.failure is None:
        shard.failure = falls.find_failure()
    shard.loaded.damage = describe_rest(log, notes.damage, dialect)
    shard.loaded.gaps = notes.gaps if log.skips_damage else None
    shard.loaded.zeros = notes.zeros
    shard.loaded.start = log.start_failure or notes.recovery.failure
    return shard


class FallingOffsets:
    """What a coordinator reads of a log whose offsets fall, and whether the new coordinator fails because of them.

    It asks for the next offset, and gets the rest of the segment with the largest base offset up to this offset, from
    the first batch on that reaches it. So of overlapping segments, the batches are not read that are behind the offset.
    Source (4.3.1): UnifiedLog.read; CoordinatorLoaderImpl.processMemoryRecords;
    SnapshottableCoordinator.updateLastWrittenOffset.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._end = self._next_offset = self._newest = log.start_offset
        self._falls: list[tuple[int, int]] = []

    def skip_unread(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        bases = [base_offset_of(segment) for segment in self._log.segments]
        segments = iter(zip(self._log.segments, [*bases[1:], MAX_INT64], strict=True))
        segment: str | None = None
        is_read = False
        for batch in batches:
            self._end = batch.next_offset
            if batch.file != segment:
                is_read = segment is None
                segment, next_base = next((each for each in segments if each[0] == batch.file), (batch.file, MAX_INT64))
            if not is_read and (batch.last_offset < self._next_offset or next_base <= self._next_offset):
                continue
            is_read = True
            self._next_offset = batch.next_offset
            if self._next_offset <= self._newest:
                self._falls.append((self._next_offset, self._newest))
            self._newest = max(self._newest, self._next_offset)
            yield batch

    def find_failure(self) -> LoadFailed | None:
        """Return why the load fails: an offset from the end of the log on comes again, or a smaller one.

        The coordinator notes these offsets as written, because the high watermark is not above them.
        """
        for offset, newest in self._falls:
            if offset >= self._end:
                partition = f"__consumer_offsets-{self._log.partition}"
                reason = f"New last written offset {offset} of {partition} must be greater than {newest}."
                return LoadFailed(reason, offset - 1)
        return None


def fold_batches(
    partition: int | None, batches: Iterable[Batch], dialect: Dialect, observer: Observer = NO_OBSERVER
) -> Shard:
    shard = empty_shard(partition, dialect)
    replay_batches(shard, batches, observer)
    return shard


def replay_batches(shard: Shard, batches: Iterable[Batch], observer: Observer = NO_OBSERVER) -> None:
    """If the load fails as it would on a broker, the error becomes `shard.failure`, and the later batches are only
    counted.
    """
    unread_batches = iter(batches)
    try:
        shard.replay(unread_batches, observer)
    except (LoadFailed, BadBytes) as error:
        # A traceback refers to the variables of the load, so it would keep all decoded batches in memory.
        shard.failure = error.with_traceback(None)
        shard.loaded.record_offset = error.offset
        # The iterator counts each batch that it yields (`_count_batches`).
        for _ in unread_batches:
            pass


def create_shard(log: Log, dialect: Dialect) -> Shard:
    shard = empty_shard(log.partition, dialect)
    shard.loaded = LoadedPartition(len(log.segments), start_offset=log.start_offset, next_offset=log.start_offset)
    return shard


def empty_shard(partition: int | None, dialect: Dialect) -> Shard:
    return ClassicShard(partition, dialect) if dialect.coordinator == "classic" else NewShard(partition, dialect)


def _count_batches(
    batches: Iterable[Batch], shard: Shard, count_bytes: CountBytes, observer: Observer
) -> Iterator[Batch]:
    loaded = shard.loaded
    for batch in batches:
        count_bytes(batch.size)
        observer.start_batch(shard.partition, batch)
        loaded.batches += 1
        loaded.records += batch.count if batch.magic == 2 else record_count(batch)
        loaded.next_offset = batch.next_offset
        yield batch
