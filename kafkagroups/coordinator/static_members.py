"""The replacement of a static member: a new member id gets the instance id (KIP-345).

Source: GroupCoordinator.updateStaticMemberAndRebalance, GroupMetadata.replaceStaticMember (3.9); replaceGroupInstance
(2.8.2).
"""

from __future__ import annotations

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.member_responses import answer_join, answer_sync, build_join_result
from kafkagroups.coordinator.rebalance import Rebalances
from kafkagroups.coordinator.response_future import ResponseFuture
from kafkagroups.coordinator.results import JoinGroupResult, SyncGroupResult
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.classic_member import ClassicMember
from kafkagroups.groups.states import ClassicState


class StaticMembers:
    """The replacement of static members in all groups."""

    def __init__(self, rebalances: Rebalances) -> None:
        self.rebalances = rebalances
        self.manager = rebalances.manager

    def replace(
        self,
        group: ClassicGroup,
        instance_id: str,
        joining: ClassicMember,
        response: ResponseFuture[JoinGroupResult],
        *,
        skip_assignment: bool,
    ) -> None:
        """Give the instance id to the joining member. Requests with the old member id get FENCED_INSTANCE_ID.

        If the group is Stable and its protocol stays the same, there is no rebalance. `skip_assignment` says whether
        the client supports the field of this name in the response (JoinGroup v9).
        """
        old_id = group.static_members[instance_id]
        old_leader = group.leader or ""
        member = group.members[old_id]
        old_timeouts = (member.rebalance_timeout_ms, member.session_timeout_ms)
        answer_join(member, JoinGroupResult(Errors.FENCED_INSTANCE_ID, old_id))
        answer_sync(member, SyncGroupResult(Errors.FENCED_INSTANCE_ID))
        group.replace_static_member(instance_id, old_id, joining.member_id)
        self.rebalances.sessions.restart(group, member)
        self.rebalances.update_subscription(member, joining, response)
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.rebalances.prepare(group)
        elif group.state is ClassicState.STABLE and group.select_protocol() != group.protocol:
            self.rebalances.maybe_prepare(group)
        elif group.state is ClassicState.STABLE:
            self._store_new_member_id(
                group, member, old_id, old_leader, old_timeouts, response, skip_assignment=skip_assignment
            )

    def _store_new_member_id(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        old_id: str,
        old_leader: str,
        old_timeouts: tuple[int, int],
        response: ResponseFuture[JoinGroupResult],
        *,
        skip_assignment: bool,
    ) -> None:
        """Write the group's record with the new member id, without a new generation. Then answer the JoinGroup.

        `old_id` is the member id, `old_leader` the leader's member id, and `old_timeouts` the rebalance timeout and the
        session timeout (in ms) before the replacement. If the append fails, the static member gets its old member id
        and its old timeouts again. Without `skip_assignment` the response contains the old leader id, so that the
        member does not act as the leader.
        """
        new_id = member.member_id
        instance_id = member.group_instance_id or ""

        def complete(error: Errors) -> None:
            if error is not Errors.NONE:
                # The new protocols stay, as in Kafka: its code for this case reads the old protocols too late, when
                # the member already has the new ones.
                member.awaiting_join = None
                member.rebalance_timeout_ms, member.session_timeout_ms = old_timeouts
                if new_id not in group.members:
                    return  # The member was replaced again. Kafka throws an IllegalArgumentException here.
                group.replace_static_member(instance_id, new_id, old_id)
                self.rebalances.sessions.restart(group, member)
                response.complete(build_join_result(group, error, "", leader=old_leader))
                return
            skips_assignment = skip_assignment and group.leader == member.member_id
            result = build_join_result(
                group,
                Errors.NONE,
                member.member_id,
                leader=None if skip_assignment else old_leader,
                with_members=skips_assignment,
                skip_assignment=skips_assignment,
            )
            answer_join(member, result)

        assignments = {group_member.member_id: group_member.assignment for group_member in group.ordered_members()}
        self.manager.store_group(group, assignments, complete)
