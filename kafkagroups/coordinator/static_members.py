"""The replacement of a static member: a new member id gets the instance id (KIP-345).

A static member has an instance id, which the client sets. After a restart the client joins without a member id, but
with the same instance id. The coordinator then gives the static member a new member id.
Source: GroupCoordinator.updateStaticMemberAndRebalance, GroupMetadata.replaceStaticMember (3.9); replaceGroupInstance
(2.8.2).
"""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.member_responses import answer_join, answer_sync, build_join_result
from kafkagroups.coordinator.rebalance import Rebalances
from kafkagroups.coordinator.response_future import ResponseFuture
from kafkagroups.coordinator.results import JoinGroupResult, SyncGroupResult
from kafkagroups.groups.classic_group import ClassicGroup, ClassicMember, Protocols
from kafkagroups.groups.states import ClassicState


class _ReplacedMember(NamedTuple):
    """What a static member was before the replacement, and the group's leader."""

    member_id: str
    leader_id: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols


class StaticMembers:
    """The replacement of static members in all groups."""

    def __init__(self, rebalances: Rebalances) -> None:
        self.rebalances = rebalances
        self.manager = rebalances.manager
        self.settings = rebalances.settings

    def replace(
        self,
        group: ClassicGroup,
        instance_id: str,
        joining: ClassicMember,
        response: ResponseFuture[JoinGroupResult],
        *,
        supports_skip_assignment: bool,
    ) -> None:
        """Give the instance id to the joining member. Requests with the old member id get FENCED_INSTANCE_ID.

        If the group is Stable and the protocol stays the same, there is no rebalance. `supports_skip_assignment` says
        whether the client supports the response field `skip_assignment` (JoinGroup v9).
        """
        member = group.members[group.static_members[instance_id]]
        previous = _ReplacedMember(
            member.member_id,
            group.leader or "",
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.protocols,
        )
        answer_join(member, JoinGroupResult(Errors.FENCED_INSTANCE_ID, previous.member_id))
        answer_sync(member, SyncGroupResult(Errors.FENCED_INSTANCE_ID))
        group.replace_static_member(instance_id, previous.member_id, joining.member_id)
        if self.settings.is_at_least(4, 0):
            member.is_new = False
        self.rebalances.sessions.restart(group, member)
        self.rebalances.update_subscription(member, joining, response)
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.rebalances.prepare(group)
        elif group.state is ClassicState.STABLE and group.select_protocol() != group.protocol:
            self.rebalances.maybe_prepare(group)
        elif group.state is ClassicState.STABLE:
            self._store_new_member_id(
                group, member, previous, response, supports_skip_assignment=supports_skip_assignment
            )

    def _store_new_member_id(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        previous: _ReplacedMember,
        response: ResponseFuture[JoinGroupResult],
        *,
        supports_skip_assignment: bool,
    ) -> None:
        """Write the group's record with the new member id, without a new generation. Then answer the JoinGroup.

        If the append fails, the static member gets the previous member id and the previous timeouts again. If the
        client does not support the field `skip_assignment`, the response contains the previous leader's member id, so
        the member does not act as the leader.
        """
        new_id = member.member_id
        instance_id = member.group_instance_id or ""

        def complete(error: Errors) -> None:
            if error is not Errors.NONE:
                member.awaiting_join = None
                if self.settings.is_at_least(4, 0):  # Up to 3.9 the member keeps the new protocols.
                    member.protocols = previous.protocols
                member.rebalance_timeout_ms = previous.rebalance_timeout_ms
                member.session_timeout_ms = previous.session_timeout_ms
                if new_id not in group.members:
                    return  # The member was replaced again. Kafka throws an IllegalArgumentException here.
                group.replace_static_member(instance_id, new_id, previous.member_id)
                self.rebalances.sessions.restart(group, member)
                response.complete(build_join_result(group, error, "", leader=previous.leader_id))
                return
            must_skip_assignment = supports_skip_assignment and group.leader == member.member_id
            result = build_join_result(
                group,
                Errors.NONE,
                member.member_id,
                leader=None if supports_skip_assignment else previous.leader_id,
                with_members=must_skip_assignment,
                skip_assignment=must_skip_assignment,
            )
            answer_join(member, result)

        assignments = {group_member.member_id: group_member.assignment for group_member in group.ordered_members()}
        self.manager.store_group(group, assignments, complete)
