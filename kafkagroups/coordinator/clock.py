"""A clock that the caller advances, its timers, and those of a consumer group's members.

A `Timer` replaces Kafka's delayed operations (DelayedHeartbeat, DelayedJoin, DelayedSync): if the expected event comes
in time, the caller cancels it. Timers with the same time run in the order of their creation. A consumer group's timers
are not in the log, so a load starts them anew:

    session      the member sent no heartbeat
    rebalance    the member did not give its partitions back
    join, sync   a classic member did not join again, or did not send SyncGroup

Source: DelayedOperation.scala, SystemTimer.java (3.9); GroupMetadataManager.scheduleConsumerGroup…Timeout (4.3.1).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from kafkagroups.groups.living_groups import NO_TIMER, Cancellable


@dataclass(order=True)
class Timer:
    """An action that runs at the time `due_ms`, in ms since the epoch. `number` orders those of one time."""

    due_ms: int
    number: int
    action: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.action = None


class Clock:
    """A clock that the caller advances; `now_ms` is its time, in ms since the epoch.

    Examples
    --------
    >>> clock = Clock()
    >>> timer = clock.after(100, lambda: print("due at", clock.now_ms))
    >>> clock.advance(150)
    due at 100
    """

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self._timers: list[Timer] = []
        self._numbers = count()

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Run the action after `delay_ms` milliseconds; immediately if the delay is 0 or negative."""
        timer = Timer(self.now_ms + max(delay_ms, 0), next(self._numbers), action)
        if delay_ms <= 0:
            timer.action = None
            action()
        else:
            heapq.heappush(self._timers, timer)
        return timer

    def advance_to(self, now_ms: int) -> None:
        """Advance the clock, which never goes back, and run each due timer at its time."""
        while self._timers and self._timers[0].due_ms <= now_ms:
            timer = heapq.heappop(self._timers)
            if timer.action is not None:
                self.now_ms = max(self.now_ms, timer.due_ms)
                timer.action()
        self.now_ms = max(self.now_ms, now_ms)

    def advance(self, ms: int) -> None:
        self.advance_to(self.now_ms + ms)

    def clear_timers(self) -> None:
        self._timers.clear()


TimerKey = tuple[str, str, str]
"""What a timer ends, the group id and the member id."""
ALL_KINDS = ("session", "rebalance", "join", "sync")
SHORTEST_DELAY_MS = 1
"""What begins during a request, and needs no time, runs this much later: after the request."""


class MemberTimers:
    """`expire` is called with a timer's key, and the epoch for which it was started."""

    def __init__(self, clock: Clock, expire: Callable[[TimerKey, int | None], None]) -> None:
        self.clock = clock
        self.expire = expire
        self._timers: dict[TimerKey, Cancellable] = {}

    def is_running(self, key: TimerKey) -> bool:
        return key in self._timers

    def restart(self, key: TimerKey, timeout_ms: int, epoch: int | None = None) -> None:
        self._timers.pop(key, NO_TIMER).cancel()
        self._timers[key] = self.clock.after(max(timeout_ms, SHORTEST_DELAY_MS), partial(self._end, key, epoch))

    def cancel(self, group_id: str, member_id: str, kinds: Collection[str] = ALL_KINDS) -> None:
        for kind in kinds:
            self._timers.pop((kind, group_id, member_id), NO_TIMER).cancel()

    def _end(self, key: TimerKey, epoch: int | None) -> None:
        del self._timers[key]
        self.expire(key, epoch)
