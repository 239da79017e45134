"""A release's own group coordinator in a process: it loads sequences of records and prints what it then holds.

The jars come from Maven Central (`make brokers`). Replay.java has the protocol.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from kafkagroups.course.real_broker import find_jars
from kafkagroups.spark.session import find_java
from tests.broker.broker import VERSIONS
from tests.releases.sequences import Event

SOURCE = Path(__file__).with_name("Replay.java")
QUICK = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def coordinator_jars(release: str) -> Path:
    """Return the folder of a release's class path."""
    if release in VERSIONS:
        return find_jars(release)
    return find_jars(release).with_name(f"coordinator-{release}")


class Coordinator:
    """One release's coordinator. Use it in a `with` statement, so that its process ends."""

    def __init__(self, release: str) -> None:
        command = [find_java().command, *QUICK, "-cp", f"{coordinator_jars(release)}/*", str(SOURCE)]
        self.release = release
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()

    def load(self, events: list[Event]) -> dict[str, Any]:
        """Return what the coordinator holds after it has read these events."""
        (answer,) = self.load_all([events])
        return answer

    def load_all(self, sequences: Iterable[list[Event]]) -> Iterator[dict[str, Any]]:
        """Yield what the coordinator holds after each sequence. Every sequence starts with an empty coordinator."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for number, events in enumerate(sequences):
            records = [_as_json(offset, event) for offset, event in enumerate(events)]
            self.process.stdin.write(json.dumps({"id": number, "records": records}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"the coordinator of Kafka {self.release} ended at sequence {number}")
            yield json.loads(line)


def _as_json(offset: int, event: Event) -> list[Any]:
    epoch = 0 if event.producer_id >= 0 else -1
    if event.kind != "record":
        return [event.kind, offset, event.producer_id, epoch]
    key = None if event.key is None else event.key.hex()
    value = None if event.value is None else event.value.hex()
    return ["record", offset, event.producer_id, epoch, key, value]
