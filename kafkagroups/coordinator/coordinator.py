"""A group coordinator: a method for each request of a client, validated in Kafka's order, with Kafka's error codes.

Every method first looks whether it may answer at all: the group id is valid, the coordinator is running, the group's
partition is not being loaded and is owned (`INVALID_GROUP_ID`, `COORDINATOR_NOT_AVAILABLE`,
`COORDINATOR_LOAD_IN_PROGRESS`, `NOT_COORDINATOR`); before that, whether the client may ask (`GROUP_` and
`TOPIC_AUTHORIZATION_FAILED`). Then the group decides. JoinGroup and SyncGroup are answered when the rebalance allows it.

`settings.kafka` chooses the rules: those of 3.9 (member ids are handed out first, static members, KIP-211), of 2.8 or of
1.0.1, which the articles read.
Source: GroupCoordinator.scala, KafkaApis.scala, GroupCoordinatorAdapter.scala (3.9; tags 2.8.2 and 1.0.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence

from kafkagroups.coordinator.clock import Clock, Timer
from kafkagroups.coordinator.error_codes import Errors, error_of_commit_append
from kafkagroups.coordinator.logs import OffsetsLogs
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.membership import Membership
from kafkagroups.coordinator.rebalance import Rebalances
from kafkagroups.coordinator.results import (
    Answer,
    CommitErrors,
    DescribedGroup,
    DescribedMember,
    FetchedOffset,
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
from kafkagroups.groups.classic_group import CONSUMER, ClassicGroup
from kafkagroups.groups.offsets import OffsetAndMetadata, TopicPartition
from kafkagroups.groups.states import ClassicState
from kafkagroups.log.batch import NO_PRODUCER_ID

Authorizer = Callable[[str, str, str], bool]
"""Whether the client may: an operation (READ, DESCRIBE, DELETE, WRITE) on a kind (GROUP, TOPIC, ...) of a name."""
Verifier = Callable[[str, int, int, int], Errors]
"""Whether a transaction (its id, producer id and epoch) takes part in a partition of the offsets topic."""


def allow_all(operation: str, kind: str, name: str) -> bool:
    return True


def verified(transactional_id: str, producer_id: int, producer_epoch: int, partition: int) -> Errors:
    return Errors.NONE


class GroupCoordinator:
    """One broker's coordinator, with its cache in `manager`.

    `topics` are the topics that exist with their partition counts (None: all do), `new_member_id` supplies the ids of
    new members from a client id or instance id, `verify` asks the transaction coordinator (since 3.6), `zookeeper`
    holds the offsets of version 0 requests, by group, topic and partition. Own partitions first: `elect` loads them.
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
        verify: Verifier = verified,
    ) -> None:
        self.settings = settings or Settings()
        self.clock = clock
        self.topics = topics
        self.authorize = authorize
        self.verify = verify
        self.active = True
        self.manager = GroupMetadataManager(self.settings, logs, clock)
        self.rebalances = Rebalances(self.manager)
        self.membership = Membership(self.rebalances, new_member_id)
        self.zookeeper: MutableMapping[tuple[str, str, int], int] = {}
        self._sweep: Timer | None = None

    # The broker

    def elect(self, partition: int, epoch: int = 0) -> None:
        """This broker now leads the partition: its log is loaded, and its groups are answered for."""
        self.manager.load_partition(partition, epoch, self.rebalances.loaded)

    def resign(self, partition: int, epoch: int | None = None) -> None:
        """Somebody else leads the partition now."""
        self.manager.unload_partition(partition, epoch, self.rebalances.unloaded)

    def start_sweeps(self, first_ms: int = 0) -> None:
        """Deletes expired offsets in `first_ms` and then every offsets.retention.check.interval.ms."""
        self._sweep = self.clock.after(max(first_ms, 1), self._sweep_once)

    def _sweep_once(self) -> None:
        self.manager.cleanup_expired()
        self._sweep = self.clock.after(self.settings.offsets_retention_check_interval_ms, self._sweep_once)

    def find_coordinator(self, group_id: str) -> tuple[Errors, int]:
        """The partition whose leader coordinates the group; COORDINATOR_NOT_AVAILABLE when that is not this broker."""
        if not self.authorize("DESCRIBE", "GROUP", group_id):
            return Errors.GROUP_AUTHORIZATION_FAILED, -1
        partition = self.manager.partition_for(group_id)
        return Errors.NONE if partition in self.manager.owned else Errors.COORDINATOR_NOT_AVAILABLE, partition

    def topics_deleted(self, topics: Collection[str]) -> int:
        """The offsets of topics that are gone are deleted, of every group; gives how many."""
        groups = self.manager.current_groups()
        return self.manager.cleanup(groups, lambda group: _of_topics(group, topics))

    # Membership

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
    ) -> Answer[JoinGroupResult]:
        """A client wants to be in the group: with member id "" as a new member, answered when the generation is there.

        `require_known_member_id`: a dynamic new member first gets MEMBER_ID_REQUIRED and its id (request v4 on, KIP-394);
        `skips_assignment`: a static leader that came back is told that it leads (v9 on). None: what that Kafka's newest
        request does. INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID, INCONSISTENT_GROUP_PROTOCOL, FENCED_INSTANCE_ID,
        GROUP_MAX_SIZE_REACHED as Membership.join says. Source: handleJoinGroup.
        """
        answer: Answer[JoinGroupResult] = Answer()
        since = self.settings.since
        error = self._refusal(group_id, "JOIN_GROUP", "READ")
        if error is not Errors.NONE:
            denied = error is Errors.GROUP_AUTHORIZATION_FAILED
            answer.complete(self.membership.refused("" if denied else member_id, error))
            return answer
        self.membership.join(
            group_id, member_id, group_instance_id, client_id, client_host, rebalance_timeout_ms, session_timeout_ms,
            protocol_type, list(protocols), answer,
            needs_known_id=since(2, 2) if require_known_member_id is None else require_known_member_id,
            skips_assignment=since(3, 2) if skips_assignment is None else skips_assignment,
        )  # fmt: skip
        return answer

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
    ) -> Answer[SyncGroupResult]:
        """A member asks for its assignment; the leader brings the `assignments`, by member id.

        While the group is loading: REBALANCE_IN_PROGRESS, for the rebalance is lost. Source: handleSyncGroup.
        """
        answer: Answer[SyncGroupResult] = Answer()
        error = self._refusal(group_id, "SYNC_GROUP", "READ")
        if error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
            error = Errors.REBALANCE_IN_PROGRESS
        if error is not Errors.NONE:
            answer.complete(SyncGroupResult(error))
        else:
            self.membership.sync(
                group_id, generation, member_id, group_instance_id, protocol_type, protocol, assignments or {}, answer
            )
        return answer

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, *, group_instance_id: str | None = None
    ) -> Errors:
        """A member is alive; REBALANCE_IN_PROGRESS tells it to join again. While loading: NONE, blindly."""
        error = self._refusal(group_id, "HEARTBEAT", "READ")
        if error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
            return Errors.NONE
        return error or self.membership.heartbeat(group_id, generation, member_id, group_instance_id)

    def leave_group(self, group_id: str, members: Iterable[MemberIdentity | str]) -> LeaveGroupResult:
        """Members leave: by member id, or static ones by instance id. Each has its own error."""
        error = self._refusal(group_id, "LEAVE_GROUP", "READ")
        leaving = [MemberIdentity(each) if isinstance(each, str) else each for each in members]
        return LeaveGroupResult(error) if error else self.membership.leave(group_id, leaving)

    # Commits

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
        UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, OFFSET_METADATA_TOO_LARGE for one; errors of the append as
        GroupMetadataManager.store_offsets says. Source: KafkaApis.handleOffsetCommitRequest, handleCommitOffsets.
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
                error = Errors.ILLEGAL_GENERATION if group is None else self.membership.validate_commit(
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
                errors[each] = Errors.NONE if self.settings.zookeeper else Errors.UNSUPPORTED_VERSION
                if self.settings.zookeeper:
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
        (INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, TRANSACTION_ABORTABLE or, to a client that does not know that
        (request below v4), INVALID_TXN_STATE; since 3.6). By then the group has been made. Source: handleTxnCommitOffsets.
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
                    error = error_of_commit_append(error)
                error = error or self.membership.validate_txn_commit(group, generation, member_id, group_instance_id)
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

    # Fetching

    def offset_fetch(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> OffsetFetchResult:
        """The committed offsets, all or of the partitions named, whatever the group's state: from the cache.

        TOPIC_AUTHORIZATION_FAILED for one that is named and may not be seen; of all, those are left out.
        UNSTABLE_OFFSET_COMMIT as GroupMetadataManager.get_offsets says. Source: handleFetchOffsets.
        """
        error = self._refusal(group_id, "OFFSET_FETCH", "DESCRIBE")
        if error is not Errors.NONE:
            return OffsetFetchResult(error)
        named = None if partitions is None else list(partitions)
        offsets = self.manager.get_offsets(group_id, require_stable, named)
        denied = {each for each in offsets if not self.authorize("DESCRIBE", "TOPIC", each.topic)}
        refused = FetchedOffset(error=Errors.TOPIC_AUTHORIZATION_FAILED)
        if named is None:
            return OffsetFetchResult(error, {each: there for each, there in offsets.items() if each not in denied})
        return OffsetFetchResult(error, {each: refused if each in denied else there for each, there in offsets.items()})

    def offset_fetch_from_zookeeper(self, group_id: str, partitions: Iterable[TopicPartition]) -> OffsetFetchResult:
        """OffsetFetch v0. A partition that does not exist or has no offset: UNKNOWN_TOPIC_OR_PARTITION."""
        if not self.authorize("DESCRIBE", "GROUP", group_id):
            return OffsetFetchResult(Errors.GROUP_AUTHORIZATION_FAILED)
        found = {}
        for each in partitions:
            offset = self.zookeeper.get((group_id, *each))
            error = Errors.NONE if offset is not None else Errors.UNKNOWN_TOPIC_OR_PARTITION
            if not self.settings.zookeeper:
                error = Errors.UNSUPPORTED_VERSION
            found[each] = FetchedOffset(-1 if offset is None else offset, error=error)
        return OffsetFetchResult(Errors.NONE, found)

    def describe_groups(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Each group's state and members; "Dead" for one that is not known. Source: handleDescribeGroup."""
        return [self._describe(group_id) for group_id in group_ids]

    def _describe(self, group_id: str) -> DescribedGroup:
        error = self._refusal(group_id, "DESCRIBE_GROUPS", "DESCRIBE")
        if error is not Errors.NONE:
            return DescribedGroup(error, group_id)
        group = self.manager.get_group(group_id)
        if group is None:
            return DescribedGroup(error, group_id, ClassicState.DEAD.value)
        protocol = group.protocol if group.state is ClassicState.STABLE else None
        if protocol is None and group.state is ClassicState.STABLE:  # only a strange log makes such a group
            return DescribedGroup(Errors.UNKNOWN_SERVER_ERROR, group_id)
        members = [
            DescribedMember(
                each.member_id, each.group_instance_id, each.client_id, each.client_host,
                *((each.metadata(protocol), each.assignment) if protocol is not None else (b"", b"")),
            )
            for each in group.told()
        ]  # fmt: skip
        state = self._state_name(group)
        return DescribedGroup(error, group_id, state, group.protocol_type or "", protocol or "", tuple(members))

    def list_groups(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> tuple[Errors, list[ListedGroup]]:
        """All groups of this coordinator, or those in some states (since 2.6) or of some types (3.8: all are classic).

        While some partition is loading, with COORDINATOR_LOAD_IN_PROGRESS. Source: handleListGroups.
        """
        whole_cluster = self.authorize("DESCRIBE", "CLUSTER", "kafka-cluster")
        if not whole_cluster and not self.settings.since(2, 0):
            return Errors.CLUSTER_AUTHORIZATION_FAILED, []
        if not self.active:
            return Errors.COORDINATOR_NOT_AVAILABLE, []
        fold = str.lower if self.settings.since(3, 7) else str
        wanted = {fold(state) for state in states}
        groups = [
            ListedGroup(group.group_id, group.protocol_type or "", self._state_name(group))
            for group in self.manager.current_groups()
            if (not wanted or fold(self._state_name(group)) in wanted)
            and (not types or "classic" in {each.lower() for each in types})
            and (whole_cluster or self.authorize("DESCRIBE", "GROUP", group.group_id))
        ]
        return Errors.COORDINATOR_LOAD_IN_PROGRESS if self.manager.loading else Errors.NONE, groups

    def _state_name(self, group: ClassicGroup) -> str:
        is_old = group.state is ClassicState.COMPLETING_REBALANCE and not self.settings.since(1, 1)
        return "AwaitingSync" if is_old else group.state.value

    # Deleting

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Errors]:
        """Deletes Empty groups with all they have (since 1.1): a batch of tombstones each.

        NON_EMPTY_GROUP while it has members, GROUP_ID_NOT_FOUND when it is unknown or Dead. Source: handleDeleteGroups.
        """
        errors, doomed = {}, []
        for group_id in dict.fromkeys(group_ids):
            error = self._refusal(group_id, "DELETE_GROUPS", "DELETE")
            group = self.manager.get_group(group_id)
            if error is Errors.NONE and (group is None or group.state is ClassicState.DEAD):
                error = self._not_found(group_id)
            elif error is Errors.NONE and group is not None:
                if group.state is ClassicState.EMPTY:
                    group.transition_to(ClassicState.DEAD, self.clock.now_ms)
                    doomed.append(group)
                else:
                    error = Errors.NON_EMPTY_GROUP
            errors[group_id] = error
        self.manager.cleanup(doomed, lambda group: list(group.offsets.committed))
        return errors

    def offset_delete(self, group_id: str, partitions: Sequence[TopicPartition]) -> OffsetDeleteResult:
        """Deletes offsets of a group (since 2.4, KIP-496), of a living consumer group those of topics it does not read.

        GROUP_SUBSCRIBED_TO_TOPIC and UNKNOWN_TOPIC_OR_PARTITION for one partition, NON_EMPTY_GROUP for a living group of
        another type, GROUP_ID_NOT_FOUND. Source: handleDeleteOffsets.
        """
        if not self.authorize("DELETE", "GROUP", group_id):
            return OffsetDeleteResult(Errors.GROUP_AUTHORIZATION_FAILED)
        errors = self._refused_partitions(partitions)
        error = self._status(group_id, "OFFSET_DELETE")
        group = self.manager.get_group(group_id)
        if error is Errors.NONE and (group is None or group.state is ClassicState.DEAD):
            error = self._not_found(group_id)
        if error or group is None:
            return OffsetDeleteResult(error)
        is_empty = group.state is ClassicState.EMPTY
        if not is_empty and group.protocol_type != CONSUMER:
            return OffsetDeleteResult(Errors.NON_EMPTY_GROUP)
        read, doomed = group.subscribed_topics, []
        for each in partitions:
            if each not in errors:
                is_read = not is_empty and (read is None or each.topic in read)
                errors[each] = Errors.GROUP_SUBSCRIBED_TO_TOPIC if is_read else Errors.NONE
                doomed += [] if is_read else [each]
        if doomed:
            self.manager.cleanup([group], lambda group: doomed)
        return OffsetDeleteResult(Errors.NONE, errors)

    # Who may ask

    def _refusal(self, group_id: str, api: str, operation: str) -> Errors:
        if not self.authorize(operation, "GROUP", group_id):
            return Errors.GROUP_AUTHORIZATION_FAILED
        return self._status(group_id, api)

    def _status(self, group_id: str, api: str) -> Errors:
        """Why the group cannot be answered for, if so. Source: validateGroupStatus (before 2.0: each handler's own)."""
        modern = self.settings.since(2, 0)
        needs_id = api in NEED_A_GROUP_ID if modern else api == "JOIN_GROUP"
        if not group_id and needs_id:
            return Errors.INVALID_GROUP_ID
        if not self.active:
            return Errors.COORDINATOR_NOT_AVAILABLE
        if not modern and not self.manager.is_local(group_id):
            return Errors.NOT_COORDINATOR
        if self.manager.is_loading(group_id):
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return Errors.NONE if self.manager.is_local(group_id) else Errors.NOT_COORDINATOR

    def _refused_partitions(self, partitions: Iterable[TopicPartition]) -> CommitErrors:
        """Which partitions the client may not read, and which do not exist (up to 1.1 only the topic is looked for)."""
        refused = {}
        for each in partitions:
            if not self.authorize("READ", "TOPIC", each.topic):
                refused[each] = Errors.TOPIC_AUTHORIZATION_FAILED
            elif self.topics is not None:
                count = self.topics.get(each.topic)
                if count is None or (self.settings.since(2, 0) and not 0 <= each.partition < count):
                    refused[each] = Errors.UNKNOWN_TOPIC_OR_PARTITION
        return refused

    def _not_found(self, group_id: str) -> Errors:
        return Errors.GROUP_ID_NOT_FOUND if self.manager.not_exists(group_id) else Errors.NOT_COORDINATOR


NEED_A_GROUP_ID = ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", "TXN_OFFSET_COMMIT", "OFFSET_DELETE")
"""The requests for which "" is no group id; the others take it, for what was committed under it long ago."""


def _staged(offset: OffsetCommit, commit_timestamp: int, expire_timestamp: int | None) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset.offset, offset.metadata or "", commit_timestamp, offset.leader_epoch, expire_timestamp, None, -1, -1
    )


def _of_topics(group: ClassicGroup, topics: Collection[str]) -> list[TopicPartition]:
    offsets = group.offsets
    waiting = [each for there in offsets.transactions.values() for each in there]
    return [each for each in dict.fromkeys([*offsets.committed, *offsets.pending, *waiting]) if each.topic in topics]
