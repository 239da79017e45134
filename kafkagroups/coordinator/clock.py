"""A clock that only its caller advances, and the timers that it runs on the way.

Kafka's coordinator keeps delayed operations in "purgatories" (DelayedHeartbeat, DelayedJoin, DelayedSync). There, an
operation is completed early or expires. Here, completing early is `Timer.cancel`, and expiring is the timer's action.
The clock runs actions in the order of their times; actions with the same time run in the order of their creation.
Source: DelayedOperation.scala, SystemTimer.java (3.9).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(order=True)
class Timer:
    """An action that is due at `at_ms`. `order` is the number of timers created before it."""

    at_ms: int
    order: int
    action: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        """Drop the action."""
        self.action = None


class Clock:
    """A clock that its caller advances.

    Parameters
    ----------
    now_ms
        The time at the beginning, in ms since the epoch. The attribute of the same name is the current time.

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
        self._created = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Run the action in `delay_ms`, or immediately if the delay is 0 or negative."""
        timer = Timer(self.now_ms + max(delay_ms, 0), self._created, action)
        self._created += 1
        if delay_ms <= 0:
            timer.action = None
            action()
        else:
            heapq.heappush(self._timers, timer)
        return timer

    def advance_to(self, now_ms: int) -> None:
        """Advance to `now_ms` and run each action that is due on the way, at its own time. Never go back."""
        while self._timers and self._timers[0].at_ms <= now_ms:
            timer = heapq.heappop(self._timers)
            if timer.action is not None:
                self.now_ms = max(self.now_ms, timer.at_ms)
                timer.action()
        self.now_ms = max(self.now_ms, now_ms)

    def advance(self, ms: int) -> None:
        """Advance by `ms`."""
        self.advance_to(self.now_ms + ms)

    def clear_timers(self) -> None:
        """Drop all timers, as a crash does."""
        self._timers.clear()
