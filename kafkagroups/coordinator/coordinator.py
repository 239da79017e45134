"""The group coordinator: one method for each client request, and the start of a broker.

`GroupCoordinator` passes each request to membership.py, offset_requests.py or consumer_coordinator.py, which share the
checks in request_validation.py, and one manager, which holds the groups and writes to the log.
Source: GroupCoordinator.scala, KafkaApis.scala, GroupCoordinatorAdapter.scala (3.9; tags 2.8.2 and 1.0.1);
GroupCoordinatorService.java, GroupCoordinatorShard.java (4.3.1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Unpack

from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.consumer_coordinator import DescribedConsumerGroup, ModernRequests
from kafkagroups.coordinator.logs import AppendListener, DiskLogs, OffsetsLogs, ignore_append
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.membership import MemberRequests
from kafkagroups.coordinator.messages import (
    CommitErrors,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    DescribedGroup,
    Errors,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResult,
    LeaveGroupResult,
    ListedGroup,
    MemberIdentity,
    OffsetCommit,
    OffsetCommitRequest,
    OffsetDeleteResult,
    OffsetFetchRequest,
    OffsetFetchResult,
    ResponseFuture,
    SyncGroupRequest,
    SyncGroupResult,
    TxnOffsetCommitRequest,
    answer_join,
    answer_sync,
)
from kafkagroups.coordinator.offset_requests import OffsetRequests
from kafkagroups.coordinator.partitioned_groups import PartitionedGroups
from kafkagroups.coordinator.rebalance import Rebalances, cancel_timers
from kafkagroups.coordinator.request_validation import (
    CLIENT_TEXT,
    ListOf,
    RequestValidator,
    Surroundings,
    check_fields,
    take_fields,
)
from kafkagroups.coordinator.settings import Settings
from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_groups import CONSUMER, LivingGroup
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.groups.replay import LogKeys, read_keys
from kafkagroups.records.dialects import dialect
from kafkagroups.records.serde import decode_with_key
from kafkagroups.records.wire import INT32

logger = logging.getLogger("kafkagroups.coordinator")


class GroupCoordinator:
    """One broker's group coordinator. Call `elect` for its partitions first, or use `start_broker`.

    Most answers are `ResponseFuture` objects. In the new coordinator (since 4.0), they also wait until the log has
    confirmed everything that they rest on; if the append fails, they are its error. Every method raises UsageError, and
    changes nothing, if an argument has a value that no request can contain (request_validation.py).

    `settings.kafka` is the Kafka version whose rules the coordinator follows, and its timers run when the caller
    advances the clock. `new_member_id` returns the id of a new member, from its client id, or from the instance id of a
    static member. `Surroundings` (request_validation.py) is what the coordinator asks the rest of the cluster.
    """

    def __init__(
        self,
        logs: OffsetsLogs,
        clock: Clock,
        settings: Settings | None = None,
        *,
        new_member_id: Callable[[str], str],
        **surroundings: Unpack[Surroundings],
    ) -> None:
        self.clock = clock
        self.settings = settings or Settings()
        is_classic = self.settings.coordinator == "classic"
        store_class = GroupMetadataManager if is_classic else PartitionedGroups
        self.manager: GroupMetadataManager | PartitionedGroups = store_class(self.settings, logs, clock)
        self.manager.on_loaded = self._start_group
        self.manager.on_unloaded = self._stop_group
        self.validator = RequestValidator(self.manager, surroundings)
        self.zookeeper = self.validator.zookeeper
        self.rebalances = Rebalances(self.manager)
        self.new_member_id = new_member_id
        self.modern: ModernRequests | None = None
        if isinstance(self.manager, PartitionedGroups):
            group_configs = surroundings.get("group_configs", {})
            self.modern = ModernRequests(self.manager, self.validator, self.rebalances, group_configs)
        self.members = MemberRequests(self.validator, self.rebalances, self.modern, new_member_id)
        self.offsets = OffsetRequests(self.validator, self.rebalances, self.modern, new_member_id)

    # Members

    @take_fields(JoinGroupRequest, group_instance_id=CLIENT_TEXT)
    def join_group(self, request: JoinGroupRequest) -> ResponseFuture[JoinGroupResult]:
        """Add a member to the group. The response normally arrives when the next generation begins.

        A new group is created even if its first member is refused. `protocols` are pairs of the name of an assignor
        that the member supports, the preferred one first, and the bytes of its subscription. Without a `member_id` from
        an earlier response, the member is new. Kafka versions before 2.3 ignore the `group_instance_id`, that of a
        static member.

        With `require_known_member_id`, a new dynamic member first gets the error MEMBER_ID_REQUIRED and a member id,
        and must join again with it (request v4 and later, KIP-394). With `supports_skip_assignment`, a static leader
        that joins again without a rebalance is told not to compute new assignments (request v9 and later); without, it
        gets its old member id as the leader's, so it does not act as the leader. None: as in the broker's newest
        request version.

        Errors: INVALID_SESSION_TIMEOUT if the session timeout is outside the broker's limits, UNKNOWN_MEMBER_ID,
        GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL if the members have no protocol in common,
        FENCED_INSTANCE_ID if another member has the instance id, and UNKNOWN_SERVER_ERROR if a static member uses a
        member id that was given to a dynamic member.
        Source: GroupCoordinator.handleJoinGroup.
        """
        return self.members.join(request)

    @take_fields(SyncGroupRequest)
    def sync_group(self, request: SyncGroupRequest) -> ResponseFuture[SyncGroupResult]:
        """Return the member's assignment, which arrives when the leader has sent all `assignments`, by member id.

        `protocol_type` and `protocol` are those in the response to the member's JoinGroup; None: not checked. Errors:
        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL (KIP-559), and
        REBALANCE_IN_PROGRESS while members join again or the group is loading (loading before 2.0: UNKNOWN_MEMBER_ID).
        Source: GroupCoordinator.handleSyncGroup.
        """
        return self.members.sync(request)

    @take_fields(HeartbeatRequest)
    def heartbeat(self, request: HeartbeatRequest) -> ResponseFuture[Errors]:
        """Restart the member's session timer, so that the member stays in the group.

        The answer is NONE; REBALANCE_IN_PROGRESS if the member must join again; UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
        or ILLEGAL_GENERATION if the request does not come from a current member. While the group is loading, it is
        NONE, and the member is not checked. Source: GroupCoordinator.handleHeartbeat.
        """
        return self.members.heartbeat(request)

    @check_fields()
    def leave_group(self, group_id: str, members: Iterable[MemberIdentity | str]) -> ResponseFuture[LeaveGroupResult]:
        """Remove members from the group. `members` are member ids, and `MemberIdentity` for static members.

        The result has an error code for each member, or only one if the whole request is refused, for example because
        the group is Dead. Source: GroupCoordinator.handleLeaveGroup.
        """
        return self.members.leave(group_id, members)

    @take_fields(ConsumerHeartbeat)
    def consumer_group_heartbeat(self, request: ConsumerHeartbeat) -> ResponseFuture[ConsumerHeartbeatResult]:
        """Answer the heartbeat of a member of a consumer group: it joins, stays or leaves (KIP-848, since 4.0).

        A member joins with member epoch 0, leaves with -1, and as a static member for a restart with -2. In `version` 0
        of the request, the broker chooses the member id; later the client does. Consumer groups need the coordinator's
        `topics` and `topic_ids`: a topic without an id gives no member a partition.

        The result has the member's epoch, and its assignment if that changed. Errors: INVALID_REQUEST for a field,
        UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH if
        the member must join again, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID and GROUP_MAX_SIZE_REACHED.
        UNSUPPORTED_VERSION if the broker has no consumer groups. Source: GroupMetadataManager.consumerGroupHeartbeat.
        """
        if self.modern is None:
            return ResponseFuture.of(ConsumerHeartbeatResult(Errors.UNSUPPORTED_VERSION))
        needs_id = request.member_epoch == 0 and not request.member_id
        return self.modern.heartbeat(request, self.new_member_id(request.client_id) if needs_id else "")

    @check_fields()
    def consumer_group_describe(self, group_ids: Iterable[str]) -> list[DescribedConsumerGroup]:
        """Return the state and the members of consumer groups (since 4.0).

        Source: GroupCoordinatorService.consumerGroupDescribe.
        """
        if self.modern is None:
            return [DescribedConsumerGroup(Errors.UNSUPPORTED_VERSION, group_id) for group_id in group_ids]
        return self.modern.describe(group_ids)

    # Offsets

    @take_fields(OffsetCommitRequest)
    def offset_commit(self, request: OffsetCommitRequest) -> ResponseFuture[CommitErrors]:
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
        return self.offsets.commit(request)

    @check_fields()
    def offset_commit_to_zookeeper(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetCommit]
    ) -> ResponseFuture[CommitErrors]:
        """Commit with version 0 of the request: the offset is stored in ZooKeeper, and no record is written.

        The errors are UNSUPPORTED_VERSION if the broker has no ZooKeeper; otherwise those of `offset_commit`. Source:
        KafkaApis.commitOffsetsToZookeeper.
        """
        return self.offsets.commit_to_zookeeper(group_id, offsets)

    @take_fields(TxnOffsetCommitRequest)
    def txn_offset_commit(self, request: TxnOffsetCommitRequest) -> ResponseFuture[CommitErrors]:
        """Commit offsets in a producer's transaction. They are pending until the transaction's marker arrives.

        The errors are those of `offset_commit`. A member is only checked if the commit contains one (not generation -1,
        member id ""). Since Kafka 3.7 the error can also come from `verify`, for example INVALID_PRODUCER_ID_MAPPING,
        INVALID_PRODUCER_EPOCH or TRANSACTION_ABORTABLE; a client without `supports_abortable_error` (request v4 and
        later) gets INVALID_TXN_STATE instead of the last one. Up to 3.9, the group is created before the member and the
        transaction are checked.
        Source: GroupCoordinator.handleTxnCommitOffsets.
        """
        return self.offsets.commit_in_transaction(request)

    @check_fields(partitions=ListOf(INT32))
    def transaction_completed(self, producer_id: int, partitions: Iterable[int], *, commits: bool) -> None:
        """Commit or abort the offsets of the producer's transaction, right after its marker was written.

        `partitions` are those of the offsets topic that contain the marker; since 4.0 it must be the newest batch of
        each, because the coordinator counts the offsets of its log.

        Raises NotAppended if an offset of the transaction has no record in the log, which can happen up to Kafka 3.7,
        if the metadata of a commit is too large.
        Source: GroupCoordinator.scheduleHandleTxnCompletion.
        """
        self.manager.complete_transaction(producer_id, partitions, commits=commits)

    @take_fields(OffsetFetchRequest)
    def offset_fetch(self, request: OffsetFetchRequest) -> ResponseFuture[OffsetFetchResult]:
        """Return committed offsets from memory, at once unless the fetch is stable. The group may be in any state.

        `partitions` None means all that have an offset and that the client may read; a requested one that it may not
        read has the error TOPIC_AUTHORIZATION_FAILED. With `require_stable`, a partition gets UNSTABLE_OFFSET_COMMIT
        (KIP-447) if it has an unfinished commit: its transaction is open, or, up to 3.9, its append is not answered. In
        4.x, such a commit is already in the answer, which waits until the log has confirmed it. With `by_topic_id`
        (request v10 and later), an offset that was committed for an earlier topic of the same name is not returned.
        Source: GroupCoordinator.handleFetchOffsets.
        """
        return self.offsets.fetch(request)

    @check_fields()
    def offset_fetch_from_zookeeper(self, group_id: str, partitions: Iterable[TopicPartition]) -> OffsetFetchResult:
        """Return offsets that were committed with version 0 of OffsetCommit.

        The error is UNKNOWN_TOPIC_OR_PARTITION for a partition that does not exist or has no offset. Source:
        KafkaApis.handleOffsetFetchRequestFromZookeeper.
        """
        return self.offsets.fetch_from_zookeeper(group_id, partitions)

    # Groups

    @check_fields()
    def describe_groups(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Return the state and the members of each group. The state of a group that does not exist is "Dead".

        Source: GroupCoordinator.handleDescribeGroup.
        """
        return [self.offsets.describe(group_id) for group_id in group_ids]

    @check_fields()
    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[Errors, list[ListedGroup]]:
        """Return all groups of this coordinator, and COORDINATOR_LOAD_IN_PROGRESS while a partition is loading.

        Only groups that have one of the `states` (since Kafka 2.6) and one of the `types` (since 3.8) are returned; if
        there are none, it is not checked. Up to 3.9, the groups that are already loaded are returned during a load,
        too.
        Source: GroupCoordinator.handleListGroups.
        """
        return self.offsets.list_groups(states, types)

    @check_fields()
    def delete_groups(self, group_ids: Iterable[str]) -> ResponseFuture[dict[str, Errors]]:
        """Delete Empty groups and their offsets (since Kafka 1.1).

        The answer has an error code for each group id: for example, NON_EMPTY_GROUP if the group has members,
        GROUP_ID_NOT_FOUND if the group does not exist or is Dead. In 4.x the groups of each partition are deleted by
        one batch, after all records until then are confirmed; up to 3.9, each group has its own batch of tombstones.
        Source: GroupCoordinator.handleDeleteGroups, GroupCoordinatorService.deleteGroups (4.3.1).
        """
        return self.offsets.delete_groups(group_ids)

    @check_fields()
    def offset_delete(self, group_id: str, partitions: Sequence[TopicPartition]) -> ResponseFuture[OffsetDeleteResult]:
        """Delete offsets of a group (since Kafka 2.4, KIP-496).

        The error of a partition is UNKNOWN_TOPIC_OR_PARTITION, or GROUP_SUBSCRIBED_TO_TOPIC if a member of a consumer
        group subscribes to the topic. That of the whole request is GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP if the group
        has members and its protocol type is not "consumer". Source: GroupCoordinator.handleDeleteOffsets.
        """
        return self.offsets.delete_offsets(group_id, partitions)

    # The broker

    @check_fields()
    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> int:
        """Delete all groups' offsets for these partitions, because their topics were deleted. Return how many.

        Up to 3.9, a group is also deleted if it is Empty and has no offsets left. Source:
        GroupCoordinator.handleDeletedPartitions.
        """
        return self.offsets.delete_partitions(partitions)

    @check_fields()
    def start_expiration(self, first_ms: int = 0) -> None:
        """Delete expired offsets after `first_ms` ms, then every `settings.offsets_retention_check_interval_ms` ms."""
        self.offsets.start_expiration(first_ms)

    @check_fields()
    def find_coordinator(self, group_id: str) -> tuple[Errors, int]:
        """Return the partition of the offsets topic whose leader coordinates the group.

        The error is COORDINATOR_NOT_AVAILABLE if this broker is not the leader of the partition. If the client is not
        authorized, it is GROUP_AUTHORIZATION_FAILED, and the partition is -1.
        """
        if not self.validator.authorize("DESCRIBE", "GROUP", group_id):
            return Errors.GROUP_AUTHORIZATION_FAILED, -1
        partition = self.manager.partition_for(group_id)
        is_leader = partition in self.manager.owned
        return Errors.NONE if is_leader else Errors.COORDINATOR_NOT_AVAILABLE, partition

    @check_fields()
    def elect(self, partition: int, epoch: int = 0) -> None:
        """Make this broker the leader of a partition of the offsets topic, and load the partition's groups.

        The call is ignored if the coordinator has already received a newer `epoch`, a number that grows with each
        election for the partition.
        """
        count = self.settings.offsets_topic_num_partitions
        if not 0 <= partition < count:
            raise UsageError(f"the offsets topic has the partitions 0 to {count - 1}, not {partition}")
        self.manager.load_partition(partition, epoch)

    @check_fields()
    def resign(self, partition: int, epoch: int | None = None) -> None:
        """End this broker's leadership of the partition, because another broker is the leader now.

        The call is ignored if the coordinator has already received a newer epoch for the partition, and `epoch` is not
        None.
        """
        self.manager.unload_partition(partition, epoch)

    def shut_down(self) -> None:
        """Answer every later request with COORDINATOR_NOT_AVAILABLE."""
        self.validator.is_running = False

    def _start_group(self, group: LivingGroup) -> None:
        """A loaded group that is larger than group.max.size must rebalance."""
        if isinstance(group, ModernGroup):
            if self.modern is not None and group.type == CONSUMER:
                self.modern.groups.start_group(group)
            return
        logger.info("Loading group metadata for %s with generation %d", group.group_id, group.generation)
        if len(group.members) > self.settings.group_max_size:
            self.rebalances.prepare(group)
        for member in group.members.values():
            self.rebalances.restart_session(group, member)

    def _stop_group(self, group: LivingGroup) -> None:
        """In a Stable group, the JoinGroup of a replaced static member can wait for an append, whose callback answers
        it.
        """
        if isinstance(group, ModernGroup):
            if self.modern is not None:
                self.modern.groups.stop_group(group)
            return
        logger.info("Unloading group metadata for %s with generation %d", group.group_id, group.generation)
        answers_joins = group.state is ClassicState.PREPARING_REBALANCE
        group.transition_to(ClassicState.DEAD, self.clock.now_ms)
        for member in group.ordered_members():
            if answers_joins:
                answer_join(member, JoinGroupResult(Errors.NOT_COORDINATOR, member.member_id))
            answer_sync(member, SyncGroupResult(Errors.NOT_COORDINATOR))
        cancel_timers(group)


def open_logs(folder: str | Path, settings: Settings, *, on_append: AppendListener = ignore_append) -> DiskLogs:
    """Return the logs in a folder, with the codec and the check of producer epochs that the settings say."""
    return DiskLogs(
        folder,
        settings.offsets_topic_compression_codec,
        fences_producers=settings.fences_producers,
        on_append=on_append,
    )


def start_broker(
    logs: OffsetsLogs | str | Path,
    clock: Clock,
    settings: Settings | None = None,
    *,
    new_member_id: Callable[[str], str] | None = None,
    **surroundings: Unpack[Surroundings],
) -> GroupCoordinator:
    """Start a broker that leads every partition of the offsets topic, and return its coordinator.

    A folder of `logs` may be empty. Without `new_member_id`, an id is the client id and a number that no member in the
    log has, so every run of the program has the same ids, and no restart repeats one.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     coordinator = start_broker(folder, Clock(0), Settings("2.8.2", offsets_topic_num_partitions=1))
    ...     coordinator.list_groups()
    (<Errors.NONE: 0>, [])
    """
    settings = settings or Settings()
    logs = open_logs(logs, settings) if isinstance(logs, str | Path) else logs
    used_ids = _find_member_ids(logs, settings)
    coordinator = GroupCoordinator(
        logs,
        clock,
        settings,
        new_member_id=new_member_id or number_member_ids(used_ids),
        **surroundings,
    )
    for partition in range(settings.offsets_topic_num_partitions):
        coordinator.elect(partition)
    return coordinator


def number_member_ids(used_ids: Iterable[str] = ()) -> Callable[[str], str]:
    """Return a function that appends a counter: "a" becomes "a-1", and a later "b" becomes "b-2".

    It passes over the `used_ids`, which are read at the first call.
    """
    numbers = count(1)
    find_used_ids = cache(lambda: frozenset(used_ids))

    def supply(prefix: str) -> str:
        return next(each for each in (f"{prefix}-{number}" for number in numbers) if each not in find_used_ids())

    return supply


def _find_member_ids(logs: OffsetsLogs, settings: Settings) -> Iterator[str]:
    keys = LogKeys(dialect(settings.coordinator, settings.kafka))
    for partition in range(settings.offsets_topic_num_partitions):
        for batch in logs.read(partition):
            for _, key, log_record in read_keys(batch, keys):
                yield getattr(key.decoded.content, "member_id", "")
                try:
                    record = decode_with_key(key.decoded, log_record.value)
                except BadBytes:
                    continue
                yield from (member.member_id for member in getattr(record.value, "members", ()))
