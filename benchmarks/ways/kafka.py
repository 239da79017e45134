"""Kafka's own ways: its classes in a small Java program, real brokers, the dump tool (`make brokers` fetches them)."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.topics import Topic
from benchmarks.ways import Missing, Timed
from kafkagroups.course.real_broker import QUICK, find_jars
from kafkagroups.errors import UsageError
from kafkagroups.spark.java import NoJava, find_java
from tests.broker.broker import Broker

MEMORY = "-Xmx4g"
LOADED = r"Finished loading (?:of metadata|offsets and group metadata) from __consumer_offsets-0 .*?\bin (\d+) ?ms?"
GROUPS_AT_ONCE = 200


def find_class_path(version: str) -> str:
    folder = find_jars(version)
    if not (folder / ".complete").exists():
        raise Missing(f"no jars of Kafka {version}: run `make brokers`")
    return f"{folder}/*"


def find_java_command() -> Path:
    try:
        return Path(find_java().command)
    except (NoJava, UsageError) as error:
        raise Missing(str(error)) from None


def compile_java(source: str, class_path: str, out: str) -> None:
    """Compile a Java program of this folder."""
    javac = find_java_command().with_name("javac")
    javac = javac if javac.exists() else Path(shutil.which("javac") or "")
    if not javac.is_file():
        raise Missing("there is no javac")
    subprocess.run([javac, "-cp", class_path, "-d", out, Path(__file__).with_name(source)], check=True)


@contextmanager
def classes(topic: Topic) -> Iterator[tuple[Callable, Callable]]:
    """The way `kafka-classes`: Loader.java, which loads once for every line on its stdin."""
    path = find_class_path("3.9.2")
    with tempfile.TemporaryDirectory() as out:
        compile_java("Loader.java", path, out)
        command = [find_java_command(), MEMORY, "-cp", f"{out}:{path}", "Loader", topic.folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

            def load() -> Timed:
                print(file=process.stdin, flush=True)
                seconds, live = process.stdout.readline().split()
                return Timed(float(seconds), int(live))

            try:
                load()
                load()
                yield load, lambda timed: timed.live
            finally:
                process.kill()


class WarmBroker(Broker):
    """A broker with the memory, the JIT compiler and the index size of a production broker."""

    def __init__(self, version: str, folder: Path, partitions: int) -> None:
        super().__init__(version, folder, partitions)
        file = folder / "server.properties"
        file.write_text(re.sub("log.index.size.max.bytes=.*", "log.index.size.max.bytes=10485760", file.read_text()))

    def _command(self, *words: str) -> list[str]:
        first, *rest = (word for word in super()._command(*words) if word not in QUICK)
        return [first, MEMORY, *rest]


@contextmanager
def broker(topic: Topic, version: str) -> Iterator[tuple[Callable, Callable]]:
    """The ways `broker-…`: each load is a new process on the same bytes. The live offsets are counted once."""
    try:
        from tests.broker import client
    except ImportError:
        raise Missing("kafka-python, the client for the broker, is not installed") from None
    find_class_path(version)
    find_java_command()
    with tempfile.TemporaryDirectory(dir=topic.folder.parent) as folder:
        one = WarmBroker(version, Path(folder), 1)
        live_counts: list[int] = []

        def load() -> Timed:
            one.place(topic.folder)
            one.start()
            try:
                one.wait_until_loaded()
                ms = re.search(LOADED, one.log)
                assert ms, one.log[-2000:]
                if not live_counts:
                    live_counts.append(count_live_offsets(one, topic.groups))
            finally:
                one.stop()
            return Timed(int(ms[1]) / 1000, live_counts[0])

        try:
            one.start()
            with client.asking(one.address) as ask:
                client.find_coordinator(ask, "any")
            one.wait_until_loaded()
            one.stop()
            yield load, lambda timed: timed.live
        finally:
            one.stop()


def count_live_offsets(one: Broker, groups: int) -> int:
    from tests.broker import client

    with client.asking(one.address) as ask:
        names = list(client.listed(ask))
        parts = [names[at : at + GROUPS_AT_ONCE] for at in range(0, len(names), GROUPS_AT_ONCE)]
        return sum(len(found) for part in parts for found in client.offsets(ask, part, stable=False).values())


broker_3 = partial(broker, version="3.9.2")
broker_4 = partial(broker, version="4.3.1")


@contextmanager
def dump_log(topic: Topic) -> Iterator[tuple[Callable, Callable]]:
    """The way `dump-log`, on the first segment. A log of one batch gives the time that the tool needs to start."""
    path = find_class_path("4.3.1")
    words = ["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--print-data-log", "--files"]
    command = [str(find_java_command()), "-Xmx512m", "-cp", path, *words]

    def run_tool(file: Path) -> tuple[float, int]:
        start = time.perf_counter()
        records = 0
        with subprocess.Popen([*command, file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tool:
            rest = b""
            while piece := tool.stdout.read(1 << 20):
                records += (rest + piece).count(b"\n| offset: ")
                rest = piece[-10:]
        if tool.returncode:
            raise RuntimeError(f"the dump tool ended with exit code {tool.returncode}")
        return time.perf_counter() - start, records

    segment = topic.segments()[0]
    with tempfile.TemporaryDirectory() as folder:
        one_batch = Path(folder, segment.name)
        with open(segment, "rb") as file:
            head = file.read(12)
            one_batch.write_bytes(head + file.read(int.from_bytes(head[8:], "big")))

        def load() -> Timed:
            start_seconds, few = run_tool(one_batch)
            seconds, records = run_tool(segment)
            if records != count_records(segment):
                return Timed(0, -1)
            return Timed((seconds - start_seconds) * (topic.records - few) / (records - few), topic.live)

        yield load, lambda timed: timed.live


def count_records(segment: Path) -> int:
    """Return the number of records, from the last batch's last offset (the log is not compacted)."""
    data = segment.read_bytes()
    at = 0
    while at < len(data):
        last = at
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    base = int.from_bytes(data[last : last + 8], "big") + int.from_bytes(data[last + 23 : last + 27], "big")
    return base + 1 - int.from_bytes(data[:8], "big")
