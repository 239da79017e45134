"""The cache of groups and offsets, and the log behind it: what is stored, fetched, deleted, loaded and unloaded.

Whoever asks is answered from `groups` (groupMetadataCache); the topic is read only when a partition is loaded. Whatever
is to last is first appended, then put into the cache: each store is prepare, append, and a callback that completes
or takes back. One group lives in one partition and changes in one thread (in Kafka: under the group's lock), so the
order of its records is the order of its changes.

Simpler than Kafka: no threads, so a lock is not needed, and a load is over when `load_partition` returns; whoever wants to
be asked in between puts the partition into `loading`.
Source: GroupMetadataManager.scala (3.9; tag 1.0.1 for what the version tells apart).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.error_codes import Errors, error_of_commit_append, error_of_group_append
from kafkagroups.coordinator.logs import NewBatch, OffsetsLogs
from kafkagroups.coordinator.results import CommitErrors, FetchedOffset
from kafkagroups.coordinator.settings import Settings
from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.classic_group import ClassicGroup, living
from kafkagroups.groups.expiration import expired_offsets
from kafkagroups.groups.group import Group
from kafkagroups.groups.loading import ClassicCache
from kafkagroups.groups.map_orders import java_map_order
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.states import ClassicState
from kafkagroups.log.batch import NO_PRODUCER_ID, TRANSACTIONAL
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.dialect import dialect
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.text import utf16_length
from kafkagroups.records.writers import value_version

logger = logging.getLogger("kafkagroups.coordinator")
OffsetsToStore = Mapping[TopicPartition, OffsetAndMetadata]


class GroupMetadataManager:
    """`owned` and `loading` are partitions of the offsets topic, `open_groups` the groups of each open transaction."""

    def __init__(self, settings: Settings, logs: OffsetsLogs, clock: Clock) -> None:
        self.settings = settings
        self.logs = logs
        self.clock = clock
        self.groups: dict[str, ClassicGroup] = {}
        self.owned: set[int] = set()
        self.loading: set[int] = set()
        self.open_groups: dict[int, set[str]] = {}
        self.epochs: dict[int, int] = {}
        self._rules = dialect("classic", settings.kafka)

    # Who is here

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.settings.offsets_topic_num_partitions)

    def is_local(self, group_id: str) -> bool:
        return self.partition_for(group_id) in self.owned

    def is_loading(self, group_id: str) -> bool:
        return self.partition_for(group_id) in self.loading

    def not_exists(self, group_id: str) -> bool:
        """Whether it is ours to know the group, and there is none or a Dead one."""
        group = self.groups.get(group_id)
        return self.is_local(group_id) and (group is None or group.state is ClassicState.DEAD)

    def get_group(self, group_id: str) -> ClassicGroup | None:
        """The group; None when no request has made it and no load brought it."""
        return self.groups.get(group_id)

    def get_or_create(self, group_id: str) -> ClassicGroup:
        """The group, or a new Empty one: nothing is written for it yet."""
        return self.add_group(ClassicGroup(group_id, self.settings.version, self.clock.now_ms))

    def add_group(self, group: ClassicGroup) -> ClassicGroup:
        """Puts the group there unless one of its name is there; gives the one that is."""
        return self.groups.setdefault(group.group_id, group)

    def current_groups(self) -> list[ClassicGroup]:
        """All groups, in the order of Kafka's map."""
        return [self.groups[group_id] for group_id in java_map_order(self.groups)]

    # Storing

    def store_group(
        self, group: ClassicGroup, assignments: Mapping[str, bytes], stored: Callable[[Errors], None]
    ) -> None:
        """Appends the group's record with these assignments (by member id); `stored` hears what came of it.

        NOT_COORDINATOR when the partition is not here; a failed append as error_of_group_append says.
        """
        partition = self.partition_for(group.group_id)
        if self.logs.magic(partition) is None:
            return stored(Errors.NOT_COORDINATOR)
        value = group.value(assignments)
        record = self._record(2, GroupMetadataKey(group.group_id), value)
        self.logs.append(
            partition,
            NewBatch([record], self.clock.now_ms),
            lambda error, _: stored(error_of_group_append(error)),
        )
        return None

    def store_offsets(
        self,
        group: ClassicGroup,
        offsets: OffsetsToStore,
        stored: Callable[[CommitErrors], None],
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
    ) -> None:
        """Prepares the commit, appends one batch, and in the callback puts it into the cache; `stored` hears of each.

        OFFSET_METADATA_TOO_LARGE for metadata over the limit, in UTF-16 units: the others are written.
        NOT_COORDINATOR when the partition is not here, UNSUPPORTED_FOR_MESSAGE_FORMAT for a transaction below magic 2;
        a failed append as error_of_commit_append says.
        """
        if group.offsets.mixes_commits:
            logger.warning("group: %s has received offset commits from consumers as well as transactional producers.",
                           group.group_id)  # fmt: skip
        limit, partition = self.settings.offset_metadata_max_bytes, self.partition_for(group.group_id)
        fitting = {each: offset for each, offset in offsets.items() if utf16_length(offset.metadata) <= limit}
        is_transactional = producer_id != NO_PRODUCER_ID
        magic = self.logs.magic(partition)

        def answer(error: Errors) -> None:
            too_large = Errors.OFFSET_METADATA_TOO_LARGE
            stored({each: error if each in fitting else too_large for each in offsets})

        if not fitting:
            return answer(Errors.NONE)
        if magic is None:
            return stored(dict.fromkeys(offsets, Errors.NOT_COORDINATOR))
        if is_transactional and magic < 2:
            return stored(dict.fromkeys(offsets, Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT))

        def appended(error: Errors, first_offset: int) -> None:
            if group.state is not ClassicState.DEAD:
                if error is Errors.NONE:
                    self._complete_commit(group, fitting, producer_id, first_offset)
                else:
                    self._fail_commit(group, fitting, producer_id)
            answer(error_of_commit_append(error))

        # Up to 3.7 what is too large was prepared as well, and nothing took it back.
        staged = fitting if self.settings.since(3, 8) else offsets
        if is_transactional:
            self.open_groups.setdefault(producer_id, set()).add(group.group_id)
            group.offsets.prepare_transaction(producer_id, staged)
        else:
            group.offsets.prepare(staged)
        records = [self._offset_record(group.group_id, each, offset) for each, offset in fitting.items()]
        batch = NewBatch(
            records, self.clock.now_ms, 0, producer_id, producer_epoch, TRANSACTIONAL if is_transactional else 0
        )
        return self.logs.append(partition, batch, appended)

    def _complete_commit(self, group: ClassicGroup, offsets: OffsetsToStore, producer_id: int, first: int) -> None:
        for partition, offset in offsets.items():
            if producer_id == NO_PRODUCER_ID:
                group.offsets.complete(partition, offset, first)
            else:
                group.offsets.complete_append(producer_id, partition, offset, first)

    def _fail_commit(self, group: ClassicGroup, offsets: OffsetsToStore, producer_id: int) -> None:
        if producer_id not in group.offsets.transactions:
            self._close(producer_id, group.group_id)
        for partition, offset in offsets.items():
            if producer_id == NO_PRODUCER_ID:
                group.offsets.fail(partition, offset)
            else:
                group.offsets.fail_transaction(producer_id, partition)

    # Fetching

    def get_offsets(
        self, group_id: str, require_stable: bool = False, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, FetchedOffset]:
        """The group's offsets, all (None) or those named, from the cache alone.

        A group that is unknown or Dead has none: -1 for each that is named, without an error. With `require_stable` a
        commit on its way is answered UNSTABLE_OFFSET_COMMIT; of all partitions only committed ones are looked at.
        """
        group = self.groups.get(group_id)
        if group is None or group.state is ClassicState.DEAD:
            return {partition: FetchedOffset() for partition in partitions or ()}
        committed = group.offsets.committed
        answers = {}
        for partition in committed if partitions is None else partitions:
            offset = committed.get(partition)
            if require_stable and group.offsets.is_unstable(partition):
                answers[partition] = FetchedOffset(error=Errors.UNSTABLE_OFFSET_COMMIT)
            elif offset is None:
                answers[partition] = FetchedOffset()
            else:
                answers[partition] = FetchedOffset(offset.offset, offset.metadata, offset.leader_epoch)
        return answers

    # Deleting

    def cleanup_expired(self) -> int:
        """A sweep, every offsets.retention.check.interval.ms: deletes what is due, gives how many offsets that was."""
        now, retention = self.clock.now_ms, self.settings.offsets_retention_ms
        return self.cleanup(self.current_groups(), lambda group: expired_offsets(group, now, retention), sweep=True)

    def cleanup(
        self,
        groups: Iterable[ClassicGroup],
        select: Callable[[ClassicGroup], Iterable[TopicPartition]],
        *,
        sweep: bool = False,
    ) -> int:
        """Deletes the selected offsets of each group, and the group itself when it is Empty and nothing is left.

        A batch of tombstones for each group: its offsets that were committed, then the group if it is gone and its
        generation is above 0; a simple group has no record to delete. Nobody waits for the append (acks=0): what is
        lost is deleted again by the next sweep.
        """
        removed, began = 0, self.clock.now_ms
        for group in groups:
            offsets = group.offsets.remove(select(group))
            if group.state is ClassicState.EMPTY and not group.offsets:
                logger.info("Group %s transitioned to Dead in generation %d", group.group_id, group.generation)
                group.transition_to(ClassicState.DEAD, self.clock.now_ms)
            partition = self.partition_for(group.group_id)
            if self.logs.magic(partition) is None:
                continue
            tombstones = [OffsetCommitKey(group.group_id, each.topic, each.partition) for each in offsets]
            records = [encode(Record(1, key, None, None)) for key in tombstones]
            is_gone = group.state is ClassicState.DEAD and self.groups.get(group.group_id) is group
            if is_gone:
                del self.groups[group.group_id]
                for timer in group.pending_members.values():
                    timer.cancel()
            if is_gone and group.generation > 0:
                records.append(encode(Record(2, GroupMetadataKey(group.group_id), None, None)))
            if records:
                self.logs.append(partition, NewBatch(records, self.clock.now_ms), lambda error, offset: None)
                removed += len(offsets)
        if (sweep and removed) or not self.settings.since(2, 0):
            passed = self.clock.now_ms - began
            logger.info("Removed %d expired offsets in %d milliseconds.", removed, passed)
        return removed

    # Transactions

    def complete_transaction(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """A marker of the producer is in these partitions of the offsets topic: what waits in their groups is decided.

        A group that moved away meanwhile is decided by its new coordinator, from the log.
        """
        ended = set(partitions)
        for group_id in sorted(self.open_groups.get(producer_id, ())):
            if self.partition_for(group_id) not in ended:
                continue
            group = self.groups.get(group_id)
            if group is not None and group.state is not ClassicState.DEAD:
                group.offsets.end_transaction(producer_id, commits=commits, kafka=self.settings.version)
                self._close(producer_id, group_id)

    def _close(self, producer_id: int, group_id: str) -> None:
        groups = self.open_groups.get(producer_id, set())
        groups.discard(group_id)
        if not groups:
            self.open_groups.pop(producer_id, None)

    # Loading and unloading

    def load_partition(
        self, partition: int, epoch: int = 0, loaded: Callable[[ClassicGroup], None] = lambda group: None
    ) -> None:
        """Reads the partition's log into the cache, as `kg.load` does; `loaded` hears of each group of it.

        A coordinator epoch below the newest one of the partition is ignored, a partition that is owned is not loaded
        again. A load that fails leaves what it had put into the cache and owns the partition, as Kafka does.
        """
        if self._is_old(partition, epoch) or partition in self.owned:
            return
        self.loading.add(partition)
        cache = ClassicCache(self._rules)
        try:
            cache.load(partition, self.logs.read(partition))
        except (BadBytes, LoadFailed) as error:
            logger.error("Error loading offsets from __consumer_offsets-%d: %s", partition, error)
        for group in cache.groups.values():
            assert isinstance(group, Group)
            for producer in group.pending:
                self.open_groups.setdefault(producer, set()).add(group.group_id)
            loaded(self.add_group(living(group, self.settings.version, self.clock.now_ms)))
        self.owned.add(partition)
        self.loading.discard(partition)
        logger.info("Finished loading offsets and group metadata from __consumer_offsets-%d", partition)

    def unload_partition(
        self, partition: int, epoch: int | None = None, unloaded: Callable[[ClassicGroup], None] = lambda group: None
    ) -> None:
        """Forgets the partition: `unloaded` ends each group's business, then it is gone. An old epoch is ignored."""
        if epoch is not None and self._is_old(partition, epoch):
            return
        self.owned.discard(partition)
        self.loading.discard(partition)
        offsets = groups = 0
        for group in [each for each in self.groups.values() if self.partition_for(each.group_id) == partition]:
            unloaded(group)
            del self.groups[group.group_id]
            for producer in list(self.open_groups):
                self._close(producer, group.group_id)
            offsets, groups = offsets + len(group.offsets.committed), groups + 1
        logger.info("Finished unloading __consumer_offsets-%d. Removed %d cached offsets and %d cached groups.",
                    partition, offsets, groups)  # fmt: skip

    def _is_old(self, partition: int, epoch: int) -> bool:
        newest = self.epochs[partition] = max(epoch, self.epochs.get(partition, epoch))
        return epoch < newest

    # Records

    def _offset_record(
        self, group_id: str, partition: TopicPartition, offset: OffsetAndMetadata
    ) -> tuple[bytes, bytes | None]:
        expires = offset.expire_timestamp is not None
        value = OffsetCommitValue(
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            commit_timestamp=offset.commit_timestamp,
            expire_timestamp=-1 if offset.expire_timestamp is None else offset.expire_timestamp,
        )
        return self._record(1, OffsetCommitKey(group_id, partition.topic, partition.partition), value, expires=expires)

    def _record(
        self,
        record_type: int,
        key: GroupMetadataKey | OffsetCommitKey,
        value: GroupMetadataValue | OffsetCommitValue,
        *,
        expires: bool = False,
    ) -> tuple[bytes, bytes | None]:
        version = value_version(record_type, self.settings.kafka, expires=expires)
        return encode(Record(record_type, key, value, version), self._rules)
