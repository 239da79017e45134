"""Checks of the member in a request: member id, instance id and generation.

A static member has an instance id, which the client sets (KIP-345). A dynamic member has no instance id. A member is
fenced if another member has its instance id.
Source: GroupCoordinator.validateCurrentMember, validateOffsetCommit (3.9); doCommitOffsets, doTxnCommitOffsets (tags
2.8.2 and 1.0.1).
"""

from __future__ import annotations

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.settings import Settings
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.states import ClassicState
from kafkagroups.log.batch import NO_PRODUCER_ID


class MemberValidator:
    """Checks whether the member in a request belongs to the group and to the group's current generation."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def validate_member(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, *, is_join_request: bool = False
    ) -> Errors:
        """Return NONE if the request comes from a member of the group, otherwise the error.

        - FENCED_INSTANCE_ID: another member has the instance id.
        - UNKNOWN_MEMBER_ID: no member has the instance id (up to 2.8, only in JoinGroup), or no member has the
          member id.
        """
        if instance_id is not None:
            if _is_fenced(group, member_id, instance_id):
                return Errors.FENCED_INSTANCE_ID
            is_unused = instance_id not in group.static_members
            if is_unused and (is_join_request or self.settings.is_at_least(3, 0)):
                return Errors.UNKNOWN_MEMBER_ID
        return Errors.NONE if member_id in group.members else Errors.UNKNOWN_MEMBER_ID

    def validate_generation(
        self, group: ClassicGroup | None, generation: int, member_id: str, instance_id: str | None
    ) -> Errors:
        """Return NONE if the request comes from a member of the group's current generation, otherwise the error."""
        if group is None:
            return Errors.UNKNOWN_MEMBER_ID
        if group.state is ClassicState.DEAD:
            return self.choose_dead_group_error()
        error = self.validate_member(group, member_id, instance_id)
        if error is not Errors.NONE:
            return error
        return Errors.NONE if generation == group.generation else Errors.ILLEGAL_GENERATION

    def validate_commit(self, group: ClassicGroup, generation: int, member_id: str, instance_id: str | None) -> Errors:
        """Return NONE if the commit is accepted, otherwise the error.

        A client that is not a member (generation below 0) may commit for an Empty group. Every other commit must come
        from a member of the current generation. While the group waits for the leader's assignment, no commit is
        accepted: the error is REBALANCE_IN_PROGRESS. Since 2.4, an error of the member comes first.
        """
        if group.state is ClassicState.DEAD:
            return self.choose_dead_group_error()
        # Up to 2.8 a fenced member is refused even if the group is Empty or waits for the leader's assignment.
        if self.settings.is_before(3, 0) and _is_fenced(group, member_id, instance_id):
            return Errors.FENCED_INSTANCE_ID
        if generation < 0 and group.state is ClassicState.EMPTY:
            return Errors.NONE
        if group.state is ClassicState.COMPLETING_REBALANCE and self.settings.is_before(2, 4):
            return Errors.REBALANCE_IN_PROGRESS
        if generation < 0 and not member_id and instance_id is None:
            return Errors.UNKNOWN_MEMBER_ID
        error = self.validate_generation(group, generation, member_id, instance_id)
        if error is Errors.NONE and group.state is ClassicState.COMPLETING_REBALANCE:
            return Errors.REBALANCE_IN_PROGRESS
        return error

    def validate_txn_commit(
        self, group: ClassicGroup, generation: int, member_id: str, instance_id: str | None, producer_id: int
    ) -> Errors:
        """Return NONE if the transactional commit is accepted, otherwise the error.

        A transactional commit does not have to contain a member (generation below 0, member id "", no instance id).

        - Before 2.5, the member is ignored. A commit with a producer is accepted. A commit without a producer
          (`producer_id` -1) is checked like a commit of a client that is not a member.
        - Since 3.0, a commit without a member is accepted. In an Empty group, every commit with a generation below 0 is
          accepted. Any other commit must come from a member of the current generation.
        - From 2.5 to 2.8 (KIP-447), the instance id, the member id and the generation are checked separately, each only
          if the commit contains it.
        """
        if group.state is ClassicState.DEAD:
            return self.choose_dead_group_error()
        if self.settings.is_before(2, 5):
            has_producer = producer_id != NO_PRODUCER_ID
            return Errors.NONE if has_producer else self.validate_commit(group, -1, "", None)
        if self.settings.is_at_least(3, 0):
            has_member = bool(member_id) or instance_id is not None
            if generation < 0 and (not has_member or group.state is ClassicState.EMPTY):
                return Errors.NONE
            return self.validate_generation(group, generation, member_id, instance_id)
        if _is_fenced(group, member_id, instance_id):
            return Errors.FENCED_INSTANCE_ID
        if member_id and member_id not in group.members:
            return Errors.UNKNOWN_MEMBER_ID
        has_generation = generation >= 0
        return Errors.ILLEGAL_GENERATION if has_generation and generation != group.generation else Errors.NONE

    def choose_dead_group_error(self) -> Errors:
        """Return the error for a Dead group.

        The group was just deleted or moved to another broker, so the client must find the group's coordinator again.
        """
        return Errors.COORDINATOR_NOT_AVAILABLE if self.settings.is_at_least(2, 3) else Errors.UNKNOWN_MEMBER_ID


def _is_fenced(group: ClassicGroup, member_id: str, instance_id: str | None) -> bool:
    """Return whether another member has this instance id."""
    if instance_id is None:
        return False
    return group.static_members.get(instance_id, member_id) != member_id
