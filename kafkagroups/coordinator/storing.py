"""OffsetCommit and TxnOffsetCommit: checks and storing; and the end of a transaction.

The checks are: may the client commit, do the topics exist, is the client a member of the group? Then the manager
(manager.py) stores the offsets in the log and the cache. Version 0 of OffsetCommit stores them only in ZooKeeper.
Source: KafkaApis.handleOffsetCommitRequest, handleTxnOffsetCommitRequest (3.9; tags 2.8.2 and 1.0.1);
GroupCoordinator.handleCommitOffsets, handleTxnCommitOffsets (3.9; tags 2.8.2 and 1.0.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafkagroups.coordinator.consumer_coordinator import ModernRequests
from kafkagroups.coordinator.error_codes import Errors, convert_commit_append_error, convert_event_error
from kafkagroups.coordinator.group_store import Sessions
from kafkagroups.coordinator.messages import (
    CommitErrors,
    OffsetCommit,
    OffsetCommitRequest,
    ResponseFuture,
    TxnOffsetCommitRequest,
)
from kafkagroups.coordinator.request_validation import (
    MemberValidator,
    RequestValidator,
    TransactionVerifier,
    ZooKeeperOffsets,
)
from kafkagroups.groups.classic_group import NOT_APPENDED, ClassicGroup
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_shard import LivingGroup
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.log.batch_frames import to_int64
from kafkagroups.records.wire import utf16_length

_Commits = dict[TopicPartition, OffsetCommit]


class CommitRequests:
    """The commits of all groups.

    `verify` replaces the transaction coordinator. It is called only with the rules of Kafka 3.7 and later.
    """

    def __init__(
        self,
        validator: RequestValidator,
        member_validator: MemberValidator,
        sessions: Sessions,
        verify: TransactionVerifier,
        zookeeper: ZooKeeperOffsets,
        modern: ModernRequests | None = None,
    ) -> None:
        self.modern = modern
        self.validator = validator
        self.member_validator = member_validator
        self.sessions = sessions
        self.verify = verify
        self.zookeeper = zookeeper
        self.manager = validator.manager
        self.settings = validator.settings
        self.clock = validator.manager.clock

    def commit(self, request: OffsetCommitRequest) -> ResponseFuture[CommitErrors]:
        """Store a commit that is not in a transaction.

        If the group does not exist and the generation is below 0, the group is created.
        """

        def store(accepted_offsets: _Commits, response: ResponseFuture[CommitErrors]) -> None:
            error = self.validator.check_group(request.group_id, "OFFSET_COMMIT")
            if error is Errors.NONE and self.modern is not None:
                modern_group = self.manager.find_modern_group(request.group_id)
                if modern_group is not None:
                    self._store_modern(modern_group, request, accepted_offsets, response)
                    return
            group = self.manager.get_group(request.group_id)
            if error is Errors.NONE and group is None and request.generation < 0:
                group = self.manager.get_or_create(request.group_id)
            if error is Errors.NONE and group is None:
                knows_group_errors = request.supports_group_not_found and self.settings.is_at_least(4, 0)
                error = Errors.GROUP_ID_NOT_FOUND if knows_group_errors else Errors.ILLEGAL_GENERATION
            elif error is Errors.NONE and group is not None:
                error = self.member_validator.validate_commit(
                    group, request.generation, request.member_id, request.group_instance_id
                )
            if error is not Errors.NONE or group is None:
                response.complete(dict.fromkeys(accepted_offsets, error))
                return
            if group.state is not ClassicState.EMPTY:
                self.sessions.restart(group, group.members[request.member_id])
            stored_offsets = {
                partition: self._build_stored_offset(partition, offset, request.retention_ms)
                for partition, offset in accepted_offsets.items()
            }
            self.manager.store_offsets(group, stored_offsets, response.complete)

        return self._store_accepted(request.group_id, request.offsets, store)

    def commit_to_zookeeper(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetCommit]
    ) -> ResponseFuture[CommitErrors]:
        """Store a commit of version 0 in ZooKeeper. Only the offset is stored, and no record is written."""

        def store(accepted_offsets: _Commits, response: ResponseFuture[CommitErrors]) -> None:
            response.complete(
                {
                    partition: self._store_in_zookeeper(group_id, partition, offset)
                    for partition, offset in accepted_offsets.items()
                }
            )

        return self._store_accepted(group_id, offsets, store)

    def _store_modern(
        self,
        group: ModernGroup,
        request: OffsetCommitRequest,
        offsets: _Commits,
        response: ResponseFuture[CommitErrors],
    ) -> None:
        """Store a commit to a consumer or streams group."""
        assert self.modern is not None
        error = self.modern.validate_commit(group, request, offsets)
        if error is not Errors.NONE:
            response.complete(dict.fromkeys(offsets, error))
            return
        stored_offsets = {
            partition: self._build_stored_offset(partition, offset, request.retention_ms)
            for partition, offset in offsets.items()
        }
        self.manager.store_offsets(group, stored_offsets, response.complete)

    def commit_in_transaction(self, request: TxnOffsetCommitRequest) -> ResponseFuture[CommitErrors]:
        """Store a commit in a transaction. The commit is pending until the transaction's marker is written."""

        def store(accepted_offsets: _Commits, response: ResponseFuture[CommitErrors]) -> None:
            group = self._find_group_in_transaction(request)
            if isinstance(group, Errors):
                error = group
            elif isinstance(group, ModernGroup):
                assert self.modern is not None
                error = self.modern.validate_commit(group, request, accepted_offsets)
            else:
                error = self._validate_txn_member(group, request)
            if error is not Errors.NONE or isinstance(group, Errors):
                response.complete(dict.fromkeys(accepted_offsets, error))
                return
            pending_offsets = {
                partition: self._build_pending_offset(partition, offset)
                for partition, offset in accepted_offsets.items()
            }
            self.manager.store_offsets(
                group, pending_offsets, response.complete, request.producer_id, request.producer_epoch
            )

        if not self.validator.authorize("WRITE", "TRANSACTIONAL_ID", request.transactional_id):
            denied_response: ResponseFuture[CommitErrors] = ResponseFuture()
            denied_response.complete(dict.fromkeys(request.offsets, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            return denied_response
        return self._store_accepted(request.group_id, request.offsets, store)

    def _find_group_in_transaction(self, request: TxnOffsetCommitRequest) -> LivingGroup | Errors:
        """Return the group of a transactional commit, or the error that refuses the commit.

        Up to 3.9, a group that does not exist is created before the transaction is checked. Since 4.0 the transaction
        is checked first, even before the state of the group's partition, and a commit with a generation creates no
        group.
        """
        group_id = request.group_id
        error = self.validator.check_group(group_id, "TXN_OFFSET_COMMIT")
        if self.settings.is_before(4, 0):
            if error is not Errors.NONE:
                return error
            group = self.manager.get_or_create(group_id)
            return self._verify(request) or group
        if error in (Errors.NONE, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR):
            error = self._verify(request) or error
        modern_group = self.manager.find_modern_group(group_id) if error is Errors.NONE else None
        if modern_group is not None:
            return modern_group
        if error is Errors.NONE and request.generation >= 0 and self.manager.get_group(group_id) is None:
            error = Errors.ILLEGAL_GENERATION
        return error or self.manager.get_or_create(group_id)

    def _validate_txn_member(self, group: ClassicGroup, request: TxnOffsetCommitRequest) -> Errors:
        return self.member_validator.validate_txn_commit(
            group, request.generation, request.member_id, request.group_instance_id, request.producer_id
        )

    def complete_transaction(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """Commit or abort the offsets in the producer's open transaction.

        `partitions` are the partitions of the offsets topic that contain the transaction's marker. `commits` says
        whether the marker commits or aborts the transaction.
        """
        self.manager.complete_transaction(producer_id, partitions, commits=commits)

    def _store_accepted(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        store: Callable[[_Commits, ResponseFuture[CommitErrors]], None],
    ) -> ResponseFuture[CommitErrors]:
        """Call `store` with the offsets of the accepted partitions. The response has an error for every partition.

        A partition is accepted if it exists and the client may read its topic.
        """
        response: ResponseFuture[CommitErrors] = ResponseFuture()
        if not self.validator.authorize("READ", "GROUP", group_id):
            response.complete(dict.fromkeys(offsets, Errors.GROUP_AUTHORIZATION_FAILED))
            return response
        refused_partitions = self.validator.find_refused_partitions(offsets)
        accepted_offsets = {
            partition: offset for partition, offset in offsets.items() if partition not in refused_partitions
        }

        def answer_all_partitions(errors: CommitErrors) -> None:
            all_errors = {**errors, **refused_partitions}
            response.complete({partition: all_errors[partition] for partition in offsets})

        accepted_response: ResponseFuture[CommitErrors] = ResponseFuture()
        accepted_response.then(answer_all_partitions)
        if accepted_offsets:
            store(accepted_offsets, accepted_response)
        else:
            accepted_response.complete({})
        return response

    def _store_in_zookeeper(self, group_id: str, partition: TopicPartition, offset: OffsetCommit) -> Errors:
        if not self.settings.zookeeper:
            return Errors.UNSUPPORTED_VERSION
        if utf16_length(offset.metadata or "") > self.settings.offset_metadata_max_bytes:
            return Errors.OFFSET_METADATA_TOO_LARGE
        self.zookeeper[group_id, partition.topic, partition.partition] = offset.offset
        return Errors.NONE

    def _verify(self, request: TxnOffsetCommitRequest) -> Errors:
        """Ask the transaction coordinator whether the transaction includes the group's partition (since Kafka 3.7).

        Before 3.8, or if the client does not support TRANSACTION_ABORTABLE, the client gets INVALID_TXN_STATE instead.
        """
        if self.settings.is_before(3, 7):
            return Errors.NONE
        partition = self.manager.partition_for(request.group_id)
        error = self.verify(request.transactional_id, request.producer_id, request.producer_epoch, partition)
        can_send_abortable_error = request.supports_abortable_error and self.settings.is_at_least(3, 8)
        if error is Errors.TRANSACTION_ABORTABLE and not can_send_abortable_error:
            error = Errors.INVALID_TXN_STATE
        if self.settings.is_at_least(4, 0):
            return convert_event_error(error)
        return convert_commit_append_error(error, verifies_transactions=True)

    def _build_stored_offset(
        self, partition: TopicPartition, offset: OffsetCommit, retention_ms: int
    ) -> OffsetAndMetadata:
        """Return the offset that a commit stores.

        `retention_ms` is the retention time that the client sent, in ms; -1 means that the client sent none.

        - Since 2.1: expire timestamp = now + client's retention time; None if the client sent no retention time.
        - Before 2.1: expire timestamp = (client's timestamp or now) + (client's or broker's retention time).

        A sum beyond 64 bits wraps around, as in Java.
        """
        now_ms = self.clock.now_ms
        timestamp_ms = now_ms if offset.timestamp == -1 else offset.timestamp
        if self.settings.is_at_least(2, 1):
            expire_timestamp = None if retention_ms == -1 else to_int64(now_ms + retention_ms)
            topic_id = self.validator.topic_ids.get(partition.topic) if self.settings.is_at_least(4, 1) else None
            return _build_offset(offset, timestamp_ms, expire_timestamp, topic_id)
        kept_ms = self.settings.offsets_retention_ms if retention_ms == -1 else retention_ms
        return _build_offset(offset, now_ms, to_int64(timestamp_ms + kept_ms))

    def _build_pending_offset(self, partition: TopicPartition, offset: OffsetCommit) -> OffsetAndMetadata:
        """Return the offset that a commit in a transaction stores.

        Since 2.1, the offset has no expire timestamp. It has the topic's id since 4.4; a plain commit since 4.1.
        """
        now_ms = self.clock.now_ms
        expire_timestamp = None if self.settings.is_at_least(2, 1) else now_ms + self.settings.offsets_retention_ms
        topic_id = self.validator.topic_ids.get(partition.topic) if self.settings.is_at_least(4, 4) else None
        return _build_offset(offset, now_ms, expire_timestamp, topic_id)


def _build_offset(
    offset: OffsetCommit, commit_timestamp: int, expire_timestamp: int | None, topic_id: str | None = None
) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset.offset,
        offset.metadata or "",
        commit_timestamp,
        offset.leader_epoch,
        expire_timestamp,
        topic_id=topic_id,
        record_offset=NOT_APPENDED,
        batch_offset=NOT_APPENDED,
    )
