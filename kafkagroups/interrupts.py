"""Ctrl-C while the command `kafkagroups` starts, where the process ends without a traceback, and inside a library.

Most of the start is imports, in which no code of this package can catch a KeyboardInterrupt, so Ctrl-C ends the process
directly until `main` runs.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

EXIT_CODE = 130
"""The exit code of a command that the user has interrupted, as in shells."""


def _is_command() -> bool:
    """Return whether this process is the command, started by its script or by `python -m kafkagroups`.

    While `python -m` imports a package, argv[0] is "-m". So the module's name counts: the last word before the
    arguments in Python's whole command line.
    """
    if not sys.argv or sys.argv[0] != "-m":
        return bool(sys.argv) and os.path.basename(sys.argv[0]) == "kafkagroups"
    module = sys.orig_argv[-len(sys.argv)]
    return re.fullmatch(r"(-\w*m)?kafkagroups(\.__main__)?", module) is not None


IS_COMMAND = _is_command()


def exit_at_ctrl_c() -> None:
    """Let Ctrl-C end the process without a message, if this process is the command."""
    # A shell can start a background command with SIGINT set to "ignore". The command must keep this setting.
    if IS_COMMAND and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_at_ctrl_c() -> None:
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def insist_on_ctrl_c() -> Iterator[None]:
    """Raise a KeyboardInterrupt at the end, too: kafka-python takes one inside its transport for a lost connection."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or current_thread() is not main_thread():
        yield
        return
    is_interrupted = False

    def note(signal_number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        signal.default_int_handler(signal_number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_interrupted:
        raise KeyboardInterrupt


def _exit(signal_number: int, frame: FrameType | None) -> None:
    os._exit(EXIT_CODE)


exit_at_ctrl_c()
