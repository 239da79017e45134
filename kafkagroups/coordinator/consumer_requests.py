"""The parts of a coordinator that all its requests share (`Requests`), and the requests that know consumer groups: the
new ones, with their results, and the classic ones to a group of a new type.

Simpler than Kafka: share and streams groups are only loaded. Classic requests to them get Kafka's answers.
Source: GroupCoordinatorService (also throwIfConsumerGroupHeartbeatRequestIsInvalid), GroupMetadataManager,
OffsetMetadataManager (4.3.1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import TypeVar, Unpack

from msgspec.structs import replace

from kafkagroups.coordinator import messages
from kafkagroups.coordinator.classic_members import ConvertibleGroups, require_consumer_group
from kafkagroups.coordinator.clock import Clock
from kafkagroups.coordinator.consumer_members import ConsumerMember, Epochs, Partitions, read_member
from kafkagroups.coordinator.consumer_targets import TopicImage, find_assignor, find_target
from kafkagroups.coordinator.group_store import Refuse, Result
from kafkagroups.coordinator.logs import OffsetsLogs
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.messages import Errors, Refusal, ResponseFuture
from kafkagroups.coordinator.partitioned_groups import PartitionedGroups
from kafkagroups.coordinator.rebalance import Rebalances, cancel_timers
from kafkagroups.coordinator.request_validation import RequestValidator, Surroundings
from kafkagroups.coordinator.settings import Settings
from kafkagroups.groups.group import CONSUMER, ClassicState
from kafkagroups.groups.living_groups import LivingGroup
from kafkagroups.groups.modern_group import ModernGroup, ModernMember
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.records.serde import Record
from kafkagroups.records.streams_group import StreamsGroupCurrentMemberAssignmentValue
from kafkagroups.records.wire import utf16_length

T = TypeVar("T")


logger = logging.getLogger("kafkagroups.coordinator")


@dataclass(frozen=True)
class DescribedConsumer:
    """A member in a DescribedConsumerGroup, with its partitions by topic id, of topics that exist."""

    member: ConsumerMember
    owned: Partitions
    target: Partitions


class DescribedConsumerGroup(messages.Message, frozen=True):
    """`topic_names` are the names of topics by id."""

    error: Errors
    group_id: str
    message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()
    topic_names: Mapping[str, str] = {}


def check_heartbeat(request: messages.ConsumerHeartbeat, settings: Settings) -> None:
    """Raise Refusal if a field has a value that no group accepts. The order of the checks is Kafka's."""
    epoch = request.member_epoch
    needs_member_id = epoch > 0 or epoch == messages.LEAVE_EPOCH
    if needs_member_id or request.version >= messages.FIRST_WITH_CLIENT_MEMBER_ID:
        _require_text(request.member_id, "MemberId")
    _require_text(request.group_id, "GroupId")
    _require_text(request.instance_id, "InstanceId")
    _require_text(request.rack_id, "RackId")
    if epoch == messages.JOIN_EPOCH:
        has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        owns_nothing = request.topic_partitions is not None and not request.topic_partitions
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        _require(owns_nothing, "TopicPartitions must be empty when (re-)joining.")
        _require(
            has_subscription, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )
    _require(epoch != messages.LEAVE_STATIC_EPOCH or request.instance_id is not None, "InstanceId can't be null.")
    _require(epoch >= messages.LEAVE_STATIC_EPOCH, "MemberEpoch is invalid.")
    assignors = settings.consumer.assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        supported = ", ".join(assignors)
        raise Refusal(
            Errors.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}.",
        )


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise Refusal(Errors.INVALID_REQUEST, reason)


def _require_text(value: str | None, name: str) -> None:
    # Java's trim removes all characters up to the space.
    _require(value is None or bool(value.strip("".join(map(chr, range(33))))), f"{name} can't be empty.")


class Requests:
    """What the requests of a coordinator share: its parts, and what it does with the groups of a loaded partition."""

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
        self.rebalances = Rebalances(self.manager)
        self.new_member_id = new_member_id
        if isinstance(self.manager, PartitionedGroups):
            self.image = TopicImage(
                {} if self.validator.topics is None else self.validator.topics, self.validator.topic_ids
            )
            group_configs = surroundings.get("group_configs", {})
            self.consumer_groups = ConvertibleGroups(self.manager, self.rebalances, self.image, group_configs)

    def _start_group(self, group: LivingGroup) -> None:
        """A loaded group that is larger than group.max.size must rebalance."""
        if isinstance(group, ModernGroup):
            if group.type == CONSUMER:
                self.consumer_groups.start_group(group)
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
            self.consumer_groups.stop_group(group)
            return
        logger.info("Unloading group metadata for %s with generation %d", group.group_id, group.generation)
        answers_joins = group.state is ClassicState.PREPARING_REBALANCE
        group.transition_to(ClassicState.DEAD, self.clock.now_ms)
        for member in group.ordered_members():
            if answers_joins:
                messages.answer_join(member, messages.JoinGroupResult(Errors.NOT_COORDINATOR, member.member_id))
            messages.answer_sync(member, messages.SyncGroupResult(Errors.NOT_COORDINATOR))
        cancel_timers(group)

    def _handle(
        self, group_id: str, check: Callable[[], None], handler: Callable[[], Result[T]], refuse: Refuse[T]
    ) -> ResponseFuture[T]:
        """Let the manager handle a request, unless `check` refuses it."""
        try:
            check()
        except Refusal as refusal:
            return ResponseFuture.of(refuse(refusal.error, refusal.message))
        return self.manager.write(group_id, handler, refuse)


class ConsumerGroupRequests(Requests):
    @messages.takes_fields_of(messages.ConsumerHeartbeat)
    def consumer_group_heartbeat(
        self, request: messages.ConsumerHeartbeat
    ) -> ResponseFuture[messages.ConsumerHeartbeatResult]:
        """Answer the heartbeat of a member of a consumer group: it joins, stays or leaves (KIP-848, since 4.0).

        A member joins with member epoch 0, leaves with -1, and as a static member for a restart with -2. In `version` 0
        of the request, the broker chooses the member id; later the client does. Consumer groups need the coordinator's
        `topics` and `topic_ids`: a topic without an id gives no member a partition.

        The result has the member's epoch, and its assignment if that changed. Errors: INVALID_REQUEST for a field,
        UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH if
        the member must join again, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID and GROUP_MAX_SIZE_REACHED.
        UNSUPPORTED_VERSION if the broker has no consumer groups. Source: GroupMetadataManager.consumerGroupHeartbeat.
        """
        if self.settings.is_before(4, 0):
            return ResponseFuture.of(messages.ConsumerHeartbeatResult(Errors.UNSUPPORTED_VERSION))
        needs_id = request.member_epoch == messages.JOIN_EPOCH and not request.member_id
        member_id = self.new_member_id(request.client_id) if needs_id else request.member_id

        def handle() -> Result[messages.ConsumerHeartbeatResult]:
            group_id = request.group_id
            records: list[Record] = []
            if request.member_epoch in (messages.LEAVE_EPOCH, messages.LEAVE_STATIC_EPOCH):
                return self.consumer_groups.leave(request, self._require_group(group_id, "Group"))
            if request.member_epoch != messages.JOIN_EPOCH:
                group = self._require_group(group_id, "Consumer group")
            else:
                group = self.consumer_groups.find_or_create(group_id, records)
            return self.consumer_groups.heartbeat(replace(request, member_id=member_id), group, records)

        check = partial(self._check_heartbeat, request)
        return self._handle(request.group_id, check, handle, messages.ConsumerHeartbeatResult)

    def _check_heartbeat(self, request: messages.ConsumerHeartbeat) -> None:
        validator = self.validator
        if not validator.authorize("READ", "GROUP", request.group_id):
            raise Refusal(Errors.GROUP_AUTHORIZATION_FAILED)
        if not all(validator.authorize("DESCRIBE", "TOPIC", name) for name in request.subscribed_topic_names or ()):
            raise Refusal(Errors.TOPIC_AUTHORIZATION_FAILED)
        validator.check_group(request.group_id, "CONSUMER_GROUP_HEARTBEAT")
        check_heartbeat(request, self.settings)
        validator.check_partition(request.group_id)

    def _require_group(self, group_id: str, kind: str) -> ModernGroup:
        group = self.manager.find_group(group_id)
        if group is None:
            raise Refusal(Errors.GROUP_ID_NOT_FOUND, f"{kind} {group_id} not found.")
        return require_consumer_group(group, group_id)

    def consumer_group_describe(self, group_ids: Iterable[str]) -> list[DescribedConsumerGroup]:
        """Return the state and the members of consumer groups (since 4.0).

        Source: GroupCoordinatorService.consumerGroupDescribe.
        """
        descriptions = []
        for group_id in group_ids:
            try:
                descriptions.append(self._describe_consumer_group(group_id))
            except Refusal as refusal:
                descriptions.append(DescribedConsumerGroup(refusal.error, group_id, refusal.message))
        return descriptions

    def _describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        if self.settings.is_before(4, 0):
            raise Refusal(Errors.UNSUPPORTED_VERSION)
        self.validator.check_request(group_id, "CONSUMER_GROUP_DESCRIBE", "DESCRIBE")
        with self.manager.committed():
            group = self._require_group(group_id, "Group")
            names = self.image.names_by_id()
            return DescribedConsumerGroup(
                Errors.NONE,
                group_id,
                None,
                group.state.value,
                group.group_epoch,
                group.assignment_epoch,
                find_assignor(group, self.settings.consumer.assignors[0]),
                tuple(self._describe_member(group, member_id, names) for member_id in group.ordered_member_ids()),
                names,
            )

    def _describe_member(self, group: ModernGroup, member_id: str, topic_ids: Collection[str]) -> DescribedConsumer:
        member = read_member(group.members[member_id])
        owned: Epochs = {topic_id: dict(epochs) for topic_id, epochs in member.assigned.items()}
        for topic_id, epochs in member.revoking.items():
            owned.setdefault(topic_id, {}).update(epochs)
        target = find_target(group, member_id)
        return DescribedConsumer(
            member,
            {topic_id: owned[topic_id] for topic_id in owned if topic_id in topic_ids},
            {topic_id: target[topic_id] for topic_id in target if topic_id in topic_ids},
        )

    # Offsets of groups of a new type

    def _find_modern_group(
        self, request: messages.CommitRequest, offsets: Mapping[TopicPartition, messages.OffsetCommit]
    ) -> ModernGroup | None:
        """Return the group of a commit; None if it is not of a new type. Raises Refusal if the commit is refused.

        Members of the new protocols may commit since version 9, the first that supports GROUP_ID_NOT_FOUND. An older
        epoch is accepted if the member has had all partitions since then.
        """
        group = self.manager.find_modern_group(request.group_id)
        epoch = request.generation
        member_id = request.member_id
        if group is not None and group.type == "share":
            raise Refusal(Errors.GROUP_ID_NOT_FOUND)
        if group is None or (epoch < 0 and not group.members):
            return group
        is_transactional = isinstance(request, messages.TxnOffsetCommitRequest)
        if is_transactional and epoch == -1 and not member_id and request.group_instance_id is None:
            return group
        member = _find_modern_member(group, member_id)
        is_old = isinstance(request, messages.OffsetCommitRequest) and not request.supports_group_not_found
        if is_old and not member.uses_classic_protocol:
            raise Refusal(Errors.UNSUPPORTED_VERSION)
        if epoch < member.member_epoch:
            limit = self.settings.offset_metadata_max_bytes
            partitions = [each for each, offset in offsets.items() if utf16_length(offset.metadata or "") <= limit]
            if self._has_had(group, member_id, epoch, partitions):
                return group
        if isinstance(request, messages.TxnOffsetCommitRequest) and not request.supports_stale_epoch:
            _check_epoch(member, epoch, Errors.ILLEGAL_GENERATION)
        _check_epoch(member, epoch)
        return group

    def _has_had(self, group: ModernGroup, member_id: str, epoch: int, partitions: Sequence[TopicPartition]) -> bool:
        subtopologies = group.subtopologies_by_topic()
        epochs = _find_epochs(group.members[member_id])
        for topic, partition in partitions:
            part = subtopologies.get(topic) if group.type == "streams" else self.image.id_of(topic)
            since = epochs.get((part, partition))
            if since is None or epoch < since:
                return False
        return True

    def _validate_modern_fetch(self, group: ModernGroup, member_id: str | None, epoch: int) -> None:
        if group.type == "share" or (member_id is None and epoch < 0):
            return
        if member_id is None:
            raise Refusal(Errors.UNKNOWN_SERVER_ERROR)
        _check_epoch(_find_modern_member(group, member_id), epoch)


def _find_modern_member(group: ModernGroup, member_id: str) -> ModernMember:
    if member_id not in group.members:
        raise Refusal(Errors.UNKNOWN_MEMBER_ID)
    return group.members[member_id]


def _check_epoch(member: ModernMember, epoch: int, error: Errors = Errors.STALE_MEMBER_EPOCH) -> None:
    """`error` is that of a member that does not use the classic protocol."""
    if epoch != member.member_epoch:
        raise Refusal(Errors.ILLEGAL_GENERATION if member.uses_classic_protocol else error)


def _find_epochs(member: ModernMember) -> dict[tuple[str | None, int], int]:
    """Return since which epoch a member has each partition or active task, by topic id or subtopology."""
    value = member.assignment
    if isinstance(value, StreamsGroupCurrentMemberAssignmentValue):
        default = max(member.member_epoch, 0)
        return {
            (tasks.subtopology_id, number): since
            for tasks in (*value.active_tasks_pending_revocation, *value.active_tasks)
            for number, since in zip_longest(tasks.partitions, tasks.assignment_epochs or (), fillvalue=default)
        }
    consumer = read_member(member)
    return {
        (topic_id, number): since
        for assignment in (consumer.revoking, consumer.assigned)
        for topic_id, epochs in assignment.items()
        for number, since in epochs.items()
    }
