"""What the requests need from a coordinator's memory and log.

The rules of joins, rebalances and checks are the same in both coordinators, and reach memory and log through a
`GroupStore`: the cache of manager.py up to 3.9, the state machines of partitioned_groups.py since 4.0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.error_codes import Errors, Refusal
from kafkagroups.coordinator.group_records import GROUP_RECORD_TYPE, OFFSET_RECORD_TYPE
from kafkagroups.coordinator.logs import OffsetsLogs
from kafkagroups.coordinator.messages import CommitErrors, FetchedOffset, ResponseFuture
from kafkagroups.coordinator.settings import Settings
from kafkagroups.groups.classic_group import Cancellable, ClassicGroup
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_shard import LivingGroup
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.log.batch import NO_PRODUCER_ID
from kafkagroups.log.segment_file import partition_for
from kafkagroups.records.dialects import dialect
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record
from kafkagroups.records.wire import UUID
from kafkagroups.records.written_versions import value_version

NO_TOPIC_ID = UUID.default
Producer = tuple[int, int]
"""A producer's id and epoch."""
NO_PRODUCER: Producer = (NO_PRODUCER_ID, -1)
OffsetsAndPending = tuple[Mapping[TopicPartition, OffsetAndMetadata], Callable[[TopicPartition], bool]]
NO_OFFSETS: OffsetsAndPending = ({}, lambda partition: False)
T = TypeVar("T")


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


def _ignore_group(group: LivingGroup) -> None:
    pass


class GroupStore(ABC):
    """The groups and offsets of the partitions that this broker leads.

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
        self.on_loaded: Callable[[LivingGroup], None] = _ignore_group
        self.on_unloaded: Callable[[LivingGroup], None] = _ignore_group
        self.dialect = dialect(settings.coordinator, settings.kafka)

    # Partitions

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.settings.offsets_topic_num_partitions)

    def is_loaded(self, partition: int) -> bool:
        return partition in self.owned

    def is_local(self, group_id: str) -> bool:
        return self.is_loaded(self.partition_for(group_id))

    def is_loading(self, group_id: str) -> bool:
        return self.partition_for(group_id) in self.loading

    def is_missing(self, group_id: str) -> bool:
        group = self.get_group(group_id)
        return self.is_local(group_id) and (group is None or group.state is ClassicState.DEAD)

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
        pass

    @abstractmethod
    def _unload(self, partition: int) -> None:
        pass

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

    def current_modern_groups(self) -> list[ModernGroup]:
        return []

    def remove_empty_group(self, group: ModernGroup) -> Sequence[Record]:
        """Remove an Empty consumer or streams group, because a classic member joins. Return its tombstones.

        If the JoinGroup is refused, they are not written, and the group is back after the next load.
        """
        return ()

    @abstractmethod
    def add_group(self, group: ClassicGroup) -> ClassicGroup:
        """Add the group, unless there is one with this id, without a record. Return the group that is there."""

    @abstractmethod
    def current_groups(self) -> list[ClassicGroup]:
        """Return all classic groups, in the order of Kafka's hash map."""

    def build_group(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(group_id, self.settings.version, self.clock.now_ms)

    def get_or_create(self, group_id: str) -> ClassicGroup:
        return self.add_group(self.build_group(group_id))

    @contextmanager
    def committed(self) -> Iterator[None]:
        """Show groups and offsets as clients may read them, until the end of the `with` block."""
        yield

    def after(
        self, group: ClassicGroup, delay_ms: int, action: Callable[[], None], *, is_in_join: bool = False
    ) -> Cancellable:
        """`is_in_join` says whether a JoinGroup of the group is being handled, which ends with `end_join`."""
        return self.clock.after(delay_ms, action)

    @abstractmethod
    def end_join(
        self,
        group: ClassicGroup,
        *,
        is_new: bool,
        refuse: Callable[[Errors], None],
        tombstones: Sequence[Record] = (),
    ) -> None:
        """Note that a JoinGroup is handled, and whether it created the group.

        `refuse` answers the JoinGroup with an error, unless it is answered. `tombstones` delete the group of another
        type that had this id.
        """

    # What is written

    def write(
        self, group_id: str, handler: Callable[[], Result[T]], refuse: Callable[[Errors, str | None], T]
    ) -> ResponseFuture[T]:
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

    @abstractmethod
    def store_offsets(
        self,
        group: LivingGroup,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        complete: Callable[[CommitErrors], None],
        producer: Producer = NO_PRODUCER,
    ) -> None:
        """Append a commit as one batch, and call `complete` with an error for each partition when it is answered.

        The commit is in the producer's transaction, unless there is none.
        """

    @abstractmethod
    def complete_transaction(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """Commit or abort the offsets in the producer's open transaction, in the partitions that contain its marker."""

    @abstractmethod
    def find_offsets(self, group_id: str) -> OffsetsAndPending:
        """Return the group's committed offsets, and whether a partition has a pending commit.

        A Dead or unknown group has neither.
        """

    def get_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool
    ) -> dict[TopicPartition, FetchedOffset]:
        """Return the group's offsets for the partitions; None: all committed offsets. No offset is -1 without an error.

        With `require_stable`, a partition that has a pending commit gets UNSTABLE_OFFSET_COMMIT.
        """
        committed, is_pending = self.find_offsets(group_id)
        fetched = {}
        for partition in committed if partitions is None else partitions:
            offset = committed.get(partition)
            if require_stable and is_pending(partition):
                fetched[partition] = FetchedOffset(error=Errors.UNSTABLE_OFFSET_COMMIT)
            elif offset is None:
                fetched[partition] = FetchedOffset()
            else:
                topic_id = offset.topic_id if self.settings.is_at_least(4, 0) else None
                fetched[partition] = FetchedOffset(
                    offset.offset, offset.metadata, offset.leader_epoch, topic_id=topic_id
                )
        return fetched

    def split_by_partition(self, group_ids: Sequence[str]) -> list[Sequence[str]]:
        return [group_ids] if group_ids else []

    @abstractmethod
    def delete_groups(self, groups: Sequence[LivingGroup]) -> Sequence[Record]:
        """Delete Empty groups and their offsets. Since 4.0, return the records that do this, of one partition."""

    @abstractmethod
    def delete_offsets(self, group: LivingGroup, partitions: Sequence[TopicPartition]) -> Sequence[Record]:
        """Delete a group's offsets for these partitions. Since 4.0, return the records that do this."""

    @abstractmethod
    def delete_partitions(self, partitions: Collection[TopicPartition], topic_ids: Mapping[str, str]) -> int:
        """Delete these partitions' offsets in all groups, and return how many committed ones there were.

        `topic_ids` are the ids of the deleted topics, by name.
        """

    @abstractmethod
    def delete_expired(self) -> int:
        """Delete expired offsets, and Empty groups that have no offsets left. Return the number of deleted offsets."""

    # Records

    def build_group_record(self, group: ClassicGroup, assignments: Mapping[str, bytes]) -> Record:
        return self._build_record(
            GROUP_RECORD_TYPE, GroupMetadataKey(group.group_id), group.build_record_value(assignments)
        )

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
        return self._build_record(OFFSET_RECORD_TYPE, key, value, expires=offset.expire_timestamp is not None)

    def _build_record(
        self,
        record_type: int,
        key: GroupMetadataKey | OffsetCommitKey,
        value: GroupMetadataValue | OffsetCommitValue,
        *,
        expires: bool = False,
    ) -> Record:
        return Record(record_type, key, value, value_version(record_type, self.settings.kafka, expires=expires))
