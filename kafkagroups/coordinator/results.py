"""What the coordinator answers. An `Answer` may come later: a JoinGroup hangs until the rebalance is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.classic_member import ClassicMember
from kafkagroups.groups.offsets import TopicPartition

T = TypeVar("T")


class Answer(Generic[T]):
    """An answer that is there (`done`), or will be. Only the first value counts."""

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._listeners: list[Callable[[T], None]] = []

    @property
    def value(self) -> T:
        """The answer. RuntimeError while there is none."""
        if self._value is None:
            raise RuntimeError("the request is not answered yet")
        return self._value

    def complete(self, value: T) -> None:
        if not self.done:
            self.done, self._value = True, value
            for listener in self._listeners:
                listener(value)

    def then(self, listener: Callable[[T], None]) -> None:
        """Calls the listener with the answer, now or when it comes."""
        if self.done:
            listener(self.value)
        else:
            self._listeners.append(listener)

    def __repr__(self) -> str:
        return f"Answer({self._value!r})" if self.done else "Answer(waiting)"


@dataclass(frozen=True)
class JoinedMember:
    """A member as its leader learns of it, to compute the assignment."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True)
class JoinGroupResult:
    """`members` is for the leader only. `skip_assignment`: a static leader that came back keeps the assignment."""

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
    error: Errors
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True)
class MemberIdentity:
    """Who leaves: a member id, or a static member's instance id with member id ""."""

    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True)
class LeaveGroupResult:
    """`members`: each with its own error; `error` is the request's."""

    error: Errors
    members: tuple[tuple[MemberIdentity, Errors], ...] = ()


@dataclass(frozen=True)
class OffsetCommit:
    """An offset to commit. `timestamp` in ms, -1 = now (OffsetCommit v1 could say); metadata None becomes ""."""

    offset: int
    metadata: str | None = ""
    leader_epoch: int = -1
    timestamp: int = -1


CommitErrors = dict[TopicPartition, Errors]


@dataclass(frozen=True)
class FetchedOffset:
    """Offset -1 with error NONE: nothing is stored (or -1 was)."""

    offset: int = -1
    metadata: str = ""
    leader_epoch: int = -1
    error: Errors = Errors.NONE


@dataclass(frozen=True)
class OffsetFetchResult:
    """`error` is the group's; the offsets are then missing."""

    error: Errors
    offsets: Mapping[TopicPartition, FetchedOffset] = field(default_factory=dict)


@dataclass(frozen=True)
class DescribedMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True)
class DescribedGroup:
    """Metadata, assignments and the protocol are told in Stable only. A group that nobody knows is "Dead"."""

    error: Errors
    group_id: str
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True)
class OffsetDeleteResult:
    """`error` is the group's; then there are no partitions."""

    error: Errors
    partitions: Mapping[TopicPartition, Errors] = field(default_factory=dict)


def joined(
    group: ClassicGroup,
    error: Errors,
    member_id: str,
    leader: str | None = None,
    *,
    tells: bool = False,
    skips: bool = False,
) -> JoinGroupResult:
    """The group's generation, as a JoinGroup is answered. `tells`: with its members, which only a leader learns."""
    members = [
        JoinedMember(each.member_id, each.group_instance_id, each.metadata(group.protocol)) for each in group.told()
    ] if tells else []  # fmt: skip
    return JoinGroupResult(
        error, member_id, group.generation, group.protocol_type, group.protocol,
        (group.leader or "") if leader is None else leader, skips, tuple(members),
    )  # fmt: skip


def synced_to(group: ClassicGroup, member: ClassicMember) -> SyncGroupResult:
    return SyncGroupResult(Errors.NONE, group.protocol_type, group.protocol, member.assignment)


def answer_join(member: ClassicMember, result: JoinGroupResult) -> None:
    """Answers the member's JoinGroup, if one hangs."""
    waiting, member.awaiting_join = member.awaiting_join, None
    if waiting is not None:
        waiting(result)


def answer_sync(member: ClassicMember, result: SyncGroupResult) -> None:
    waiting, member.awaiting_sync = member.awaiting_sync, None
    if waiting is not None:
        waiting(result)
