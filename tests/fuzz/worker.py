"""A process that runs commands for the fuzzer, with a limit of memory and of time, and the controller of that process.

The process imports the package once and calls the command line's `main` for each command. An exception that leaves
`main` would be a traceback for a user. A command that takes too long is ended by a signal, also inside compiled code.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEMORY_BYTES = 3 << 29
"""A limit of addresses: 1 GiB for a command, and half as much for what the libraries map, most of it never used."""
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "COLUMNS": "120",
    "NO_COLOR": "1",
    # Arrow's own allocator takes a gigabyte of addresses at once.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
SECONDS = 60
HANG = "hang"
COMMANDS_PER_PROCESS = 1_000
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Command:
    """The arguments of one command, and the file that it reads from stdin (None: it is empty)."""

    arguments: list[str]
    stdin: str | None = None

    @property
    def prints_json(self) -> bool:
        return "--json" in self.arguments or "--jsonl" in self.arguments


@dataclass
class Result:
    """What a command did. `status` is None if the process ended; `failure` then has the reason."""

    status: int | None
    stdout: bytes
    stderr: bytes
    failure: str = ""
    seconds: float = 0.0


@dataclass
class Worker:
    """The controller of one process. The process is started again after it has ended."""

    folder: Path
    process: subprocess.Popen | None = None
    count: int = 0
    slowest: list[tuple[float, list[str]]] = field(default_factory=list)

    def run(self, command: Command, cwd: Path) -> Result:
        """Run a command in the folder `cwd` and return its result."""
        if self.process is None or self.count >= COMMANDS_PER_PROCESS:
            self.stop()
            self._start()
        self.count += 1
        process = self.process
        request = {"arguments": command.arguments, "stdin": command.stdin, "cwd": str(cwd)}
        started = time.monotonic()
        answer = b""
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            pass
        seconds = time.monotonic() - started
        self.slowest = sorted([*self.slowest, (seconds, command.arguments)], key=lambda pair: -pair[0])[:5]
        stdout = (self.folder / "stdout").read_bytes()
        stderr = (self.folder / "stderr").read_bytes()
        if not answer:
            code = process.wait()
            self.process = None
            failure = HANG if code == -signal.SIGALRM else f"the process ended with code {code}"
            return Result(None, stdout, stderr, failure, seconds)
        status, failure = json.loads(answer)
        return Result(status, stdout, stderr, failure, seconds)

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
        self.process = None

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("stdout", "stderr"):
            (self.folder / name).touch()
        self.count = 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", str(self.folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | ENVIRONMENT,
        )


def serve(folder: Path) -> None:
    """Answer each line of stdin: run its command, and print the exit code and the traceback of an exception."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for line in requests:
        request = json.loads(line)
        answer = _serve_one(request, folder)
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _serve_one(request: dict[str, Any], folder: Path) -> tuple[int | None, str]:
    from kafkagroups.cli import main

    os.chdir(request["cwd"])
    for number, file, flags in (
        (0, request["stdin"] or os.devnull, os.O_RDONLY),
        (1, folder / "stdout", os.O_WRONLY | os.O_TRUNC),
        (2, folder / "stderr", os.O_WRONLY | os.O_TRUNC),
    ):
        opened = os.open(file, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    faulthandler.register(signal.SIGALRM, file=sys.stderr, chain=True)  # The stack is printed, then the process ends.
    signal.alarm(SECONDS)
    failure = ""
    status = None
    try:
        status = main(request["arguments"])
    except SystemExit as error:
        status = error.code
    except BaseException:
        failure = traceback.format_exc()
    finally:
        signal.alarm(0)
        sys.stdout.flush()
        sys.stderr.flush()
        os.chdir(ROOT)
    return status, failure


def make_worker() -> Worker:
    return Worker(Path(tempfile.mkdtemp(prefix="kafkagroups-worker-")))


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
