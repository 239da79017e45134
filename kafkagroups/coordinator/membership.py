"""SyncGroup, Heartbeat and LeaveGroup, with the checks in Kafka's order.

Source: GroupCoordinator.handleSyncGroup, validateSyncGroup, handleHeartbeat, validateHeartbeat, handleLeaveGroup (3.9;
tags 2.8.2 and 1.0.1 where the version matters).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkagroups.coordinator.consumer_coordinator import ModernRequests
from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.messages import (
    LeaveGroupResult,
    MemberIdentity,
    ResponseFuture,
    SyncGroupResult,
    build_sync_result,
)
from kafkagroups.coordinator.rebalance import Rebalances
from kafkagroups.coordinator.request_validation import MemberValidator, RequestValidator
from kafkagroups.groups.classic_group import CONSUMER, ClassicGroup
from kafkagroups.groups.group import ClassicState
from kafkagroups.groups.modern_group import ModernGroup


class MemberRequests:
    """The SyncGroup, Heartbeat and LeaveGroup requests of all groups."""

    def __init__(
        self,
        validator: RequestValidator,
        member_validator: MemberValidator,
        rebalances: Rebalances,
        modern: ModernRequests | None = None,
    ) -> None:
        self.modern = modern
        self.validator = validator
        self.member_validator = member_validator
        self.rebalances = rebalances
        self.manager = validator.manager
        self.settings = validator.settings

    def sync(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        assignments: Mapping[str, bytes],
        *,
        group_instance_id: str | None,
        protocol_type: str | None,
        protocol: str | None,
    ) -> ResponseFuture[SyncGroupResult]:
        """Answer a SyncGroup. If the leader has not sent the assignments yet, the answer comes later.

        While the group is loading, up to 3.9 the answer is an error that makes the member join again: an unfinished
        rebalance is not in the log. Since 4.0, a SyncGroup in a Stable group does not restart the session timer.
        """
        response: ResponseFuture[SyncGroupResult] = ResponseFuture()
        error = self.validator.check_request(group_id, "SYNC_GROUP", "READ")
        modern_group = self._find_consumer_group(group_id) if error is Errors.NONE else None
        if modern_group is not None and self.modern is not None:
            identity = MemberIdentity(member_id, group_instance_id)
            return self.modern.classic_members.sync(modern_group, generation, identity, (protocol_type, protocol))
        group = self.manager.get_group(group_id)
        if error is Errors.COORDINATOR_LOAD_IN_PROGRESS and self.settings.is_before(4, 0):
            error = Errors.REBALANCE_IN_PROGRESS if self.settings.is_at_least(2, 0) else Errors.UNKNOWN_MEMBER_ID
        elif error is Errors.NONE:
            error = self.member_validator.validate_generation(group, generation, member_id, group_instance_id)
            if error is Errors.NONE and group is not None:
                error = _check_protocol(group, protocol_type, protocol)
        if error is not Errors.NONE or group is None:
            response.complete(SyncGroupResult(error))
            return response
        member = group.members[member_id]
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.rebalances.sync(group, member, assignments, response)
        else:
            self.rebalances.mark_synced(group, member)
            response.complete(build_sync_result(group, member))
            if self.settings.is_before(4, 0):
                self.rebalances.sessions.restart(group, member)
        return response

    def heartbeat(self, group_id: str, generation: int, member_id: str, group_instance_id: str | None) -> Errors:
        """Restart the member's session timer. If the answer is REBALANCE_IN_PROGRESS, the member must join again.

        While the group is loading, the answer is NONE, because the session timers start only after the load.
        While the group waits for the leader's assignment:

        - Before 2.6.1, the answer is REBALANCE_IN_PROGRESS, and the session timer is not restarted.
        - Before 2.3, in addition, the generation is not checked.
        """
        error = self.validator.check_request(group_id, "HEARTBEAT", "READ")
        if error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
            return Errors.NONE
        if error is not Errors.NONE:
            return error
        modern_group = self._find_consumer_group(group_id)
        if modern_group is not None and self.modern is not None:
            identity = MemberIdentity(member_id, group_instance_id)
            return self.modern.classic_members.heartbeat(modern_group, generation, identity)
        group = self.manager.get_group(group_id)
        awaits_assignment = group is not None and group.state is ClassicState.COMPLETING_REBALANCE
        if group is not None and awaits_assignment and self.settings.is_before(2, 3):
            return Errors.REBALANCE_IN_PROGRESS if member_id in group.members else Errors.UNKNOWN_MEMBER_ID
        error = self.member_validator.validate_generation(group, generation, member_id, group_instance_id)
        if error is not Errors.NONE or group is None:
            return error
        if awaits_assignment and self.settings.is_before(2, 6, 1):
            return Errors.REBALANCE_IN_PROGRESS
        self.rebalances.sessions.restart(group, group.members[member_id])
        return Errors.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING_REBALANCE else Errors.NONE

    def leave(self, group_id: str, members: Iterable[MemberIdentity | str]) -> LeaveGroupResult:
        """Remove members. Return an error code for each member, or one error if the whole request is refused."""
        error = self.validator.check_request(group_id, "LEAVE_GROUP", "READ")
        group = self.manager.get_group(group_id)
        if error is Errors.NONE and group is not None and group.state is ClassicState.DEAD:
            error = self.member_validator.choose_dead_group_error()
        if error is not Errors.NONE:
            return LeaveGroupResult(error)
        identities = [MemberIdentity(member) if isinstance(member, str) else member for member in members]
        modern_group = self._find_consumer_group(group_id)
        if modern_group is not None and self.modern is not None:
            return self.modern.classic_members.leave(modern_group, identities)
        results = []
        for identity in identities:
            member_error = Errors.UNKNOWN_MEMBER_ID if group is None else self._remove(group, identity)
            results.append((identity, member_error))
        return LeaveGroupResult(error, tuple(results))

    def _find_consumer_group(self, group_id: str) -> ModernGroup | None:
        """Return the consumer group with members; None if the group is another one."""
        group = self.manager.find_modern_group(group_id)
        return group if group is not None and group.type == CONSUMER and group.members else None

    def _remove(self, group: ClassicGroup, identity: MemberIdentity) -> Errors:
        """Remove a member or a pending member id. Return the member's error code."""
        if identity.member_id in group.pending_members:
            self.rebalances.remove_pending(group, identity.member_id)
            return Errors.NONE
        instance_id = identity.group_instance_id
        if identity.member_id:
            member_id = identity.member_id
            error = self.member_validator.validate_member(group, member_id, instance_id)
        else:
            member_id = "" if instance_id is None else group.static_members.get(instance_id, "")
            error = Errors.NONE if member_id else Errors.UNKNOWN_MEMBER_ID
        if error is Errors.NONE:
            self.rebalances.remove_member(group, group.members[member_id])
        return error


def _check_protocol(group: ClassicGroup, protocol_type: str | None, protocol: str | None) -> Errors:
    """Return an error if the member's protocol is not the group's protocol, or if the members must join again.

    In requests before KIP-559, `protocol_type` and `protocol` are None.
    """
    has_other_type = protocol_type is not None and protocol_type != group.protocol_type
    has_other_protocol = protocol is not None and protocol != group.protocol
    if has_other_type or has_other_protocol:
        return Errors.INCONSISTENT_GROUP_PROTOCOL
    return Errors.REBALANCE_IN_PROGRESS if group.state is ClassicState.PREPARING_REBALANCE else Errors.NONE
