"""The requests about offsets: commits, deletions and expiry, and OffsetFetch, which is answered from the cache.

A commit is checked first, and then the manager stores its offsets in the log and the cache.
Source: KafkaApis.handleOffsetCommitRequest, handleTxnOffsetCommitRequest; GroupCoordinator.handleCommitOffsets,
handleTxnCommitOffsets, handleDeleteOffsets, handleDeletedPartitions, handleFetchOffsets (3.9; tags 2.8.2 and 1.0.1);
GroupMetadataManager.cleanupGroupMetadata (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from kafkagroups.coordinator import messages
from kafkagroups.coordinator.consumer_requests import ConsumerGroupRequests
from kafkagroups.coordinator.group_store import NO_PRODUCER, AnswerCommit, Result
from kafkagroups.coordinator.messages import CommitErrors, Errors, Refusal, ResponseFuture
from kafkagroups.groups.group import CONSUMER, ClassicState
from kafkagroups.groups.living_groups import NOT_APPENDED, ClassicGroup, LivingGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.records.releases import Version
from kafkagroups.records.wire import to_int64, utf16_length

FIRST_WITH_TOPIC_ID: Version = (4, 1)
FIRST_WITH_TOPIC_ID_IN_TRANSACTIONS: Version = (4, 4)
"""The first versions that store the topic's id with a commit."""
_Commits = Mapping[TopicPartition, messages.OffsetCommit]


class OffsetRequests(ConsumerGroupRequests):
    # Commits

    @messages.takes_fields_of(messages.OffsetCommitRequest)
    def offset_commit(self, request: messages.OffsetCommitRequest) -> ResponseFuture[CommitErrors]:
        """Commit offsets of a member. If the group is Empty, any client may commit (with a generation below 0).

        `generation` -1 and `member_id` "" mean that the client is not a member. `retention_ms` is in OffsetCommit v2 to
        v4; -1: the setting `offsets_retention_ms`. If the client `supports_group_not_found` (request v9 and later), a
        broker since 4.0 answers GROUP_ID_NOT_FOUND, instead of ILLEGAL_GENERATION, to a member that commits to an
        unknown group.

        Errors of the whole commit, in every partition: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
        REBALANCE_IN_PROGRESS. Errors of a single partition: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED,
        OFFSET_METADATA_TOO_LARGE. `GroupMetadataManager.store_offsets` lists the errors of the append.
        Source: KafkaApis.handleOffsetCommitRequest, GroupCoordinator.handleCommitOffsets.
        """

        def store(offsets: _Commits, answer: AnswerCommit) -> None:
            group = self._find_group(request, offsets)
            if isinstance(group, ClassicGroup) and group.state is not ClassicState.EMPTY:
                self.rebalances.restart_session(group, group.members[request.member_id])
            built = self._build_offsets(offsets, FIRST_WITH_TOPIC_ID, request.retention_ms)
            self.manager.store_offsets(group, built, answer, NO_PRODUCER)

        return self._store_accepted(request.group_id, request.offsets, store)

    @messages.takes_fields_of(messages.TxnOffsetCommitRequest)
    def txn_offset_commit(self, request: messages.TxnOffsetCommitRequest) -> ResponseFuture[CommitErrors]:
        """Commit offsets in a producer's transaction. They are pending until the transaction's marker arrives.

        The errors are those of `offset_commit`. A member is only checked if the commit contains one (not generation -1,
        member id ""). Since Kafka 3.7 the error can also come from `verify`, for example INVALID_PRODUCER_ID_MAPPING,
        INVALID_PRODUCER_EPOCH or TRANSACTION_ABORTABLE; a client without `supports_abortable_error` (request v4 and
        later) gets INVALID_TXN_STATE instead of the last one. Up to 3.9, the group is created before the member and the
        transaction are checked.
        Source: GroupCoordinator.handleTxnCommitOffsets.
        """

        def store(offsets: _Commits, answer: AnswerCommit) -> None:
            group = self._find_group_in_transaction(request, offsets)
            producer = (request.producer_id, request.producer_epoch)
            # A TxnOffsetCommit has no timestamps: the time of the commit is the coordinator's.
            commits = {partition: replace(offset, timestamp=-1) for partition, offset in offsets.items()}
            built = self._build_offsets(commits, FIRST_WITH_TOPIC_ID_IN_TRANSACTIONS)
            self.manager.store_offsets(group, built, answer, producer)

        if not self.validator.authorize("WRITE", "TRANSACTIONAL_ID", request.transactional_id):
            error = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return ResponseFuture.of(dict.fromkeys(request.offsets, error))
        return self._store_accepted(request.group_id, request.offsets, store)

    def offset_commit_to_zookeeper(
        self, group_id: str, offsets: Mapping[TopicPartition, messages.OffsetCommit]
    ) -> ResponseFuture[CommitErrors]:
        """Commit with version 0 of the request: the offset is stored in ZooKeeper, and no record is written.

        The errors are UNSUPPORTED_VERSION if the broker has no ZooKeeper; otherwise those of `offset_commit`. Source:
        KafkaApis.commitOffsetsToZookeeper.
        """

        def store(accepted_offsets: _Commits, answer: AnswerCommit) -> None:
            store_one = partial(self._store_in_zookeeper, group_id)
            answer({partition: store_one(partition, offset) for partition, offset in accepted_offsets.items()})

        return self._store_accepted(group_id, offsets, store)

    def _find_group(self, request: messages.OffsetCommitRequest, offsets: _Commits) -> LivingGroup:
        """Return the group, which a commit without a generation creates."""
        group_id = request.group_id
        self.validator.check_group(group_id, "OFFSET_COMMIT")
        self.validator.check_partition(group_id)
        modern_group = self._find_modern_group(request, offsets)
        if modern_group is not None:
            return modern_group
        group = self.manager.get_or_create(group_id) if request.generation < 0 else self.manager.get_group(group_id)
        if group is None:
            knows_group_errors = request.supports_group_not_found and self.settings.is_at_least(4, 0)
            raise Refusal(Errors.GROUP_ID_NOT_FOUND if knows_group_errors else Errors.ILLEGAL_GENERATION)
        self.validator.validate_commit(group, request)
        return group

    def _find_group_in_transaction(self, request: messages.TxnOffsetCommitRequest, offsets: _Commits) -> LivingGroup:
        """Return the group of a transactional commit.

        Up to 3.9, a group that does not exist is created before the transaction is checked. Since 4.0 the transaction
        comes first, even before the group's partition, and a commit with a generation creates no group.
        """
        group_id = request.group_id
        is_classic = self.settings.is_before(4, 0)
        self.validator.check_group(group_id, "TXN_OFFSET_COMMIT")
        if is_classic:
            self.validator.check_partition(group_id)
            self.manager.get_or_create(group_id)
        self._verify(request)
        self.validator.check_partition(group_id)
        modern_group = self._find_modern_group(request, offsets)
        if modern_group is not None:
            return modern_group
        if not is_classic and request.generation >= 0 and self.manager.get_group(group_id) is None:
            raise Refusal(Errors.ILLEGAL_GENERATION)
        group = self.manager.get_or_create(group_id)
        self.validator.validate_txn_commit(group, request)
        return group

    def _store_accepted(
        self, group_id: str, offsets: _Commits, store: Callable[[_Commits, AnswerCommit], None]
    ) -> ResponseFuture[CommitErrors]:
        if not self.validator.authorize("READ", "GROUP", group_id):
            return ResponseFuture.of(dict.fromkeys(offsets, Errors.GROUP_AUTHORIZATION_FAILED))
        response: ResponseFuture[CommitErrors] = ResponseFuture()
        refused_partitions = self.validator.find_refused_partitions(offsets)
        accepted_offsets = {
            partition: offset for partition, offset in offsets.items() if partition not in refused_partitions
        }

        def answer(errors: CommitErrors) -> None:
            all_errors = {**errors, **refused_partitions}
            response.complete({partition: all_errors[partition] for partition in offsets})

        try:
            if accepted_offsets:
                store(accepted_offsets, answer)
            else:
                answer({})
        except Refusal as refusal:
            answer(dict.fromkeys(accepted_offsets, refusal.error))
        return response

    def _store_in_zookeeper(self, group_id: str, partition: TopicPartition, offset: messages.OffsetCommit) -> Errors:
        if not self.settings.zookeeper:
            return Errors.UNSUPPORTED_VERSION
        if utf16_length(offset.metadata or "") > self.settings.offset_metadata_max_bytes:
            return Errors.OFFSET_METADATA_TOO_LARGE
        self.validator.zookeeper[group_id, partition.topic, partition.partition] = offset.offset
        return Errors.NONE

    def _verify(self, request: messages.TxnOffsetCommitRequest) -> None:
        """Ask the transaction coordinator whether the transaction includes the group's partition (since 3.7).

        Before 3.8, or if the client does not support TRANSACTION_ABORTABLE, it gets INVALID_TXN_STATE instead.
        """
        if self.settings.is_before(3, 7):
            return
        partition = self.manager.partition_for(request.group_id)
        error = self.validator.verify(request.transactional_id, request.producer_id, request.producer_epoch, partition)
        can_send_abortable_error = request.supports_abortable_error and self.settings.is_at_least(3, 8)
        if error is Errors.TRANSACTION_ABORTABLE and not can_send_abortable_error:
            error = Errors.INVALID_TXN_STATE
        if error is not Errors.NONE and self.settings.is_at_least(4, 0):
            raise Refusal(messages.convert_event_error(error))
        if error is not Errors.NONE:
            raise Refusal(messages.convert_commit_append_error(error, verifies_transactions=True))

    def _build_offsets(
        self, commits: _Commits, first_with_topic_id: Version, retention_ms: int = -1
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """`retention_ms` is -1 if the client sent none.

        - Since 2.1: expire timestamp = now + client's retention time; None if the client sent no retention time.
        - Before 2.1: expire timestamp = (client's timestamp or now) + (client's or broker's retention time).

        A sum beyond 64 bits wraps around, as in Java.
        """
        now_ms = self.clock.now_ms
        topic_ids = self.validator.topic_ids if self.settings.version >= first_with_topic_id else {}
        built = {}
        for partition, offset in commits.items():
            timestamp_ms = now_ms if offset.timestamp == -1 else offset.timestamp
            if self.settings.is_at_least(2, 1):
                commit_timestamp = timestamp_ms
                expire_timestamp = None if retention_ms == -1 else to_int64(now_ms + retention_ms)
            else:
                commit_timestamp = now_ms
                kept_ms = self.settings.offsets_retention_ms if retention_ms == -1 else retention_ms
                expire_timestamp = to_int64(timestamp_ms + kept_ms)
            built[partition] = OffsetAndMetadata(
                offset.offset,
                offset.metadata or "",
                commit_timestamp,
                offset.leader_epoch,
                expire_timestamp,
                topic_id=topic_ids.get(partition.topic),
                record_offset=NOT_APPENDED,
                batch_offset=NOT_APPENDED,
            )
        return built

    # Deletions and expiry

    def offset_delete(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> ResponseFuture[messages.OffsetDeleteResult]:
        """Delete offsets of a group (since Kafka 2.4, KIP-496).

        The error of a partition is UNKNOWN_TOPIC_OR_PARTITION, or GROUP_SUBSCRIBED_TO_TOPIC if a member of a consumer
        group subscribes to the topic. That of the whole request is GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP if the group
        has members and its protocol type is not "consumer". Source: GroupCoordinator.handleDeleteOffsets.
        """

        def delete() -> Result[messages.OffsetDeleteResult]:
            errors = self.validator.find_refused_partitions(partitions)
            group, topics = self._find_subscribed_topics(group_id)
            for partition in partitions:
                is_subscribed = topics is None or partition.topic in topics
                errors.setdefault(partition, Errors.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else Errors.NONE)
            deleted = [partition for partition in partitions if errors[partition] is Errors.NONE]
            return Result(messages.OffsetDeleteResult(Errors.NONE, errors), self.manager.delete_offsets(group, deleted))

        check = partial(self.validator.check_request, group_id, "OFFSET_DELETE", "DELETE")
        return self._handle(group_id, check, delete, lambda error, _: messages.OffsetDeleteResult(error))

    def _find_subscribed_topics(self, group_id: str) -> tuple[LivingGroup, Collection[str] | None]:
        """Return the group and the topics whose offsets stay, because its members subscribe to them.

        None counts as every topic: a subscription cannot be read. Raises Refusal.
        """
        group = self.validator.find_group(group_id)
        if group.type == "share":
            raise Refusal(Errors.GROUP_ID_NOT_FOUND)
        if group.state is ClassicState.EMPTY:
            return group, frozenset()
        if isinstance(group, ClassicGroup) and group.protocol_type != CONSUMER:
            raise Refusal(Errors.NON_EMPTY_GROUP)
        return group, group.subscribed_topics

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> int:
        """Delete all groups' offsets for these partitions, because their topics were deleted. Return how many.

        Up to 3.9, a group is also deleted if it is Empty and has no offsets left. Source:
        GroupCoordinator.handleDeletedPartitions.
        """
        return self.manager.delete_partitions(partitions, self.validator.topic_ids)

    def start_expiration(self, first_ms: int = 0) -> None:
        """Delete expired offsets after `first_ms` ms, then every `settings.offsets_retention_check_interval_ms` ms.

        A `first_ms` below 1 counts as 1, because a timer without a delay would run immediately.
        """
        self.clock.after(max(first_ms, 1), self._delete_expired)

    def _delete_expired(self) -> None:
        self.manager.delete_expired()
        self.clock.after(self.settings.offsets_retention_check_interval_ms, self._delete_expired)

    # Answers from the cache

    def transaction_completed(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """Commit or abort the offsets of the producer's transaction, right after its marker was written.

        `partitions` are those of the offsets topic that contain the marker; since 4.0 it must be the newest batch of
        each, because the coordinator counts the offsets of its log.

        Raises NotAppended if an offset of the transaction has no record in the log, which can happen up to Kafka 3.7,
        if the metadata of a commit is too large.
        Source: GroupCoordinator.scheduleHandleTxnCompletion.
        """
        self.manager.complete_transaction(producer_id, partitions, commits=commits)

    @messages.takes_fields_of(messages.OffsetFetchRequest)
    def offset_fetch(self, request: messages.OffsetFetchRequest) -> ResponseFuture[messages.OffsetFetchResult]:
        """Return committed offsets from memory, at once unless the fetch is stable. The group may be in any state.

        `partitions` None means all that have an offset and that the client may read; a requested one that it may not
        read has the error TOPIC_AUTHORIZATION_FAILED. With `require_stable`, a partition gets UNSTABLE_OFFSET_COMMIT
        (KIP-447) if it has an unfinished commit: its transaction is open, or, up to 3.9, its append is not answered. In
        4.x, such a commit is already in the answer, which waits until the log has confirmed it. With `by_topic_id`
        (request v10 and later), an offset that was committed for an earlier topic of the same name is not returned.

        Since 4.0, a stable fetch is a write without records: it sees all that is appended, and waits for the log.
        Source: GroupCoordinator.handleFetchOffsets.
        """
        try:
            self.validator.check_request(request.group_id, "OFFSET_FETCH", "DESCRIBE")
            if not request.require_stable:
                with self.manager.committed():
                    return ResponseFuture.of(self._fetch(request).response)
        except Refusal as refusal:
            return ResponseFuture.of(messages.OffsetFetchResult(refusal.error))
        return self.manager.write(request.group_id, partial(self._fetch, request), _refuse_fetch)

    def _fetch(self, request: messages.OffsetFetchRequest) -> Result[messages.OffsetFetchResult]:
        group = self.manager.find_modern_group(request.group_id)
        if group is not None:
            self._validate_modern_fetch(group, request.member_id, request.member_epoch)
        committed, is_pending = self.manager.find_offsets(request.group_id)
        offsets = {}
        for partition in committed if request.partitions is None else request.partitions:
            if not self.validator.authorize("DESCRIBE", "TOPIC", partition.topic):
                if request.partitions is not None:
                    offsets[partition] = messages.FetchedOffset(error=Errors.TOPIC_AUTHORIZATION_FAILED)
            elif request.require_stable and is_pending(partition):
                offsets[partition] = messages.FetchedOffset(error=Errors.UNSTABLE_OFFSET_COMMIT)
            else:
                offsets[partition] = self._show_offset(request, partition, committed.get(partition))
        return Result(messages.OffsetFetchResult(Errors.NONE, offsets))

    def _show_offset(
        self, request: messages.OffsetFetchRequest, partition: TopicPartition, offset: OffsetAndMetadata | None
    ) -> messages.FetchedOffset:
        """No offset is -1 without an error, and so is one that was committed for another topic of the name, if the
        request names topics by id.
        """
        topic_id = None if offset is None or self.settings.is_before(4, 0) else offset.topic_id
        names_by_id = request.by_topic_id and request.partitions is not None
        is_of_other_topic = names_by_id and topic_id not in (None, self.validator.topic_ids.get(partition.topic))
        if offset is None or is_of_other_topic:
            return messages.FetchedOffset()
        return messages.FetchedOffset(offset.offset, offset.metadata, offset.leader_epoch)

    def offset_fetch_from_zookeeper(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> messages.OffsetFetchResult:
        """Return offsets that were committed with version 0 of OffsetCommit.

        The error is UNKNOWN_TOPIC_OR_PARTITION for a partition that does not exist or has no offset. Source:
        KafkaApis.handleOffsetFetchRequestFromZookeeper.
        """
        if not self.validator.authorize("DESCRIBE", "GROUP", group_id):
            return messages.OffsetFetchResult(Errors.GROUP_AUTHORIZATION_FAILED)
        offsets = {partition: self._fetch_offset_from_zookeeper(group_id, partition) for partition in partitions}
        return messages.OffsetFetchResult(Errors.NONE, offsets)

    def _fetch_offset_from_zookeeper(self, group_id: str, partition: TopicPartition) -> messages.FetchedOffset:
        if not self.settings.zookeeper:
            return messages.FetchedOffset(error=Errors.UNSUPPORTED_VERSION)
        if not self.validator.authorize("DESCRIBE", "TOPIC", partition.topic):
            return messages.FetchedOffset(error=Errors.TOPIC_AUTHORIZATION_FAILED)
        topics = self.validator.topics
        topic_exists = topics is None or partition.topic in topics
        offset = self.validator.zookeeper.get((group_id, *partition))
        if offset is None or not topic_exists:
            return messages.FetchedOffset(error=Errors.UNKNOWN_TOPIC_OR_PARTITION)
        return messages.FetchedOffset(offset)


def _refuse_fetch(error: Errors, message: str | None) -> messages.OffsetFetchResult:
    """Consumers before 3.9 do not repeat a fetch after COORDINATOR_NOT_AVAILABLE, so they get another error.

    Source: GroupCoordinatorService.handleOffsetFetchException (4.3.1).
    """
    return messages.OffsetFetchResult(Errors.NOT_COORDINATOR if error is Errors.COORDINATOR_NOT_AVAILABLE else error)
