"""Storing: OffsetCommit, plain and in a transaction, and the transaction's end.

A commit is checked (may the client, do the topics exist, is the member right), then stored by the manager: prepared,
appended, put into the cache. Version 0 of the request knows no topic of offsets: it goes to ZooKeeper.
Source: KafkaApis.handleOffsetCommitRequest, handleTxnOffsetCommitRequest, GroupCoordinator.handleCommitOffsets,
handleTxnCommitOffsets (3.9; tags 2.8.2 and 1.0.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping

from kafkagroups.coordinator.error_codes import Errors, error_of_commit_append
from kafkagroups.coordinator.membership import Membership
from kafkagroups.coordinator.results import Answer, CommitErrors, OffsetCommit
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.states import ClassicState
from kafkagroups.records.text import utf16_length

Verifier = Callable[[str, int, int, int], Errors]
"""Whether a transaction (its id, producer id and epoch) takes part in a partition of the offsets topic."""


def verified(transactional_id: str, producer_id: int, producer_epoch: int, partition: int) -> Errors:
    return Errors.NONE


class Storing(Membership):
    """`verify` asks the transaction coordinator (since 3.6); `zookeeper` is by group, topic and partition."""

    verify: Verifier
    zookeeper: MutableMapping[tuple[str, str, int], int]

    def offset_commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        generation: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_ms: int = -1,
    ) -> Answer[CommitErrors]:
        """Commits offsets: of a member with its generation, or of anybody (generation below 0) in an Empty group.

        ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS for all partitions;
        UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, OFFSET_METADATA_TOO_LARGE for one; errors of the append
        as GroupMetadataManager.store_offsets says. Source: KafkaApis.handleOffsetCommitRequest, handleCommitOffsets.
        """
        now = self.clock.now_ms

        def stored(offset: OffsetCommit) -> OffsetAndMetadata:
            if self.settings.since(2, 1):
                expire = None if retention_ms == -1 else now + retention_ms
                return _staged(offset, now if offset.timestamp == -1 else offset.timestamp, expire)
            retention = self.settings.offsets_retention_ms if retention_ms == -1 else retention_ms
            return _staged(offset, now, retention + (now if offset.timestamp == -1 else offset.timestamp))

        def commit(known: dict[TopicPartition, OffsetCommit], answer: Answer[CommitErrors]) -> None:
            error = self._status(group_id, "OFFSET_COMMIT")
            group = self.manager.get_group(group_id)
            if error is Errors.NONE and group is None and generation < 0:
                group = self.manager.get_or_create(group_id)
            if error is Errors.NONE:
                error = Errors.ILLEGAL_GENERATION if group is None else self.validate_commit(
                    group, generation, member_id, group_instance_id
                )  # fmt: skip
            if error or group is None:
                answer.complete(dict.fromkeys(known, error))
                return
            if group.state is not ClassicState.EMPTY:
                self.rebalances.expect_heartbeat(group, group.members[member_id])
            offsets_to_store = {each: stored(offset) for each, offset in known.items()}
            self.manager.store_offsets(group, offsets_to_store, answer.complete)

        return self._committed(group_id, offsets, commit)

    def offset_commit_to_zookeeper(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetCommit]
    ) -> Answer[CommitErrors]:
        """OffsetCommit v0: the offset alone goes to ZooKeeper, no record. UNSUPPORTED_VERSION where there is none."""

        def commit(known: dict[TopicPartition, OffsetCommit], answer: Answer[CommitErrors]) -> None:
            errors = {}
            for each, offset in known.items():
                fits = utf16_length(offset.metadata or "") <= self.settings.offset_metadata_max_bytes
                errors[each] = Errors.NONE if fits else Errors.OFFSET_METADATA_TOO_LARGE
                if not self.settings.zookeeper:
                    errors[each] = Errors.UNSUPPORTED_VERSION
                elif fits:
                    self.zookeeper[group_id, each.topic, each.partition] = offset.offset
            answer.complete(errors)

        return self._committed(group_id, offsets, commit)

    def txn_offset_commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        generation: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        knows_abortable: bool = True,
    ) -> Answer[CommitErrors]:
        """Commits offsets in a producer's transaction: they wait for its marker.

        As offset_commit, but without a member it is always taken, and the transaction must be known and open
        (INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, TRANSACTION_ABORTABLE or, to a client that does not know
        that (request below v4), INVALID_TXN_STATE; since 3.6). By then the group has been made. Source:
        handleTxnCommitOffsets.
        """
        now = self.clock.now_ms

        def commit(known: dict[TopicPartition, OffsetCommit], answer: Answer[CommitErrors]) -> None:
            error = self._status(group_id, "TXN_OFFSET_COMMIT")
            if error is Errors.NONE:
                group = self.manager.get_or_create(group_id)
                if self.settings.since(3, 6):
                    partition = self.manager.partition_for(group_id)
                    error = self.verify(transactional_id, producer_id, producer_epoch, partition)
                    if error is Errors.TRANSACTION_ABORTABLE and not (knows_abortable and self.settings.since(3, 8)):
                        error = Errors.INVALID_TXN_STATE
                    error = error_of_commit_append(error, verifies=True)
                error = error or self.validate_txn_commit(group, generation, member_id, group_instance_id, producer_id)
                if error is Errors.NONE:
                    default = None if self.settings.since(2, 1) else now + self.settings.offsets_retention_ms
                    staged = {each: _staged(offset, now, default) for each, offset in known.items()}
                    self.manager.store_offsets(group, staged, answer.complete, producer_id, producer_epoch)
                    return
            answer.complete(dict.fromkeys(known, error))

        if not self.authorize("WRITE", "TRANSACTIONAL_ID", transactional_id):
            denied: Answer[CommitErrors] = Answer()
            denied.complete(dict.fromkeys(offsets, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            return denied
        return self._committed(group_id, offsets, commit)

    def transaction_completed(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """The producer's marker is in these partitions of the offsets topic. Source: handleTxnCompletion."""
        self.manager.complete_transaction(producer_id, partitions, commits=commits)

    def _committed(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        commit: Callable[[dict[TopicPartition, OffsetCommit], Answer[CommitErrors]], None],
    ) -> Answer[CommitErrors]:
        """Commits what the client may commit and what exists; the rest is answered with its error."""
        whole: Answer[CommitErrors] = Answer()
        if not self.authorize("READ", "GROUP", group_id):
            whole.complete(dict.fromkeys(offsets, Errors.GROUP_AUTHORIZATION_FAILED))
            return whole
        refused = self._refused_partitions(offsets)
        known = {each: offset for each, offset in offsets.items() if each not in refused}
        some: Answer[CommitErrors] = Answer()
        some.then(lambda errors: whole.complete({each: {**errors, **refused}[each] for each in offsets}))
        if known:
            commit(known, some)
        else:
            some.complete({})
        return whole


def _staged(offset: OffsetCommit, commit_timestamp: int, expire_timestamp: int | None) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset.offset, offset.metadata or "", commit_timestamp, offset.leader_epoch, expire_timestamp, None, -1, -1
    )
