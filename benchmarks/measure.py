"""One comparison: its ways run in turn, round by round, so that a busy moment of the machine hits all of them.

Each way has a process of its own, which prepares first: imports, warm-up and the start of a JVM are not timed. A way
has no further round when its time is used up, so slow ways have fewer rounds. If a way fails, is missing on this
machine or gives a wrong answer, the result has the reason, and the others go on.
"""

from __future__ import annotations

import multiprocessing
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.topics import Topic

PATIENCE = 1800
"""How many seconds a way may need to prepare, and for one run."""
STOP_SECONDS = 30
QUICK_SECONDS = 5
QUICK_ROUNDS = 3
"""A way that needs less than QUICK_SECONDS has so many rounds, whatever else a run costs, such as a broker's start."""


class Missing(Exception):
    """This machine lacks something that a way needs."""


@dataclass(frozen=True)
class Result:
    """The seconds of one run and, if it is compared with those of other ways, its answer: its name and a number."""

    seconds: float
    answer: tuple[str, int] | None = None


Runs = Iterator[Result | None]
"""What a way is: it prepares and yields None, then runs once for each further value, and yields its result."""


@dataclass(frozen=True)
class Way:
    """A way: its title in the tables, a note about what is timed, and the function that opens it.

    The function gets a topic and an empty folder. `has_memory` says whether its process does all the work, so that the
    peak memory of this process is the memory of the way.
    """

    title: str
    note: str
    open: Callable[[Topic, Path], Runs]
    has_memory: bool = False


def time_calls(
    function: Callable[[], Any], find_answer: Callable[[Any], tuple[str, int] | None], warm: int = 0
) -> Runs:
    """A way that calls a function. The answer is found outside the timed part."""
    for _ in range(warm):
        function()
    yield None
    while True:
        start = time.perf_counter()
        found = function()
        seconds = time.perf_counter() - start
        answer = find_answer(found)
        del found  # Free the memory before the next run.
        yield Result(seconds, answer)


def compare(topic: Topic, ways: dict[str, Way], rounds: int, budget: float) -> dict[str, dict]:
    """Return for each way its "seconds", and its peak memory or its "problem". A way may use `budget` seconds."""
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=topic.folder.parent, ignore_cleanup_errors=True))
        workers = [_Worker(name, way, topic, Path(scratch)) for name, way in ways.items()]
        for worker in workers:
            stack.callback(worker.stop)
        for worker in workers:
            worker.wait_until_ready()
        answers = {"live": topic.live}
        for _ in range(rounds):
            for worker in workers:
                if worker.has_time(budget):
                    topic.read_all_bytes()
                    worker.run(answers)
        return {worker.name: worker.describe() for worker in workers}


class _Worker:
    """A way in its own process, and what was measured."""

    def __init__(self, name: str, way: Way, topic: Topic, scratch: Path) -> None:
        self.name = name
        self.way = way
        self.seconds: list[float] = []
        self.spent = 0.0
        self.peak_bytes = 0
        self.problem: str | None = None
        folder = scratch / name
        folder.mkdir()
        spawn = multiprocessing.get_context("spawn")
        self.pipe, other_end = spawn.Pipe()
        self.process = spawn.Process(target=_serve, args=(other_end, way, topic, folder))
        self.process.start()
        other_end.close()

    def wait_until_ready(self) -> None:
        self._receive()
        _log(f"  {self.way.title}: {self.problem or 'ready'}")

    def has_time(self, budget: float) -> bool:
        count = len(self.seconds)
        if self.problem or count == 0:
            return not self.problem
        is_quick = count < QUICK_ROUNDS and min(self.seconds) < QUICK_SECONDS
        return is_quick or self.spent * (1 + 1 / count) <= budget

    def run(self, answers: dict[str, int]) -> None:
        """Run once. `answers` has the right answers that are known; a new one is added."""
        start = time.monotonic()
        self.pipe.send(True)
        answer = self._receive()
        self.spent += time.monotonic() - start
        if answer is not None:
            result, self.peak_bytes = answer
            self.seconds.append(result.seconds)
            if result.answer:
                name, value = result.answer
                expected = answers.setdefault(name, value)
                if value != expected:
                    self.problem = f"wrong: {name} is {value:,}, not {expected:,}"
        _log(f"  {self.way.title}: {self.problem or format(self.seconds[-1], '.3f') + ' s'}")

    def _receive(self) -> tuple[Result, int] | None:
        """Return what the process sends. A text is a problem."""
        try:
            answer = self.pipe.recv() if self.pipe.poll(PATIENCE) else f"failed: no answer in {PATIENCE} s"
        except EOFError:
            answer = "failed: the process ended"
        if isinstance(answer, str):
            self.problem = answer
            return None
        return answer

    def describe(self) -> dict:
        if self.problem:
            return {"seconds": [], "problem": self.problem}
        peak = {"peak_bytes": self.peak_bytes} if self.way.has_memory and self.peak_bytes else {}
        return {"seconds": self.seconds, **peak}

    def stop(self) -> None:
        self.pipe.close()
        self.process.join(STOP_SECONDS)
        self.process.kill()
        self.process.join()


def _serve(pipe: Connection, way: Way, topic: Topic, scratch: Path) -> None:
    """Be the process of a way: run once for each message, until the pipe is closed."""
    try:
        with closing(way.open(topic, scratch)) as runs:
            pipe.send(next(runs))
            while pipe.recv():
                pipe.send((next(runs), find_peak_bytes()))
    except (EOFError, BrokenPipeError):
        pass
    except Missing as missing:
        pipe.send(str(missing))
    except Exception as error:
        traceback.print_exc()
        pipe.send(f"failed: {type(error).__name__}: {error}".splitlines()[0])


def find_peak_bytes() -> int:
    """Return the peak memory of this process, or 0 elsewhere than on Linux."""
    status = Path("/proc/self/status")
    return 1024 * int(re.search(r"VmHWM:\s*(\d+)", status.read_text())[1]) if status.exists() else 0


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
