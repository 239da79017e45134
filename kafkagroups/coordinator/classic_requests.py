"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, with the checks in Kafka's order.

A static member has an instance id, which the client sets (KIP-345); a dynamic member has none. After a restart, a
static member joins without a member id, and gets a new one. A pending member id was returned to a new dynamic member,
which must join again with this id (KIP-394).
Source: GroupCoordinator.handleJoinGroup, doNewMemberJoinGroup, doCurrentMemberJoinGroup, acceptJoiningMember,
updateStaticMemberAndRebalance, handleSyncGroup, validateSyncGroup, handleHeartbeat, validateHeartbeat,
handleLeaveGroup, GroupMetadata.replaceStaticMember (3.9; tags 2.8.2 and 1.0.1 where the version matters).
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import partial

from msgspec.structs import replace

from kafkagroups.coordinator import messages
from kafkagroups.coordinator.consumer_requests import Requests
from kafkagroups.coordinator.group_store import Result
from kafkagroups.coordinator.messages import Errors, Refusal, ResponseFuture, find_error
from kafkagroups.errors import UsageError
from kafkagroups.groups.group import CONSUMER, ClassicState
from kafkagroups.groups.living_groups import ClassicGroup, ClassicMember, build_classic_member
from kafkagroups.groups.modern_group import ModernGroup


class MemberRequests(Requests):
    @messages.takes_fields_of(messages.JoinGroupRequest)
    def join_group(self, request: messages.JoinGroupRequest) -> ResponseFuture[messages.JoinGroupResult]:
        """Add a member to the group. The response normally arrives when the next generation begins.

        A new group is created even if its first member is refused. `protocols` are pairs of the name of an assignor
        that the member supports, the preferred one first, and the bytes of its subscription. Without a `member_id` from
        an earlier response, the member is new. Kafka versions before 2.3 ignore the `group_instance_id`, that of a
        static member.

        With `require_known_member_id`, a new dynamic member first gets the error MEMBER_ID_REQUIRED and a member id,
        and must join again with it (request v4 and later, KIP-394). With `supports_skip_assignment`, a static leader
        that joins again without a rebalance is told not to compute new assignments (request v9 and later); without, it
        gets its old member id as the leader's, so it does not act as the leader. None: as in the broker's newest
        request version.

        Errors: INVALID_SESSION_TIMEOUT if the session timeout is outside the broker's limits, UNKNOWN_MEMBER_ID,
        GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL if the members have no protocol in common,
        FENCED_INSTANCE_ID if another member has the instance id, and UNKNOWN_SERVER_ERROR if a static member uses a
        member id that was given to a dynamic member.
        Source: GroupCoordinator.handleJoinGroup.
        """
        group_id = request.group_id
        response: ResponseFuture[messages.JoinGroupResult] = ResponseFuture()
        joining = build_classic_member(request, list(request.protocols))
        joining.awaiting_join = response.complete
        if self.settings.is_before(2, 3):  # These brokers have no static members (KIP-345).
            joining.group_instance_id = None
        is_new = not joining.member_id

        def refuse(error: Errors, member_id: str = "") -> ResponseFuture[messages.JoinGroupResult]:
            response.complete(self._build_error_result(member_id, error))
            return response

        error = find_error(self._check_request, group_id, joining)
        if error is not Errors.NONE:
            is_of_partition = error in (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR)
            hides_member_id = is_of_partition and self.settings.is_at_least(4, 0)
            hides_member_id |= error is Errors.GROUP_AUTHORIZATION_FAILED
            return refuse(error, "" if hides_member_id else joining.member_id)
        modern_group = self.manager.find_modern_group(group_id)
        if modern_group is not None and (modern_group.members or modern_group.type == "share"):
            return self._join_modern_group(modern_group, joining, request)
        tombstones = () if modern_group is None else self.manager.remove_empty_group(modern_group)
        group = self.manager.get_group(group_id)
        creates_group = group is None
        if group is None:
            if not is_new:
                return refuse(Errors.UNKNOWN_MEMBER_ID, joining.member_id)
            group = self.manager.build_group(group_id)
        error = find_error(self._check_member, group, joining)
        is_too_large = error is Errors.GROUP_MAX_SIZE_REACHED
        if error is Errors.NONE and is_new:
            joining.member_id = self._create_member_id(group, joining)
        # If `_create_member_id` raises UsageError, the new group must not be in the cache.
        self.manager.add_group(group)
        generation = group.generation
        if error is not Errors.NONE:
            refuse(error, "" if is_too_large else joining.member_id)
        elif is_new:
            self._join_new_member(group, request, joining)
        elif joining.member_id in group.members:
            self._rejoin_member(group, group.members[joining.member_id], joining)
        elif joining.group_instance_id is not None:
            # The member id is pending, and only dynamic members receive pending member ids. If a static member uses
            # a pending member id, Kafka throws an IllegalStateException.
            refuse(Errors.UNKNOWN_SERVER_ERROR)
        else:
            self.rebalances.add_member(group, joining)
        # Since 4.0 the removal of a member that does not fit into the group completes nothing.
        if not is_too_large or self.settings.is_before(4, 0):
            self.rebalances.try_complete_join(group)
        # The next generation could not begin (`ClassicGroup.start_next_generation`).
        if group.state is ClassicState.PREPARING_REBALANCE and group.generation != generation:
            refuse(Errors.UNKNOWN_SERVER_ERROR)
        self.manager.end_join(group, is_new=creates_group, refuse=refuse, tombstones=tombstones)
        return response

    def _join_modern_group(
        self, group: ModernGroup, joining: ClassicMember, request: messages.JoinGroupRequest
    ) -> ResponseFuture[messages.JoinGroupResult]:
        """Share and streams groups accept no classic members."""
        if group.type != CONSUMER:
            return ResponseFuture.of(self._build_error_result("", Errors.INCONSISTENT_GROUP_PROTOCOL))
        is_unknown = not joining.member_id
        if is_unknown:
            joining.member_id = self.new_member_id(joining.client_id)
        return self.consumer_groups.join_classic(
            group, joining, is_unknown=is_unknown, requires_known_id=request.require_known_member_id is not False
        )

    def _check_request(self, group_id: str, joining: ClassicMember) -> None:
        """Since 4.0 the state of the group's partition is checked last."""
        self.validator.check_client(group_id, "JOIN_GROUP", "READ")
        if self.settings.is_before(4, 0):
            self.validator.check_partition(group_id)
        min_timeout_ms = self.settings.group_min_session_timeout_ms
        if not min_timeout_ms <= joining.session_timeout_ms <= self.settings.group_max_session_timeout_ms:
            raise Refusal(Errors.INVALID_SESSION_TIMEOUT)
        self.validator.check_partition(group_id)

    def _check_member(self, group: ClassicGroup, joining: ClassicMember) -> None:
        member_id = joining.member_id
        if self.settings.is_at_least(2, 2) and not self._accepts_member(group, member_id):
            group.remove(member_id)  # Removes a member or a pending member id.
            raise Refusal(Errors.GROUP_MAX_SIZE_REACHED)
        self.validator.refuse_dead(group)
        if not group.supports_protocols(joining.protocol_type, joining.protocols):
            raise Refusal(Errors.INCONSISTENT_GROUP_PROTOCOL)
        if member_id and member_id not in group.pending_members:
            self.validator.validate_member(group, member_id, joining.group_instance_id, is_join_request=True)

    def _accepts_member(self, group: ClassicGroup, member_id: str) -> bool:
        """Return whether group.max.size allows the member to join (KIP-389).

        While the group waits for joins, only the members that have already joined again count.
        """
        if group.state in (ClassicState.EMPTY, ClassicState.DEAD):
            return True
        if group.state is ClassicState.PREPARING_REBALANCE:
            joined_ids = [member.member_id for member in group.members.values() if member.awaiting_join]
            return member_id in joined_ids or len(joined_ids) < self.settings.group_max_size
        return member_id in group.members or len(group.members) < self.settings.group_max_size

    def _create_member_id(self, group: ClassicGroup, joining: ClassicMember) -> str:
        instance_id = joining.group_instance_id
        member_id = self.new_member_id(joining.client_id if instance_id is None else instance_id)
        is_used = member_id in group.members or member_id in group.pending_members
        if is_used or not member_id:
            raise UsageError(f"expected an unused member id, found {member_id!r}", field="new_member_id")
        return member_id

    def _join_new_member(self, group: ClassicGroup, request: messages.JoinGroupRequest, joining: ClassicMember) -> None:
        instance_id = joining.group_instance_id
        requires_known_id = request.require_known_member_id is not False and self.settings.is_at_least(2, 2)
        if instance_id is not None and instance_id in group.static_members:
            skips = request.supports_skip_assignment is not False and self.settings.is_at_least(3, 2)
            self._replace_static(group, instance_id, joining, can_skip_assignment=skips)
        elif requires_known_id and instance_id is None:
            self.rebalances.add_pending(group, joining.member_id, joining.session_timeout_ms)
            messages.answer_join(joining, self._build_error_result(joining.member_id, Errors.MEMBER_ID_REQUIRED))
        else:
            self.rebalances.add_member(group, joining)

    def _rejoin_member(self, group: ClassicGroup, member: ClassicMember, joining: ClassicMember) -> None:
        """Answer with the current generation if the member's protocols are unchanged. Otherwise start a rebalance.

        In a Stable group, the leader always starts one, because a topic may have new partitions.
        """
        follows = group.state is ClassicState.STABLE and group.leader != member.member_id
        has_generation = group.state is ClassicState.COMPLETING_REBALANCE or follows
        if has_generation and member.protocols == joining.protocols:
            messages.answer_join(joining, messages.build_join_result(group, member.member_id))
        else:
            self.rebalances.update_member(member, joining)
            self.rebalances.maybe_prepare(group)

    def _build_error_result(self, member_id: str, error: Errors) -> messages.JoinGroupResult:
        """The generation is -1. Before 2.4, it is 0 for all errors except GROUP_AUTHORIZATION_FAILED."""
        is_before_2_4 = self.settings.is_before(2, 4)
        has_generation_0 = is_before_2_4 and error is not Errors.GROUP_AUTHORIZATION_FAILED
        return messages.JoinGroupResult(
            error,
            member_id,
            generation=0 if has_generation_0 else -1,
            protocol="" if is_before_2_4 else None,
        )

    # Static members

    def _replace_static(
        self, group: ClassicGroup, instance_id: str, joining: ClassicMember, *, can_skip_assignment: bool
    ) -> None:
        """Requests with the old member id get FENCED_INSTANCE_ID.

        If the group is Stable and the protocol stays the same, there is no rebalance: the group's record is written
        with the new member id, without a new generation, and then the JoinGroup is answered. If the append fails, the
        static member gets the previous member id and timeouts again. If the client does not support `skip_assignment`,
        the response names the previous leader.
        """
        member = group.members[group.static_members[instance_id]]
        previous = copy(member)
        previous_leader = group.leader or ""
        messages.answer_join(member, messages.JoinGroupResult(Errors.FENCED_INSTANCE_ID, previous.member_id))
        messages.answer_sync(member, messages.SyncGroupResult(Errors.FENCED_INSTANCE_ID))
        group.replace_static_member(instance_id, previous.member_id, joining.member_id)
        if self.settings.is_at_least(4, 0):
            member.is_new = False
        self.rebalances.restart_session(group, member)
        self.rebalances.update_member(member, joining)
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.rebalances.prepare(group)
            return
        if group.state is not ClassicState.STABLE:
            return
        if group.select_protocol() != group.protocol:
            self.rebalances.maybe_prepare(group)
            return
        new_id = joining.member_id

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
                self.rebalances.restart_session(group, member)
                result = messages.build_join_result(group, "", previous_leader)
                messages.answer_join(joining, replace(result, error=error))
                return
            leader = group.leader if can_skip_assignment else previous_leader
            result = messages.build_join_result(group, member.member_id, leader)
            messages.answer_join(member, replace(result, skip_assignment=leader == member.member_id))

        assignments = {group_member.member_id: group_member.assignment for group_member in group.ordered_members()}
        self.manager.store_group(group, assignments, complete)

    # SyncGroup, Heartbeat and LeaveGroup

    @messages.takes_fields_of(messages.SyncGroupRequest)
    def sync_group(self, request: messages.SyncGroupRequest) -> ResponseFuture[messages.SyncGroupResult]:
        """Return the member's assignment, which arrives when the leader has sent all `assignments`, by member id.

        `protocol_type` and `protocol` are those in the response to the member's JoinGroup; None: not checked. Errors:
        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL (KIP-559), and
        REBALANCE_IN_PROGRESS while members join again or the group is loading (loading before 2.0: UNKNOWN_MEMBER_ID).

        While the group is loading, up to 3.9 the answer makes the member join again, because an unfinished rebalance
        is not in the log. Since 4.0, a SyncGroup in a Stable group does not restart the session timer.
        Source: GroupCoordinator.handleSyncGroup.
        """
        group_id = request.group_id

        def refuse(error: Errors, message: str | None) -> messages.SyncGroupResult:
            if error is Errors.COORDINATOR_LOAD_IN_PROGRESS and self.settings.is_before(4, 0):
                error = Errors.REBALANCE_IN_PROGRESS if self.settings.is_at_least(2, 0) else Errors.UNKNOWN_MEMBER_ID
            return messages.SyncGroupResult(error)

        try:
            self.validator.check_request(group_id, "SYNC_GROUP", "READ")
            modern_group = self._find_consumer_group(group_id)
            if modern_group is not None:
                sync = partial(self.consumer_groups.sync_classic, modern_group, request)
                return self.manager.write(group_id, sync, refuse)
            group = self.validator.validate_generation(self.manager.get_group(group_id), request)
            _check_protocol(group, request.protocol_type, request.protocol)
        except Refusal as refusal:
            return ResponseFuture.of(refuse(refusal.error, refusal.message))
        member = group.members[request.member_id]
        if group.state is ClassicState.COMPLETING_REBALANCE:
            return self.rebalances.sync(group, member, request.assignments or {})
        self.rebalances.mark_synced(group, member)
        if self.settings.is_before(4, 0):
            self.rebalances.restart_session(group, member)
        return ResponseFuture.of(messages.build_sync_result(group, member))

    @messages.takes_fields_of(messages.HeartbeatRequest)
    def heartbeat(self, request: messages.HeartbeatRequest) -> ResponseFuture[Errors]:
        """Restart the member's session timer, so that the member stays in the group.

        The answer is NONE; REBALANCE_IN_PROGRESS if the member must join again; UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID
        or ILLEGAL_GENERATION if the request does not come from a current member. While the group is loading, it is
        NONE, and the member is not checked.

        While the group is loading, the answer is NONE, because the session timers start only after the load. While
        the member waits for the leader's assignment, the answer before 2.6.1 is REBALANCE_IN_PROGRESS, and its session
        timer is not restarted; before 2.3, in addition, the generation is not checked.
        Source: GroupCoordinator.handleHeartbeat.
        """
        check = partial(self.validator.check_request, request.group_id, "HEARTBEAT", "READ")
        return self._handle(
            request.group_id, check, partial(self._heartbeat, request), messages.convert_heartbeat_error
        )

    def _heartbeat(self, request: messages.HeartbeatRequest) -> Result[Errors]:
        member_id = request.member_id
        modern_group = self._find_consumer_group(request.group_id)
        if modern_group is not None:
            return self.consumer_groups.heartbeat_classic(modern_group, request)
        group = self.manager.get_group(request.group_id)
        awaits_assignment = group is not None and group.state is ClassicState.COMPLETING_REBALANCE
        if group is not None and awaits_assignment and self.settings.is_before(2, 3):
            return Result(Errors.REBALANCE_IN_PROGRESS if member_id in group.members else Errors.UNKNOWN_MEMBER_ID)
        group = self.validator.validate_generation(group, request)
        if awaits_assignment and self.settings.is_before(2, 6, 1):
            return Result(Errors.REBALANCE_IN_PROGRESS)
        self.rebalances.restart_session(group, group.members[member_id])
        is_preparing = group.state is ClassicState.PREPARING_REBALANCE
        return Result(Errors.REBALANCE_IN_PROGRESS if is_preparing else Errors.NONE)

    def leave_group(
        self, group_id: str, members: Iterable[messages.MemberIdentity | str]
    ) -> ResponseFuture[messages.LeaveGroupResult]:
        """Remove members from the group. `members` are member ids, and `MemberIdentity` for static members.

        The result has an error code for each member, or only one if the whole request is refused, for example because
        the group is Dead.

        If the group does not exist, each member is unknown.
        Source: GroupCoordinator.handleLeaveGroup.
        """
        identities = [messages.MemberIdentity(member) if isinstance(member, str) else member for member in members]

        def leave() -> Result[messages.LeaveGroupResult]:
            modern_group = self.manager.find_modern_group(group_id)
            if modern_group is not None and modern_group.type == CONSUMER:
                return self.consumer_groups.leave_classic(modern_group, identities)
            group = self.manager.get_group(group_id)
            if group is None:
                raise Refusal(Errors.UNKNOWN_MEMBER_ID)
            dead_error = find_error(self.validator.refuse_dead, group)
            if dead_error is not Errors.NONE:
                return Result(messages.LeaveGroupResult(dead_error))
            results = tuple((identity, find_error(self._remove, group, identity)) for identity in identities)
            if self.settings.is_at_least(4, 0) and any(error is Errors.NONE for _, error in results):
                self.rebalances.go_on(group)
            return Result(messages.LeaveGroupResult(Errors.NONE, results))

        def refuse(error: Errors, message: str | None) -> messages.LeaveGroupResult:
            if error is Errors.UNKNOWN_MEMBER_ID:
                return messages.LeaveGroupResult(Errors.NONE, tuple((identity, error) for identity in identities))
            return messages.LeaveGroupResult(error)

        check = partial(self.validator.check_request, group_id, "LEAVE_GROUP", "READ")
        return self._handle(group_id, check, leave, refuse)

    def _find_consumer_group(self, group_id: str) -> ModernGroup | None:
        group = self.manager.find_modern_group(group_id)
        return group if group is not None and group.type == CONSUMER and group.members else None

    def _remove(self, group: ClassicGroup, identity: messages.MemberIdentity) -> None:
        """Remove a member or a pending member id. Up to 3.9, the group goes on after each of them."""
        goes_on = self.settings.is_before(4, 0)
        if identity.member_id in group.pending_members:
            group.remove_pending_member(identity.member_id)
            if goes_on:
                self.rebalances.try_complete_join(group)
            return
        instance_id = identity.group_instance_id
        member_id = identity.member_id
        if not member_id and instance_id is not None:
            member_id = group.static_members.get(instance_id, "")
        self.validator.validate_member(group, member_id, instance_id)
        self.rebalances.drop_member(group, group.members[member_id])
        if goes_on:
            self.rebalances.go_on(group)


def _check_protocol(group: ClassicGroup, protocol_type: str | None, protocol: str | None) -> None:
    """In requests before KIP-559, `protocol_type` and `protocol` are None."""
    has_other_type = protocol_type is not None and protocol_type != group.protocol_type
    has_other_protocol = protocol is not None and protocol != group.protocol
    if has_other_type or has_other_protocol:
        raise Refusal(Errors.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is ClassicState.PREPARING_REBALANCE:
        raise Refusal(Errors.REBALANCE_IN_PROGRESS)
