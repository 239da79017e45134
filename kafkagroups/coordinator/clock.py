"""A clock that the caller advances, and timers that run when they are due.

A `Timer` replaces Kafka's delayed operations (DelayedHeartbeat, DelayedJoin, DelayedSync). If the expected event comes
in time, for example a heartbeat, the caller cancels the timer. Otherwise the timer's action runs. Timers with the same
time run in the order of their creation.
Source: DelayedOperation.scala, SystemTimer.java (3.9).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(order=True)
class Timer:
    """An action that runs at the time `due_ms`, in ms since the epoch. The action of a cancelled timer is None.

    `number` is the count of timers that were created before this timer.
    """

    due_ms: int
    number: int
    action: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        """Make sure that the action does not run."""
        self.action = None


class Clock:
    """A clock that the caller advances.

    Parameters
    ----------
    now_ms
        The time at the start, in ms since the epoch. The attribute `now_ms` is the current time.

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
        self._timer_count = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        """Run the action after `delay_ms` milliseconds. If the delay is 0 or negative, run the action immediately."""
        timer = Timer(self.now_ms + max(delay_ms, 0), self._timer_count, action)
        self._timer_count += 1
        if delay_ms <= 0:
            timer.action = None
            action()
        else:
            heapq.heappush(self._timers, timer)
        return timer

    def advance_to(self, now_ms: int) -> None:
        """Advance the clock to `now_ms`. Each due timer runs at the time `due_ms`. The clock never goes back."""
        while self._timers and self._timers[0].due_ms <= now_ms:
            timer = heapq.heappop(self._timers)
            if timer.action is not None:
                self.now_ms = max(self.now_ms, timer.due_ms)
                timer.action()
        self.now_ms = max(self.now_ms, now_ms)

    def advance(self, ms: int) -> None:
        """Advance the clock by `ms` milliseconds."""
        self.advance_to(self.now_ms + ms)

    def clear_timers(self) -> None:
        """Remove all timers, as a crash does."""
        self._timers.clear()
