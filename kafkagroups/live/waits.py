"""The waits of a pull, which have a limit together: for connections, responses, quotas and new leaders.

A response that brings new batches is not a wait, no matter how long it takes. A wait of more than REPORTED_SECONDS is
reported, so that people see what the pull waits for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAX_WAIT_SECONDS = 30
"""The default limit of all waits of a pull."""
RESPONSE_SECONDS = 30.0
"""How long a request can take at most, with its connection and its response."""
REPORTED_SECONDS = 2.0
"""A shorter wait is not reported."""


def ignore_report(message: str) -> None:
    """Ignore what the pull waits for."""


@dataclass
class Waits:
    """The waits of one pull.

    `limit` is the limit of all waits in seconds, and `seconds_left` is the rest of it. `report` is called with what the
    pull waits for. `last_response_seconds` is the time that the last response took.
    """

    limit: float = MAX_WAIT_SECONDS
    report: Callable[[str], None] = ignore_report
    seconds_left: float = 0
    last_response_seconds: float = 0

    def __post_init__(self) -> None:
        self.seconds_left = self.limit

    @property
    def are_over(self) -> bool:
        """Whether the limit is reached."""
        return self.seconds_left <= 0

    def explain_end(self) -> str:
        """Return the end of a message that says that the limit is reached; "" if it is not reached."""
        return f"; the limit of all waits is {self.limit:g} s (--max-wait)" if self.are_over else ""

    def wait_for(self, net: Any, future: Any, subject: str) -> bool:
        """Let kafka-python work until a future has a result. Return False if the time ends before.

        `subject` is what the pull waits for. `net` is kafka-python's event loop.
        """
        start = time.monotonic()
        seconds = min(RESPONSE_SECONDS, self.seconds_left)
        net.poll(timeout_ms=1000 * min(REPORTED_SECONDS, seconds), future=future)
        if not future.is_done and seconds > REPORTED_SECONDS:
            self.report(f"waiting for {subject}")
            net.poll(timeout_ms=1000 * (seconds - REPORTED_SECONDS), future=future)
        self.last_response_seconds = time.monotonic() - start
        self.seconds_left -= self.last_response_seconds
        return bool(future.is_done)

    def sleep(self, net: Any, seconds: float, reason: str) -> None:
        """Wait for some seconds. If fewer seconds are left, do not wait at all: the limit is then reached."""
        if seconds >= REPORTED_SECONDS:
            self.report(f"waiting {seconds:.1f} s{self._compare(seconds)}: {reason}")
        if seconds <= self.seconds_left:
            net.run(net.sleep, seconds)
        self.seconds_left -= seconds

    def _compare(self, seconds: float) -> str:
        return f", but only {max(self.seconds_left, 0):.1f} s are left" if seconds > self.seconds_left else ""

    def forgive_last_response(self) -> None:
        """Give back the time of the last response, because it brought new batches."""
        self.seconds_left += self.last_response_seconds
        self.last_response_seconds = 0
