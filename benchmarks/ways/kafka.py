"""Kafka's own ways: its classes in small Java programs, real brokers, and the dump tool (`make brokers`)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from benchmarks.measure import Missing, Result, Runs, time_calls
from benchmarks.topics import Topic
from benchmarks.ways.package import NOW_MS, checksum, run_process, weigh
from kafkagroups.course.real_broker import QUICK, find_jars, has_jars
from kafkagroups.errors import UsageError
from kafkagroups.spark.session import NoJava, find_java
from tests.broker.broker import Broker

MEMORY = "-Xmx4g"
LOADED = r"Finished loading (?:of metadata|offsets and group metadata) from __consumer_offsets-0 .*?\bin (\d+) ?ms?"
GROUPS_AT_ONCE = 200
WARM_UP_RUNS = 3


def find_class_path(version: str) -> str:
    if not has_jars(version):
        raise Missing(f"no jars of Kafka {version}: run `make brokers`")
    return f"{find_jars(version)}/*"


def find_java_command() -> Path:
    try:
        return Path(find_java().command)
    except (NoJava, UsageError) as error:
        raise Missing(str(error)) from None


def start_program(source: str, version: str, folder: Path, *words: object) -> subprocess.Popen[str]:
    """Compile a Java program of this folder with the jars of a version, and start it."""
    java = find_java_command()
    javac = shutil.which(java.with_name("javac")) or shutil.which("javac")
    if not javac:
        raise Missing("there is no javac")
    path = find_class_path(version)
    subprocess.run([javac, "-cp", path, "-d", folder, Path(__file__).with_name(source)], check=True)
    command = [java, MEMORY, "-cp", f"{folder}:{path}", source.removesuffix(".java"), *words]
    return subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def load_with_classes(topic: Topic, scratch: Path) -> Runs:
    """Loader.java, which loads once for every line on its stdin."""
    with start_program("Loader.java", "3.9.2", scratch, topic.folder) as process:
        try:
            yield from _skip_first(_ask_loader(process))
        finally:
            process.kill()


def _ask_loader(process: subprocess.Popen[str]) -> Runs:
    while True:
        print(file=process.stdin, flush=True)
        seconds, live = process.stdout.readline().split()
        yield Result(float(seconds), ("live", int(live)))


def _skip_first(runs: Runs) -> Runs:
    """Let the JVM become warm."""
    for _ in range(WARM_UP_RUNS):
        next(runs)
    yield None
    yield from runs


def compact(topic: Topic, scratch: Path) -> Runs:
    """Cleaner.java: warm passes in one JVM. The opening of the log is not timed."""
    with start_program("Cleaner.java", "4.3.1", scratch) as process:
        try:
            yield from _skip_first(_ask_cleaner(process, topic, scratch))
        finally:
            process.kill()


def _ask_cleaner(process: subprocess.Popen[str], topic: Topic, scratch: Path) -> Runs:
    (original,) = topic.folder.iterdir()
    number = 0
    while True:
        number += 1  # Each pass has its own folder, because the JVM deletes files of earlier passes later.
        folder = scratch / str(number) / original.name
        shutil.copytree(original, folder)
        print(NOW_MS, folder, file=process.stdin, flush=True)
        line = next(line for line in process.stdout if line.startswith("pass "))
        answer = checksum(sorted(folder.glob("*.log")))
        shutil.rmtree(folder.parent, ignore_errors=True)
        yield Result(float(line.split()[1]), ("cleaned bytes", answer))


class WarmBroker(Broker):
    """A broker with the memory, the JIT compiler and the index size of a production broker."""

    def build_settings(self) -> dict[str, str]:
        return super().build_settings() | {"log.index.size.max.bytes": "10485760"}

    def _command(self, *words: str) -> list[str]:
        first, *rest = (word for word in super()._command(*words) if word not in QUICK)
        return [first, MEMORY, *rest]


def load_with_broker(topic: Topic, scratch: Path, version: str) -> Runs:
    """Each load is a new process on the same bytes. The live offsets are counted once."""
    try:
        from tests.broker import client
    except ImportError:
        raise Missing("kafka-python, the client for the broker, is not installed") from None
    find_class_path(version)
    find_java_command()
    with WarmBroker(version, scratch, 1) as broker:
        broker.start()
        with client.asking(broker.address) as ask:
            client.find_coordinator(ask, "any")  # Creates the topic.
        broker.wait_until_loaded()
        broker.stop()
        yield None
        live = 0
        while True:
            broker.place(topic.folder)
            broker.start()
            broker.wait_until_loaded()
            milliseconds = re.search(LOADED, broker.log)
            assert milliseconds, broker.log[-2000:]
            live = live or count_live_offsets(broker)
            broker.stop()
            yield Result(int(milliseconds[1]) / 1000, ("live", live))


def count_live_offsets(broker: Broker) -> int:
    from tests.broker import client

    with client.asking(broker.address) as ask:
        names = list(client.listed(ask))
        parts = [names[at : at + GROUPS_AT_ONCE] for at in range(0, len(names), GROUPS_AT_ONCE)]
        return sum(len(found) for part in parts for found in client.offsets(ask, part, stable=False).values())


def make_dump_command(topic: Topic) -> list[str]:
    files = ",".join(map(str, topic.list_segments()))
    tool = ["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--print-data-log", "--files", files]
    return [str(find_java_command()), "-Xmx512m", "-cp", find_class_path("4.3.1"), *tool]


def dump(topic: Topic, scratch: Path) -> Runs:
    return run_process(make_dump_command(topic), scratch, lambda text: ("text", checksum([text])))


def count_groups_in_dump(topic: Topic, scratch: Path) -> Runs:
    """Pipe the text of the dump tool into a script, which counts the records of all groups."""
    command = make_dump_command(topic)

    def count() -> Counter[str]:
        counts: Counter[str] = Counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tool:
            for line in tool.stdout:
                if line.startswith("| offset: ") and ' key: {"type":"' in line:
                    key = line.split(" key: ", 1)[1].split(" payload: ", 1)[0]
                    counts[json.loads(key)["data"]["group"]] += 1
        return counts

    return time_calls(count, lambda counts: weigh(counts.items()))
