"""The cache and the log behind it: what is stored, fetched and deleted.

Whatever is to last is first appended, then put into the cache: each store is prepare, append, and a callback that
completes or takes back. One group lives in one partition and changes in one thread (in Kafka: under the group's
lock), so the order of its records is the order of its changes.
Source: GroupMetadataManager.scala (3.9; tag 1.0.1 for what the version tells apart).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from kafkagroups.coordinator.cache import GroupCache
from kafkagroups.coordinator.error_codes import Errors, error_of_commit_append, error_of_group_append
from kafkagroups.coordinator.logs import NewBatch
from kafkagroups.coordinator.results import CommitErrors, FetchedOffset
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.expiration import expired_offsets
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.states import ClassicState
from kafkagroups.log.batch import NO_PRODUCER_ID, TRANSACTIONAL
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from kafkagroups.records.text import utf16_length
from kafkagroups.records.versions import value_version

logger = logging.getLogger("kafkagroups.coordinator")
OffsetsToStore = Mapping[TopicPartition, OffsetAndMetadata]


class GroupMetadataManager(GroupCache):
    """The cache, and what is stored into, fetched from and deleted of it."""

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
            answer(error_of_commit_append(error, verifies=self.settings.since(3, 6)))

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
            self.close_transaction(producer_id, group.group_id)
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
        errors: list[Errors] = []
        for group in groups:
            remove = group.offsets.expire if sweep else group.offsets.remove
            offsets = remove(select(group))
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
                self.logs.append(partition, NewBatch(records, self.clock.now_ms), lambda error, _: errors.append(error))
                removed += 0 if errors and errors.pop() else len(offsets)
        if (sweep and removed) or not self.settings.since(2, 0):
            passed = self.clock.now_ms - began
            logger.info("Removed %d expired offsets in %d milliseconds.", removed, passed)
        return removed

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
        return encode(Record(record_type, key, value, version), self.rules)
