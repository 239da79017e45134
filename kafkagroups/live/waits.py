"""The waits of a command: for connections, responses, quotas and new leaders. All waits together have a limit.

A response that brings new batches is not a wait, no matter how long it takes.
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
MIN_REPORTED_SECONDS = 2.0


def ignore_report(message: str) -> None:
    """Ignore what the pull waits for."""


@dataclass
class Waits:
    """The waits of one `pull` or `rescue apply`.

    `limit_seconds` is the limit of all waits together. `report` is called with what the pull waits for, if a wait is
    longer than MIN_REPORTED_SECONDS. `last_response_seconds` is how long the last response took. The first
    `free_response_seconds` of each response are not counted.
    """

    limit_seconds: float = MAX_WAIT_SECONDS
    report: Callable[[str], None] = ignore_report
    seconds_left: float = 0
    last_response_seconds: float = 0
    free_response_seconds: float = 0

    def __post_init__(self) -> None:
        self.seconds_left = self.limit_seconds

    @property
    def are_over(self) -> bool:
        """Whether the limit is reached."""
        return self.seconds_left <= 0

    def explain_end(self) -> str:
        """Return text that says that the limit is reached, for the end of a message; otherwise ""."""
        return f"; the limit of all waits is {self.limit_seconds:g} s (--max-wait)" if self.are_over else ""

    def wait_for(self, net: Any, future: Any, subject: str) -> bool:
        """Let kafka-python work until a future has a result. Return False if the time ends before.

        `subject` is what the pull waits for. `net` is kafka-python's event loop.
        """
        start = time.monotonic()
        seconds = min(RESPONSE_SECONDS, self.seconds_left)
        net.poll(timeout_ms=1000 * min(MIN_REPORTED_SECONDS, seconds), future=future)
        if not future.is_done and seconds > MIN_REPORTED_SECONDS:
            self.report(f"waiting for {subject}")
            net.poll(timeout_ms=1000 * (seconds - MIN_REPORTED_SECONDS), future=future)
        free_seconds = self.free_response_seconds if future.is_done else 0
        self.last_response_seconds = max(0, time.monotonic() - start - free_seconds)
        self.seconds_left -= self.last_response_seconds
        return bool(future.is_done)

    def sleep(self, net: Any, seconds: float, reason: str) -> None:
        """Wait for some seconds. If fewer seconds are left, do not wait at all: the limit is then reached."""
        if seconds >= MIN_REPORTED_SECONDS:
            self.report(f"waiting {seconds:.1f} s{self._explain_lack(seconds)}: {reason}")
        if seconds <= self.seconds_left:
            net.run(net.sleep, seconds)
        self.seconds_left -= seconds

    def _explain_lack(self, seconds: float) -> str:
        return f", but only {max(self.seconds_left, 0):.1f} s are left" if seconds > self.seconds_left else ""

    def forgive_last_response(self) -> None:
        """Give back the time of the last response, because it brought new batches."""
        self.seconds_left += self.last_response_seconds
        self.last_response_seconds = 0
