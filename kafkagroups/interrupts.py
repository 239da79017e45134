"""Ctrl-C while the command `kafkagroups` starts: the process ends without a traceback.

Most of the start is imports. Python raises KeyboardInterrupt in the middle of an import, where no code of this package
can catch it. So until the function `main` of the command runs, Ctrl-C ends the process directly. In a program that only
imports this package, this module changes nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

EXIT_CODE = 130
"""The exit code of a command that the user has interrupted. Shells use the same number."""

IS_COMMAND = bool(sys.argv) and os.path.basename(sys.argv[0]) in ("kafkagroups", "-m")
"""Whether this process is the command, started by its script or by `python -m kafkagroups`. While `python -m` imports
the package, argv[0] is "-m"."""


def exit_at_ctrl_c() -> None:
    """Let Ctrl-C end the process without a message, if this process is the command."""
    # A shell can start a background command with SIGINT set to "ignore". The command must keep this setting.
    if IS_COMMAND and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


def raise_at_ctrl_c() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit(signal_number: int, frame: FrameType | None) -> None:
    os._exit(EXIT_CODE)


exit_at_ctrl_c()
