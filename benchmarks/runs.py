"""One run: topics of one size, every way over them in turn, round by round, so that all see the same machine.

A way takes part in each round until it has had its rounds or its time, set-up included: slow ways have fewer. One that
fails, counts wrong or is missing is told with its reason, and the others go on.
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
from benchmarks.processes import Worker, watched
from benchmarks.ways import BASE, WAYS

MANY_GROUPS = 10_000
"""With a hundred keys each: a million. Below ten million records there are fewer, so that a key is written as often."""
LARGER_FROM = 3_000_000
"""Below, what a job of Spark's costs before it reads is more than the rest: there its ways get a topic of this size. So
does aiokafka, for a second time: its table of keys is quick as long as the processor's cache holds it."""
HOT_FROM = 1_000_000
QUICK_SECONDS, QUICK_ROUNDS, QUICK_TIMES = 2, 4, 3
"""A way that takes no longer loads in so many rounds at least, and so many times in each: its least is to be fair."""
ONE_PARTITION_TO = 10_000_000
WATCHED = ("package-1", "package-2", "package-spark")
ON_SPARK = ("package-spark", "udf", "sql")


@dataclass(frozen=True)
class Spec:
    """A topic to generate; `part` says what it is for."""

    part: str
    records: int
    partitions: int
    groups: int

    @property
    def about(self) -> str:
        return f"{topics.name_of(self.records, self.partitions, self.groups)}.json"


@dataclass
class Case:
    """A way over a topic, and what came of it."""

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


def groups_of(records: int) -> int:
    return max(1, min(MANY_GROUPS, records // 1000))


def plan(records: int, layouts: Collection[int], only: Collection[str]) -> list[Case]:
    """Which ways load which topics. The base takes part wherever another does."""
    more = max(records, LARGER_FROM)
    cases = []
    for layout in layouts:
        main = Spec(f"{layout} partition{'s' * (layout > 1)}", records, layout, groups_of(records))
        larger = Spec("larger log", more, layout, groups_of(more)) if more > records else main
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
    """Generates, starts, measures. One entry for each topic: about it, and its ways."""
    made: dict[Spec, topics.Topic] = {}
    for spec in dict.fromkeys(case.spec for case in cases if not case.problem):
        rows = any(WAYS[case.way].rows and case.spec == spec and not case.problem for case in cases)
        tell(f"generating {spec.records:,} records for {spec.part}")
        made[spec] = topics.make(place, spec.records, spec.partitions, spec.groups, rows)
    with ExitStack() as stack:
        tell("starting every way")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda case: start(case, place, stack), [case for case in cases if not case.problem]))
        for number in range(rounds):
            for case in cases:
                if not case.problem and (case.spent * (1 + 1 / max(1, number)) <= budget or is_due(case)):
                    for _ in range(QUICK_TIMES if is_quick(case) else 1):
                        if not case.problem:
                            load(case, made[case.spec])
        for case in cases if memory else []:
            if case.way in WATCHED and not case.problem:
                with watched(case.worker.process.pid) as case.memory:
                    load(case, made[case.spec], keep=False)
    out = []
    for spec in dict.fromkeys(case.spec for case in cases):
        topic = made.get(spec)
        about = (
            {"records": topic.records, "bytes": topic.bytes, "batches": topic.batches, "live": topic.live}
            if topic
            else {}
        )
        ways = {
            case.way: {
                "seconds": case.seconds,
                **({"problem": case.problem} if case.problem else {}),
                **({"memory": case.memory} if case.memory else {}),
            }
            for case in cases
            if case.spec == spec
        }
        out.append({"part": spec.part, "partitions": spec.partitions, "groups": spec.groups, **about, "ways": ways})
    return out


def is_due(case: Case) -> bool:
    """Every way loads once, and a quick one in some rounds."""
    return not case.seconds or (is_quick(case) and len(case.seconds) < QUICK_ROUNDS * QUICK_TIMES)


def is_quick(case: Case) -> bool:
    return bool(case.seconds) and min(case.seconds) < QUICK_SECONDS


def start(case: Case, place: Path, stack: ExitStack) -> None:
    case.worker = Worker(
        case.way, place / case.spec.about, place / f"{case.way}-{case.spec.part.replace(' ', '-')}.txt"
    )
    stack.callback(case.worker.stop)
    judge(case, case.worker.ready())
    tell(f"  {case.name}: {case.problem or 'ready'}")


def load(case: Case, topic: topics.Topic, keep: bool = True) -> None:
    topic.read()
    start = time.monotonic()
    answer = case.worker.load()
    case.spent += time.monotonic() - start
    judge(case, answer)
    if not case.problem and answer["live"] != topic.live:
        case.problem = f"wrong: {answer['live']:,} live offsets, not {topic.live:,}"
    if not case.problem and keep:
        case.seconds.append(answer["seconds"])
    tell(f"  {case.name}: {case.problem or format(answer['seconds'], '.3f') + ' s'}")


def judge(case: Case, answer: dict) -> None:
    if "missing" in answer:
        case.problem = answer["missing"]
    elif "failed" in answer:
        case.problem = f"failed: {answer['failed']}"
    if case.problem:
        case.seconds.clear()


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
