"""The command line in process, for tests of logs."""

from tests.command import run

__all__ = ["run"]
