"""The one place that chooses the engine: readable or compiled. The compiled engine folds several logs in parallel."""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from kafkagroups.errors import UsageError
from kafkagroups.groups import fold as readable
from kafkagroups.groups.observer import Observer
from kafkagroups.groups.shard import CountBytes, Shard, ignore_bytes
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.versions import Dialect

ENGINES = ("auto", "python", "compiled")
COMPILED_FROM = 16 * 1024 * 1024
"""The size in bytes from which "auto" chooses the compiled engine. Below it, importing numba costs more time."""


class FoldLog(Protocol):
    """The interface of both engines: fold a log, up to a stop, into a shard.

    With a `base`, the log goes on behind it, and the base is not changed. `count_bytes` is called from any thread.
    """

    def __call__(
        self,
        log: Log,
        dialect: Dialect,
        stop: Stop = NO_STOP,
        base: Shard | None = None,
        count_bytes: CountBytes = ignore_bytes,
    ) -> Shard: ...


@dataclass(frozen=True)
class Engine:
    """An engine by its name, "python" or "compiled"."""

    name: str
    fold: FoldLog

    @property
    def is_parallel(self) -> bool:
        """Whether it folds several logs in parallel threads. Python code would not run in parallel."""
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
        """Yield the shard of each log, in order. A parallel engine uses `threads` (0: one for each CPU)."""
        workers = min(threads or os.cpu_count() or 1, len(logs)) if self.is_parallel else 1
        if workers <= 1:
            for log in logs:
                yield self.fold(log, dialect, stop, None, count_bytes)
            return
        with ThreadPoolExecutor(workers) as pool:
            # One shard more than workers is under way, so that memory does not hold all of them.
            under_way: deque[Future[Shard]] = deque()
            for log in logs:
                under_way.append(pool.submit(self.fold, log, dialect, stop, None, count_bytes))
                if len(under_way) > workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()


PYTHON = Engine("python", readable.fold)


def observed_by(observer: Observer) -> Engine:
    """Return the readable engine, with an observer that gets what becomes of each record."""

    def fold(
        log: Log,
        dialect: Dialect,
        stop: Stop = NO_STOP,
        base: Shard | None = None,
        count_bytes: CountBytes = ignore_bytes,
    ) -> Shard:
        return readable.fold(log, dialect, stop, base, count_bytes, observer)

    return Engine("python", fold)


def choose_engine(name: str, total_size: int) -> Engine:
    """Return the engine for logs of this size in bytes.

    Raise UsageError if there is no engine of this name, or if it was asked for and numba is not installed.
    """
    if name not in ENGINES:
        raise UsageError(f"no engine {name!r}: choose one of {', '.join(ENGINES)}")
    if name == "python" or (name == "auto" and total_size < COMPILED_FROM):
        return PYTHON
    try:
        from kafkagroups.kernels.fold_log import fold
    except ImportError:
        if name == "auto":
            return PYTHON
        raise UsageError("the compiled engine needs numba: pip install numba") from None
    return Engine("compiled", fold)


def choose_engine_for(name: str, logs: Iterable[Log]) -> Engine:
    """Return the engine for these logs, as `choose_engine` does."""
    return choose_engine(name, sum(log.size for log in logs) if name == "auto" else 0)


@contextmanager
def pause_collector() -> Iterator[None]:
    """Pause Python's collector of cycles. What a load makes stays, and visiting it again and again takes time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
