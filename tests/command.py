"""The command line in process: the fixture `run`, and `main` for tests that capture its output themselves."""

import io

import pytest

from kafkagroups.cli import main


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
