"""What is checked before a request is handled: authorization, the group id, the group's partition, and the member.

    the client is not authorized                 GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED
    the group id is invalid                      INVALID_GROUP_ID
    the coordinator is not running               COORDINATOR_NOT_AVAILABLE
    the group's partition is being loaded        COORDINATOR_LOAD_IN_PROGRESS
    another broker owns the group's partition    NOT_COORDINATOR

A member is fenced if another member has its instance id (KIP-345).
Source: GroupCoordinator.validateGroupStatus, isValidGroupId, validateCurrentMember, validateOffsetCommit (3.9);
KafkaApis.scala (3.9); doCommitOffsets, doTxnCommitOffsets (tags 2.8.2 and 1.0.1). In tag 1.0.1, each handler has its
own checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TypedDict

from kafkagroups.coordinator import messages
from kafkagroups.coordinator.group_store import GroupStore
from kafkagroups.coordinator.messages import CommitErrors, Errors, Refusal
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.living_groups import ClassicGroup, LivingGroup
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.batch import NO_PRODUCER_ID

Authorizer = Callable[[str, str, str], bool]
"""A function (operation, resource type, resource name) that returns whether the client is allowed to do the operation.

Operations are READ, DESCRIBE, …; resource types are GROUP, TOPIC, …
"""

TransactionVerifier = Callable[[str, int, int, int], Errors]
"""A function that returns NONE if a transaction includes a partition of the offsets topic, otherwise an error.

The arguments are the transactional id, the producer id, the producer epoch, and the partition of the offsets topic.
"""

ZooKeeperOffsets = MutableMapping[tuple[str, str, int], int]
"""The offsets that OffsetCommit requests of version 0 have stored. The keys are (group id, topic, partition)."""


class Surroundings(TypedDict, total=False):
    """What a coordinator asks the rest of the cluster. Everything may be left out.

    - `topics`: the partition count of each topic that exists. None: every topic exists.
    - `topic_ids`: the ids of topics, by name, as base64url text. Since 4.1, commits contain them.
    - `authorize`: says whether a client is allowed to do something. Without it, everything is allowed.
    - `verify`: replaces the transaction coordinator, which group coordinators ask since 3.7.
    - `zookeeper`: the offsets that OffsetCommit requests of version 0 have stored. None: no offsets are stored yet.
    - `group_configs`: the settings of single groups, by group id, with Kafka's names (`consumer.session.timeout.ms`).
    """

    topics: Mapping[str, int] | None
    topic_ids: Mapping[str, str]
    authorize: Authorizer
    verify: TransactionVerifier
    zookeeper: ZooKeeperOffsets | None
    group_configs: Mapping[str, Mapping[str, str]]


APIS_WITH_REQUIRED_GROUP_ID = (
    *("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", "TXN_OFFSET_COMMIT", "OFFSET_DELETE"),
    "CONSUMER_GROUP_DESCRIBE",
)
"""The requests that refuse the group id "". Other requests accept it, because old clients committed offsets with it."""


def allow_all(operation: str, resource_type: str, name: str) -> bool:
    return True


class RequestValidator:
    """The checks of one coordinator. Each raises Refusal with the error with which the request is refused."""

    def __init__(self, manager: GroupStore, surroundings: Surroundings) -> None:
        self.manager = manager
        self.settings = manager.settings
        self.topics = surroundings.get("topics")
        self.topic_ids = surroundings.get("topic_ids", {})
        self.authorize = surroundings.get("authorize", allow_all)
        self.verify: TransactionVerifier = surroundings.get("verify", lambda *_: Errors.NONE)
        zookeeper = surroundings.get("zookeeper")
        self.zookeeper = {} if zookeeper is None else zookeeper
        self.is_running = True

    def check_request(self, group_id: str, api: str, operation: str) -> None:
        self.check_client(group_id, api, operation)
        self.check_partition(group_id)

    def check_client(self, group_id: str, api: str, operation: str) -> None:
        if not self.authorize(operation, "GROUP", group_id):
            raise Refusal(Errors.GROUP_AUTHORIZATION_FAILED)
        self.check_group(group_id, api)

    def check_group(self, group_id: str, api: str) -> None:
        """Before 2.0, only JoinGroup needs a group id. Since 4.0, a coordinator that is not running does not look at
        the group id.
        """
        needs_group_id = api == "JOIN_GROUP" if self.settings.is_before(2, 0) else api in APIS_WITH_REQUIRED_GROUP_ID
        if not group_id and needs_group_id and (self.is_running or self.settings.is_before(4, 0)):
            raise Refusal(Errors.INVALID_GROUP_ID)
        if not self.is_running:
            raise Refusal(Errors.COORDINATOR_NOT_AVAILABLE)

    def check_partition(self, group_id: str) -> None:
        """Before 2.0, NOT_COORDINATOR comes before COORDINATOR_LOAD_IN_PROGRESS."""
        is_local = self.manager.is_local(group_id)
        is_loading = self.manager.partition_for(group_id) in self.manager.loading
        if is_loading and (is_local or self.settings.is_at_least(2, 0)):
            raise Refusal(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        if not is_local:
            raise Refusal(Errors.NOT_COORDINATOR)

    def find_refused_partitions(self, partitions: Iterable[TopicPartition]) -> CommitErrors:
        """Return an error for each partition that does not exist, or that the client may not read.

        Before 2.0, Kafka does not check the partition number.
        """
        errors = {}
        for partition in partitions:
            if not self.authorize("READ", "TOPIC", partition.topic):
                errors[partition] = Errors.TOPIC_AUTHORIZATION_FAILED
            elif not self._exists(partition):
                errors[partition] = Errors.UNKNOWN_TOPIC_OR_PARTITION
        return errors

    def find_group(self, group_id: str) -> LivingGroup:
        """Return a group that is not Dead. If there is none, another broker may have it."""
        group = self.manager.find_group(group_id)
        if group is None or group.state is ClassicState.DEAD:
            raise Refusal(Errors.GROUP_ID_NOT_FOUND if self.manager.is_local(group_id) else Errors.NOT_COORDINATOR)
        return group

    def _exists(self, partition: TopicPartition) -> bool:
        if self.topics is None:
            return True
        is_possible = self.settings.is_before(2, 0) or 0 <= partition.partition < self.topics.get(partition.topic, 0)
        return partition.topic in self.topics and is_possible

    # Members

    def refuse_dead(self, group: ClassicGroup) -> None:
        """A Dead group was just deleted or has moved, so the client must find its coordinator again."""
        if group.state is ClassicState.DEAD:
            knows_error = self.settings.is_at_least(2, 3)
            raise Refusal(Errors.COORDINATOR_NOT_AVAILABLE if knows_error else Errors.UNKNOWN_MEMBER_ID)

    def validate_member(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, *, is_join_request: bool = False
    ) -> None:
        """- FENCED_INSTANCE_ID: another member has the instance id.
        - UNKNOWN_MEMBER_ID: no member has the member id, or the instance id (up to 2.8, only in JoinGroup).
        """
        _refuse_fenced(group, member_id, instance_id)
        needs_instance = instance_id is not None and (is_join_request or self.settings.is_at_least(3, 0))
        if (needs_instance and instance_id not in group.static_members) or member_id not in group.members:
            raise Refusal(Errors.UNKNOWN_MEMBER_ID)

    def validate_generation(self, group: ClassicGroup | None, request: messages.RequestOfMember) -> ClassicGroup:
        """Return the group, of which the request names a member and the generation."""
        if group is None:
            raise Refusal(Errors.UNKNOWN_MEMBER_ID)
        self.refuse_dead(group)
        self.validate_member(group, request.member_id, request.group_instance_id)
        if request.generation != group.generation:
            raise Refusal(Errors.ILLEGAL_GENERATION)
        return group

    def validate_commit(self, group: ClassicGroup, request: messages.OffsetCommitRequest) -> None:
        """A client that is not a member (generation below 0) may commit for an Empty group. Every other commit must
        come from a member of the current generation, and none is accepted while the group waits for the leader's
        assignment. Since 2.4, an error of the member comes first.
        """
        self.refuse_dead(group)
        if self.settings.is_before(3, 0):
            # A fenced member is refused even if the group is Empty or waits for the leader's assignment.
            _refuse_fenced(group, request.member_id, request.group_instance_id)
        if request.generation < 0 and group.state is ClassicState.EMPTY:
            return
        awaits_assignment = group.state is ClassicState.COMPLETING_REBALANCE
        if awaits_assignment and self.settings.is_before(2, 4):
            raise Refusal(Errors.REBALANCE_IN_PROGRESS)
        if request.generation < 0 and not request.member_id and request.group_instance_id is None:
            raise Refusal(Errors.UNKNOWN_MEMBER_ID)
        self.validate_generation(group, request)
        if awaits_assignment:
            raise Refusal(Errors.REBALANCE_IN_PROGRESS)

    def validate_txn_commit(self, group: ClassicGroup, request: messages.TxnOffsetCommitRequest) -> None:
        """Check the member of a transactional commit, which may contain none (generation below 0, member id "").

        - Before 2.5, the member is ignored, and a commit without a producer is checked like one of no member.
        - Since 3.0, a commit without a member is accepted; in an Empty group, every commit with a generation below 0.
          Any other commit must come from a member of the current generation.
        - From 2.5 to 2.8 (KIP-447), the instance id, the member id and the generation are checked separately, each only
          if the commit contains it.
        """
        self.refuse_dead(group)
        if self.settings.is_before(2, 5):
            if request.producer_id == NO_PRODUCER_ID:
                self.validate_commit(group, messages.OffsetCommitRequest(request.group_id, request.offsets))
        elif self.settings.is_at_least(3, 0):
            has_member = bool(request.member_id) or request.group_instance_id is not None
            if request.generation >= 0 or (has_member and group.state is not ClassicState.EMPTY):
                self.validate_generation(group, request)
        else:
            _refuse_fenced(group, request.member_id, request.group_instance_id)
            if request.member_id and request.member_id not in group.members:
                raise Refusal(Errors.UNKNOWN_MEMBER_ID)
            if request.generation >= 0 and request.generation != group.generation:
                raise Refusal(Errors.ILLEGAL_GENERATION)


def _refuse_fenced(group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
    if instance_id is not None and group.static_members.get(instance_id, member_id) != member_id:
        raise Refusal(Errors.FENCED_INSTANCE_ID)
