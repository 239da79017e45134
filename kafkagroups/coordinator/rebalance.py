"""Who is in a group: the rebalance, from the first JoinGroup to Stable and back, and the timers that drive it.

    joins (or leaves, or fails)  ─▶ PreparingRebalance: everybody is to join again, at most for the largest of
                                    their rebalance timeouts; an Empty group first waits
                                    group.initial.rebalance.delay.ms, once more when somebody came meanwhile
    all joined, or time is over  ─▶ who did not join is removed; generation + 1; nobody left: Empty, written at once;
                                    else CompletingRebalance, and every JoinGroup is answered
    the leader's SyncGroup       ─▶ the group's record with the assignments is appended; then Stable, and every
                                    SyncGroup is answered. A failed append: everybody starts over
    no heartbeat for a session   ─▶ the member is removed

Nothing of a rebalance but its result is written: a coordinator that dies between Join and Sync leaves the previous
generation in the log.
Source: GroupCoordinator.scala (3.9; tags 2.8.2 and 1.0.1 for what the version tells apart), DelayedJoin.scala.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.manager import GroupMetadataManager
from kafkagroups.coordinator.results import (
    Answer,
    JoinGroupResult,
    SyncGroupResult,
    answer_join,
    answer_sync,
    joined,
    synced_to,
)
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.classic_member import ClassicMember
from kafkagroups.groups.states import ClassicState

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member may wait for its first generation."""

logger = logging.getLogger("kafkagroups.coordinator")
PREPARING, COMPLETING = ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE


class Rebalances:
    """The rebalances of all groups on one coordinator."""

    def __init__(self, manager: GroupMetadataManager) -> None:
        self.manager = manager
        self.settings, self.clock = manager.settings, manager.clock

    # Joining

    def add_member(self, group: ClassicGroup, member: ClassicMember, answer: Answer[JoinGroupResult]) -> None:
        """A new member joins; it may wait five minutes for its generation (since 2.2; before, for ever)."""
        if group.state is PREPARING and group.generation == 0:
            group.new_member_added = True
        member.awaiting_join = answer.complete
        member.is_new = self.settings.since(2, 2)
        group.add(member)
        if member.is_new:
            self.expect_heartbeat(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.maybe_prepare(group)

    def update_member(
        self, group: ClassicGroup, member: ClassicMember, joining: ClassicMember, answer: Answer[JoinGroupResult]
    ) -> None:
        """A member joins again, with what it supports now; its timeouts count anew since 3.4."""
        self._take(member, joining, answer)
        self.maybe_prepare(group)

    def _take(self, member: ClassicMember, joining: ClassicMember, answer: Answer[JoinGroupResult]) -> None:
        member.protocols = joining.protocols
        member.awaiting_join = answer.complete
        if self.settings.since(3, 4):
            member.rebalance_timeout_ms = joining.rebalance_timeout_ms
            member.session_timeout_ms = joining.session_timeout_ms

    def replace_static(
        self,
        group: ClassicGroup,
        instance_id: str,
        joining: ClassicMember,
        answer: Answer[JoinGroupResult],
        *,
        skips_assignment: bool,
    ) -> None:
        """A static member comes back with no member id: it gets a new one, and who had the old one is fenced.

        In Stable, when the group would choose the same protocol, nothing is rebalanced: the group's record is written
        with the new id in the same generation, and the member goes on with its assignment (2.3 wrote nothing). If the
        append fails, the old id is back.
        """
        old = group.static_members[instance_id]
        leader = group.leader or ""
        member = group.members[old]
        before = (member.rebalance_timeout_ms, member.session_timeout_ms)
        answer_join(member, JoinGroupResult(Errors.FENCED_INSTANCE_ID, old))
        answer_sync(member, SyncGroupResult(Errors.FENCED_INSTANCE_ID))
        group.replace_static(instance_id, old, joining.member_id)
        self.expect_heartbeat(group, member)
        self._take(member, joining, answer)
        if group.state is COMPLETING:
            self.prepare(group)
        elif group.state is ClassicState.STABLE and group.select_protocol() != group.protocol:
            self.maybe_prepare(group)
        elif group.state is ClassicState.STABLE:

            def stored(error: Errors) -> None:
                if error is not Errors.NONE:
                    # Kafka's own revert keeps the new protocols: it reads the old ones too late.
                    member.awaiting_join = None
                    member.rebalance_timeout_ms, member.session_timeout_ms = before
                    if joining.member_id not in group.members:  # replaced once more: IllegalArgumentException in Kafka
                        return
                    group.replace_static(instance_id, joining.member_id, old)
                    self.expect_heartbeat(group, member)
                    answer.complete(joined(group, error, "", leader))
                    return
                leads = skips_assignment and group.leader == member.member_id
                shown = (group.leader or "") if skips_assignment else leader
                answer_join(member, joined(group, Errors.NONE, member.member_id, shown, tells=leads, skips=leads))

            self.manager.store_group(group, {each.member_id: each.assignment for each in group.told()}, stored)

    def maybe_prepare(self, group: ClassicGroup) -> None:
        if group.can_rebalance:
            self.prepare(group)

    def prepare(self, group: ClassicGroup) -> None:
        """The group begins a rebalance; who waits for an assignment is told to join again."""
        if group.state is COMPLETING:
            self._propagate(group, {}, Errors.REBALANCE_IN_PROGRESS)
        self._stop_waiting_for_syncs(group)
        was_empty = group.state is ClassicState.EMPTY
        group.transition_to(PREPARING, self.clock.now_ms)
        logger.info(
            "Preparing to rebalance group %s in state %s with old generation %d",
            group.group_id, group.state.value, group.generation,
        )  # fmt: skip
        if was_empty:
            delay = self.settings.group_initial_rebalance_delay_ms
            self._wait_for_first(group, delay, max(group.rebalance_timeout_ms - delay, 0))
        else:
            self._wait_for_joins(group, group.rebalance_timeout_ms)

    def _wait_for_first(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Lets the first members gather; once more while new ones come and the rebalance timeout allows it."""

        def expire() -> None:
            if group.new_member_added and remaining_ms:
                group.new_member_added = False
                again = min(self.settings.group_initial_rebalance_delay_ms, remaining_ms)
                self._wait_for_first(group, again, max(remaining_ms - delay_ms, 0))
            else:
                self.complete_join(group)

        group.joins_at_once = False
        group.delayed_join = self.clock.after(delay_ms, expire)

    def _wait_for_joins(self, group: ClassicGroup, timeout_ms: int) -> None:
        group.joins_at_once = True
        if group.all_joined:
            self.complete_join(group)
        else:
            group.delayed_join = self.clock.after(timeout_ms, partial(self.complete_join, group))

    def try_complete_join(self, group: ClassicGroup) -> None:
        """Ends the wait when everybody has joined (in the initial delay: never early)."""
        if group.state is PREPARING and group.joins_at_once and group.all_joined:
            self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> None:
        """The wait is over: who did not join is removed, static members only by their session (since 2.3)."""
        if group.delayed_join:
            group.delayed_join.cancel()
        if group.state is not PREPARING:
            return
        keeps_static = self.settings.since(2, 3)
        for member in group.told():
            if member.awaiting_join is None and not (keeps_static and member.group_instance_id is not None):
                group.remove(member.member_id)
        if keeps_static and not group.elect_joined_leader() and group.members:
            logger.error("Group %s could not complete rebalance because no members rejoined", group.group_id)
            group.delayed_join = self.clock.after(
                max(group.rebalance_timeout_ms, 1), partial(self.complete_join, group)
            )
            return
        group.next_generation(self.clock.now_ms)
        if group.state is ClassicState.EMPTY:
            logger.info("Group %s with generation %d is now empty", group.group_id, group.generation)
            self.manager.store_group(group, {}, partial(self._emptied, group))
            return
        logger.info("Stabilized group %s generation %d", group.group_id, group.generation)
        answers = []
        for member in group.told():
            result = joined(group, Errors.NONE, member.member_id, tells=member.member_id == group.leader)
            answers.append((member.awaiting_join, result))
            member.awaiting_join, member.is_new = None, False
            self.expect_heartbeat(group, member)
            group.pending_sync.add(member.member_id)
        if self.settings.since(2, 8, 1):
            group.delayed_sync = self.clock.after(group.rebalance_timeout_ms, partial(self._expire_syncs, group))
        for answer, result in answers:  # last: whoever hears may sync at once
            if answer is not None:
                answer(result)

    def _emptied(self, group: ClassicGroup, error: Errors) -> None:
        if error is not Errors.NONE:  # after a crash the previous generation would be active again, and time out
            logger.warning("Failed to write empty metadata for group %s: %s", group.group_id, error.name)

    # Syncing

    def sync(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        assignments: Mapping[str, bytes],
        answer: Answer[SyncGroupResult],
    ) -> None:
        """A member of a CompletingRebalance asks for its assignment; the leader brings everybody's, which is stored."""
        member.awaiting_sync = answer.complete
        self.synced(group, member)
        if group.leader != member.member_id:
            return
        logger.info("Assignment received from leader %s for group %s for generation %d",
                    group.leader, group.group_id, group.generation)  # fmt: skip
        whole = {each: assignments.get(each, b"") for each in group.members}
        generation = group.generation

        def stored(error: Errors) -> None:
            if group.state is not COMPLETING or group.generation != generation:
                return  # somebody joined or left while the append was on its way
            if error is not Errors.NONE:
                self._propagate(group, {}, error)
                self.maybe_prepare(group)
            else:
                self._propagate(group, whole, error)
                group.transition_to(ClassicState.STABLE, self.clock.now_ms)

        self.manager.store_group(group, whole, stored)

    def synced(self, group: ClassicGroup, member: ClassicMember) -> None:
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._stop_waiting_for_syncs(group)

    def _stop_waiting_for_syncs(self, group: ClassicGroup) -> None:
        group.pending_sync.clear()
        if group.delayed_sync:
            group.delayed_sync.cancel()

    def _expire_syncs(self, group: ClassicGroup) -> None:
        """Who has not synced within the rebalance timeout is removed, and the rest starts over (since 2.8.1)."""
        if group.state in (COMPLETING, ClassicState.STABLE) and group.pending_sync:
            for member_id in list(group.pending_sync):
                group.remove(member_id)
            self.prepare(group)

    def _propagate(self, group: ClassicGroup, assignments: Mapping[str, bytes], error: Errors) -> None:
        """Gives each member its assignment (with an error: none) and answers those who wait for it."""
        failed = error is not Errors.NONE
        for member in group.told():
            member.assignment = assignments.get(member.member_id, b"")
            if member.awaiting_sync is not None:
                answer_sync(member, SyncGroupResult(error) if failed else synced_to(group, member))
                self.expect_heartbeat(group, member)

    # Living and leaving

    def expect_heartbeat(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Whatever was expected of the member is satisfied; it is to be heard of again within its session timeout."""
        if member.heartbeat:
            member.heartbeat.cancel()
        delay = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.heartbeat = self.clock.after(delay, partial(self._expire_heartbeat, group, member))

    def _expire_heartbeat(self, group: ClassicGroup, member: ClassicMember) -> None:
        waits = member.is_waiting and not member.is_new  # a member that waits for a rebalance is alive
        if group.state is ClassicState.DEAD or group.members.get(member.member_id) is not member or waits:
            return
        logger.info("Member %s in group %s has failed, removing it from the group", member.member_id, group.group_id)
        self.remove_member(group, member)

    def remove_member(self, group: ClassicGroup, member: ClassicMember) -> None:
        """A member is gone, by its own wish or its silence: a living group rebalances, a rebalance may be complete."""
        if self.settings.since(2, 2):
            answer_join(member, JoinGroupResult(Errors.UNKNOWN_MEMBER_ID, ""))
        group.remove(member.member_id)
        if group.state in (ClassicState.STABLE, COMPLETING):
            self.maybe_prepare(group)
        self.try_complete_join(group)

    def add_pending(self, group: ClassicGroup, member_id: str, session_timeout_ms: int) -> None:
        """A member id was handed out (KIP-394): whoever does not use it within a session is forgotten."""
        group.pending_members[member_id] = self.clock.after(
            session_timeout_ms, partial(self.remove_pending, group, member_id)
        )

    def remove_pending(self, group: ClassicGroup, member_id: str) -> None:
        group.forget_pending(member_id)
        self.try_complete_join(group)
