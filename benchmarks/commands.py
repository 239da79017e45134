"""Commands of the package next to Kafka's own tools, which do the same with the same log.

A way (`CommandWay`) is a context manager over a topic. It returns a function that runs the command once, and returns a
Result. All ways of a command must give the same answer. To compare another command, add its ways to `COMMANDS`.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import kafkagroups as kg
from benchmarks import questions, topics
from benchmarks.once import ROOT
from benchmarks.results import CommandWay, Result, Run, children_cpu_seconds
from benchmarks.runs import count_groups
from benchmarks.topics import Topic
from benchmarks.ways import Missing
from benchmarks.ways.kafka import MEMORY, compile_java, find_class_path, find_java_command

NOW_MS = 1_800_000_000_000
"""The time of a cleaner pass, so that all passes write the same bytes."""
WARM_UP_PASSES = 3


def run_process(command: list[str | Path], out: Path) -> Result:
    """Run a process that writes to stdout. Its text goes to the file `out`, so that no reader slows it down."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    cpu_start = children_cpu_seconds()
    start = time.perf_counter()
    with open(out, "wb") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment, check=True)
    seconds = time.perf_counter() - start
    return Result(seconds, children_cpu_seconds() - cpu_start, checksum([out]))


def checksum(files: list[Path]) -> int:
    """Return the CRC of the content of files, in this order."""
    crc = 0
    for file in files:
        with open(file, "rb") as content:
            while piece := content.read(1 << 20):
                crc = zlib.crc32(piece, crc)
    return crc


@contextmanager
def dump_with_package(topic: Topic, scratch: Path) -> Iterator[Run]:
    words = ["dump", "--format", "dump-log", *topic.segments()]
    yield partial(run_process, [sys.executable, "-m", "kafkagroups", *words], scratch / "package.txt")


@contextmanager
def dump_with_kafka(topic: Topic, scratch: Path) -> Iterator[Run]:
    path = find_class_path("4.3.1")
    files = ",".join(map(str, topic.segments()))
    words = ["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--print-data-log", "--files", files]
    yield partial(run_process, [find_java_command(), "-Xmx512m", "-cp", path, *words], scratch / "kafka.txt")


@contextmanager
def compact_in_process(topic: Topic, scratch: Path, engine: str) -> Iterator[Run]:
    (folder,) = topic.folder.iterdir()
    out = scratch / engine

    def run() -> Result:
        shutil.rmtree(out, ignore_errors=True)
        cpu_start = time.process_time()
        start = time.perf_counter()
        kg.compact(folder, out, now_ms=NOW_MS, engine=engine)
        seconds = time.perf_counter() - start
        return Result(seconds, time.process_time() - cpu_start, checksum(sorted(out.glob("*.log"))))

    if engine == "compiled":
        run()  # Compiles the kernels, or reads the cached machine code.
    yield run


@contextmanager
def compact_in_new_process(topic: Topic, scratch: Path) -> Iterator[Run]:
    (folder,) = topic.folder.iterdir()
    out = scratch / "process"

    def run() -> Result:
        shutil.rmtree(out, ignore_errors=True)
        words = ["compact", folder, "--out", out, "--now-ms", str(NOW_MS), "--engine", "compiled"]
        done = run_process([sys.executable, "-m", "kafkagroups", *words], scratch / "process.txt")
        return Result(done.seconds, done.cpu_seconds, checksum(sorted(out.glob("*.log"))))

    yield run


@contextmanager
def compact_with_kafka(topic: Topic, scratch: Path, warm: bool) -> Iterator[Run]:
    """Run Cleaner.java: warm passes in one JVM, without the opening of the log; or each pass in a new JVM, with it."""
    (original,) = topic.folder.iterdir()
    numbers = itertools.count()
    path = find_class_path("4.3.1")
    with tempfile.TemporaryDirectory() as classes, ExitStack() as stack:
        compile_java("Cleaner.java", path, classes)
        command = [find_java_command(), MEMORY, "-cp", f"{classes}:{path}", "Cleaner"]

        def start_jvm() -> subprocess.Popen[str]:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )

        jvm = start_jvm() if warm else None
        if jvm:
            stack.enter_context(jvm)
            stack.callback(jvm.kill)

        def run() -> Result:
            # Each pass has its own folder, because the JVM deletes files of earlier passes later.
            place = scratch / f"kafka-{warm}-{next(numbers)}"
            folder = place / original.name
            shutil.copytree(original, folder)
            cpu_start = children_cpu_seconds()
            start = time.perf_counter()
            process = jvm or start_jvm()
            print(NOW_MS, folder, file=process.stdin, flush=True)
            line = next(line for line in process.stdout if line.startswith("pass "))
            seconds, cpu_seconds = map(float, line.split()[1:])
            if not jvm:
                process.communicate()
                seconds = time.perf_counter() - start
                cpu_seconds = children_cpu_seconds() - cpu_start
            answer = checksum(sorted(folder.glob("*.log")))
            shutil.rmtree(place, ignore_errors=True)
            return Result(seconds, cpu_seconds, answer)

        for _ in range(WARM_UP_PASSES if warm else 0):
            run()
        yield run


COMMANDS: dict[str, dict[str, CommandWay]] = {
    "dump --format dump-log": {
        "package": CommandWay("kafkagroups, a new process", dump_with_package),
        "kafka": CommandWay("kafka-dump-log 4.3.1, a new process", dump_with_kafka),
    },
    "compact": {
        "package": CommandWay("kafkagroups, compiled, warm", partial(compact_in_process, engine="compiled")),
        "kafka": CommandWay("Kafka 4.3.1's Cleaner, warm", partial(compact_with_kafka, warm=True)),
        "package-process": CommandWay("kafkagroups, compiled, a new process", compact_in_new_process),
        "kafka-process": CommandWay("Kafka 4.3.1's Cleaner, a new JVM", partial(compact_with_kafka, warm=False)),
        "readable": CommandWay("kafkagroups, readable", partial(compact_in_process, engine="python")),
    },
    **questions.COMMANDS,
}
"""The ways of each command. The times of all ways are compared with the first way."""


def generate_topic(place: Path, records: int) -> Topic:
    """Return a topic in one partition with about ten segments, because the cleaner does not clean the last segment."""
    return topics.generate(place, records, 1, count_groups(records), segment_bytes=13 * records)


def measure(
    topic: Topic, rounds: int, budget: float, only: Collection[str] = tuple(COMMANDS)
) -> dict[str, dict[str, dict]]:
    """Run all ways of the commands in `only` in turn. Return the times of each way, or the problem.

    A way has no further rounds when it has used `budget` seconds. The topic must have one partition.
    """
    found: dict[str, dict[str, dict]] = {}
    for command in only:
        ways = COMMANDS[command]
        with (
            tempfile.TemporaryDirectory(dir=topic.folder.parent, ignore_cleanup_errors=True) as scratch,
            ExitStack() as stack,
        ):
            found[command] = measure_ways(ways, topic, Path(scratch), stack, rounds, budget)
    return found


def measure_ways(
    ways: dict[str, CommandWay], topic: Topic, scratch: Path, stack: ExitStack, rounds: int, budget: float
) -> dict[str, dict]:
    results: dict[str, dict] = {name: {"seconds": [], "cpu_seconds": []} for name in ways}
    runs: dict[str, Run] = {}
    answers = set()
    for name, way in ways.items():
        try:
            runs[name] = stack.enter_context(way.open(topic, scratch))
        except Missing as missing:
            results[name]["problem"] = str(missing)
    for _ in range(rounds):
        for name, run in runs.items():
            seconds = results[name]["seconds"]
            if sum(seconds) > budget:
                continue
            topic.read_all_bytes()
            done = run()
            if done.answer is not None:
                answers.add(done.answer)
            seconds.append(done.seconds)
            results[name]["cpu_seconds"].append(done.cpu_seconds)
            print(
                f"  {ways[name].title}: {done.seconds:.3f} s, {done.cpu_seconds:.3f} CPU s", file=sys.stderr, flush=True
            )
    if len(answers) > 1:
        for name in runs:
            results[name] = {"seconds": [], "cpu_seconds": [], "problem": "wrong: the ways gave different answers"}
    return results
