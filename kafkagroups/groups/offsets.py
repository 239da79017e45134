"""Committed offsets of loaded groups, pending offsets of open transactions, and the fate of each record of a load, of
which an `Observer` is told.

The rules of the two coordinators differ, so they call these methods differently (replay.py):

                             classic                              new
    the newer commit         is in the later batch of the log     has the later record in the log
    an offset tombstone      deletes the committed offset; a      deletes the committed offset and the pending
                             tombstone in a transaction deletes   offsets of all producers
                             only the pending offset of the
                             tombstone's producer

`NewestValues` is the rule by which both engines find the fates of all records that are not offset records.
`NativeOffsets` are the same offsets in the columns of the native engine, decoded when they are read.
Source: GroupMetadataManager.doLoadGroupsAndOffsets (3.9); OffsetMetadataManager.replay (4.3.1).
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Self, TypeVar

import msgspec

from kafkagroups.errors import UsageError
from kafkagroups.helpers import MAX_INT32, MIN_INT32
from kafkagroups.log.batch import Batch
from kafkagroups.records.offset_commit import LegacyOffsetCommitValue, OffsetCommitValue
from kafkagroups.records.serde import Record
from kafkagroups.records.wire import UUID, decode_utf8


class Fate(Enum):
    """What happened to a record.

    WINS: the record is in effect; a broker's responses depend on it.
    SUPERSEDED: a newer record has the same key.
    DELETED: a tombstone deleted the content of the record.
    HIDDEN: a group tombstone deleted the group of an offset. The new coordinator keeps the offset, but does not return
        the offset to clients.
    ABORTED: a marker aborted the transaction of the record.
    PENDING: the transaction of the record is open.
    TOMBSTONE: the record deletes the content of another record.
    MARKER: the record commits or aborts a transaction.
    IGNORED: this coordinator does not use the record.
    """

    WINS = "wins"
    SUPERSEDED = "superseded"
    DELETED = "deleted"
    HIDDEN = "hidden"
    ABORTED = "aborted"
    PENDING = "pending"
    TOMBSTONE = "tombstone"
    MARKER = "marker"
    IGNORED = "ignored"


class Observer:
    """The callbacks of a load.

    All offsets belong to the partition of the last `start_batch`. An offset does not identify a record, because a valid
    batch can contain several with the same one; the index in `start_record` does. A stored offset stays the same
    object, so that an observer can recognize it.
    """

    def start_batch(self, partition: int | None, batch: Batch) -> None:
        """Called before the records are applied, and also for the batches after a failure."""

    def start_record(self, index: int) -> None:
        """Until the next call, all callbacks report effects of this record."""

    def store_offset(self, offset: OffsetAndMetadata) -> None:
        """Called with the offset in the current record, which the shard stores as committed or pending."""

    def set_fate(self, offset: OffsetAndMetadata, fate: Fate, by: int) -> None:
        """Called with WINS, SUPERSEDED, DELETED or ABORTED for the record from which `offset` comes.

        `by` is the offset of the record that decided the fate, for WINS the marker that committed the transaction.
        """

    def end_group_record(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        """Handle a group record after it was applied."""


NO_OBSERVER = Observer()


CLASSIC_GROUP_TYPE = 2
"""The record type of a classic group."""
GROUP_ENDING_TYPES = (2, 3, 11, 17)
"""A tombstone of these types deletes the group."""

RecordT = TypeVar("RecordT")


class GroupKey(NamedTuple):
    record_type: int
    detail: str

    @classmethod
    def of(cls, record: Record) -> GroupKey:
        return cls(record.type, str(getattr(record.key, "member_id", getattr(record.key, "regular_expression", ""))))


class NewestValues(Generic[RecordT]):
    """`decide` gets a record that another one replaces, its fate, the offset of the other one, and whether their keys
    are the same.
    """

    def __init__(self, decide: Callable[[RecordT, Fate, int, bool], None]) -> None:
        self.records: dict[GroupKey, RecordT] = {}
        self._decide = decide

    def put(self, key: GroupKey, record: RecordT, offset: int) -> None:
        """A classic group record replaces a consumer, share or streams group, and the other way round a simple classic
        group.

        The earlier records of the group then have no effect any longer.
        """
        is_classic = key.record_type == CLASSIC_GROUP_TYPE
        other_keys = [other for other in self.records if (other.record_type == CLASSIC_GROUP_TYPE) != is_classic]
        self._end(other_keys, Fate.SUPERSEDED, offset, has_same_key=False)
        self._end([key], Fate.SUPERSEDED, offset)
        self.records[key] = record

    def delete(self, key: GroupKey, offset: int) -> None:
        self._end([key], Fate.DELETED, offset)
        if key.record_type in GROUP_ENDING_TYPES:
            self._end(list(self.records), Fate.DELETED, offset, has_same_key=False)

    def _end(self, keys: Iterable[GroupKey], fate: Fate, offset: int, *, has_same_key: bool = True) -> None:
        for key in keys:
            if key in self.records:
                self._decide(self.records.pop(key), fate, offset, has_same_key)


_TEXT = re.compile(r"(.*)-(?:(0|[1-9][0-9]{0,9})|\((-[1-9][0-9]{0,9})\))", re.DOTALL)


class TopicPartition(NamedTuple):
    """A partition of a topic. `str` returns `topic-partition`.

    Partition 1 of the topic `foo-` and partition -1 of the topic `foo` are both `foo--1`, and a broker stores both. As
    input, `foo--1` is the topic `foo-`, and `foo-(-1)` is the negative partition.

    Examples
    --------
    >>> str(TopicPartition("orders", 0))
    'orders-0'
    >>> TopicPartition.parse("foo--1"), TopicPartition.parse("foo-(-1)").partition
    (TopicPartition(topic='foo-', partition=1), -1)
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the topic-partition in a text: it is split at the last `-` that leaves a number without a sign.

        Raises UsageError if there is none, or if the number has leading zeros or does not fit into 32 bits.
        """
        match = _TEXT.fullmatch(text)
        partition = int(match[2] or match[3]) if match else 0
        if match is None or not MIN_INT32 <= partition <= MAX_INT32:
            raise UsageError(f"expected a topic and a partition such as orders-0, found {reprlib.repr(text)}")
        return cls(match[1], partition)

    @property
    def as_input(self) -> str:
        """The text that `parse` reads: as `str`, but with a negative partition in parentheses."""
        return str(self) if self.partition >= 0 else f"{self.topic}-({self.partition})"

    @property
    def reading(self) -> str | None:
        """Which of two readings of `str` this is, in a few words. None if there is only one reading."""
        if self.partition > 0 and self.topic.endswith("-"):
            other = TopicPartition(self.topic[:-1], -self.partition)
            return (
                f"partition {self.partition} of the topic {self.topic}; the other reading is written {other.as_input}"
            )
        return f"partition {self.partition} of the topic {self.topic}" if self.partition < 0 else None


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of the partitions by topic, in the given order."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return numbers


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False):
    """A committed or pending offset as a coordinator stores it. Times are in ms since 1970.

    `offset` is the offset that the client committed. Without one in the record, `leader_epoch` is -1, and the expire
    timestamp and the topic id are None. `record_offset` is the offset of the commit record in the log, and
    `batch_offset` that of the first record in its batch; the new coordinator does not compare batches, so there it is
    `record_offset`.
    """

    offset: int
    metadata: str
    commit_timestamp: int
    leader_epoch: int
    expire_timestamp: int | None
    topic_id: str | None
    record_offset: int
    batch_offset: int


def build_offset_and_metadata(record: Record, record_offset: int, batch_offset: int) -> OffsetAndMetadata:
    value = record.value
    assert isinstance(value, OffsetCommitValue | LegacyOffsetCommitValue)
    common = (value.offset, value.metadata, value.commit_timestamp)
    if isinstance(value, LegacyOffsetCommitValue):
        return OffsetAndMetadata(*common, -1, None, None, record_offset, batch_offset)
    expire_timestamp = None if value.expire_timestamp == -1 else value.expire_timestamp
    topic_id = None if value.topic_id == UUID.default else value.topic_id
    return OffsetAndMetadata(*common, value.leader_epoch, expire_timestamp, topic_id, record_offset, batch_offset)


PartitionOffsets = dict[TopicPartition, OffsetAndMetadata]
"""The offset of each partition, for one group."""
ReadOnlyOffsets = Mapping[TopicPartition, OffsetAndMetadata]
"""PartitionOffsets that must not be changed. The native engine decodes each offset at its first use."""


@dataclass
class Orphan:
    """The offsets of a group that the coordinator does not have.

    `is_answered`: Kafka 0.9.0 and 0.10.0 answer requests for them, because they look only into the cache of the
    offsets.
    """

    offsets: ReadOnlyOffsets = field(default_factory=dict)
    pending: dict[int, PartitionOffsets] = field(default_factory=dict)
    partition: int | None = None
    is_answered: bool = False


class GroupOffsetsCopy(NamedTuple):
    committed: PartitionOffsets
    pending: dict[int, PartitionOffsets]


class Offsets:
    """In all methods, `by` is the offset of the record that makes the change."""

    def __init__(self, observer: Observer = NO_OBSERVER) -> None:
        self.committed: dict[str, PartitionOffsets] = {}
        self.pending: dict[int, dict[str, PartitionOffsets]] = {}
        self.producers_by_group_partition: dict[tuple[str, TopicPartition], set[int]] = {}
        """By group id and partition: the ids of the producers that have a pending offset."""
        self.observer = observer

    @classmethod
    def copy_of(cls, offsets: ShardOffsets, observer: Observer = NO_OBSERVER) -> Offsets:
        copy = cls(observer)
        copy.committed = {group: dict(partitions) for group, partitions in offsets.committed.items()}
        for producer, groups in offsets.pending.items():
            copy.pending[producer] = {group: dict(partitions) for group, partitions in groups.items()}
            for group, partitions in groups.items():
                for partition in partitions:
                    copy.producers_by_group_partition.setdefault((group, partition), set()).add(producer)
        return copy

    def pending_partitions(self, group: str) -> dict[TopicPartition, None]:
        return {partition: None for groups in self.pending.values() for partition in groups.get(group, ())}

    def copy_group(self, group: str) -> GroupOffsetsCopy:
        pending = {producer: dict(groups[group]) for producer, groups in self.pending.items() if group in groups}
        return GroupOffsetsCopy(dict(self.committed.get(group, {})), pending)

    def replace_group(self, group: str, copy: GroupOffsetsCopy) -> GroupOffsetsCopy:
        replaced = self.copy_group(group)
        self.committed.pop(group, None)
        if copy.committed:
            self.committed[group] = copy.committed
        for producer, partitions in replaced.pending.items():
            del self.pending[producer][group]
            for partition in partitions:
                self._forget_producer(producer, group, partition)
        for producer, partitions in copy.pending.items():
            self.pending.setdefault(producer, {})[group] = partitions
            for partition in partitions:
                self.producers_by_group_partition.setdefault((group, partition), set()).add(producer)
        return replaced

    def put(self, group: str, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        self.observer.store_offset(offset)
        self._replace(self.committed.setdefault(group, {}), partition, offset)

    def put_pending(self, producer: int, group: str, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        self.observer.store_offset(offset)
        self._replace(self.pending.setdefault(producer, {}).setdefault(group, {}), partition, offset)
        self.producers_by_group_partition.setdefault((group, partition), set()).add(producer)

    def _replace(self, offsets: PartitionOffsets, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        replaced = offsets.get(partition)
        if replaced is not None:
            self.observer.set_fate(replaced, Fate.SUPERSEDED, offset.record_offset)
        offsets[partition] = offset

    def remove(self, group: str, partition: TopicPartition, by: int) -> None:
        self._remove_from(self.committed, group, partition, by)

    def remove_pending(self, producer: int, group: str, partition: TopicPartition, by: int) -> None:
        if self._remove_from(self.pending.get(producer, {}), group, partition, by):
            self._forget_producer(producer, group, partition)

    def remove_all_pending(self, group: str, partition: TopicPartition, by: int) -> None:
        for producer in tuple(self.producers_by_group_partition.get((group, partition), ())):
            self.remove_pending(producer, group, partition, by)

    def _forget_producer(self, producer: int, group: str, partition: TopicPartition) -> None:
        producers = self.producers_by_group_partition[group, partition]
        producers.remove(producer)
        if not producers:
            del self.producers_by_group_partition[group, partition]

    def _remove_from(
        self, offsets_by_group: dict[str, PartitionOffsets], group: str, partition: TopicPartition, by: int
    ) -> bool:
        offsets = offsets_by_group.get(group)
        removed = None if offsets is None else offsets.pop(partition, None)
        if removed is None:
            return False
        self.observer.set_fate(removed, Fate.DELETED, by)
        if not offsets:
            del offsets_by_group[group]
        return True

    def end_transaction(self, producer: int, *, commits: bool, by: int, compares_batches: bool) -> None:
        """A pending offset is committed only if it is newer than the committed offset.

        To find the newer one, compare `batch_offset` if `compares_batches` is True, otherwise `record_offset`.
        """
        for group, offsets in self.pending.pop(producer, {}).items():
            for partition, offset in offsets.items():
                self._forget_producer(producer, group, partition)
                self.observer.set_fate(offset, Fate.WINS if commits else Fate.ABORTED, by)
                if not commits:
                    continue
                committed = self.committed.get(group, {}).get(partition)
                if committed is None or _is_newer(offset, committed, compares_batches):
                    self._replace(self.committed.setdefault(group, {}), partition, offset)
                else:
                    self.observer.set_fate(offset, Fate.SUPERSEDED, committed.record_offset)


def pending_by_group(offsets: ShardOffsets) -> dict[str, dict[int, PartitionOffsets]]:
    by_group: dict[str, dict[int, PartitionOffsets]] = {}
    for producer in sorted(offsets.pending):
        for group, partitions in offsets.pending[producer].items():
            by_group.setdefault(group, {})[producer] = partitions
    return by_group


def _is_newer(offset: OffsetAndMetadata, other: OffsetAndMetadata, compares_batches: bool) -> bool:
    if compares_batches:
        return offset.batch_offset > other.batch_offset
    return offset.record_offset > other.record_offset


_PART_ROWS = 1 << 16
_PART_BYTES = 1 << 26


class NativeOffsets:
    def __init__(self, reading: Any) -> None:
        self.reading = reading
        self.committed: dict[str, GroupOffsets] = {}
        """The committed offsets of each group."""
        self.newest_commits: dict[str, int] = {}
        """By group id: the Kafka offset of the newest commit; -1 if the group has only tombstones."""
        for number, group_id, newest_commit, count in reading.groups():
            self.newest_commits[group_id] = newest_commit
            if count:
                self.committed[group_id] = GroupOffsets(reading, number, count)

    @cached_property
    def pending(self) -> dict[int, dict[str, PartitionOffsets]]:
        pending: dict[int, dict[str, PartitionOffsets]] = {}
        for part in self.reading.pending_columns(_PART_ROWS, _PART_BYTES):
            for producer_id, group_id, partition, offset in _decode_commits(part):
                pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = offset
        return pending


ShardOffsets = Offsets | NativeOffsets
"""The offsets of one shard, by group id, the pending ones by producer id before."""


class GroupOffsets(Mapping[TopicPartition, OffsetAndMetadata]):
    """The committed offsets of one group, which has this number in `reading`.

    Every operation except `len` decodes all of them.
    """

    def __init__(self, reading: Any, number: int, count: int) -> None:
        self.reading = reading
        self.number = number
        self._count = count

    def decode(self) -> PartitionOffsets:
        parts = self.reading.offset_columns([self.number], _PART_ROWS, _PART_BYTES)
        return {partition: offset for part in parts for _, _, partition, offset in _decode_commits(part)}

    def __getitem__(self, partition: TopicPartition) -> OffsetAndMetadata:
        return self.decode()[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.decode())

    def __len__(self) -> int:
        return self._count

    def items(self) -> Any:
        """Otherwise `dict()` and comparisons would decode once per item."""
        return self.decode().items()

    def values(self) -> Any:
        return self.decode().values()

    def __reduce__(self) -> tuple[type, tuple[PartitionOffsets]]:
        return dict, (self.decode(),)


def find_expiring(offsets: Mapping[str, ReadOnlyOffsets]) -> set[str]:
    """Return the groups with an offset that has an expire timestamp, without decoding columns in which there is
    none.
    """
    found = set()
    in_columns: dict[int, list[GroupOffsets]] = {}
    for group_id, of_group in offsets.items():
        if isinstance(of_group, GroupOffsets):
            in_columns.setdefault(id(of_group.reading), []).append(of_group)
        elif any(offset.expire_timestamp is not None for offset in of_group.values()):
            found.add(group_id)
    for groups in in_columns.values():
        numbers = [each.number for each in groups]
        for part in groups[0].reading.offset_columns(numbers, _PART_ROWS, _PART_BYTES):
            valid, _, _ = part[_EXPIRE_COLUMN]
            if valid is None or any(valid):
                rows = zip(_decode_column(part, "group"), _decode_column(part, _EXPIRE_COLUMN), strict=True)
                found.update(group_id for group_id, expire_ms in rows if expire_ms is not None)
    return found


def _decode_commits(part: dict[str, Any]) -> Iterator[tuple[int, str, TopicPartition, OffsetAndMetadata]]:
    offsets = zip(*(_decode_column(part, name) for name in _OFFSET_COLUMNS), strict=True)
    keys = zip(*(_decode_column(part, name) for name in _KEY_COLUMNS), strict=True)
    for (producer_id, group_id, topic, number), offset in zip(keys, offsets, strict=True):
        yield producer_id, group_id, TopicPartition(topic, number), OffsetAndMetadata(*offset)


_EXPIRE_COLUMN = "expire_timestamp_ms"
_KEY_COLUMNS = ("producer_id", "group", "topic", "topic_partition")
_OFFSET_COLUMNS = (
    "committed_offset",
    "metadata",
    "commit_timestamp_ms",
    "leader_epoch",
    _EXPIRE_COLUMN,
    "topic_id",
    "record_offset",
    "batch_offset",
)
_INT32_COLUMNS = ("topic_partition", "leader_epoch")


def _decode_column(part: dict[str, Any], name: str) -> list[Any]:
    valid, ends, data = part.get(name, (None, None, b""))
    values: list[Any]
    if ends is None:
        values = memoryview(data).cast("i" if name in _INT32_COLUMNS else "q").tolist()
    else:
        texts: dict[bytes, str] = {}
        slices = [data[start:end] for start, end in pairwise(memoryview(ends).cast("i").tolist())]
        values = [texts.get(text) or texts.setdefault(text, decode_utf8(text)) for text in slices]
    if valid is None:
        return values
    return [value if valid[row >> 3] >> (row & 7) & 1 else None for row, value in enumerate(values)]
