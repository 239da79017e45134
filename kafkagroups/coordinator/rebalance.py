"""The rebalance of a group, from the first JoinGroup to Stable, with its timers.

    a member joins, leaves     The state is PreparingRebalance. All members must join again within the largest of their
    or fails                   rebalance timeouts. A group that was Empty waits group.initial.rebalance.delay.ms for
                               more members. In generation 0 (since 4.0: in any), the delay starts again if a new member
                               joins.
    all members have joined,   Members that did not join are removed (since 2.3 only dynamic members). The generation
    or the timeout is over     grows by 1. If no member remains, the group is Empty and its record is written. Otherwise
                               the state is CompletingRebalance, and every JoinGroup is answered.
    the leader's SyncGroup     The group's record with the assignments is appended. Then the state is Stable, and every
    arrives                    SyncGroup is answered. If the append fails, all members must join again.

Only the result of a rebalance is written. If the coordinator crashes between JoinGroup and SyncGroup, the log contains
the previous generation.
Source: GroupCoordinator.scala (3.9; tags 2.8.2 and 1.0.1 where the version matters), DelayedJoin.scala,
DelayedHeartbeat.scala; shouldKeepMemberAlive (1.0.1).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from kafkagroups.coordinator import messages
from kafkagroups.coordinator.group_store import GroupStore
from kafkagroups.coordinator.messages import Errors, ResponseFuture
from kafkagroups.groups.group import VALID_PREVIOUS_STATES, ClassicState
from kafkagroups.groups.living_groups import ClassicGroup, ClassicMember

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member may wait for its first generation. After this time the member is removed."""

logger = logging.getLogger("kafkagroups.coordinator")


def cancel_timers(group: ClassicGroup) -> None:
    sessions = (member.session_timer for member in group.members.values())
    for timer in (*sessions, group.join_timer, group.sync_timer, *group.pending_members.values()):
        timer.cancel()


class Rebalances:
    def __init__(self, manager: GroupStore) -> None:
        self.manager = manager
        self.settings = manager.settings
        self.clock = manager.clock

    # Members that join, leave or fail

    def add_member(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Add a new member and start a rebalance. Since 2.2 it waits at most five minutes for its generation."""
        is_in_first_delay = group.generation == 0 if self.settings.is_before(4, 0) else not group.can_end_join_early
        if group.state is ClassicState.PREPARING_REBALANCE and is_in_first_delay:
            group.new_member_added = True
        member.is_new = self.settings.is_at_least(2, 2)
        group.add(member)
        if member.is_new:
            self.restart_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.maybe_prepare(group)

    def update_member(self, member: ClassicMember, joining: ClassicMember) -> None:
        """Store the protocols of a member that joins again. Since 3.4 also store its timeouts."""
        member.protocols = joining.protocols
        member.awaiting_join = joining.awaiting_join
        if self.settings.is_at_least(3, 4):
            member.rebalance_timeout_ms = joining.rebalance_timeout_ms
            member.session_timeout_ms = joining.session_timeout_ms

    def drop_member(self, group: ClassicGroup, member: ClassicMember) -> None:
        if self.settings.is_at_least(2, 2):
            messages.answer_join(member, messages.JoinGroupResult(Errors.UNKNOWN_MEMBER_ID, ""))
        group.remove(member.member_id)

    def go_on(self, group: ClassicGroup) -> None:
        """Start a rebalance, or complete the running one if it waited only for members that are gone."""
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self.maybe_prepare(group)
        self.try_complete_join(group)

    def restart_session(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        member.session_timer.cancel()
        delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_timer = self.manager.after(group, delay_ms, partial(self._expire_session, group, member))

    def _expire_session(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove the member, unless it waits for a response: then its connection is open, so it counts as alive.

        Exception: a new member (`NEW_MEMBER_JOIN_TIMEOUT_MS`).
        """
        is_removed = group.state is ClassicState.DEAD or group.members.get(member.member_id) is not member
        is_waiting = member.awaiting_join is not None or member.awaiting_sync is not None
        is_alive = is_waiting and not member.is_new
        if is_removed or is_alive:
            return
        logger.info("Member %s in group %s has failed, removing it from the group", member.member_id, group.group_id)
        self.drop_member(group, member)
        self.go_on(group)
        self._end_delay_if_all_joined(group)

    def _expire_pending(self, group: ClassicGroup, member_id: str) -> None:
        self.remove_pending(group, member_id)
        self._end_delay_if_all_joined(group)

    def _end_delay_if_all_joined(self, group: ClassicGroup) -> None:
        """After a timeout since 4.0, even the initial delay ends if only joined members are left."""
        is_preparing = group.state is ClassicState.PREPARING_REBALANCE
        if is_preparing and group.have_all_joined and self.settings.is_at_least(4, 0):
            self.complete_join(group)

    def add_pending(self, group: ClassicGroup, member_id: str, session_timeout_ms: int) -> None:
        """Store the id that a new member got and must join again with within its session timeout (KIP-394)."""
        expire = partial(self._expire_pending, group, member_id)
        group.pending_members[member_id] = self.manager.after(group, session_timeout_ms, expire)

    def remove_pending(self, group: ClassicGroup, member_id: str) -> None:
        group.remove_pending_member(member_id)
        self.try_complete_join(group)

    # PreparingRebalance: waiting for joins

    def maybe_prepare(self, group: ClassicGroup) -> None:
        if group.state in VALID_PREVIOUS_STATES[ClassicState.PREPARING_REBALANCE]:
            self.prepare(group)

    def prepare(self, group: ClassicGroup) -> None:
        """Start a rebalance. Members that wait for an assignment get REBALANCE_IN_PROGRESS."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self._propagate_assignments(group, {}, Errors.REBALANCE_IN_PROGRESS)
        self._stop_waiting_for_syncs(group)
        was_empty = group.state is ClassicState.EMPTY
        group.transition_to(ClassicState.PREPARING_REBALANCE, self.clock.now_ms)
        logger.info(
            "Preparing to rebalance group %s in state %s with old generation %d",
            group.group_id,
            group.state.value,
            group.generation,
        )
        if was_empty:
            delay_ms = self.settings.group_initial_rebalance_delay_ms
            self._wait_for_first_joins(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        else:
            self._wait_for_joins(group)

    def _wait_for_first_joins(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Wait for the first members, then end the join phase or wait again.

        The group waits again if members joined during the wait and the rebalance timeout is not over.
        """

        def expire() -> None:
            if group.new_member_added and remaining_ms:
                group.new_member_added = False
                next_delay_ms = min(self.settings.group_initial_rebalance_delay_ms, remaining_ms)
                self._wait_for_first_joins(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
            else:
                self.complete_join(group)

        group.can_end_join_early = False
        group.join_timer = self.manager.after(group, delay_ms, expire, is_in_join=True)

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        group.can_end_join_early = True
        if group.have_all_joined:
            self.complete_join(group)
        else:
            self._schedule_join_end(group, group.rebalance_timeout_ms)

    def _schedule_join_end(self, group: ClassicGroup, timeout_ms: int) -> None:
        group.join_timer = self.manager.after(group, timeout_ms, partial(self.complete_join, group))

    def try_complete_join(self, group: ClassicGroup) -> None:
        is_preparing = group.state is ClassicState.PREPARING_REBALANCE
        if is_preparing and group.can_end_join_early and group.have_all_joined:
            self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> None:
        """Complete the join phase: remove members that did not join, and begin the next generation.

        Since 2.3, static members that did not join stay until their sessions time out. If only they remain, the group
        waits for one more rebalance timeout.
        """
        group.join_timer.cancel()
        if group.state is not ClassicState.PREPARING_REBALANCE:
            return
        keeps_static_members = self.settings.is_at_least(2, 3)
        for member in group.ordered_members():
            is_kept = keeps_static_members and member.group_instance_id is not None
            if member.awaiting_join is None and not is_kept:
                group.remove(member.member_id)
        # Before 2.3 every remaining member has joined, so the leader has joined, too.
        has_joined_leader = group.elect_joined_leader() if keeps_static_members else True
        if group.members and not has_joined_leader:
            logger.error("Group %s could not complete rebalance because no members rejoined", group.group_id)
            # With a delay of 0 ms, the timer would run immediately, again and again.
            self._schedule_join_end(group, max(group.rebalance_timeout_ms, 1))
            return
        if not group.start_next_generation(self.clock.now_ms):
            logger.error("Group %s could not complete rebalance because a subscription is malformed", group.group_id)
        elif not group.members:
            logger.info("Group %s with generation %d is now empty", group.group_id, group.generation)
            self.manager.store_group(group, {}, partial(self._warn_if_not_stored, group))
        else:
            logger.info("Stabilized group %s generation %d", group.group_id, group.generation)
            self._answer_joins(group)

    def _answer_joins(self, group: ClassicGroup) -> None:
        answers = []
        for member in group.ordered_members():
            answers.append((member.awaiting_join, messages.build_join_result(group, member.member_id)))
            member.awaiting_join = None
            member.is_new = False
            self.restart_session(group, member)
            group.pending_sync.add(member.member_id)
        if self.settings.is_at_least(2, 8, 1):
            group.sync_timer = self.manager.after(group, group.rebalance_timeout_ms, partial(self._expire_syncs, group))
        # The callbacks run when the new generation is complete, because a callback may send the member's SyncGroup.
        for callback, result in answers:
            if callback is not None:
                callback(result)

    def _warn_if_not_stored(self, group: ClassicGroup, error: Errors) -> None:
        """If it failed, the next load finds the previous members, until their sessions time out."""
        if error is not Errors.NONE:
            logger.warning("Failed to write empty metadata for group %s: %s", group.group_id, error.name)

    # CompletingRebalance: waiting for the leader's assignment

    def sync(
        self, group: ClassicGroup, member: ClassicMember, assignments: Mapping[str, bytes]
    ) -> ResponseFuture[messages.SyncGroupResult]:
        response: ResponseFuture[messages.SyncGroupResult] = ResponseFuture()
        member.awaiting_sync = response.complete
        self.mark_synced(group, member)
        if group.leader != member.member_id:
            return response
        logger.info(
            "Assignment received from leader %s for group %s for generation %d",
            group.leader,
            group.group_id,
            group.generation,
        )
        all_assignments = {member_id: assignments.get(member_id, b"") for member_id in group.members}
        generation = group.generation

        def complete(error: Errors) -> None:
            is_same_rebalance = group.state is ClassicState.COMPLETING_REBALANCE and group.generation == generation
            if not is_same_rebalance:
                return  # A member joined or left before the append was answered.
            if error is Errors.NONE:
                self._propagate_assignments(group, all_assignments, error)
                group.transition_to(ClassicState.STABLE, self.clock.now_ms)
            else:
                self._propagate_assignments(group, {}, error)
                self.maybe_prepare(group)

        self.manager.store_group(group, all_assignments, complete)
        return response

    def mark_synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._stop_waiting_for_syncs(group)

    def _stop_waiting_for_syncs(self, group: ClassicGroup) -> None:
        group.pending_sync.clear()
        group.sync_timer.cancel()

    def _expire_syncs(self, group: ClassicGroup) -> None:
        has_generation = group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
        if has_generation and group.pending_sync:
            for member_id in list(group.pending_sync):
                group.remove(member_id)
            self.prepare(group)

    def _propagate_assignments(self, group: ClassicGroup, assignments: Mapping[str, bytes], error: Errors) -> None:
        for member in group.ordered_members():
            member.assignment = assignments.get(member.member_id, b"")
            if member.awaiting_sync is not None:
                has_error = error is not Errors.NONE
                messages.answer_sync(
                    member, messages.SyncGroupResult(error) if has_error else messages.build_sync_result(group, member)
                )
                self.restart_session(group, member)
