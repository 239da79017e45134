"""A time limit for code that a learner wrote."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TookTooLong(BaseException):
    """The code did not end in time. It is no `Exception`, so an `except Exception` in the code cannot catch it."""


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Stop the `with` block after some seconds of real time.

    It uses the timer of Unix, which works only in the main thread. A notebook runs its cells there. In another thread,
    and on a system without this timer, the block has no limit.

    Raises
    ------
    TookTooLong
        If the block did not end in time.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TookTooLong

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
