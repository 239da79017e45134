"""A real broker in a folder: one node, KRaft, on the loopback only, started and stopped by its process id.

Nothing expires, nothing is cleaned, and no member times out.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from itertools import takewhile
from pathlib import Path
from typing import Self

from kafkagroups.errors import UsageError
from kafkagroups.spark.session import find_java

HOUR_MS = 3_600_000
START_SECONDS = 120
STOP_SECONDS = 30
MAX_SHOWN_CHARACTERS = 3000
SEGMENT_BYTES = 100 * 1024 * 1024
"""Kafka's default of offsets.topic.segment.bytes."""
QUICK = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""JVM options for a short run: little memory, and little time spent on compiling."""
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
_SESSION_SETTINGS = {
    f"group.{kind}.{limit}session.timeout.ms": str(HOUR_MS)
    for kind in ("consumer", "share", "streams")
    for limit in ("max.", "")
}
EXTRA_SETTINGS = {
    "3.9.2": {"group.coordinator.new.enable": "false", "group.coordinator.rebalance.protocols": "classic"},
    "4.3.1": {
        **_SESSION_SETTINGS,
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    },
}
"""The settings that only one version has, by version. 3.9.2 is started with the classic coordinator."""
LOGGING_OPTIONS = {"3.9.2": "-Dlog4j.configuration=file:", "4.3.1": "-Dlog4j2.configurationFile="}
"""By version: the JVM option that names the logging file, logging-*.properties."""
LOG_LEVELS = ("TRACE ", "DEBUG ", "INFO ", "WARN ", "ERROR ", "FATAL ")
"""The first word of each message in a broker's log."""


def find_jars(version: str) -> Path:
    """Return the folder where `make brokers` puts a version's jars. It need not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kafkagroups", f"kafka-{version}")


def has_jars(version: str) -> bool:
    return (find_jars(version) / ".complete").exists()


class RealBroker:
    """One broker of a `version` in `EXTRA_SETTINGS`. It can start and stop many times, and keeps its data in `folder`.

    Use it in a `with` statement, which stops the broker also after an error or Ctrl-C. Raises NoJava without Java 17 or
    newer, and UsageError if the folder cannot be prepared.
    """

    extra_ports = 0
    """How many ports a subclass needs, in addition to those of the broker and of its controller."""

    def __init__(self, version: str, folder: Path, partitions: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.version = version
        self.folder = folder
        self.partitions = partitions
        self.segment_bytes = segment_bytes
        self.port, self.controller_port, *self.ports = find_free_ports(2 + self.extra_ports)
        self.process: subprocess.Popen[bytes] | None = None
        self._java = find_java().command
        settings = "".join(f"{name}={value}\n" for name, value in self.build_settings().items())
        (folder / "server.properties").write_text(settings)
        self._run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", "server.properties")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def build_settings(self) -> dict[str, str]:
        controller = f"127.0.0.1:{self.controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{controller}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": f"{self.folder}/data",
            "log.cleaner.enable": "false",
            "log.index.size.max.bytes": "65536",
            "offsets.topic.num.partitions": str(self.partitions),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.segment.bytes": str(self.segment_bytes),
            "offsets.retention.minutes": "2147483647",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.max.session.timeout.ms": "2147483647",
            **EXTRA_SETTINGS[self.version],
        }

    def start(self) -> None:
        """Start the broker and wait until it serves requests. Raises UsageError if it ends or needs too long."""
        with open(self.folder / "server.log", "wb") as log:
            self.process = subprocess.Popen(
                self._command("kafka.Kafka", "server.properties"), cwd=self.folder, stdout=log, stderr=log
            )
        self.wait_for(r"Kafka Server started")

    def wait_for(self, pattern: str, times: int = 1) -> None:
        deadline = time.monotonic() + START_SECONDS
        while len(set(re.findall(pattern, self.log))) < times:
            if self.process is None or self.process.poll() is not None:
                raise UsageError(describe_failure("the broker ended", self.log))
            if time.monotonic() > deadline:
                what = f"the broker did not print {pattern} in {START_SECONDS} s"
                raise UsageError(describe_failure(what, self.log))
            time.sleep(0.2)

    def stop(self) -> None:
        """SIGTERM comes first: after SIGKILL the next start waits for the old session to end."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        finally:  # Also after Ctrl-C, the broker must not stay. A process that has ended gets no signal.
            self.process.kill()
            self.process.wait()
            self.process = None

    def _command(self, *words: str) -> list[str]:
        logging = f"{LOGGING_OPTIONS[self.version]}{Path(__file__).with_name(f'logging-{self.version}.properties')}"
        return [self._java, *QUICK, logging, "-cp", f"{find_jars(self.version)}/*", *words]

    def _run(self, *words: str) -> None:
        """Raises UsageError with its output if it fails."""
        done = subprocess.run(self._command(*words), cwd=self.folder, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise UsageError(describe_failure(f"{words[0]} failed", done.stdout + done.stderr))


def describe_failure(what: str, log: str) -> str:
    """Return what failed and the reason, in one line. The end of the log follows."""
    return f"{what}: {find_reason(log)}\n{log[-MAX_SHOWN_CHARACTERS:]}"


def find_reason(log: str) -> str:
    """Return the last error of a broker's log in one line: the message, and the first cause of its exception.

    If no message is an error, this is the last line that is not empty.
    """
    lines = [line.rstrip() for line in log.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
    errors = [number for number, line in enumerate(lines) if line.startswith(("ERROR ", "FATAL "))]
    if not errors:
        return lines[-1] if lines else "it printed nothing"
    message, *rest = lines[errors[-1] :]
    exception = list(takewhile(lambda line: not line.startswith(LOG_LEVELS), rest))
    causes = [line for line in exception if line.startswith("Caused by: ")] or exception[:1]
    return " ".join([message, *causes[-1:]])


def find_free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
