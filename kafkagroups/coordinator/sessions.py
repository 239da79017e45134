"""Session timers: a member is removed if it sends no heartbeat within its session timeout.

Source: GroupCoordinator.completeAndScheduleNextHeartbeatExpiration, onExpireHeartbeat (3.9); shouldKeepMemberAlive
(1.0.1); DelayedHeartbeat.scala.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from kafkagroups.coordinator.group_store import GroupStore
from kafkagroups.groups.classic_group import ClassicGroup, ClassicMember
from kafkagroups.groups.states import ClassicState

logger = logging.getLogger("kafkagroups.coordinator")


class Sessions:
    """The session timers of all members. `remove_member` is called for a member whose session timed out."""

    def __init__(self, manager: GroupStore, remove_member: Callable[[ClassicGroup, ClassicMember], None]) -> None:
        self.manager = manager
        self.remove_member = remove_member

    def restart(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Restart the member's timer. The timer runs for `timeout_ms`; None: for the member's session timeout."""
        if member.session_timer:
            member.session_timer.cancel()
        delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session_timer = self.manager.after(group, delay_ms, partial(self._expire, group, member))

    def _expire(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove the member, unless the member is already removed or waits for a response.

        A member that waits for a response sends no heartbeats, but the connection is open, so the member counts as
        alive. Exception: a new member (`NEW_MEMBER_JOIN_TIMEOUT_MS` in rebalance.py).
        """
        is_removed = group.state is ClassicState.DEAD or group.members.get(member.member_id) is not member
        is_alive = member.is_waiting and not member.is_new
        if is_removed or is_alive:
            return
        logger.info("Member %s in group %s has failed, removing it from the group", member.member_id, group.group_id)
        self.remove_member(group, member)
