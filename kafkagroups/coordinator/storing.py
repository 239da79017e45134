"""OffsetCommit and TxnOffsetCommit: checks and storing; and the end of a transaction.

The checks are: may the client commit, do the topics exist, is the client a member of the group? Then the manager
(manager.py) stores the offsets in the log and the cache. Version 0 of OffsetCommit stores them only in ZooKeeper.
Source: KafkaApis.handleOffsetCommitRequest, handleTxnOffsetCommitRequest (3.9; tags 2.8.2 and 1.0.1);
GroupCoordinator.handleCommitOffsets, handleTxnCommitOffsets (3.9; tags 2.8.2 and 1.0.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping

from kafkagroups.coordinator.consumer_coordinator import ModernRequests
from kafkagroups.coordinator.error_codes import Errors, convert_commit_append_error
from kafkagroups.coordinator.member_validation import MemberValidator
from kafkagroups.coordinator.request_validation import RequestValidator
from kafkagroups.coordinator.response_future import ResponseFuture
from kafkagroups.coordinator.results import CommitErrors, OffsetCommit
from kafkagroups.coordinator.sessions import Sessions
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.group_offsets import NOT_APPENDED
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.states import ClassicState
from kafkagroups.log.frames import to_int64
from kafkagroups.records.text import utf16_length

TransactionVerifier = Callable[[str, int, int, int], Errors]
"""A function that returns NONE if a transaction includes a partition of the offsets topic, otherwise an error.

The arguments are the transactional id, the producer id, the producer epoch, and the partition of the offsets topic.
"""

ZooKeeperOffsets = MutableMapping[tuple[str, str, int], int]
"""The offsets that OffsetCommit requests of version 0 have stored. The keys are (group id, topic, partition)."""

_PARTITION_ERRORS = (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR)
"""The errors of a group whose partition is not ready on this broker."""

_Commits = dict[TopicPartition, OffsetCommit]


def verify_all(transactional_id: str, producer_id: int, producer_epoch: int, partition: int) -> Errors:
    """Return NONE for every call, as if every transaction included every partition."""
    return Errors.NONE


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

    def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        generation: int,
        member_id: str,
        group_instance_id: str | None,
        retention_ms: int,
        supports_group_not_found: bool,
    ) -> ResponseFuture[CommitErrors]:
        """Store a commit that is not in a transaction.

        If the group does not exist and the generation is below 0, the group is created. `retention_ms` is how long the
        offsets are kept, in ms; -1 means the broker's setting. `supports_group_not_found` says whether the client
        supports the error GROUP_ID_NOT_FOUND.
        """

        def store(accepted_offsets: _Commits, response: ResponseFuture[CommitErrors]) -> None:
            error = self.validator.check_group(group_id, "OFFSET_COMMIT")
            group = self.manager.get_group(group_id)
            modern_group = self.manager.find_modern_group(group_id) if error is Errors.NONE else None
            if error is Errors.NONE and group is None and modern_group is None and generation < 0:
                group = self.manager.get_or_create(group_id)
            if error is Errors.NONE and modern_group is not None:
                error = self._validate_modern(
                    modern_group, generation, member_id, accepted_offsets, supports_epochs=supports_group_not_found
                )
            elif error is Errors.NONE and group is None:
                knows_group_errors = supports_group_not_found and self.settings.is_at_least(4, 0)
                error = Errors.GROUP_ID_NOT_FOUND if knows_group_errors else Errors.ILLEGAL_GENERATION
            elif error is Errors.NONE and group is not None:
                error = self.member_validator.validate_commit(group, generation, member_id, group_instance_id)
            stored_group = group or modern_group
            if error is not Errors.NONE or stored_group is None:
                response.complete(dict.fromkeys(accepted_offsets, error))
                return
            if group is not None and group.state is not ClassicState.EMPTY:
                self.sessions.restart(group, group.members[member_id])
            stored_offsets = {
                partition: self._build_stored_offset(partition, offset, retention_ms)
                for partition, offset in accepted_offsets.items()
            }
            self.manager.store_offsets(stored_group, stored_offsets, response.complete)

        return self._store_accepted(group_id, offsets, store)

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

    def commit_in_transaction(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        generation: int,
        member_id: str,
        group_instance_id: str | None,
        supports_abortable_error: bool,
        supports_stale_epoch: bool = False,
    ) -> ResponseFuture[CommitErrors]:
        """Store a commit in a transaction. The commit is pending until the transaction's marker is written.

        If the group does not exist, it is created before the transaction and the member are checked. Since 4.0 the
        transaction is checked first, and a commit with a generation creates no group. `supports_abortable_error` says
        whether the client supports the error TRANSACTION_ABORTABLE.
        """
        is_verified_first = self.settings.is_at_least(4, 0)

        def store(accepted_offsets: _Commits, response: ResponseFuture[CommitErrors]) -> None:
            error = self.validator.check_group(group_id, "TXN_OFFSET_COMMIT")
            group: ClassicGroup | None = None
            if error is Errors.NONE and not is_verified_first:
                group = self.manager.get_or_create(group_id)
            may_verify = error is Errors.NONE or (is_verified_first and error in _PARTITION_ERRORS)
            if may_verify:
                log_partition = self.manager.partition_for(group_id)
                error = (
                    self._verify(
                        transactional_id,
                        producer_id,
                        producer_epoch,
                        log_partition,
                        supports_abortable_error=supports_abortable_error,
                    )
                    or error
                )
            modern_group = self.manager.find_modern_group(group_id) if error is Errors.NONE else None
            if error is Errors.NONE and modern_group is not None:
                error = self._validate_modern(modern_group, generation, member_id, accepted_offsets)
                if error is Errors.STALE_MEMBER_EPOCH and not supports_stale_epoch:
                    error = Errors.ILLEGAL_GENERATION
            elif error is Errors.NONE and is_verified_first:
                group = self.manager.get_group(group_id)
                if group is None and generation >= 0:
                    error = Errors.ILLEGAL_GENERATION
                elif group is None:
                    group = self.manager.get_or_create(group_id)
            if error is Errors.NONE and group is not None:
                error = self.member_validator.validate_txn_commit(
                    group, generation, member_id, group_instance_id, producer_id
                )
            stored_group = group or modern_group
            if error is not Errors.NONE or stored_group is None:
                response.complete(dict.fromkeys(accepted_offsets, error))
                return
            pending_offsets = {
                partition: self._build_pending_offset(partition, offset)
                for partition, offset in accepted_offsets.items()
            }
            self.manager.store_offsets(stored_group, pending_offsets, response.complete, producer_id, producer_epoch)

        if not self.validator.authorize("WRITE", "TRANSACTIONAL_ID", transactional_id):
            denied_response: ResponseFuture[CommitErrors] = ResponseFuture()
            denied_response.complete(dict.fromkeys(offsets, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            return denied_response
        return self._store_accepted(group_id, offsets, store)

    def _validate_modern(
        self,
        group: ModernGroup,
        epoch: int,
        member_id: str,
        offsets: _Commits,
        *,
        supports_epochs: bool | None = None,
    ) -> Errors:
        """Check a commit to a group of a new type. `supports_epochs` is None if the commit is transactional."""
        assert self.modern is not None
        limit = self.settings.offset_metadata_max_bytes
        partitions = [each for each, offset in offsets.items() if utf16_length(offset.metadata or "") <= limit]
        return self.modern.validate_commit(
            group,
            epoch,
            member_id,
            partitions,
            is_transactional=supports_epochs is None,
            supports_epochs=bool(supports_epochs),
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

    def _verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: int,
        *,
        supports_abortable_error: bool,
    ) -> Errors:
        """Ask the transaction coordinator whether the transaction includes the partition (since Kafka 3.7).

        Before 3.8, or if the client does not support TRANSACTION_ABORTABLE, the client gets INVALID_TXN_STATE instead.
        """
        if self.settings.is_before(3, 7):
            return Errors.NONE
        error = self.verify(transactional_id, producer_id, producer_epoch, partition)
        can_send_abortable_error = supports_abortable_error and self.settings.is_at_least(3, 8)
        if error is Errors.TRANSACTION_ABORTABLE and not can_send_abortable_error:
            error = Errors.INVALID_TXN_STATE
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
