"""The responses to requests, also those that arrive later, for example at the end of a rebalance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.groups.classic_group import ClassicGroup, ClassicMember
from kafkagroups.groups.offsets import TopicPartition

CommitErrors = dict[TopicPartition, Errors]
"""The result of a commit: an error code for each partition."""


@dataclass(frozen=True)
class JoinedMember:
    """A member in the leader's JoinGroup response. `metadata` is the member's subscription, as bytes.

    The leader computes the assignments from the subscriptions of all members.
    """

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True)
class JoinGroupResult:
    """The result of JoinGroup.

    `leader` is the leader's member id. `members` is empty, except in the response to the leader. `skip_assignment` is
    True if the leader must not compute new assignments, because a static leader joined again without a rebalance.
    """

    error: Errors
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True)
class SyncGroupResult:
    """The result of SyncGroup: the member's assignment, or an error."""

    error: Errors
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True)
class MemberIdentity:
    """A member that leaves. A static member may have the member id "", because its instance id identifies it."""

    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True)
class LeaveGroupResult:
    """The result of LeaveGroup. `error` is the error of the whole request. `members` has the error of each member."""

    error: Errors
    members: tuple[tuple[MemberIdentity, Errors], ...] = ()


@dataclass(frozen=True)
class OffsetCommit:
    """An offset to commit.

    `leader_epoch` -1 means that the commit has no leader epoch. `timestamp` is in ms since 1970; -1 means the
    coordinator's current time. Only version 1 of OffsetCommit contains a timestamp. The metadata None is stored as "".
    """

    offset: int
    metadata: str | None = ""
    leader_epoch: int = -1
    timestamp: int = -1


@dataclass(frozen=True)
class FetchedOffset:
    """A fetched offset. Offset -1 with error NONE means that no offset is stored, or that -1 was committed.

    `leader_epoch` -1 means that the commit had no leader epoch. `topic_id` is the topic's id at the time of the commit;
    None if the record contains none (before 4.1).
    """

    offset: int = -1
    metadata: str = ""
    leader_epoch: int = -1
    error: Errors = Errors.NONE
    topic_id: str | None = None


@dataclass(frozen=True)
class OffsetFetchResult:
    """The result of OffsetFetch. `error` is the error of the group. If `error` is not NONE, `offsets` is empty."""

    error: Errors
    offsets: Mapping[TopicPartition, FetchedOffset] = field(default_factory=dict)


@dataclass(frozen=True)
class DescribedMember:
    """A member as DescribeGroups returns it. `metadata` is the member's subscription, as bytes."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True)
class DescribedGroup:
    """A group as DescribeGroups returns it.

    Only a Stable group has a protocol. The members have metadata only if the group is Stable, and up to 3.9 the same is
    true for assignments; the new coordinator shows the last assignments. The state of a group that does not exist is
    "Dead". `message` explains the error (since 4.0).
    """

    error: Errors
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()
    message: str | None = None


@dataclass(frozen=True)
class ListedGroup:
    """A group as ListGroups returns it."""

    group_id: str
    protocol_type: str
    state: str
    type: str = "classic"


@dataclass(frozen=True)
class OffsetDeleteResult:
    """The result of OffsetDelete. `error` is the error of the group. If `error` is not NONE, `partitions` is empty."""

    error: Errors
    partitions: Mapping[TopicPartition, Errors] = field(default_factory=dict)


T = TypeVar("T")


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

    @property
    def value(self) -> T:
        """The response. Raises RuntimeError if the request is not answered yet."""
        if self._value is None:
            raise RuntimeError("the request is not answered yet; advance the clock or complete what it waits for")
        return self._value

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

    def __repr__(self) -> str:
        return f"ResponseFuture({self._value!r})" if self.done else "ResponseFuture(waiting)"


def build_join_result(
    group: ClassicGroup,
    error: Errors,
    member_id: str,
    *,
    leader: str | None = None,
    with_members: bool = False,
    skip_assignment: bool = False,
) -> JoinGroupResult:
    """Return the JoinGroup result for the group's current generation.

    Parameters
    ----------
    leader
        The leader's member id in the result. None: the group's current leader.
    with_members
        Whether the result contains all members of the group, as the leader needs them.
    skip_assignment
        Whether the result says that the leader must not compute a new assignment.
    """
    leader_id = group.leader if leader is None else leader
    members = group.ordered_members() if with_members else []
    return JoinGroupResult(
        error,
        member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=leader_id or "",
        skip_assignment=skip_assignment,
        members=tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.find_metadata(group.protocol))
            for member in members
        ),
    )


def build_sync_result(group: ClassicGroup, member: ClassicMember) -> SyncGroupResult:
    """Return the SyncGroup result with the member's current assignment."""
    return SyncGroupResult(Errors.NONE, group.protocol_type, group.protocol, member.assignment)


def answer_join(member: ClassicMember, result: JoinGroupResult) -> None:
    """Answer the member's JoinGroup, if it waits for a response."""
    callback = member.awaiting_join
    member.awaiting_join = None
    if callback is not None:
        callback(result)


def answer_sync(member: ClassicMember, result: SyncGroupResult) -> None:
    """Answer the member's SyncGroup, if it waits for a response."""
    callback = member.awaiting_sync
    member.awaiting_sync = None
    if callback is not None:
        callback(result)
