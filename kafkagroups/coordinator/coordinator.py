"""The classic group coordinator: one method for each client request.

`GroupCoordinator` only composes and delegates. Each kind of request has its own module: joining, membership, storing,
fetching, deleting. They share one manager (the cache and its log) and the checks of request_validation and
member_validation.
Source: GroupCoordinator.scala, KafkaApis.scala, GroupCoordinatorAdapter.scala (3.9; tags 2.8.2 and 1.0.1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.deleting import DeleteRequests
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.fetching import FetchRequests
from kafkagroups.coordinator.joining import JoinRequests
from kafkagroups.coordinator.logs import OffsetsLogs
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.member_responses import answer_join, answer_sync
from kafkagroups.coordinator.member_validation import MemberValidator
from kafkagroups.coordinator.membership import MemberRequests
from kafkagroups.coordinator.rebalance import Rebalances
from kafkagroups.coordinator.request_validation import Authorizer, RequestValidator, allow_all
from kafkagroups.coordinator.response_future import ResponseFuture
from kafkagroups.coordinator.results import (
    CommitErrors,
    DescribedGroup,
    JoinGroupResult,
    LeaveGroupResult,
    ListedGroup,
    MemberIdentity,
    OffsetCommit,
    OffsetDeleteResult,
    OffsetFetchResult,
    SyncGroupResult,
)
from kafkagroups.coordinator.settings import Settings
from kafkagroups.coordinator.storing import CommitRequests, TransactionVerifier, ZooKeeperOffsets, verify_all
from kafkagroups.groups.classic_group import CONSUMER, ClassicGroup
from kafkagroups.groups.classic_member import ClassicMember
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.groups.states import ClassicState

logger = logging.getLogger("kafkagroups.coordinator")


class GroupCoordinator:
    """One broker's classic group coordinator. Call `elect` for its partitions first, or use `start_broker`.

    Parameters
    ----------
    logs
        The partitions of the offsets topic.
    clock
        The time. Advance it to let timers run.
    settings
        The broker's settings; `settings.kafka` chooses the rules of 1.0.1, 2.8.2 or 3.9.2.
    new_member_id
        Makes the id of a new member from its client id, or from its instance id if it is static.
    topics
        The partition counts of the topics that exist. None: every topic exists.
    authorize
        Returns whether the client may do an operation on a resource, given operation, kind and name.
    verify
        Asks the transaction coordinator whether a transaction includes a partition (since 3.6).
    zookeeper
        The offsets of version 0 requests, by group, topic and partition.
    """

    def __init__(
        self,
        logs: OffsetsLogs,
        clock: Clock,
        settings: Settings | None = None,
        *,
        new_member_id: Callable[[str], str],
        topics: Mapping[str, int] | None = None,
        authorize: Authorizer = allow_all,
        verify: TransactionVerifier = verify_all,
        zookeeper: ZooKeeperOffsets | None = None,
    ) -> None:
        self.clock = clock
        self.settings = settings or Settings()
        self.zookeeper = {} if zookeeper is None else zookeeper
        self.manager = GroupMetadataManager(self.settings, logs, clock)
        self.validator = RequestValidator(self.manager, topics, authorize)
        self.rebalances = Rebalances(self.manager)
        member_validator = MemberValidator(self.settings)
        self.joins = JoinRequests(self.validator, member_validator, self.rebalances, new_member_id)
        self.members = MemberRequests(self.validator, member_validator, self.rebalances)
        self.commits = CommitRequests(
            self.validator, member_validator, self.rebalances.sessions, verify, self.zookeeper
        )
        self.fetches = FetchRequests(self.validator, self.zookeeper)
        self.deletions = DeleteRequests(self.validator)

    # Members

    def join_group(
        self,
        group_id: str,
        *,
        protocols: Sequence[tuple[str, bytes]],
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "/127.0.0.1",
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        protocol_type: str = CONSUMER,
        require_known_member_id: bool | None = None,
        skips_assignment: bool | None = None,
    ) -> ResponseFuture[JoinGroupResult]:
        """Add a member to the group; the response comes when the next generation begins.

        Parameters
        ----------
        protocols
            The assignors that the member supports, the preferred one first, each with its subscription bytes.
        member_id
            "" for a new member.
        group_instance_id
            The name of a static member. Kafka versions before 2.3 ignore it.
        require_known_member_id
            Whether a new dynamic member first gets MEMBER_ID_REQUIRED and its id (request v4 and later, KIP-394).
            None: as this Kafka's newest request version.
        skips_assignment
            Whether a static leader that returns leads again, but keeps the assignment (v9 and later). None: as above.

        Returns
        -------
        ResponseFuture[JoinGroupResult]
            Errors: INVALID_SESSION_TIMEOUT outside the broker's limits, UNKNOWN_MEMBER_ID for an unknown member id,
            GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL if the members have no protocol in common,
            FENCED_INSTANCE_ID if another process has the instance id, and UNKNOWN_SERVER_ERROR if a static member
            uses an id that was handed out to a dynamic one.

        Notes
        -----
        A new group is created even if the member is then refused. Source: GroupCoordinator.handleJoinGroup.
        """
        joining = ClassicMember(
            member_id,
            group_instance_id,
            client_id,
            client_host,
            rebalance_timeout_ms,
            session_timeout_ms,
            protocol_type,
            list(protocols),
        )
        return self.joins.join(
            group_id,
            joining,
            require_known_member_id=require_known_member_id is not False,
            skip_assignment=skips_assignment is not False,
        )

    def sync_group(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> ResponseFuture[SyncGroupResult]:
        """Return the member's assignment, as soon as the leader has sent it.

        Parameters
        ----------
        assignments
            The assignments by member id. Only the leader sends them.
        protocol_type, protocol
            The names that the member received in JoinGroup. None: not checked.

        Returns
        -------
        ResponseFuture[SyncGroupResult]
            Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL if the names
            are not the group's (KIP-559), and REBALANCE_IN_PROGRESS while members join again. While the group is
            loading the answer is also REBALANCE_IN_PROGRESS, because the rebalance is lost.

        Notes
        -----
        Source: GroupCoordinator.handleSyncGroup.
        """
        return self.members.sync(
            group_id,
            generation,
            member_id,
            assignments or {},
            group_instance_id=group_instance_id,
            protocol_type=protocol_type,
            protocol=protocol,
        )

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, *, group_instance_id: str | None = None
    ) -> Errors:
        """Restart the member's session timeout.

        Returns
        -------
        Errors
            REBALANCE_IN_PROGRESS if the member must join again; UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or
            ILLEGAL_GENERATION. While the group is loading, NONE without any check.

        Notes
        -----
        Source: GroupCoordinator.handleHeartbeat.
        """
        return self.members.heartbeat(group_id, generation, member_id, group_instance_id)

    def leave_group(self, group_id: str, members: Iterable[MemberIdentity | str]) -> LeaveGroupResult:
        """Remove members from the group.

        Parameters
        ----------
        members
            Member ids, or identities with the instance id of a static member.

        Returns
        -------
        LeaveGroupResult
            An error for each member. For a Dead group the whole request is refused.

        Notes
        -----
        Source: GroupCoordinator.handleLeaveGroup.
        """
        return self.members.leave(group_id, members)

    # Offsets

    def offset_commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        generation: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_ms: int = -1,
    ) -> ResponseFuture[CommitErrors]:
        """Commit offsets of a member, or of any client (generation below 0) for an Empty group.

        Parameters
        ----------
        retention_ms
            How long the offsets are kept (OffsetCommit v2 to v4). -1: as long as the broker's setting says.

        Returns
        -------
        ResponseFuture[CommitErrors]
            For all partitions: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS.
            For one partition: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, OFFSET_METADATA_TOO_LARGE.
            Errors of the append: see `GroupMetadataManager.store_offsets`.

        Notes
        -----
        Source: KafkaApis.handleOffsetCommitRequest, GroupCoordinator.handleCommitOffsets.
        """
        return self.commits.commit(
            group_id,
            offsets,
            generation=generation,
            member_id=member_id,
            group_instance_id=group_instance_id,
            retention_ms=retention_ms,
        )

    def offset_commit_to_zookeeper(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetCommit]
    ) -> ResponseFuture[CommitErrors]:
        """Commit with version 0 of the request: the offset goes to ZooKeeper, and no record is written.

        Returns
        -------
        ResponseFuture[CommitErrors]
            UNSUPPORTED_VERSION if the broker has no ZooKeeper; otherwise the errors of `offset_commit`.

        Notes
        -----
        Source: KafkaApis.commitOffsetsToZookeeper.
        """
        return self.commits.commit_to_zookeeper(group_id, offsets)

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
    ) -> ResponseFuture[CommitErrors]:
        """Commit offsets in a producer's transaction: they are pending until its marker arrives.

        Parameters
        ----------
        knows_abortable
            Whether the client knows TRANSACTION_ABORTABLE (request v4 and later). Others get INVALID_TXN_STATE.

        Returns
        -------
        ResponseFuture[CommitErrors]
            The errors of `offset_commit`. A commit that names no member is always accepted. Since 3.6 the transaction
            must be known and open: INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, TRANSACTION_ABORTABLE.

        Notes
        -----
        The group is created before these checks. Source: GroupCoordinator.handleTxnCommitOffsets.
        """
        return self.commits.commit_in_transaction(
            group_id,
            offsets,
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            generation=generation,
            member_id=member_id,
            group_instance_id=group_instance_id,
            knows_abortable=knows_abortable,
        )

    def transaction_completed(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """Commit or abort pending offsets: the producer's marker is in these partitions of the offsets topic.

        Raises
        ------
        NotAppended
            If a pending commit has no record in the log, which Kafka up to 2.8 allows.

        Notes
        -----
        Source: GroupCoordinator.scheduleHandleTxnCompletion.
        """
        self.commits.complete_transaction(producer_id, partitions, commits=commits)

    def offset_fetch(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> OffsetFetchResult:
        """Return committed offsets from the cache, in any state of the group.

        Parameters
        ----------
        partitions
            The partitions to fetch. None: all partitions that have an offset.
        require_stable
            Whether a partition with an unfinished commit gets UNSTABLE_OFFSET_COMMIT (KIP-447).

        Returns
        -------
        OffsetFetchResult
            A named partition that the client may not read gets TOPIC_AUTHORIZATION_FAILED; otherwise it is left out.

        Notes
        -----
        Source: GroupCoordinator.handleFetchOffsets.
        """
        return self.fetches.fetch(group_id, partitions, require_stable=require_stable)

    def offset_fetch_from_zookeeper(self, group_id: str, partitions: Iterable[TopicPartition]) -> OffsetFetchResult:
        """Return offsets that version 0 requests committed.

        Returns
        -------
        OffsetFetchResult
            UNKNOWN_TOPIC_OR_PARTITION for a partition that does not exist or has no offset.

        Notes
        -----
        Source: KafkaApis.handleOffsetFetchRequestFromZookeeper.
        """
        return self.fetches.fetch_from_zookeeper(group_id, partitions)

    # Groups

    def describe_groups(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Return state and members of each group; a group that does not exist is "Dead".

        Notes
        -----
        Source: GroupCoordinator.handleDescribeGroup.
        """
        return [self.fetches.describe(group_id) for group_id in group_ids]

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[Errors, list[ListedGroup]]:
        """Return all groups of this coordinator.

        Parameters
        ----------
        states, types
            If not empty, only groups in these states (since 2.6) or of these types (since 3.8; all are classic).

        Returns
        -------
        Errors
            COORDINATOR_LOAD_IN_PROGRESS while a partition is loading; the groups are returned as well.
        list[ListedGroup]
            The groups.

        Notes
        -----
        Source: GroupCoordinator.handleListGroups.
        """
        return self.fetches.list_groups(states, types)

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Errors]:
        """Delete Empty groups and their offsets (since Kafka 1.1).

        Returns
        -------
        dict[str, Errors]
            NON_EMPTY_GROUP if the group has members, GROUP_ID_NOT_FOUND if it does not exist or is Dead.

        Notes
        -----
        Each group gets one batch of tombstones. Source: GroupCoordinator.handleDeleteGroups.
        """
        return self.deletions.delete_groups(group_ids)

    def offset_delete(self, group_id: str, partitions: Sequence[TopicPartition]) -> OffsetDeleteResult:
        """Delete offsets of a group (since Kafka 2.4, KIP-496).

        Returns
        -------
        OffsetDeleteResult
            For one partition: GROUP_SUBSCRIBED_TO_TOPIC if a member of a consumer group subscribes to its topic,
            UNKNOWN_TOPIC_OR_PARTITION. For the group: NON_EMPTY_GROUP if it has members and another protocol type,
            GROUP_ID_NOT_FOUND.

        Notes
        -----
        Source: GroupCoordinator.handleDeleteOffsets.
        """
        return self.deletions.delete_offsets(group_id, partitions)

    # The broker

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> int:
        """Delete every group's offsets of partitions whose topic was deleted; return how many were committed.

        Notes
        -----
        Each group that is Empty without offsets is deleted as well. Source: GroupCoordinator.handleDeletedPartitions.
        """
        return self.deletions.delete_partitions(partitions)

    def start_expiration(self, first_ms: int = 0) -> None:
        """Delete expired offsets in `first_ms`, and then every offsets.retention.check.interval.ms."""
        self.deletions.start_expiration(first_ms)

    def find_coordinator(self, group_id: str) -> tuple[Errors, int]:
        """Return the partition whose leader coordinates the group.

        Returns
        -------
        Errors
            COORDINATOR_NOT_AVAILABLE if this broker is not that leader.
        int
            The partition, or -1 without authorization.
        """
        if not self.validator.authorize("DESCRIBE", "GROUP", group_id):
            return Errors.GROUP_AUTHORIZATION_FAILED, -1
        partition = self.manager.partition_for(group_id)
        is_leader = partition in self.manager.owned
        return Errors.NONE if is_leader else Errors.COORDINATOR_NOT_AVAILABLE, partition

    def elect(self, partition: int, epoch: int = 0) -> None:
        """Make this broker the partition's leader: load its log and answer for its groups."""
        self.manager.load_partition(partition, epoch, self._start_group)

    def resign(self, partition: int, epoch: int | None = None) -> None:
        """End this broker's leadership of the partition, because another broker leads it now."""
        self.manager.unload_partition(partition, epoch, self._stop_group)

    def shut_down(self) -> None:
        """Answer every later request with COORDINATOR_NOT_AVAILABLE."""
        self.validator.is_running = False

    def _start_group(self, group: ClassicGroup) -> None:
        """Start the sessions of a loaded group's members. A group that is too large must rebalance."""
        logger.info("Loading group metadata for %s with generation %d", group.group_id, group.generation)
        if len(group.members) > self.settings.group_max_size:
            self.rebalances.prepare(group)
        for member in group.members.values():
            self.rebalances.sessions.restart(group, member)

    def _stop_group(self, group: ClassicGroup) -> None:
        """Answer waiting requests with NOT_COORDINATOR and cancel the group's timers.

        In Stable, the JoinGroup of a static member is answered by its append instead.
        """
        logger.info("Unloading group metadata for %s with generation %d", group.group_id, group.generation)
        answers_joins = group.state is ClassicState.PREPARING_REBALANCE
        group.transition_to(ClassicState.DEAD, self.clock.now_ms)
        for member in group.ordered_members():
            if answers_joins:
                answer_join(member, JoinGroupResult(Errors.NOT_COORDINATOR, member.member_id))
            answer_sync(member, SyncGroupResult(Errors.NOT_COORDINATOR))
            if member.session_timer:
                member.session_timer.cancel()
        for timer in (group.delayed_join, group.delayed_sync, *group.pending_members.values()):
            if timer:
                timer.cancel()
