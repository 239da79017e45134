"""The results of JoinGroup and SyncGroup, and the answers to a member's waiting requests."""

from __future__ import annotations

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.results import JoinedMember, JoinGroupResult, SyncGroupResult
from kafkagroups.groups.classic_group import ClassicGroup, ClassicMember


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
