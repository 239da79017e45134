"""Time as an argument: a clock that stands until it is told to go on, and what is to happen then.

Kafka's coordinator waits in "purgatories" (DelayedHeartbeat, DelayedJoin, DelayedSync): an operation is completed
early, or expires. Here completing early is `cancel`, expiring is an action that the clock runs when its time has come,
in the order of the times, first come first when they are equal.
Source: DelayedOperation.scala, SystemTimer.java (3.9).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(order=True)
class Timer:
    """An action that is due at `at_ms`."""

    at_ms: int
    order: int
    action: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        self.action = None


class Clock:
    """`now_ms` is ms since the epoch."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self._timers: list[Timer] = []
        self._made = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Runs the action when `delay_ms` have passed: with none or less, now."""
        timer = Timer(self.now_ms + max(delay_ms, 0), self._made, action)
        self._made += 1
        if delay_ms <= 0:
            timer.action = None
            action()
        else:
            heapq.heappush(self._timers, timer)
        return timer

    def advance_to(self, now_ms: int) -> None:
        """Goes on to `now_ms` (never back) and runs what is due on the way, each at its own time."""
        while self._timers and self._timers[0].at_ms <= now_ms:
            timer = heapq.heappop(self._timers)
            if timer.action is not None:
                self.now_ms = max(self.now_ms, timer.at_ms)
                timer.action()
        self.now_ms = max(self.now_ms, now_ms)

    def forget(self) -> None:
        """Nothing is due any more, as after a crash."""
        self._timers.clear()

    def advance(self, ms: int) -> None:
        self.advance_to(self.now_ms + ms)
