"""The fixture that calls the command line in process."""

from tests.command import run

__all__ = ["run"]
