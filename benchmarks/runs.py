"""One run: every way loads topics of one size in turn, round by round, so that all are measured side by side.

A way takes part in each round until its rounds or its time, including set-up, are used up. So slow ways have fewer
rounds. If a way fails, counts wrong or is missing, the result has the reason, and the others continue.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import topics
from benchmarks.processes import Worker, watch_memory
from benchmarks.rows import write_rows
from benchmarks.ways import BASE, WAYS

MANY_GROUPS = 10_000
"""With a hundred keys each, a million keys. Logs below ten million records have fewer groups, so that each key is
written as often."""
LARGER_FROM = 3_000_000
"""In a smaller log, the start of a Spark job takes longer than the rest. For these logs, the ways on Spark load a topic
of this size instead. aiokafka loads it, too: in a small log, its table of keys fits in the processor's cache."""
HOT_FROM = 1_000_000
QUICK_SECONDS = 2
QUICK_ROUNDS = 4
QUICK_LOADS = 3
"""A way that needs at most QUICK_SECONDS loads in at least QUICK_ROUNDS rounds, QUICK_LOADS times in each, so that its
least time is fair."""
ONE_PARTITION_TO = 10_000_000
WATCHED = ("package-1", "package-2", "package-spark")
ON_SPARK = ("package-spark", "udf", "sql")


@dataclass(frozen=True)
class Spec:
    """A topic to generate; `part` names its purpose."""

    part: str
    records: int
    partitions: int
    groups: int

    @property
    def description(self) -> str:
        """The name of the file that describes the topic."""
        return f"{topics.name_of(self.records, self.partitions, self.groups)}.json"


@dataclass
class Case:
    """A way to load a topic, and its measurements."""

    way: str
    spec: Spec
    seconds: list[float] = field(default_factory=list)
    spent: float = 0.0
    problem: str | None = None
    memory: dict = field(default_factory=dict)
    worker: Worker | None = None

    @property
    def name(self) -> str:
        return f"{self.way} on {self.spec.part}"


def count_groups(records: int) -> int:
    return max(1, min(MANY_GROUPS, records // 1000))


def plan(records: int, layouts: Collection[int], only: Collection[str]) -> list[Case]:
    """Return which ways load which topics. The base loads every topic."""
    more = max(records, LARGER_FROM)
    cases = []
    for layout in layouts:
        main = Spec(f"{layout} partition{'s' * (layout > 1)}", records, layout, count_groups(records))
        larger = Spec("larger log", more, layout, count_groups(more)) if more > records else main
        ways = [way for way in WAYS if layout in WAYS[way].layouts and (not only or way in only or way == BASE)]
        if layout == 1 and records > ONE_PARTITION_TO:
            continue
        cases += [Case(way, larger if way in ON_SPARK else main) for way in ways]
        if larger is not main and any(way in ON_SPARK for way in ways):
            cases += [Case(way, larger) for way in ways if way in (BASE, "aiokafka")]
    if not only and set(layouts) == {50, 1} and records < MANY_GROUPS * 1000:
        cases += [
            Case(BASE, Spec(part, max(records, HOT_FROM), n, MANY_GROUPS)) for part, n in (("spread", 50), ("hot", 1))
        ]
    for case in cases:
        if case.spec.records > WAYS[case.way].most:
            case.problem = f"not run above {WAYS[case.way].most:,} records"
    return cases


def run(place: Path, cases: list[Case], rounds: int, budget: float, memory: bool) -> list[dict]:
    """Generate the topics, start the ways and measure. Return one entry per topic, with its ways."""
    generated: dict[Spec, topics.Topic] = {}
    for spec in dict.fromkeys(case.spec for case in cases if not case.problem):
        needs_rows = any(WAYS[case.way].rows and case.spec == spec and not case.problem for case in cases)
        log(f"generating {spec.records:,} records for {spec.part}")
        generated[spec] = topics.generate(place, spec.records, spec.partitions, spec.groups)
        if needs_rows and not generated[spec].rows.exists():
            write_rows(generated[spec])
    with ExitStack() as stack:
        log("starting every way")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda case: start(case, place, stack), [case for case in cases if not case.problem]))
        for number in range(rounds):
            for case in cases:
                if not case.problem and (case.spent * (1 + 1 / max(1, number)) <= budget or is_due(case)):
                    for _ in range(QUICK_LOADS if is_quick(case) else 1):
                        if not case.problem:
                            load(case, generated[case.spec])
        for case in cases if memory else []:
            if case.way in WATCHED and not case.problem:
                with watch_memory(case.worker.process.pid) as case.memory:
                    load(case, generated[case.spec], keep=False)
    out = []
    for spec in dict.fromkeys(case.spec for case in cases):
        topic = generated.get(spec)
        sizes = {}
        if topic:
            sizes = {"records": topic.records, "bytes": topic.bytes, "batches": topic.batches, "live": topic.live}
        ways = {
            case.way: {
                "seconds": case.seconds,
                **({"problem": case.problem} if case.problem else {}),
                **({"memory": case.memory} if case.memory else {}),
            }
            for case in cases
            if case.spec == spec
        }
        out.append({"part": spec.part, "partitions": spec.partitions, "groups": spec.groups, **sizes, "ways": ways})
    return out


def is_due(case: Case) -> bool:
    """Return whether a way must load in this round whatever its time: at least once, quick ways in some rounds."""
    return not case.seconds or (is_quick(case) and len(case.seconds) < QUICK_ROUNDS * QUICK_LOADS)


def is_quick(case: Case) -> bool:
    return bool(case.seconds) and min(case.seconds) < QUICK_SECONDS


def start(case: Case, place: Path, stack: ExitStack) -> None:
    case.worker = Worker(
        case.way, place / case.spec.description, place / f"{case.way}-{case.spec.part.replace(' ', '-')}.txt"
    )
    stack.callback(case.worker.stop)
    note_problem(case, case.worker.wait_until_ready())
    log(f"  {case.name}: {case.problem or 'ready'}")


def load(case: Case, topic: topics.Topic, keep: bool = True) -> None:
    topic.read_all_bytes()
    start = time.monotonic()
    answer = case.worker.load()
    case.spent += time.monotonic() - start
    note_problem(case, answer)
    if not case.problem and answer["live"] != topic.live:
        case.problem = f"wrong: {answer['live']:,} live offsets, not {topic.live:,}"
    if not case.problem and keep:
        case.seconds.append(answer["seconds"])
    log(f"  {case.name}: {case.problem or format(answer['seconds'], '.3f') + ' s'}")


def note_problem(case: Case, answer: dict) -> None:
    if "missing" in answer:
        case.problem = answer["missing"]
    elif "failed" in answer:
        case.problem = f"failed: {answer['failed']}"
    if case.problem:
        case.seconds.clear()


def log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
