"""The command line in process: `run`, `ask_json`, and `main` for tests that capture its output themselves."""

import contextlib
import io
import json

import pytest

from kafkagroups.cli import main
from kafkagroups.cli.output import escape as escape


def ask_json(*arguments):
    """Return the one object that a command prints as JSON. Its messages are dropped."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        main([str(argument) for argument in arguments])
    return json.loads(out.getvalue())


@pytest.fixture
def run(capsys, monkeypatch):
    def call(*args, stdin=""):
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        try:
            status = main([str(arg) for arg in args])
        except SystemExit as error:
            status = error.code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, err

    return call
