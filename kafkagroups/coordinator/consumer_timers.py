"""The timers of the members of consumer groups: what is not in the log, and starts anew after a load.

    session      the member sent no heartbeat
    rebalance    the member did not give its partitions back
    join, sync   a classic member did not join again, or did not send SyncGroup

Source: GroupMetadataManager.scheduleConsumerGroup…Timeout (4.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from kafkagroups.coordinator.clock import Clock, Timer

TimerKey = tuple[str, str, str]
"""What a timer ends, the group id and the member id."""
ALL_KINDS = ("session", "rebalance", "join", "sync")
SHORTEST_DELAY_MS = 1
"""What begins during a request, and needs no time, runs this much later: after the request."""


class MemberTimers:
    """The timers of all members. `expire` is called with a timer's key, and the epoch for which it was started."""

    def __init__(self, clock: Clock, expire: Callable[[TimerKey, int | None], None]) -> None:
        self.clock = clock
        self.expire = expire
        self._timers: dict[TimerKey, Timer] = {}

    def is_running(self, key: TimerKey) -> bool:
        """Return whether a timer was started, and has not ended."""
        return key in self._timers

    def restart(self, key: TimerKey, timeout_ms: int, epoch: int | None = None) -> None:
        """Start a timer, instead of the one that runs for this key."""
        self._cancel(key)
        self._timers[key] = self.clock.after(max(timeout_ms, SHORTEST_DELAY_MS), partial(self._end, key, epoch))

    def cancel(self, group_id: str, member_id: str, kinds: Collection[str] = ALL_KINDS) -> None:
        """Cancel timers of a member."""
        for kind in kinds:
            self._cancel((kind, group_id, member_id))

    def _cancel(self, key: TimerKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _end(self, key: TimerKey, epoch: int | None) -> None:
        del self._timers[key]
        self.expire(key, epoch)
