"""The questions of an operator (`stats`, `explain`, `timeline`, the table of fates), and what a user has today.

Today a user pipes Kafka's dump tool into a script, or writes a loop. Each way is a context manager over a topic, as
those in commands.py.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import kafkagroups as kg
from benchmarks.results import CommandWay, Result, Run, children_cpu_seconds
from benchmarks.topics import Topic
from benchmarks.ways.kafka import find_class_path, find_java_command
from benchmarks.ways.python import naive

Ask = Callable[[Topic], int | None]
"""A question to a topic. It returns the answer as a number, or None if the answer is not compared."""


def load(topic: Topic) -> None:
    kg.load(topic.folder, engine="compiled", threads=1)


def count_groups(topic: Topic) -> int:
    """Return how many records the groups have, each with another weight, so that every group counts."""
    rows = kg.stats(topic.folder, engine="compiled", threads=1).rows
    return weigh({str(group): count.records for group, count in rows.items() if group is not None})


def explain_first_group(topic: Topic) -> int:
    history = kg.explain(topic.folder, find_first_group(topic), engine="compiled").history
    return sum(entry.offset for entry in history)


def follow_first_group(topic: Topic) -> None:
    kg.timeline(topic.folder, find_first_group(topic), engine="compiled")


def list_fates(topic: Topic) -> None:
    for _ in kg.record_table(topic.folder, "fates", engine="compiled"):
        pass


def weigh(counts: dict[str, int]) -> int:
    return sum(count * (1 + len(group)) * sum(group.encode()) for group, count in counts.items())


def find_first_group(topic: Topic) -> str:
    """Return the smallest group id of the topic."""
    if topic.folder not in _first_groups:
        _first_groups[topic.folder] = min(kg.load(topic.folder, engine="compiled").partitions_of)
    return _first_groups[topic.folder]


_first_groups: dict[Path, str] = {}


@contextmanager
def ask_package(topic: Topic, scratch: Path, ask: Ask) -> Iterator[Run]:
    """Ask in this process. The kernels are compiled, or their machine code is read, before the first time."""

    def run() -> Result:
        cpu_start = time.process_time()
        start = time.perf_counter()
        answer = ask(topic)
        return Result(time.perf_counter() - start, time.process_time() - cpu_start, answer)

    run()
    yield run


@contextmanager
def ask_dump_tool(topic: Topic, scratch: Path, count: Callable[[Topic, Iterator[str]], int]) -> Iterator[Run]:
    """Pipe the text of Kafka's dump tool into a script, which counts. A new process each time."""
    path = find_class_path("4.3.1")
    files = ",".join(map(str, topic.segments()))
    words = ["org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--print-data-log", "--files", files]
    command = [str(find_java_command()), "-Xmx512m", "-cp", path, *words]

    def run() -> Result:
        cpu_start = children_cpu_seconds() + time.process_time()
        start = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tool:
            answer = count(topic, iter(tool.stdout))
        seconds = time.perf_counter() - start
        return Result(seconds, children_cpu_seconds() + time.process_time() - cpu_start, answer)

    yield run


def parse_records(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Yield the offset and the group of each record in the text of the dump tool."""
    for line in lines:
        if line.startswith("| offset: ") and ' key: {"type":"' in line:
            key = line.split(" key: ", 1)[1].split(" payload: ", 1)[0]
            yield int(line.split(" ", 3)[2]), json.loads(key)["data"]["group"]


def count_groups_in_text(topic: Topic, lines: Iterator[str]) -> int:
    return weigh(Counter(group for _, group in parse_records(lines)))


def find_group_in_text(topic: Topic, lines: Iterator[str]) -> int:
    wanted = find_first_group(topic)
    return sum(offset for offset, group in parse_records(lines) if group == wanted)


@contextmanager
def loop_by_hand(topic: Topic, scratch: Path) -> Iterator[Run]:
    """Read every record with Python's struct, as a user's own loop does."""
    with naive(topic) as (load_by_hand, _):
        yield partial(_time, load_by_hand)


def _time(function: Callable[[], object]) -> Result:
    cpu_start = time.process_time()
    start = time.perf_counter()
    function()
    return Result(time.perf_counter() - start, time.process_time() - cpu_start, None)


def make_way(title: str, ask: Ask) -> CommandWay:
    return CommandWay(title, partial(ask_package, ask=ask))


_LOAD = make_way("kafkagroups load, warm", load)
_LOOP = CommandWay("a loop in Python, struct and dict, that only loads", loop_by_hand)
COMMANDS: dict[str, dict[str, CommandWay]] = {
    "stats": {
        "package": make_way("kafkagroups stats, warm", count_groups),
        "load": _LOAD,
        "loop": _LOOP,
        "kafka": CommandWay(
            "kafka-dump-log 4.3.1 piped into a script", partial(ask_dump_tool, count=count_groups_in_text)
        ),
    },
    "explain": {
        "package": make_way("kafkagroups explain of one group, warm", explain_first_group),
        "load": _LOAD,
        "loop": _LOOP,
        "kafka": CommandWay(
            "kafka-dump-log 4.3.1 piped into a script", partial(ask_dump_tool, count=find_group_in_text)
        ),
    },
    "timeline": {"package": make_way("kafkagroups timeline of one group, warm", follow_first_group), "load": _LOAD},
    "table fates": {"package": make_way("kafkagroups, all columns to Arrow, warm", list_fates), "load": _LOAD},
}
"""The ways of each question. The times of all ways are compared with the first way. Everything runs on one thread."""
