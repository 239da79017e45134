"""Who may join, sync, heartbeat, leave and commit: what a member's request is checked for, in Kafka's order.

Source: GroupCoordinator.scala (3.9), doNewMemberJoinGroup, doCurrentMemberJoinGroup, validateSyncGroup, validateHeartbeat,
handleLeaveGroup, validateOffsetCommit; doJoinGroup, doCommitOffsets (2.8.2, 1.0.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.rebalance import COMPLETING, PREPARING, Rebalances, joined, synced_to
from kafkagroups.coordinator.results import Answer, JoinGroupResult, LeaveGroupResult, MemberIdentity, SyncGroupResult
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.classic_member import ClassicMember, Protocols
from kafkagroups.groups.states import ClassicState


class Membership:
    """The members' requests. `new_member_id` makes the id of a new member from its client id or instance id."""

    def __init__(self, rebalances: Rebalances, new_member_id: Callable[[str], str]) -> None:
        self.rebalances = rebalances
        self.manager = rebalances.manager
        self.settings = rebalances.settings
        self.new_member_id = new_member_id

    def refused(self, member_id: str, error: Errors) -> JoinGroupResult:
        """An error; its generation is -1 (0 before 2.4)."""
        old = not self.settings.since(2, 4)
        return JoinGroupResult(error, member_id, 0 if old else -1, protocol="" if old else None)

    def join(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        answer: Answer[JoinGroupResult],
        *,
        needs_known_id: bool,
        skips_assignment: bool,
    ) -> None:
        """INVALID_SESSION_TIMEOUT outside the broker's limits; UNKNOWN_MEMBER_ID for a member id in an unknown group;
        GROUP_MAX_SIZE_REACHED; then as a new or as a known member. A group is made even if the member is then refused.
        """
        settings, since = self.settings, self.settings.since
        timeout = session_timeout_ms
        if not settings.group_min_session_timeout_ms <= timeout <= settings.group_max_session_timeout_ms:
            return answer.complete(self.refused(member_id, Errors.INVALID_SESSION_TIMEOUT))
        group = self.manager.get_group(group_id) if member_id else self.manager.get_or_create(group_id)
        if group is None:
            return answer.complete(self.refused(member_id, Errors.UNKNOWN_MEMBER_ID))
        joining = ClassicMember(
            member_id, instance_id, client_id, client_host, rebalance_timeout_ms, timeout, protocol_type, protocols
        )
        if since(2, 2) and not self._accepts(group, member_id):
            group.remove(member_id)
            answer.complete(self.refused("", Errors.GROUP_MAX_SIZE_REACHED))
        else:
            error = self._join_error(group, joining)
            if error is not Errors.NONE:
                answer.complete(self.refused(member_id, error))
            elif not member_id:
                self._join_new(group, joining, answer, needs_known_id=needs_known_id, skips_assignment=skips_assignment)
            elif member_id in group.pending_members:
                self.rebalances.add_member(group, joining, answer)
            else:
                self._join_known(group, group.members[member_id], joining, answer)
        return self.rebalances.try_complete_join(group)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether group.max.size leaves room: while members gather, for those who came first (KIP-389)."""
        if group.state is PREPARING:
            gathered = [each for each in group.members.values() if each.awaiting_join]
            is_there = any(each.member_id == member_id for each in gathered)
            return is_there or len(gathered) < self.settings.group_max_size
        full = len(group.members) >= self.settings.group_max_size
        return group.state in (ClassicState.EMPTY, ClassicState.DEAD) or member_id in group.members or not full

    def _join_error(self, group: ClassicGroup, joining: ClassicMember) -> Errors:
        if group.state is ClassicState.DEAD:
            return self._dead()
        if not group.supports(joining.protocol_type, joining.protocols):
            return Errors.INCONSISTENT_GROUP_PROTOCOL
        if not joining.member_id or joining.member_id in group.pending_members:
            return Errors.NONE
        return self.validate_member(group, joining.member_id, joining.group_instance_id, joins=True)

    def _join_new(
        self,
        group: ClassicGroup,
        joining: ClassicMember,
        answer: Answer[JoinGroupResult],
        *,
        needs_known_id: bool,
        skips_assignment: bool,
    ) -> None:
        instance = joining.group_instance_id
        joining.member_id = self.new_member_id(joining.client_id if instance is None else instance)
        if instance is not None and instance in group.static_members:
            self.rebalances.replace_static(group, instance, joining, answer, skips_assignment=skips_assignment)
        elif needs_known_id and instance is None:
            self.rebalances.add_pending(group, joining.member_id, joining.session_timeout_ms)
            answer.complete(self.refused(joining.member_id, Errors.MEMBER_ID_REQUIRED))
        else:
            self.rebalances.add_member(group, joining, answer)

    def _join_known(
        self, group: ClassicGroup, member: ClassicMember, joining: ClassicMember, answer: Answer[JoinGroupResult]
    ) -> None:
        """A member joins again. Unchanged it learns the generation that is; changed, or the leader, it rebalances."""
        same = member.protocols == joining.protocols
        leads = group.leader == member.member_id
        if group.state is COMPLETING and same:
            answer.complete(joined(group, Errors.NONE, member.member_id, tells=leads))
        elif group.state is ClassicState.STABLE and same and not leads:
            answer.complete(joined(group, Errors.NONE, member.member_id))
        else:
            self.rebalances.update_member(group, member, joining, answer)

    def sync(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        protocol_type: str | None,
        protocol: str | None,
        assignments: Mapping[str, bytes],
        answer: Answer[SyncGroupResult],
    ) -> None:
        """UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION; INCONSISTENT_GROUP_PROTOCOL for another type or
        protocol than the group's (KIP-559); REBALANCE_IN_PROGRESS while members join again.
        """
        group = self.manager.get_group(group_id)
        if group is None:
            return answer.complete(SyncGroupResult(Errors.UNKNOWN_MEMBER_ID))
        error = self._generation_error(group, generation, member_id, instance_id)
        others = (protocol_type is not None and protocol_type != group.protocol_type) or (
            protocol is not None and protocol != group.protocol
        )
        if error is Errors.NONE and others:
            error = Errors.INCONSISTENT_GROUP_PROTOCOL
        if error is Errors.NONE and group.state is PREPARING:
            error = Errors.REBALANCE_IN_PROGRESS
        if error is not Errors.NONE:
            return answer.complete(SyncGroupResult(error))
        member = group.members[member_id]
        if group.state is COMPLETING:
            return self.rebalances.sync(group, member, assignments, answer)
        self.rebalances.synced(group, member)
        answer.complete(synced_to(group, member))
        return self.rebalances.expect_heartbeat(group, member)

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> Errors:
        """UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION; REBALANCE_IN_PROGRESS: join again. Before 2.3 that
        is also the answer while the leader is awaited, whatever the generation.
        """
        group = self.manager.get_group(group_id)
        if group is None:
            return Errors.UNKNOWN_MEMBER_ID
        if group.state is COMPLETING and member_id in group.members and not self.settings.since(2, 3):
            return Errors.REBALANCE_IN_PROGRESS
        error = self._generation_error(group, generation, member_id, instance_id)
        if error is not Errors.NONE:
            return error
        self.rebalances.expect_heartbeat(group, group.members[member_id])
        return Errors.REBALANCE_IN_PROGRESS if group.state is PREPARING else Errors.NONE

    def leave(self, group_id: str, members: Iterable[MemberIdentity]) -> LeaveGroupResult:
        """Each member is checked by itself; for a Dead group the whole request is refused."""
        group = self.manager.get_group(group_id)
        if group is None:
            return LeaveGroupResult(Errors.NONE, tuple((each, Errors.UNKNOWN_MEMBER_ID) for each in members))
        if group.state is ClassicState.DEAD:
            return LeaveGroupResult(self._dead())
        return LeaveGroupResult(Errors.NONE, tuple((each, self._leave(group, each)) for each in members))

    def _leave(self, group: ClassicGroup, leaving: MemberIdentity) -> Errors:
        member_id, instance = leaving.member_id, leaving.group_instance_id
        by_instance = None if instance is None else group.static_members.get(instance)
        if not member_id:
            member_id = by_instance or ""
            error = Errors.NONE if by_instance else Errors.UNKNOWN_MEMBER_ID
        elif member_id in group.pending_members:
            self.rebalances.remove_pending(group, member_id)
            return Errors.NONE
        else:
            error = self.validate_member(group, member_id, instance)
        if error is Errors.NONE:
            self.rebalances.remove_member(group, group.members[member_id])
        return error

    def validate_member(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, *, joins: bool = False
    ) -> Errors:
        """FENCED_INSTANCE_ID when somebody else has the instance id, UNKNOWN_MEMBER_ID when nobody has it, or the member id.

        Up to 2.8 an instance id that nobody has is refused for JoinGroup only.
        """
        if instance_id is not None:
            holder = group.static_members.get(instance_id)
            if holder is not None and holder != member_id:
                return Errors.FENCED_INSTANCE_ID
            if holder is None and (joins or self.settings.since(3, 0)):
                return Errors.UNKNOWN_MEMBER_ID
        return Errors.NONE if member_id in group.members else Errors.UNKNOWN_MEMBER_ID

    def validate_commit(self, group: ClassicGroup, generation: int, member_id: str, instance_id: str | None) -> Errors:
        """A commit is for an Empty group, by anybody (generation below 0), or by a member of the generation.

        While the leader is awaited REBALANCE_IN_PROGRESS; before 2.3 that comes before the member is looked at.
        """
        since = self.settings.since
        if group.state is ClassicState.DEAD:
            return self._dead()
        if not since(3, 0) and instance_id is not None:  # up to 2.8 the instance id is looked at first
            holder = group.static_members.get(instance_id)
            if holder is not None and holder != member_id:
                return Errors.FENCED_INSTANCE_ID
        if generation < 0 and group.state is ClassicState.EMPTY:
            return Errors.NONE
        if group.state is COMPLETING and not since(2, 4):
            return Errors.REBALANCE_IN_PROGRESS
        anonymous = generation < 0 and not member_id and instance_id is None
        error = (
            Errors.UNKNOWN_MEMBER_ID if anonymous else self._generation_error(group, generation, member_id, instance_id)
        )
        if error is Errors.NONE and group.state is COMPLETING:
            error = Errors.REBALANCE_IN_PROGRESS
        return error

    def validate_txn_commit(
        self, group: ClassicGroup, generation: int, member_id: str, instance_id: str | None
    ) -> Errors:
        """A transactional commit need not name a member (KIP-447, since 2.5, lets it); if it does, the member must be right."""
        since = self.settings.since
        if group.state is ClassicState.DEAD:
            return self._dead()
        if not since(2, 5):
            return Errors.NONE
        if since(3, 0):
            if (generation < 0 and group.state is ClassicState.EMPTY) or (
                generation < 0 and not member_id and instance_id is None
            ):
                return Errors.NONE
            return self._generation_error(group, generation, member_id, instance_id)
        if instance_id in group.static_members and group.static_members[instance_id] != member_id:
            return Errors.FENCED_INSTANCE_ID
        if member_id and member_id not in group.members:
            return Errors.UNKNOWN_MEMBER_ID
        return Errors.ILLEGAL_GENERATION if generation >= 0 and generation != group.generation else Errors.NONE

    def _generation_error(
        self, group: ClassicGroup, generation: int, member_id: str, instance_id: str | None
    ) -> Errors:
        if group.state is ClassicState.DEAD:
            return self._dead()
        error = self.validate_member(group, member_id, instance_id)
        return error or (Errors.NONE if generation == group.generation else Errors.ILLEGAL_GENERATION)

    def _dead(self) -> Errors:
        """A Dead group has just been removed, or moved to another coordinator: the client is to look for it again."""
        return Errors.COORDINATOR_NOT_AVAILABLE if self.settings.since(2, 3) else Errors.UNKNOWN_MEMBER_ID
