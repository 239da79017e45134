"""OffsetCommit and TxnOffsetCommit, checked and stored; and the end of a transaction.

The checks are: may the client commit, do the topics exist, is the member right. Then the manager prepares the commit,
appends it, and puts it into the cache. Version 0 of OffsetCommit stores offsets in ZooKeeper.
Source: KafkaApis.handleOffsetCommitRequest, handleTxnOffsetCommitRequest, GroupCoordinator.handleCommitOffsets,
handleTxnCommitOffsets (3.9; tags 2.8.2 and 1.0.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping

from kafkagroups.coordinator.error_codes import Errors, convert_commit_append_error
from kafkagroups.coordinator.member_validation import MemberValidator
from kafkagroups.coordinator.request_validation import RequestValidator
from kafkagroups.coordinator.response_future import ResponseFuture
from kafkagroups.coordinator.results import CommitErrors, OffsetCommit
from kafkagroups.coordinator.sessions import Sessions
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.states import ClassicState
from kafkagroups.records.text import utf16_length

TransactionVerifier = Callable[[str, int, int, int], Errors]
"""Asks whether a transaction (its id, producer id and epoch) includes a partition of the offsets topic."""

ZooKeeperOffsets = MutableMapping[tuple[str, str, int], int]
"""Offsets of version 0 requests, by group, topic and partition."""

_Commits = dict[TopicPartition, OffsetCommit]


def verify_all(transactional_id: str, producer_id: int, producer_epoch: int, partition: int) -> Errors:
    """Return NONE: every transaction includes every partition."""
    return Errors.NONE


class CommitRequests:
    """The commits of all groups. `verify` asks the transaction coordinator, which happens since Kafka 3.6."""

    def __init__(
        self,
        validator: RequestValidator,
        member_validator: MemberValidator,
        sessions: Sessions,
        verify: TransactionVerifier,
        zookeeper: ZooKeeperOffsets,
    ) -> None:
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
    ) -> ResponseFuture[CommitErrors]:
        """Store a plain commit. A commit without a generation creates the group if it does not exist."""

        def store(accepted: _Commits, response: ResponseFuture[CommitErrors]) -> None:
            error = self.validator.check_group(group_id, "OFFSET_COMMIT")
            group = self.manager.get_group(group_id)
            if error is Errors.NONE and group is None and generation < 0:
                group = self.manager.get_or_create(group_id)
            if error is Errors.NONE:
                error = Errors.ILLEGAL_GENERATION
                if group is not None:
                    error = self.member_validator.validate_commit(group, generation, member_id, group_instance_id)
            if error is not Errors.NONE or group is None:
                response.complete(dict.fromkeys(accepted, error))
                return
            if group.state is not ClassicState.EMPTY:
                self.sessions.restart(group, group.members[member_id])
            staged = {partition: self._stage(offset, retention_ms) for partition, offset in accepted.items()}
            self.manager.store_offsets(group, staged, response.complete)

        return self._store_accepted(group_id, offsets, store)

    def commit_to_zookeeper(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetCommit]
    ) -> ResponseFuture[CommitErrors]:
        """Store a commit of version 0: only the offset, and no record."""

        def store(accepted: _Commits, response: ResponseFuture[CommitErrors]) -> None:
            response.complete(
                {each: self._store_in_zookeeper(group_id, each, offset) for each, offset in accepted.items()}
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
        knows_abortable: bool,
    ) -> ResponseFuture[CommitErrors]:
        """Store a commit that waits for its producer's marker. It creates the group before the other checks."""

        def store(accepted: _Commits, response: ResponseFuture[CommitErrors]) -> None:
            error = self.validator.check_group(group_id, "TXN_OFFSET_COMMIT")
            if error is not Errors.NONE:
                response.complete(dict.fromkeys(accepted, error))
                return
            group = self.manager.get_or_create(group_id)
            partition = self.manager.partition_for(group_id)
            error = self._verify(
                transactional_id, producer_id, producer_epoch, partition, knows_abortable=knows_abortable
            ) or self.member_validator.validate_txn_commit(group, generation, member_id, group_instance_id, producer_id)
            if error is not Errors.NONE:
                response.complete(dict.fromkeys(accepted, error))
                return
            staged = {each: self._stage_in_transaction(offset) for each, offset in accepted.items()}
            self.manager.store_offsets(group, staged, response.complete, producer_id, producer_epoch)

        if not self.validator.authorize("WRITE", "TRANSACTIONAL_ID", transactional_id):
            denied: ResponseFuture[CommitErrors] = ResponseFuture()
            denied.complete(dict.fromkeys(offsets, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            return denied
        return self._store_accepted(group_id, offsets, store)

    def complete_transaction(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """Commit or abort what waits for the producer's marker."""
        self.manager.complete_transaction(producer_id, partitions, commits=commits)

    def _store_accepted(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        store: Callable[[_Commits, ResponseFuture[CommitErrors]], None],
    ) -> ResponseFuture[CommitErrors]:
        """Store the partitions that exist and that the client may read. The others get their error."""
        response: ResponseFuture[CommitErrors] = ResponseFuture()
        if not self.validator.authorize("READ", "GROUP", group_id):
            response.complete(dict.fromkeys(offsets, Errors.GROUP_AUTHORIZATION_FAILED))
            return response
        refused = self.validator.find_refused_partitions(offsets)
        accepted = {partition: offset for partition, offset in offsets.items() if partition not in refused}

        def add_refused(errors: CommitErrors) -> None:
            all_errors = {**errors, **refused}
            response.complete({partition: all_errors[partition] for partition in offsets})

        accepted_response: ResponseFuture[CommitErrors] = ResponseFuture()
        accepted_response.then(add_refused)
        if accepted:
            store(accepted, accepted_response)
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
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: int, *, knows_abortable: bool
    ) -> Errors:
        """Ask the transaction coordinator, since 3.6. A client that does not know TRANSACTION_ABORTABLE gets 48."""
        if self.settings.is_before(3, 6):
            return Errors.NONE
        error = self.verify(transactional_id, producer_id, producer_epoch, partition)
        if error is Errors.TRANSACTION_ABORTABLE and not (knows_abortable and self.settings.is_at_least(3, 8)):
            error = Errors.INVALID_TXN_STATE
        return convert_commit_append_error(error, verifies_transactions=True)

    def _stage(self, offset: OffsetCommit, retention_ms: int) -> OffsetAndMetadata:
        """Return what a plain commit stores. Since 2.1 only an explicit retention gives an expire timestamp."""
        now = self.clock.now_ms
        sent_at = now if offset.timestamp == -1 else offset.timestamp
        if self.settings.is_at_least(2, 1):
            expire_timestamp = None if retention_ms == -1 else now + retention_ms
            return _build_offset(offset, sent_at, expire_timestamp)
        retention = self.settings.offsets_retention_ms if retention_ms == -1 else retention_ms
        return _build_offset(offset, now, sent_at + retention)

    def _stage_in_transaction(self, offset: OffsetCommit) -> OffsetAndMetadata:
        now = self.clock.now_ms
        expire_timestamp = None if self.settings.is_at_least(2, 1) else now + self.settings.offsets_retention_ms
        return _build_offset(offset, now, expire_timestamp)


def _build_offset(offset: OffsetCommit, commit_timestamp: int, expire_timestamp: int | None) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset.offset,
        offset.metadata or "",
        commit_timestamp,
        offset.leader_epoch,
        expire_timestamp,
        None,
        -1,
        -1,
    )
