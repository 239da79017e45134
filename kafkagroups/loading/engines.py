"""The readable and the native engine: chooses one of them, and folds several logs with it.

A shard is the state of one partition (groups/shard.py). To fold a log means to apply its records, one after another, to
a shard. The readable engine is in groups/fold.py; its name is "python". The native engine is in native.py, and in a
distribution of its own, which need not be installed; its name is "compiled".
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from kafkagroups.errors import UsageError
from kafkagroups.extras import describe_missing
from kafkagroups.groups import fold as readable
from kafkagroups.groups.observer import Observer
from kafkagroups.groups.shard import CountBytes, Shard, ignore_bytes
from kafkagroups.loading import native, processes
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.dialects import Dialect

ENGINES = ("auto", "python", "compiled")
"""The names that `choose_engine` accepts."""


class FoldLog(Protocol):
    """The interface of both engines: a function that folds a log into a shard.

    `stop` says where reading ends (log/stop.py). `count_bytes` is called with the number of bytes that were read since
    its last call. The call can come from any thread.
    """

    def __call__(self, log: Log, dialect: Dialect, stop: Stop, *, count_bytes: CountBytes) -> Shard: ...


@dataclass(frozen=True)
class Engine:
    """The readable engine (`name` is "python") or the native engine (`name` is "compiled").

    If the native engine cannot fold a log, `fold` hands the log to the readable engine.
    """

    name: str
    fold: FoldLog

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

        The native engine uses `threads` threads. The readable engine uses as many processes, because its threads would
        block each other, but one for small logs (processes.py). 0 means one per CPU. `stop` and `count_bytes` are those
        of FoldLog.
        """
        thread_count = min(threads or os.cpu_count() or 1, len(logs))
        if self is PYTHON and thread_count > 1 and sum(log.size for log in logs) >= processes.MIN_SIZE:
            yield from processes.fold_in_processes(logs, dialect, stop, thread_count, count_bytes=count_bytes)
            return
        if self.name == "python" or thread_count <= 1:
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


PYTHON = Engine("python", readable.fold)
"""The readable engine."""
COMPILED = Engine("compiled", native.fold)
"""The native engine. `choose_engine` checks that it is installed."""


def create_observed_engine(observer: Observer) -> Engine:
    """Return a readable engine that calls the methods of `observer` with what happens to each record."""
    return Engine("python", partial(readable.fold, observer=observer))


def choose_engine(name: str) -> Engine:
    """Return the engine that has the name `name`. "auto" means the native engine if it is installed.

    Raise UsageError if no engine has this name, or if the name is "compiled" and the native engine is not installed or
    has another interface.
    """
    if name not in ENGINES:
        raise UsageError(f"no engine {name!r}: choose one of {', '.join(ENGINES)}")
    if name == "python" or (name == "auto" and not native.is_available()):
        return PYTHON
    try:
        native.find_module()
    except ImportError as error:
        raise UsageError(describe_missing("kafkagroups_engine", 'the engine "compiled"') or str(error)) from None
    return COMPILED
