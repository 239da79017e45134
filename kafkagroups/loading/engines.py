"""The readable and the native engine: chooses one of them, and folds several logs with it.

The readable engine, "python", is in groups/replay.py; the native one, "compiled", is in native.py and in a distribution
of its own, which need not be installed.

Threads of the readable engine would only block each other, so each lets a worker fold its logs: a process of the same
Python, with the caller's `sys.path` (`Workers`).

Python's own multiprocessing is not used: on macOS, its workers import the caller's `__main__` again, which fails in a
script without a `__main__` guard.

Every way out ends the workers: if the consumer stops or fails, the parent kills them, and if the parent is killed, they
see that their stdin is closed. A terminal sends Ctrl-C to all processes of a command, so the workers are started with
that signal blocked and leave the answer to the parent.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from kafkagroups.errors import KafkagroupsError, UsageError
from kafkagroups.groups.offsets import Observer
from kafkagroups.groups.replay import CountBytes, Shard, fold, ignore_bytes
from kafkagroups.helpers import describe_missing
from kafkagroups.loading import native
from kafkagroups.log.segments import NO_STOP, Log, Stop
from kafkagroups.records.dialects import Dialect

ENGINES = ("auto", "python", "compiled")
"""The names that `choose_engine` accepts."""


class FoldLog(Protocol):
    """A function that folds a log into a shard, which is all that an engine is.

    `count_bytes` is called with the number of bytes that were read since its last call, from any thread.
    """

    def __call__(self, log: Log, dialect: Dialect, stop: Stop, *, count_bytes: CountBytes) -> Shard: ...


@dataclass(frozen=True)
class Engine:
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
        """The native engine uses `threads` threads, and the readable engine as many processes, but one for small logs.
        0 means one per CPU.
        """
        thread_count = min(threads or os.cpu_count() or 1, len(logs))
        needs_workers = self.name == "python"
        if thread_count <= 1 or (needs_workers and (self is not PYTHON or sum(log.size for log in logs) < MIN_SIZE)):
            for log in logs:
                yield self.fold(log, dialect, stop, count_bytes=count_bytes)
            return
        with ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(thread_count))
            # At the end, the workers are killed before the pool waits for its threads.
            fold_log = stack.enter_context(start_workers(thread_count)) if needs_workers else self.fold
            # The pool has at most `thread_count` + 1 logs, so that not all shards are in memory together.
            futures: deque[Future[Shard]] = deque()
            for log in logs:
                futures.append(pool.submit(fold_log, log, dialect, stop, count_bytes=count_bytes))
                if len(futures) > thread_count:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()


PYTHON = Engine("python", fold)
"""The readable engine."""
COMPILED = Engine("compiled", native.fold)


def create_observed_engine(observer: Observer) -> Engine:
    return Engine("python", partial(fold, observer=observer))


def choose_engine(name: str) -> Engine:
    """ "auto" means the native engine if it is installed.

    Raises UsageError if there is none, or if "compiled" is not installed or has another interface.
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


MIN_SIZE = 16 * 1024 * 1024
"""In bytes. Workers need a third of a second to start, so one process loads smaller logs."""
_COUNTED_BYTES = 1024 * 1024
_START = "import sys; sys.path[:] = sys.argv[1:]; from kafkagroups.loading.engines import work; work()"


@contextmanager
def start_workers(count: int) -> Iterator[FoldLog]:
    """Yield a function that folds a log in a worker, for as many threads as there are workers.

    Its shards and errors are those of `fold`, which it is where the system starts no process at all. Raises
    KafkagroupsError if a worker is killed.
    """
    workers: list[_Worker] = []
    free: SimpleQueue[_Worker] = SimpleQueue()

    def fold_in_worker(log: Log, dialect: Dialect, stop: Stop, *, count_bytes: CountBytes) -> Shard:
        worker = free.get()
        try:
            return worker.fold(log, dialect, stop, count_bytes)
        finally:
            free.put(worker)

    try:
        is_python = bool(sys.executable) and not hasattr(sys, "frozen")  # A frozen program would start itself.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with suppress(OSError):
                while is_python and len(workers) < count:
                    workers.append(_Worker())
                    free.put(workers[-1])
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        yield fold_in_worker if workers else fold
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.close()


class _Worker:
    def __init__(self) -> None:
        command = [sys.executable, "-P", "-c", _START, *map(str, sys.path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.tasks = self.process.stdin
        self.messages = self.process.stdout

    def fold(self, log: Log, dialect: Dialect, stop: Stop, count_bytes: CountBytes) -> Shard:
        portable = copy(log)
        if log.content is not None:  # These bytes can have any type, and may be loaded only now.
            portable.content = {segment: bytes(log.content[segment]) for segment in log.segments}
        try:
            pickle.dump((portable, dialect, stop), self.tasks)
            self.tasks.flush()
            while isinstance(message := pickle.load(self.messages), int):
                count_bytes(message)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise self._describe_end(log) from None
        if isinstance(message, Exception):
            raise message
        shard: Shard = message
        return shard

    def _describe_end(self, log: Log) -> KafkagroupsError:
        self.process.kill()
        status = self.process.wait()
        end = f"ended with exit code {status}"
        if status < 0:
            end = f"was killed by signal {-status}, which most often means that memory ran out"
        return KafkagroupsError(
            f"{log.path or log.segments[0]}: the process that read this log {end}; load again with more free memory, "
            "or this partition alone, which needs only one process (in Python, threads=1 does)"
        )

    def close(self) -> None:
        self.process.wait()
        self.messages.close()
        with suppress(OSError):  # A task that was not sent to the end cannot be sent any more.
            self.tasks.close()


def work() -> None:
    messages = sys.stdout.buffer
    sys.stdout = sys.stderr  # Whatever prints must not disturb the messages.
    tasks: SimpleQueue[tuple[Log, Dialect, Stop]] = SimpleQueue()
    Thread(target=_receive_tasks, args=[tasks], daemon=True).start()

    def send(message: int | Shard | Exception) -> None:
        pickle.dump(message, messages)
        messages.flush()

    with suppress(BrokenPipeError):
        while True:
            send(_fold(*tasks.get(), send))
    os._exit(1)


def _receive_tasks(tasks: SimpleQueue[tuple[Log, Dialect, Stop]]) -> None:
    """Read tasks in a thread, so that a worker ends with its parent even while it folds."""
    try:
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(1)


def _fold(log: Log, dialect: Dialect, stop: Stop, send: Callable[[int], None]) -> Shard | Exception:
    unsent_bytes = 0

    def count_bytes(count: int, /) -> None:
        nonlocal unsent_bytes
        unsent_bytes += count
        if unsent_bytes >= _COUNTED_BYTES:
            send(unsent_bytes)
            unsent_bytes = 0

    try:
        outcome: Shard | Exception = fold(log, dialect, stop, count_bytes=count_bytes)
    except BrokenPipeError:  # `count_bytes` does not reach the parent, which has ended.
        raise
    except Exception as error:
        outcome = error
    send(unsent_bytes)
    return outcome
