"""The members' requests: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, each checked in Kafka's order.

A member that is right is handed to the rebalance (rebalance.py). Commits are checked by the same rules.
Source: GroupCoordinator.scala (3.9), doNewMemberJoinGroup, doCurrentMemberJoinGroup, validateSyncGroup,
validateHeartbeat, handleLeaveGroup, validateOffsetCommit; doJoinGroup, doCommitOffsets (2.8.2, 1.0.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.gate import Authorizer, Gate
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.rebalance import COMPLETING, PREPARING, Rebalances
from kafkagroups.coordinator.results import (
    Answer,
    JoinGroupResult,
    LeaveGroupResult,
    MemberIdentity,
    SyncGroupResult,
    joined,
    synced_to,
)
from kafkagroups.groups.classic_group import CONSUMER, ClassicGroup
from kafkagroups.groups.classic_member import ClassicMember
from kafkagroups.groups.states import ClassicState
from kafkagroups.log.batch import NO_PRODUCER_ID


class Membership(Gate):
    """`new_member_id` makes the id of a new member from its client id or instance id."""

    def __init__(
        self,
        manager: GroupMetadataManager,
        topics: Mapping[str, int] | None,
        authorize: Authorizer,
        new_member_id: Callable[[str], str],
    ) -> None:
        super().__init__(manager, topics, authorize)
        self.rebalances = Rebalances(manager)
        self.new_member_id = new_member_id

    def join_group(
        self,
        group_id: str,
        *,
        protocols: Sequence[tuple[str, bytes]],
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "/127.0.0.1",
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        protocol_type: str = CONSUMER,
        require_known_member_id: bool | None = None,
        skips_assignment: bool | None = None,
    ) -> Answer[JoinGroupResult]:
        """A client wants to be in the group: with member id "" as a new member, answered when the generation is there.

        Nobody is static before 2.3; a static member with an id that was handed out is an UNKNOWN_SERVER_ERROR.

        `require_known_member_id`: a dynamic new member first gets MEMBER_ID_REQUIRED and its id (request v4 on,
        KIP-394); `skips_assignment`: a static leader that came back is told that it leads (v9 on). None: what that
        Kafka's newest request does. INVALID_SESSION_TIMEOUT outside the broker's limits; UNKNOWN_MEMBER_ID for a member
        id that the group does not know; GROUP_MAX_SIZE_REACHED; INCONSISTENT_GROUP_PROTOCOL when no protocol suits all
        members; FENCED_INSTANCE_ID for a static member whose place is taken. A group is made even if the member is
        then refused. Source: handleJoinGroup.
        """
        answer: Answer[JoinGroupResult] = Answer()
        group_instance_id = group_instance_id if self.settings.since(2, 3) else None
        joining = ClassicMember(
            member_id, group_instance_id, client_id, client_host, rebalance_timeout_ms, session_timeout_ms,
            protocol_type, list(protocols),
        )  # fmt: skip
        least, most = self.settings.group_min_session_timeout_ms, self.settings.group_max_session_timeout_ms
        error, group = self._refusal(group_id, "JOIN_GROUP", "READ"), None
        if error is Errors.NONE and not least <= session_timeout_ms <= most:
            error = Errors.INVALID_SESSION_TIMEOUT
        if error is Errors.NONE:
            group = self.manager.get_group(group_id) if member_id else self.manager.get_or_create(group_id)
            error = Errors.UNKNOWN_MEMBER_ID if group is None else self._join_error(group, joining)
        if error or group is None:
            nobody = error in (Errors.GROUP_AUTHORIZATION_FAILED, Errors.GROUP_MAX_SIZE_REACHED)
            answer.complete(self._refused("" if nobody else member_id, error))
        elif member_id in group.pending_members and group_instance_id is not None:
            answer.complete(self._refused("", Errors.UNKNOWN_SERVER_ERROR))  # IllegalStateException in Kafka
        elif member_id in group.pending_members:
            self.rebalances.add_member(group, joining, answer)
        elif member_id:
            self._join_known(group, group.members[member_id], joining, answer)
        else:
            needs_known_id = self.settings.since(2, 2) and require_known_member_id is not False
            skips = self.settings.since(3, 2) and skips_assignment is not False
            self._join_new(group, joining, answer, needs_known_id=needs_known_id, skips_assignment=skips)
        if group is not None:
            self.rebalances.try_complete_join(group)
        return answer

    def sync_group(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Answer[SyncGroupResult]:
        """A member asks for its assignment; the leader brings the `assignments`, by member id.

        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION; INCONSISTENT_GROUP_PROTOCOL for another type or
        protocol than the group's (KIP-559); REBALANCE_IN_PROGRESS while members join again, and while the group is
        loading, for then the rebalance is lost. Source: handleSyncGroup.
        """
        answer: Answer[SyncGroupResult] = Answer()
        error = self._refusal(group_id, "SYNC_GROUP", "READ")
        group = self.manager.get_group(group_id)
        if error is Errors.COORDINATOR_LOAD_IN_PROGRESS:
            error = Errors.REBALANCE_IN_PROGRESS if self.settings.since(2, 0) else Errors.UNKNOWN_MEMBER_ID
        elif error is Errors.NONE:
            error = self._generation_error(group, generation, member_id, group_instance_id)
            if error is Errors.NONE and group is not None:
                others = protocol_type not in (None, group.protocol_type) or protocol not in (None, group.protocol)
                error = Errors.INCONSISTENT_GROUP_PROTOCOL if others else error
                error = error or (Errors.REBALANCE_IN_PROGRESS if group.state is PREPARING else Errors.NONE)
        if error or group is None:
            answer.complete(SyncGroupResult(error))
        elif group.state is COMPLETING:
            self.rebalances.sync(group, group.members[member_id], assignments or {}, answer)
        else:
            member = group.members[member_id]
            self.rebalances.synced(group, member)
            answer.complete(synced_to(group, member))
            self.rebalances.expect_heartbeat(group, member)
        return answer

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, *, group_instance_id: str | None = None
    ) -> Errors:
        """A member is alive. REBALANCE_IN_PROGRESS: it is to join again.

        UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION; while loading NONE, blindly. Before 2.6.1
        REBALANCE_IN_PROGRESS is also the answer while the leader is awaited, before 2.3 whatever the generation; then
        it is no sign of life. Source: handleHeartbeat.
        """
        error = self._refusal(group_id, "HEARTBEAT", "READ")
        if error is not Errors.NONE:
            return Errors.NONE if error is Errors.COORDINATOR_LOAD_IN_PROGRESS else error
        group = self.manager.get_group(group_id)
        if group is not None and group.state is COMPLETING and not self.settings.since(2, 3):
            return Errors.REBALANCE_IN_PROGRESS if member_id in group.members else Errors.UNKNOWN_MEMBER_ID
        error = self._generation_error(group, generation, member_id, group_instance_id)
        if error or group is None:
            return error
        if group.state is COMPLETING and not self.settings.since(2, 6, 1):
            return Errors.REBALANCE_IN_PROGRESS
        self.rebalances.expect_heartbeat(group, group.members[member_id])
        return Errors.REBALANCE_IN_PROGRESS if group.state is PREPARING else Errors.NONE

    def leave_group(self, group_id: str, members: Iterable[MemberIdentity | str]) -> LeaveGroupResult:
        """Members leave: by member id, or static ones by instance id. Each has its own error.

        For a Dead group the whole request is refused. Source: handleLeaveGroup.
        """
        leaving = [MemberIdentity(each) if isinstance(each, str) else each for each in members]
        error = self._refusal(group_id, "LEAVE_GROUP", "READ")
        group = self.manager.get_group(group_id)
        if error is Errors.NONE and group is not None and group.state is ClassicState.DEAD:
            error = self._dead()
        if error is not Errors.NONE:
            return LeaveGroupResult(error)
        unknown = Errors.UNKNOWN_MEMBER_ID
        return LeaveGroupResult(
            error, tuple((each, self._leave(group, each) if group else unknown) for each in leaving)
        )

    def _refused(self, member_id: str, error: Errors) -> JoinGroupResult:
        """An error; its generation is -1 (before 2.4 only for who may not ask, else 0)."""
        old = not self.settings.since(2, 4)
        is_0 = old and error is not Errors.GROUP_AUTHORIZATION_FAILED
        return JoinGroupResult(error, member_id, 0 if is_0 else -1, protocol="" if old else None)

    def _join_error(self, group: ClassicGroup, joining: ClassicMember) -> Errors:
        member_id = joining.member_id
        if self.settings.since(2, 2) and not self._accepts(group, member_id):
            group.remove(member_id)
            return Errors.GROUP_MAX_SIZE_REACHED
        if group.state is ClassicState.DEAD:
            return self._dead()
        if not group.supports(joining.protocol_type, joining.protocols):
            return Errors.INCONSISTENT_GROUP_PROTOCOL
        if not member_id or member_id in group.pending_members:
            return Errors.NONE
        return self.validate_member(group, member_id, joining.group_instance_id, joins=True)

    def _accepts(self, group: ClassicGroup, member_id: str) -> bool:
        """Whether group.max.size leaves room: while members gather, for those who came first (KIP-389)."""
        if group.state is PREPARING:
            gathered = [each for each in group.members.values() if each.awaiting_join]
            is_there = any(each.member_id == member_id for each in gathered)
            return is_there or len(gathered) < self.settings.group_max_size
        full = len(group.members) >= self.settings.group_max_size
        return group.state in (ClassicState.EMPTY, ClassicState.DEAD) or member_id in group.members or not full

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
            answer.complete(self._refused(joining.member_id, Errors.MEMBER_ID_REQUIRED))
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
        """FENCED_INSTANCE_ID: somebody else has the instance id; UNKNOWN_MEMBER_ID: nobody has it, or the member id.

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

        While the leader is awaited REBALANCE_IN_PROGRESS; before 2.4 that comes before the member is looked at.
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
        self, group: ClassicGroup, generation: int, member_id: str, instance_id: str | None, producer_id: int
    ) -> Errors:
        """A transactional commit need not name a member; since 2.5 it may, and then that must be right (KIP-447).

        Before, one without a producer (id -1) is a plain one.
        """
        since = self.settings.since
        if group.state is ClassicState.DEAD:
            return self._dead()
        if not since(2, 5):
            return Errors.NONE if producer_id != NO_PRODUCER_ID else self.validate_commit(group, -1, "", None)
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
        self, group: ClassicGroup | None, generation: int, member_id: str, instance_id: str | None
    ) -> Errors:
        if group is None:
            return Errors.UNKNOWN_MEMBER_ID
        if group.state is ClassicState.DEAD:
            return self._dead()
        error = self.validate_member(group, member_id, instance_id)
        return error or (Errors.NONE if generation == group.generation else Errors.ILLEGAL_GENERATION)

    def _dead(self) -> Errors:
        """A Dead group has just been removed, or moved to another coordinator: the client is to look for it again."""
        return Errors.COORDINATOR_NOT_AVAILABLE if self.settings.since(2, 3) else Errors.UNKNOWN_MEMBER_ID
