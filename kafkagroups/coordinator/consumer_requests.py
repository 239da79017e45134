"""The requests of consumer groups: their fields, the checks of the fields, and their responses.

Source: ConsumerGroupHeartbeatRequest.json, ConsumerGroupDescribeResponse.json;
GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid (4.3.1).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field

from kafkagroups.coordinator.consumer_members import ConsumerMember, Partitions
from kafkagroups.coordinator.error_codes import Errors, Refusal

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""The epochs in a heartbeat that do not stand for an epoch: the member joins, leaves, or leaves for a restart."""
FIRST_WITH_CLIENT_MEMBER_ID = 1
"""The first version of the request in which the client chooses the member id."""


@dataclass(frozen=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request. None, and -1 for the rebalance timeout, means: as before.

    `topic_partitions` are the partitions that the member owns, by topic id. `version` is the version of the request.
    """

    group_id: str
    member_id: str
    member_epoch: int
    _: KW_ONLY
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: Collection[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: Mapping[str, Collection[int]] | None = None
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    version: int = FIRST_WITH_CLIENT_MEMBER_ID

    @property
    def is_full(self) -> bool:
        """Whether the request repeats everything, so that the response repeats the assignment."""
        has_subscription = self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        return self.rebalance_timeout_ms != -1 and has_subscription and self.topic_partitions is not None


@dataclass(frozen=True)
class ConsumerHeartbeatResult:
    """The result of ConsumerGroupHeartbeat. `assignment` is None if it did not change.

    `member_id` is None if the request was refused.
    """

    error: Errors = Errors.NONE
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Mapping[str, Collection[int]] | None = None


@dataclass(frozen=True)
class DescribedConsumer:
    """A member in a DescribedConsumerGroup. `owned` and `target` are partitions by topic id, of topics that exist."""

    member: ConsumerMember
    owned: Partitions
    target: Partitions


@dataclass(frozen=True)
class DescribedConsumerGroup:
    """The result of ConsumerGroupDescribe for one group. `topic_names` are the names of topics by id."""

    error: Errors
    group_id: str
    message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()
    topic_names: Mapping[str, str] = field(default_factory=dict)


def check_heartbeat(request: ConsumerHeartbeat, assignors: Collection[str]) -> None:
    """Raise Refusal if a field has a value that no group accepts. The order of the checks is Kafka's."""
    needs_member_id = request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH
    if needs_member_id or request.version >= FIRST_WITH_CLIENT_MEMBER_ID:
        _require_text(request.member_id, "MemberId")
    _require_text(request.group_id, "GroupId")
    _require_text(request.instance_id, "InstanceId")
    _require_text(request.rack_id, "RackId")
    if request.member_epoch == JOIN_EPOCH:
        _check_joining(request)
    elif request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise Refusal(Errors.INVALID_REQUEST, "InstanceId can't be null.")
    elif request.member_epoch < LEAVE_STATIC_EPOCH:
        raise Refusal(Errors.INVALID_REQUEST, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        supported = ", ".join(assignors)
        raise Refusal(
            Errors.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}.",
        )


def _check_joining(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms == -1:
        raise Refusal(Errors.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or len(request.topic_partitions):
        raise Refusal(Errors.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise Refusal(
            Errors.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )


def _require_text(value: str | None, name: str) -> None:
    # Java's trim removes all characters up to the space.
    if value is not None and not value.strip("".join(map(chr, range(33)))):
        raise Refusal(Errors.INVALID_REQUEST, f"{name} can't be empty.")
