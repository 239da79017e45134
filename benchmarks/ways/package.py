"""The package's own ways: loads and questions in one process, and whole commands in new processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import kafkagroups as kg
from benchmarks.measure import Runs, time_calls
from benchmarks.topics import Spec, Topic, generate

ROOT = Path(__file__).parents[2]
NOW_MS = 1_800_000_000_000
"""The time of a cleaner pass, so that all passes write the same bytes."""


def count_live_offsets(groups: Any) -> tuple[str, int]:
    """Count without building the groups, because the objects of their offsets would count as memory of the load."""
    return "live", sum(len(parts.offsets) for parts in groups.groups.unbuilt().values())


def load(topic: Topic, scratch: Path, engine: str = "compiled", threads: int = 1) -> Runs:
    function = partial(kg.load, topic.folder, engine=engine, threads=threads)
    return time_calls(function, count_live_offsets, warm=engine == "compiled")


def load_spread(topic: Topic, scratch: Path) -> Runs:
    """Load a topic with the same groups in 50 partitions."""
    return load(generate(scratch / "spread", Spec(topic.records, 50, topic.groups)), scratch)


def load_to_arrow(topic: Topic, scratch: Path) -> Runs:
    def read_tables() -> int:
        return int(kg.record_table(topic.folder, "offsets", engine="compiled", threads=1).read_all().num_rows)

    return time_calls(read_tables, lambda rows: ("live", rows), warm=1)


def ask_stats(topic: Topic, scratch: Path) -> Runs:
    """Count the records of all groups."""

    def find_answer(stats: Any) -> tuple[str, int]:
        return weigh((group, count.records) for group, count in stats.rows.items() if group is not None)

    return time_calls(partial(kg.stats, topic.folder, engine="compiled", threads=1), find_answer, warm=1)


def ask_check(topic: Topic, scratch: Path) -> Runs:
    """Ask whether the log loads, and what its findings are."""

    def find_answer(verdict: Any) -> tuple[str, int]:
        return "records", sum(partition.records for partition in verdict.partitions.values())

    return time_calls(partial(kg.check, topic.folder, engine="compiled"), find_answer, warm=1)


def weigh(counts: Iterable[tuple[str, int]]) -> tuple[str, int]:
    """Return the record counts of groups as an answer. Each group has another weight, so that it counts."""
    return "records of groups", sum(count * zlib.crc32(group.encode()) for group, count in counts)


def find_first_group(topic: Topic) -> str:
    return min(kg.load(topic.folder, engine="compiled").partitions_of)


def ask_explain(topic: Topic, scratch: Path) -> Runs:
    """Explain all records of one group."""
    function = partial(kg.explain, topic.folder, find_first_group(topic), engine="compiled")
    return time_calls(
        function, lambda found: ("history of a group", sum(entry.offset for entry in found.history)), warm=1
    )


def list_fates(topic: Topic, scratch: Path) -> Runs:
    def read_table() -> int:
        return sum(batch.num_rows for batch in kg.record_table(topic.folder, "fates", engine="compiled"))

    return time_calls(read_table, lambda rows: ("rows", rows), warm=1)


def compact(topic: Topic, scratch: Path) -> Runs:
    (folder,) = topic.folder.iterdir()
    out = scratch / "cleaned"

    def clean() -> None:
        shutil.rmtree(out, ignore_errors=True)
        kg.compact(folder, out, kg.CleanerConfig(now_ms=NOW_MS))

    return time_calls(clean, lambda _: ("cleaned bytes", checksum(sorted(out.glob("*.log")))))


def checksum(files: list[Path]) -> int:
    """Return the CRC of the content of files, in this order."""
    crc = 0
    for file in files:
        crc = zlib.crc32(file.read_bytes(), crc)
    return crc


def run_python(topic: Topic, scratch: Path, words: tuple[str, ...]) -> Runs:
    """Run a new Python process. A word LOG stands for the topic's folder."""
    command = [sys.executable, *(str(topic.folder) if word == "LOG" else word for word in words)]
    return run_process(command, scratch, lambda _: None)


def dump(topic: Topic, scratch: Path) -> Runs:
    command = [sys.executable, "-m", "kafkagroups", "dump", "--format", "dump-log", *topic.list_segments()]
    return run_process(command, scratch, lambda text: ("text", checksum([text])))


def run_process(command: list, scratch: Path, find_answer: Any) -> Runs:
    """A way that runs a process. Its text goes to a file, so that no reader slows it down."""
    text = scratch / "stdout"
    # Python finds its modules compiled, as after a usual installation, whatever the environment says.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(scratch / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run() -> Path:
        with open(text, "wb") as file:
            subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment, check=True)
        return text

    return time_calls(run, find_answer, warm=1)
