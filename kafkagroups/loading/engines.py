"""The readable and the compiled engine: chooses one of them, and folds several logs with it.

A shard is the state of one partition (groups/shard.py). To fold a log means to apply its records, one after another, to
a shard. The readable engine is in groups/fold.py; its name is "python". The compiled engine is in kernels/fold_log.py
and needs numba; its name is "compiled".
"""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kafkagroups.errors import UsageError
from kafkagroups.extras import describe_missing
from kafkagroups.groups import fold as readable
from kafkagroups.groups.observer import Observer
from kafkagroups.groups.offsets import Offsets
from kafkagroups.groups.shard import CountBytes, Shard, ignore_bytes
from kafkagroups.loading import processes
from kafkagroups.log import cleaner
from kafkagroups.log.cleaner import CleanerConfig, Compaction
from kafkagroups.log.log_to_clean import Progress
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.dialects import Dialect

ENGINES = ("auto", "python", "compiled")
"""The names that `choose_engine` accepts."""
MIN_COMPILED_SIZE = 16 * 1024 * 1024
"""If all logs together have this size in bytes or more, "auto" chooses the compiled engine. For smaller logs, the
start of the compiled engine takes longer than the load, at least if its machine code is not stored yet."""
MIN_COMPILED_SIZE_TO_COUNT = 2 * 1024 * 1024
"""The same size for the statistics and for the tables with a row for each record, which take longer than a load."""
MIN_COMPILED_SIZE_TO_CLEAN = 4 * 1024 * 1024
"""The same for a pass of the log cleaner. It reads the log three times, so the compiled cleaner is faster earlier."""


class FoldLog(Protocol):
    """The interface of both engines: a function that folds a log into a shard.

    `stop` says where reading ends (log/stop.py). `base` is the shard of the earlier part of the log, or None. If there
    is a `base`, the log is folded onto a copy of `base`. `count_bytes` is called with the number of bytes that were
    read since its last call. The call can come from any thread.
    """

    def __call__(
        self,
        log: Log,
        dialect: Dialect,
        stop: Stop = NO_STOP,
        base: Shard | None = None,
        count_bytes: CountBytes = ignore_bytes,
    ) -> Shard: ...


class FoldIfPossible(Protocol):
    """A function that folds a log into a shard, or returns None if its engine cannot fold the log."""

    def __call__(self, log: Log, dialect: Dialect) -> Shard | None: ...


@dataclass(frozen=True)
class Engine:
    """The readable engine (`name` is "python") or the compiled engine (`name` is "compiled").

    If the compiled engine cannot fold a log, `fold` hands the log to the readable engine, and `fold_if_possible`
    returns None.
    """

    name: str
    fold: FoldLog
    fold_if_possible: FoldIfPossible

    @property
    def is_parallel(self) -> bool:
        """Whether this engine folds several logs in parallel. Threads of the readable engine would block each other."""
        return self.name == "compiled"

    def fold_logs(
        self,
        logs: Sequence[Log],
        dialect: Dialect,
        stop: Stop = NO_STOP,
        *,
        threads: int = 0,
        count_bytes: CountBytes = ignore_bytes,
    ) -> Generator[Shard, None, None]:
        """Yield the shard of each log, in the order of the logs.

        A parallel engine uses `threads` threads, and the readable engine as many processes, unless the logs are small
        (processes.py); 0 means one per CPU. `stop` and `count_bytes` are those of FoldLog.
        """
        thread_count = min(threads or os.cpu_count() or 1, len(logs))
        if self is PYTHON and thread_count > 1 and sum(log.size for log in logs) >= processes.MIN_SIZE:
            yield from processes.fold_in_processes(logs, dialect, stop, thread_count, count_bytes=count_bytes)
            return
        if not self.is_parallel:
            thread_count = 1
        if thread_count <= 1:
            for log in logs:
                yield self.fold(log, dialect, stop, count_bytes=count_bytes)
            return
        with ThreadPoolExecutor(thread_count) as pool:
            # The pool has at most `thread_count` + 1 logs, so that not all shards are in memory together.
            futures: deque[Future[Shard]] = deque()
            for log in logs:
                futures.append(pool.submit(self.fold, log, dialect, stop, count_bytes=count_bytes))
                if len(futures) > thread_count:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()


PYTHON = Engine("python", readable.fold, readable.fold)
"""The readable engine."""


def create_observed_engine(observer: Observer) -> Engine:
    """Return a readable engine that calls the methods of `observer` with what happens to each record."""

    def fold(
        log: Log,
        dialect: Dialect,
        stop: Stop = NO_STOP,
        base: Shard | None = None,
        count_bytes: CountBytes = ignore_bytes,
    ) -> Shard:
        return readable.fold(log, dialect, stop, base, count_bytes, observer)

    return Engine("python", fold, fold)


def choose_engine(name: str, total_size: int, min_compiled_size: int = MIN_COMPILED_SIZE) -> Engine:
    """Return the engine that has the name `name`. For "auto", `total_size` decides: the size of all logs in bytes.

    From `min_compiled_size` on, "auto" means the compiled engine if numba is installed.
    Raise UsageError if no engine has this name, or if the name is "compiled" and numba is not installed.
    """
    if name not in ENGINES:
        raise UsageError(f"no engine {name!r}: choose one of {', '.join(ENGINES)}")
    if name == "python" or (name == "auto" and total_size < min_compiled_size):
        return PYTHON
    try:
        return _compiled_engine()
    except ImportError as error:
        if name == "auto":
            return PYTHON
        user = "the compiled engine"
        line = describe_missing(error.name, user) or describe_missing("numba", user)
        raise UsageError(line or str(error)) from None


class CleanLog(Protocol):
    """The interface of both cleaners: a function that runs one pass over a log (log/cleaner.py)."""

    def __call__(self, log: Log, out: Path, config: CleanerConfig, progress: Progress | None = None) -> Compaction: ...


def choose_cleaner(name: str, log: Log) -> CleanLog:
    """Return the cleaner of the engine that has the name `name`. For "auto", the size of the log decides.

    Raise UsageError in the same cases as `choose_engine`.
    """
    total_size = log.size if name == "auto" else 0
    if choose_engine(name, total_size, MIN_COMPILED_SIZE_TO_CLEAN).name == "python":
        return cleaner.clean
    from kafkagroups.kernels.clean import clean

    return clean


def _compiled_engine() -> Engine:
    """Return the compiled engine. Raise ImportError if numba is not installed."""
    from kafkagroups.kernels.fold_log import fold, fold_if_possible

    return Engine("compiled", fold, fold_if_possible)


def engine_of(shard: Shard) -> Engine:
    """Return the engine that made a shard. Only this engine can fold the log's next batches onto the shard."""
    return PYTHON if isinstance(shard.offsets, Offsets) else _compiled_engine()


def choose_engine_for(name: str, logs: Iterable[Log], min_compiled_size: int = MIN_COMPILED_SIZE) -> Engine:
    """Return the engine that has the name `name`. For "auto", the size of `logs` decides, as in `choose_engine`.

    Raise UsageError in the same cases as `choose_engine`.
    """
    return choose_engine(name, sum(log.size for log in logs) if name == "auto" else 0, min_compiled_size)


@contextmanager
def pause_garbage_collector() -> Iterator[None]:
    """Pause Python's garbage collector during a load.

    A load creates many objects that stay in memory, and the collector would check these objects again and again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
