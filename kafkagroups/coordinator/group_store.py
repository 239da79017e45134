"""What the requests need from a coordinator's memory and log, and the records that they write for groups.

The rules of joins, rebalances and checks are the same in both coordinators, and reach memory and log through a
`GroupStore`: the cache of manager.py up to 3.9, the state machines of partitioned_groups.py since 4.0.

A function that builds a record has the name of its type: `member_record` builds type 5, `target_record` type 7. The
tombstones that delete a group have an order, because a load refuses one that comes too early.
Source: GroupCoordinatorRecordHelpers, OffsetMetadataManager.deleteAllOffsets, ConsumerGroup, ShareGroup and
StreamsGroup.createGroupTombstoneRecords (4.3.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.consumer_members import ConsumerMember, Partitions
from kafkagroups.coordinator.logs import OffsetsLogs
from kafkagroups.coordinator.messages import CommitErrors, Errors, Refusal, ResponseFuture
from kafkagroups.coordinator.settings import Settings
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_groups import Cancellable, ClassicGroup, LivingGroup, LivingShard
from kafkagroups.groups.map_orders import java_map_order, timeline_map_order, uuid_hash
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, ReadOnlyOffsets, TopicPartition, group_by_topic
from kafkagroups.log.batch import NO_PRODUCER_ID
from kafkagroups.log.segment_file import partition_for
from kafkagroups.records import consumer_group
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.releases import dialect
from kafkagroups.records.serde import RECORD_TYPES, Record
from kafkagroups.records.wire import UUID
from kafkagroups.records.written_versions import value_version

OFFSET_RECORD_TYPE = 1
GROUP_RECORD_TYPE = 2
_PATTERN_TYPE = 16
DELETED_TYPES = {
    "consumer": (8, 7, 6, 5, _PATTERN_TYPE, 4, 3),
    "share": (14, 13, 12, 10, 15, 11),
    "streams": (22, 21, 20, 19, 17, 23),
}
"""The record types of the tombstones that delete a group, in Kafka's order, by type of group."""
_TARGET_TYPES = (7, 13, 21)
_MEMBER_TYPES = (5, 8, 10, 14, 19, 22)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return _build(3, (group_id,), consumer_group.ConsumerGroupMetadataValue(epoch, metadata_hash))


def member_record(group_id: str, member: ConsumerMember) -> Record:
    return _build(5, (group_id, member.member_id), member.metadata)


def assignment_epoch_record(group_id: str, epoch: int, timestamp: int) -> Record:
    return _build(6, (group_id,), consumer_group.ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp))


def target_record(group_id: str, member_id: str, target: Partitions) -> Record:
    topics = tuple(
        consumer_group.TopicPartition(topic_id, tuple(sorted(target[topic_id])))
        for topic_id in java_map_order(target, uuid_hash)
    )
    return _build(7, (group_id, member_id), consumer_group.ConsumerGroupTargetAssignmentMemberValue(topics))


def assignment_record(group_id: str, member: ConsumerMember) -> Record:
    return _build(8, (group_id, member.member_id), member.assignment_value())


def pattern_record(
    group_id: str, pattern: str, value: consumer_group.ConsumerGroupRegularExpressionValue | None
) -> Record:
    return _build(16, (group_id, pattern), value)


def removal_records(group_id: str, member_id: str) -> list[Record]:
    return [_build(record_type, (group_id, member_id), None) for record_type in (8, 7, 5)]


def build_modern_tombstones(
    group: ModernGroup, renamed: Mapping[str, str] | None = None, targets: Iterable[str] = ()
) -> list[Record]:
    """Return the tombstones that delete a group and its members.

    `renamed` are the new ids of members that were replaced, and `targets` further ids of members with a target.
    """
    group_id = group.group_id
    member_ids = [(renamed or {}).get(member_id, member_id) for member_id in group.ordered_member_ids()]
    targeted_ids = list(dict.fromkeys([*member_ids, *targets]))
    names = dict.fromkeys(_MEMBER_TYPES, member_ids) | dict.fromkeys(_TARGET_TYPES, targeted_ids)
    names[_PATTERN_TYPE] = list(group.resolved)
    return [
        _build(record_type, key, None)
        for record_type in DELETED_TYPES[group.type]
        for key in ([(group_id, name) for name in names[record_type]] if record_type in names else [(group_id,)])
    ]


def _build(record_type: int, key: tuple[str, ...], value: Any) -> Record:
    key_class: Any = RECORD_TYPES[record_type].key
    return Record(record_type, key_class(*key), value, None if value is None else 0)


def build_offset_tombstone(group_id: str, partition: TopicPartition) -> Record:
    return Record(OFFSET_RECORD_TYPE, OffsetCommitKey(group_id, partition.topic, partition.partition), None, None)


def build_group_tombstone(group_id: str) -> Record:
    return Record(GROUP_RECORD_TYPE, GroupMetadataKey(group_id), None, None)


def order_offsets(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions in the order of Kafka's maps: by topic, then by number."""
    numbers = group_by_topic(partitions)
    return [
        TopicPartition(topic, number)
        for topic in timeline_map_order(numbers)
        for number in timeline_map_order(numbers[topic], lambda number: number)
    ]


def build_group_deletion(shard: LivingShard, group_id: str) -> list[Record]:
    """Return the tombstones of a group: of its committed, then its other pending offsets, and of the group."""
    committed = shard.offsets.committed.get(group_id, {})
    pending = [each for each in shard.offsets.pending_partitions(group_id) if each not in committed]
    partitions = [*order_offsets(committed), *order_offsets(pending)]
    tombstones = [build_offset_tombstone(group_id, partition) for partition in partitions]
    return [*tombstones, *build_group_tombstones(shard.groups[group_id])]


def build_group_tombstones(group: LivingGroup) -> list[Record]:
    return build_modern_tombstones(group) if isinstance(group, ModernGroup) else [build_group_tombstone(group.group_id)]


NO_TOPIC_ID = UUID.default
Producer = tuple[int, int]
"""A producer's id and epoch."""
NO_PRODUCER: Producer = (NO_PRODUCER_ID, -1)
OffsetsAndPending = tuple[ReadOnlyOffsets, Callable[[TopicPartition], bool]]
NO_OFFSETS: OffsetsAndPending = ({}, lambda partition: False)
T = TypeVar("T")
Refuse = Callable[[Errors, str | None], T]
"""A function that builds the response for an error and its text."""
AnswerCommit = Callable[[CommitErrors], None]


@dataclass(frozen=True)
class Result(Generic[T]):
    """What a handler returns: the response, and the records that must be confirmed before the client gets it.

    If the records are not atomic, a batch that is too large is split.
    """

    response: T
    records: Sequence[Record] = ()
    is_atomic: bool = True


def is_empty(group: LivingGroup) -> bool:
    return not group.members if isinstance(group, ModernGroup) else group.state is ClassicState.EMPTY


def ignore_refusal(error: Errors, message: str | None) -> None:
    pass


class GroupStore(ABC):
    """The groups and offsets of the partitions that this broker leads: what both coordinators do alike.

    Their other methods have the same names and parameters, which mypy checks where requests call them (`Requests`).

    `owned` and `loading` are partitions; `epochs` has the newest coordinator epoch of each, so that a late call is
    ignored.
    """

    def __init__(self, settings: Settings, logs: OffsetsLogs, clock: Clock) -> None:
        self.settings = settings
        self.logs = logs
        self.clock = clock
        self.owned: set[int] = set()
        self.loading: set[int] = set()
        self.epochs: dict[int, int] = {}
        self.on_loaded: Callable[[LivingGroup], None] = lambda group: None
        self.on_unloaded: Callable[[LivingGroup], None] = lambda group: None
        self.dialect = dialect(settings.coordinator, settings.kafka)

    # Partitions

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.settings.offsets_topic_num_partitions)

    def is_loaded(self, partition: int) -> bool:
        return partition in self.owned

    def is_local(self, group_id: str) -> bool:
        return self.is_loaded(self.partition_for(group_id))

    def accept_epoch(self, partition: int, epoch: int) -> bool:
        """Return False if the partition has a newer coordinator epoch. Otherwise store `epoch` and return True."""
        newest_epoch = max(epoch, self.epochs.get(partition, epoch))
        self.epochs[partition] = newest_epoch
        return epoch == newest_epoch

    def load_partition(self, partition: int, epoch: int = 0) -> None:
        """Read the partition's log, and call `on_loaded` for each group.

        If the partition is loaded already, or this broker knows a newer coordinator epoch, do nothing. If the load
        fails, the broker owns the partition anyway, as in Kafka.
        """
        if self.accept_epoch(partition, epoch) and not self.is_loaded(partition):
            self._load(partition)
            self.owned.add(partition)
            self.loading.discard(partition)

    def unload_partition(self, partition: int, epoch: int | None = None) -> None:
        if epoch is None or self.accept_epoch(partition, epoch):
            self.owned.discard(partition)
            self.loading.discard(partition)
            self._unload(partition)

    @abstractmethod
    def _load(self, partition: int) -> None:
        """Read the partition's log into memory, and call `on_loaded` for each group."""

    @abstractmethod
    def _unload(self, partition: int) -> None:
        """Call `on_unloaded` for each group of the partition, and forget it."""

    # Groups

    @abstractmethod
    def find_group(self, group_id: str) -> LivingGroup | None:
        """Return the group; None if it does not exist."""

    def get_group(self, group_id: str) -> ClassicGroup | None:
        group = self.find_group(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def find_modern_group(self, group_id: str) -> ModernGroup | None:
        group = self.find_group(group_id)
        return group if isinstance(group, ModernGroup) else None

    def remove_empty_group(self, group: ModernGroup) -> Sequence[Record]:
        """Remove an Empty consumer or streams group, because a classic member joins. Return its tombstones.

        If the JoinGroup is refused, they are not written, and the group is back after the next load.
        """
        return ()

    @abstractmethod
    def add_group(self, group: ClassicGroup) -> ClassicGroup:
        """Add the group, unless there is one with this id, without a record. Return the group that is there."""

    def build_group(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self.settings.version, self.clock.now_ms)

    def get_or_create(self, group_id: str) -> ClassicGroup:
        return self.get_group(group_id) or self.add_group(self.build_group(group_id))

    @contextmanager
    def committed(self) -> Iterator[None]:
        """Show groups and offsets as clients may read them, until the end of the `with` block."""
        yield

    def after(
        self, group: ClassicGroup, delay_ms: int, action: Callable[[], None], *, is_in_join: bool = False
    ) -> Cancellable:
        """`is_in_join` says whether a JoinGroup of the group is being handled, which ends with `end_join`."""
        return self.clock.after(delay_ms, action)

    # What is written

    def write(self, group_id: str, handler: Callable[[], Result[T]], refuse: Refuse[T]) -> ResponseFuture[T]:
        """Handle a request. Since 4.0 it is answered when the log has confirmed all writes of the group's partition.

        `refuse` builds the response for an error of the log, and for a Refusal of the handler, which is answered at
        once. Up to 3.9 every answer comes at once, and the handler itself writes.
        """
        try:
            return ResponseFuture.of(handler().response)
        except Refusal as refusal:
            return ResponseFuture.of(refuse(refusal.error, refusal.message))

    @abstractmethod
    def store_group(
        self, group: ClassicGroup, assignments: Mapping[str, bytes], complete: Callable[[Errors], None]
    ) -> None:
        """Append the group's record. Then call `complete` with NONE, or with the error that members get."""

    def split_by_partition(self, group_ids: Sequence[str]) -> list[Sequence[str]]:
        return [group_ids] if group_ids else []

    # Records

    def build_group_record(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> Record:
        version = value_version(GROUP_RECORD_TYPE, self.settings.kafka)
        value = group.build_record_value(assignments)
        return Record(GROUP_RECORD_TYPE, GroupMetadataKey(group.group_id), value, version)

    def build_offset_record(self, group_id: str, partition: TopicPartition, offset: OffsetAndMetadata) -> Record:
        value = OffsetCommitValue(
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            commit_timestamp=offset.commit_timestamp,
            expire_timestamp=-1 if offset.expire_timestamp is None else offset.expire_timestamp,
            topic_id=NO_TOPIC_ID if offset.topic_id is None else offset.topic_id,
        )
        key = OffsetCommitKey(group_id, partition.topic, partition.partition)
        expires = offset.expire_timestamp is not None
        version = value_version(OFFSET_RECORD_TYPE, self.settings.kafka, expires=expires)
        return Record(OFFSET_RECORD_TYPE, key, value, version)
