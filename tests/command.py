"""The command line in process: `ask_json`, and `main` for tests that capture its output themselves.

The fixture `run` (tests/conftest.py) returns the exit code, the output and the errors of a command.
"""

import contextlib
import io
import json

from kafkagroups.cli import main
from kafkagroups.cli.output import escape as escape


def ask_json(*arguments):
    """Return the one object that a command prints as JSON. Its messages are dropped."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        main([str(argument) for argument in arguments])
    return json.loads(out.getvalue())
