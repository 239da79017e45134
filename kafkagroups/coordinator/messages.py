"""What clients send and get: the requests with many fields, which the methods of `GroupCoordinator` explain, the
results, Kafka's error codes, and the refusal of a request.

The fields of a `Message` have Kafka's names and types, in JSON as in Kafka's own generated classes (`json_name`), so
msgspec reads a recorded request and writes a response.

A failed append has an error code of its own, and clients get another one (`convert_group_append_error` and its
neighbours).
Source: the request schemas of 3.9 and 4.3.1 (JoinGroupRequest.json, TxnOffsetCommitRequest.json, …); Errors.java (3.9).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from functools import partial, wraps
from typing import Annotated, Any, Concatenate, Generic, ParamSpec, TypeVar, cast

import msgspec

from kafkagroups.groups.group import CONSUMER
from kafkagroups.groups.living_groups import ClassicGroup, ClassicMember
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.records.structs import camel_case


class Errors(IntEnum):
    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    UNSTABLE_OFFSET_COMMIT = 88
    UNKNOWN_TOPIC_ID = 100
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    TRANSACTION_ABORTABLE = 120
    INVALID_REGULAR_EXPRESSION = 128


_TOO_LARGE_ERRORS = (Errors.MESSAGE_TOO_LARGE, Errors.RECORD_LIST_TOO_LARGE, Errors.INVALID_FETCH_SIZE)
_COMMIT_ERRORS = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
    **dict.fromkeys(_TOO_LARGE_ERRORS, Errors.INVALID_COMMIT_OFFSET_SIZE),
}
_GROUP_ERRORS = {
    **_COMMIT_ERRORS,
    **dict.fromkeys(_TOO_LARGE_ERRORS, Errors.UNKNOWN_SERVER_ERROR),
    Errors.REQUEST_TIMED_OUT: Errors.REBALANCE_IN_PROGRESS,
}
_EVENT_ERRORS = {
    **_GROUP_ERRORS,
    Errors.REQUEST_TIMED_OUT: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NETWORK_EXCEPTION: Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}


def convert_group_append_error(error: Errors) -> Errors:
    """Return the error that members get if the append of their group's record ends with `error`.

    Source: GroupMetadataManager.storeGroup (3.9).
    """
    return _GROUP_ERRORS.get(error, error)


def convert_commit_append_error(error: Errors, *, verifies_transactions: bool) -> Errors:
    """Return the error that a client gets if the append of its commit ends with `error`.

    If `verifies_transactions`, the broker asks the transaction coordinator whether a transaction is open (since 3.7).
    If that does not answer, `error` is NETWORK_EXCEPTION, and the client must send the commit again.
    Source: GroupMetadataManager.maybeConvertOffsetCommitError (3.9).
    """
    if error is Errors.NETWORK_EXCEPTION and verifies_transactions:
        return Errors.COORDINATOR_LOAD_IN_PROGRESS
    return _COMMIT_ERRORS.get(error, error)


def convert_event_error(error: Errors) -> Errors:
    """Return the error that a client of the new coordinator gets if its request ends with `error`.

    Source: CoordinatorOperationExceptionHelper.handleOperationException,
    GroupMetadataManager.appendGroupMetadataErrorToResponseError (4.3.1).
    """
    return _EVENT_ERRORS.get(error, error)


def convert_heartbeat_error(error: Errors, message: str | None = None) -> Errors:
    """Return the answer to a Heartbeat that ends with `error`: during a load NONE, because no member is known yet.

    Source: GroupCoordinator.handleHeartbeat (3.9), GroupCoordinatorService.heartbeat (4.3.1).
    """
    return Errors.NONE if error is Errors.COORDINATOR_LOAD_IN_PROGRESS else error


class Refusal(Exception):
    """A request is refused: nothing is written, and the client gets the error and the text; None: only the error."""

    def __init__(self, error: Errors, message: str | None = None) -> None:
        super().__init__(message or error.name)
        self.error = error
        self.message = message


def find_error(check: Callable[..., object], *args: Any, **kwargs: Any) -> Errors:
    """Return the error with which a check refuses its arguments; NONE if it accepts them."""
    try:
        check(*args, **kwargs)
    except Refusal as refusal:
        return refusal.error
    return Errors.NONE


P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")
Request = TypeVar("Request")
Verbs = TypeVar("Verbs")

Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
JSON_NAMES = {
    "error": "errorCode",
    "message": "errorMessage",
    "generation": "generationId",
    "protocol": "protocolName",
    "offset": "committedOffset",
    "leader_epoch": "committedLeaderEpoch",
    "retention_ms": "retentionTimeMs",
    "state": "groupState",
    "type": "groupType",
    "assignor": "assignorName",
}


def json_name(name: str, **own_names: str) -> str:
    """Return the name of a field in JSON. `own_names` are names that other messages do not use."""
    return own_names.get(name) or JSON_NAMES.get(name) or camel_case(name)


class Message(msgspec.Struct, frozen=True, rename=json_name):
    """A request, a response, or a part of one."""


# Results

CommitErrors = dict[TopicPartition, Errors]
"""The result of a commit: an error code for each partition."""


class JoinedMember(Message, frozen=True):
    """A member in the leader's JoinGroup response. `metadata` is the member's subscription, as bytes."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinGroupResult(Message, frozen=True):
    """`leader` is the leader's member id; only the leader gets `members`.

    `skip_assignment` is True if the leader must not compute new assignments, because it is static and joined again
    without a rebalance.
    """

    error: Errors
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncGroupResult(Message, frozen=True):
    error: Errors
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class MemberIdentity(Message, frozen=True):
    """A member that leaves. A static member may have the member id "", because its instance id identifies it."""

    member_id: str
    group_instance_id: str | None = None


class LeaveGroupResult(Message, frozen=True):
    error: Errors
    members: tuple[tuple[MemberIdentity, Errors], ...] = ()


class OffsetCommit(Message, frozen=True):
    """An offset to commit.

    `leader_epoch` -1: none. `timestamp` is in ms since 1970; -1: the coordinator's time. Only OffsetCommit v1 contains
    one. The metadata None is stored as "".
    """

    offset: int
    metadata: str | None = ""
    leader_epoch: int = -1
    timestamp: int = -1


class FetchedOffset(Message, frozen=True):
    """A fetched offset. Offset -1 with error NONE means that no offset is stored, or that -1 was committed."""

    offset: int = -1
    metadata: str = ""
    leader_epoch: int = -1
    error: Errors = Errors.NONE


class OffsetFetchResult(Message, frozen=True):
    """If the group has an `error`, `offsets` is empty."""

    error: Errors
    offsets: Mapping[TopicPartition, FetchedOffset] = {}


class DescribedMember(
    Message, frozen=True, rename=partial(json_name, metadata="memberMetadata", assignment="memberAssignment")
):
    """A member as DescribeGroups returns it. `metadata` is the member's subscription, as bytes."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(Message, frozen=True, rename=partial(json_name, protocol="protocolData")):
    """A group as DescribeGroups returns it. The state of a group that does not exist is "Dead".

    Only a Stable group has a protocol, and its members metadata. Up to 3.9 the same is true for assignments; the new
    coordinator shows the last ones. `message` explains the error (since 4.0).
    """

    error: Errors
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
    message: str | None = None


class ListedGroup(Message, frozen=True):
    group_id: str
    protocol_type: str
    state: str
    type: str = "classic"


class OffsetDeleteResult(Message, frozen=True):
    """If the group has an `error`, `partitions` is empty."""

    error: Errors
    partitions: Mapping[TopicPartition, Errors] = {}


class ResponseFuture(Generic[T]):
    """The response to a request. `done` is True as soon as the request is answered.

    Examples
    --------
    >>> response = ResponseFuture()
    >>> response.then(print)
    >>> response.complete("generation 1")
    generation 1
    >>> response.done, response.value
    (True, 'generation 1')
    """

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._listeners: list[Callable[[T], None]] = []

    @classmethod
    def of(cls, value: T) -> ResponseFuture[T]:
        response = cls()
        response.complete(value)
        return response

    @property
    def value(self) -> T:
        """The response. Raises RuntimeError if the request is not answered yet."""
        if not self.done:
            raise RuntimeError("the request is not answered yet; advance the clock or complete what it waits for")
        return cast(T, self._value)

    def complete(self, value: T) -> None:
        """Answer the request with `value`, and call the listeners. If the request is already answered, do nothing."""
        if self.done:
            return
        self.done = True
        self._value = value
        for listener in self._listeners:
            listener(value)

    def then(self, listener: Callable[[T], None]) -> None:
        """Call the listener with the response: now if the request is answered, otherwise later."""
        if self.done:
            listener(self.value)
        else:
            self._listeners.append(listener)

    def bind(self, send: Callable[[T], ResponseFuture[U]]) -> ResponseFuture[U]:
        """Return the response to the request that `send` sends as soon as this one is answered."""
        last: ResponseFuture[U] = ResponseFuture()
        self.then(lambda value: send(value).then(last.complete))
        return last

    def map(self, convert: Callable[[T], U]) -> ResponseFuture[U]:
        return self.bind(lambda value: ResponseFuture.of(convert(value)))

    @classmethod
    def gather(cls, responses: Sequence[ResponseFuture[T]]) -> ResponseFuture[list[T]]:
        gathered: ResponseFuture[list[T]] = ResponseFuture.of([])
        for response in responses:
            gathered = gathered.bind(partial(_add_value, response))
        return gathered

    def __repr__(self) -> str:
        return f"ResponseFuture({self._value!r})" if self.done else "ResponseFuture(waiting)"


def _add_value(response: ResponseFuture[T], values: list[T]) -> ResponseFuture[list[T]]:
    return response.map(lambda value: [*values, value])


def build_join_result(group: ClassicGroup, member_id: str, leader: str | None = None) -> JoinGroupResult:
    """`leader` is the leader's member id in the result; None: the current leader. Only the leader gets the members."""
    leader_id = group.leader if leader is None else leader
    members = group.ordered_members() if leader_id == member_id else []
    return JoinGroupResult(
        Errors.NONE,
        member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        leader_id or "",
        members=tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.find_metadata(group.protocol))
            for member in members
        ),
    )


def build_sync_result(group: ClassicGroup, member: ClassicMember) -> SyncGroupResult:
    return SyncGroupResult(Errors.NONE, group.protocol_type, group.protocol, member.assignment)


def answer_join(member: ClassicMember, result: JoinGroupResult) -> None:
    callback, member.awaiting_join = member.awaiting_join, None
    if callback is not None:
        callback(result)


def answer_sync(member: ClassicMember, result: SyncGroupResult) -> None:
    callback, member.awaiting_sync = member.awaiting_sync, None
    if callback is not None:
        callback(result)


# Requests


def takes_fields_of(
    request_class: Callable[P, Request],
) -> Callable[[Callable[[Verbs, Request], T]], Callable[Concatenate[Verbs, P], T]]:
    """Return a decorator for a method that takes a request object: callers pass its fields."""

    def decorate(method: Callable[[Verbs, Request], T]) -> Callable[Concatenate[Verbs, P], T]:
        @wraps(method)
        def build_and_call(verbs: Verbs, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return method(verbs, request_class(*args, **kwargs))

        build_and_call.request_class = request_class  # type: ignore[attr-defined]
        own = inspect.signature(method)
        parameters = [next(iter(own.parameters.values())), *inspect.signature(request_class).parameters.values()]
        build_and_call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return build_and_call

    return decorate


class JoinGroupRequest(Message, frozen=True):
    group_id: str
    protocols: Sequence[tuple[str, bytes]]
    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    session_timeout_ms: Int32 = 45_000
    rebalance_timeout_ms: Int32 = 300_000
    protocol_type: str = CONSUMER
    require_known_member_id: bool | None = None
    supports_skip_assignment: bool | None = None


class MemberRequest(Message, frozen=True):
    group_id: str
    generation: Int32
    member_id: str


class HeartbeatRequest(MemberRequest, frozen=True, kw_only=True):
    group_instance_id: str | None = None


class SyncGroupRequest(HeartbeatRequest, frozen=True):
    assignments: Mapping[str, bytes] | None = None
    protocol_type: str | None = None
    protocol: str | None = None


class OffsetFetchRequest(Message, frozen=True):
    group_id: str
    partitions: Collection[TopicPartition] | None = None
    require_stable: bool = False
    by_topic_id: bool = False
    member_id: str | None = None
    member_epoch: int = -1


class CommitRequest(Message, frozen=True, rename=partial(json_name, generation="generationIdOrMemberEpoch")):
    group_id: str
    offsets: Mapping[TopicPartition, OffsetCommit]
    generation: Int32 = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetCommitRequest(CommitRequest, frozen=True):
    retention_ms: Int64 = -1
    supports_group_not_found: bool = True


class TxnOffsetCommitRequest(CommitRequest, frozen=True, kw_only=True):
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    supports_abortable_error: bool = True
    supports_stale_epoch: bool = True


RequestOfMember = HeartbeatRequest | CommitRequest
"""The requests that name a member and its generation."""
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""The epochs in a heartbeat that do not stand for an epoch: the member joins, leaves, or leaves for a restart."""
FIRST_WITH_CLIENT_MEMBER_ID = 1
"""The first version of the request in which the client chooses the member id."""


class ConsumerHeartbeat(Message, frozen=True):
    """A ConsumerGroupHeartbeat request. None, and -1 for the rebalance timeout, means: as before.

    `topic_partitions` are the partitions that the member owns, by topic id.
    """

    group_id: str
    member_id: str
    member_epoch: Int32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Collection[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: Mapping[str, Collection[Int32]] | None = None
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    version: int = FIRST_WITH_CLIENT_MEMBER_ID

    @property
    def is_full(self) -> bool:
        has_subscription = self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        return self.rebalance_timeout_ms != -1 and has_subscription and self.topic_partitions is not None


class ConsumerHeartbeatResult(Message, frozen=True):
    """None: the assignment did not change, or the request was refused."""

    error: Errors = Errors.NONE
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Mapping[str, Collection[int]] | None = None
