"""The readable engine on many cores: several processes, each of which folds one whole partition at a time.

Threads of the readable engine would only block each other, so `fold_in_processes` starts workers, which are processes
of the same Python. The parent sends a log to a worker, and the worker answers with messages:

    a number     bytes that it has read since its last number, about every megabyte
    a result     what `fold` returned or raised, and what it has set on the log; the worker is then free again

All messages are pickled and go through the worker's stdin and stdout. Most of a shard are its offsets, and an object
for each of them would make the message large and slow. So they cross as columns (`PackedOffsets`), in which a text
stands once, and the parent builds the objects.

Python's own multiprocessing is not used: on macOS, its workers import the caller's `__main__` again, which fails in a
script without a `__main__` guard. These workers get only the caller's `sys.path`.

Every way out ends the workers. If the consumer stops, fails, or is interrupted by Ctrl-C, the parent kills them; if the
parent is killed, they see that their stdin is closed. A terminal sends Ctrl-C to all processes of a command, so the
workers are started with that signal blocked and leave the answer to the parent.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from itertools import islice
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from kafkagroups.errors import KafkagroupsError
from kafkagroups.groups.fold import fold
from kafkagroups.groups.offsets import OffsetAndMetadata, Offsets, PartitionOffsets, ShardOffsets, TopicPartition
from kafkagroups.groups.shard import CountBytes, Shard, ignore_bytes
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.records.dialects import Dialect

MIN_SIZE = 16 * 1024 * 1024
"""Below this size of all logs together, in bytes, one process is used: workers need a third of a second to start."""
_COUNTED_BYTES = 1024 * 1024
_START = "import sys; sys.path[:] = sys.argv[1:]; from kafkagroups.loading.processes import work; work()"


def fold_in_processes(
    logs: Sequence[Log], dialect: Dialect, stop: Stop, count: int, *, count_bytes: CountBytes = ignore_bytes
) -> Generator[Shard, None, None]:
    """Yield the shard of each log, in the order of the logs, with at most `count` worker processes.

    The shards and the errors are those of `fold`. At most `count` + 1 results wait for an
    earlier one. `count_bytes` is called from several threads. Where the system starts no process at all, the logs are
    folded in this one. Raises KafkagroupsError if a worker is killed.
    """
    workers: list[_Worker] = []
    pool = ThreadPoolExecutor(count)
    try:
        _start_workers(workers, min(count, len(logs)))
        if not workers:
            for log in logs:
                yield fold(log, dialect, stop, count_bytes=count_bytes)
            return
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in workers:
            idle.put(worker)
        waiting: deque[Future[_Result]] = deque()
        for log in logs:
            waiting.append(pool.submit(_fold_in_worker, idle, log, dialect, stop, count_bytes))
            if len(waiting) > 2 * len(workers):
                yield _take_shard(waiting.popleft(), dialect)
        while waiting:
            yield _take_shard(waiting.popleft(), dialect)
    finally:
        for worker in workers:
            worker.process.kill()
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()


def _start_workers(workers: list[_Worker], count: int) -> None:
    """Append `count` new workers to a list; fewer if the system refuses to start another process."""
    is_python = bool(sys.executable) and not hasattr(sys, "frozen")  # A frozen program would start itself.
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        while is_python and len(workers) < count:
            workers.append(_Worker())
    except OSError:
        return
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)


class _Worker:
    """A process that folds logs, as the parent sees it."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-c", _START, *map(str, sys.path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.tasks = self.process.stdin
        self.messages = self.process.stdout

    def fold(self, log: Log, dialect: Dialect, stop: Stop, count_bytes: CountBytes) -> _Result:
        """Let the worker fold a log. Raises KafkagroupsError if the worker ends before its result is complete."""
        for message in self._exchange(log, (_make_portable(log), dialect, stop)):
            if isinstance(message, _Result):
                return message
            count_bytes(message)
        raise AssertionError("a worker answers until its result")

    def _exchange(self, log: Log, task: object) -> Iterator[int | _Result]:
        """Send a task, and yield the worker's messages."""
        data = pickle.dumps(task)
        try:
            self.tasks.write(data)
            self.tasks.flush()
            while True:
                yield pickle.load(self.messages)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise self._describe_end(log) from None

    def _describe_end(self, log: Log) -> KafkagroupsError:
        """Return the error for a log whose worker has ended."""
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
        """Wait for the end of the process, which was killed, and close the pipes."""
        self.process.wait()
        self.messages.close()
        with suppress(OSError):  # A task that was not sent to the end cannot be sent any more.
            self.tasks.close()


def _make_portable(log: Log) -> Log:
    """Return a log that can be pickled. The bytes of a log in memory can have any type, and may be loaded only now."""
    portable = copy(log)
    if log.content:
        portable.content = {segment: bytes(log.content[segment]) for segment in log.segments}
    return portable


def _fold_in_worker(
    idle: SimpleQueue[_Worker], log: Log, dialect: Dialect, stop: Stop, count_bytes: CountBytes
) -> _Result:
    worker = idle.get()
    try:
        return worker.fold(log, dialect, stop, count_bytes)
    except BaseException:
        worker.process.kill()  # It may still answer this task, and the next one would take that answer for its own.
        raise
    finally:
        idle.put(worker)


def _take_shard(future: Future[_Result], dialect: Dialect) -> Shard:
    """Return the shard in a result, or raise the error in it."""
    result = future.result()
    shard = result.outcome
    if isinstance(shard, Exception):
        raise shard
    shard.offsets = unpack(result.offsets)
    shard.dialect = dialect
    return shard


class Column(NamedTuple):
    """Numbers, or the distinct values of a column, and for each entry the index of its value."""

    numbers: array[int]
    values: list[Any] | None = None


class PackedOffsets(NamedTuple):
    """The offsets of a shard as columns.

    `committed` has the number of offsets by group id, and `pending` by producer id and then by group id. Each column
    has an entry for each of these offsets: first the topic, then the partition, then the fields of OffsetAndMetadata.
    """

    committed: dict[str, int]
    pending: dict[int, dict[str, int]]
    columns: list[Column]


def pack(offsets: ShardOffsets) -> PackedOffsets:
    """Return offsets as columns."""
    groups = list(offsets.committed.values())
    for groups_of_producer in offsets.pending.values():
        groups.extend(groups_of_producer.values())
    rows = [(*key, *value) for partitions in groups for key, value in partitions.items()]
    return PackedOffsets(
        {group: len(partitions) for group, partitions in offsets.committed.items()},
        {
            producer: {group: len(partitions) for group, partitions in groups_of_producer.items()}
            for producer, groups_of_producer in offsets.pending.items()
        },
        [_pack_column(column) for column in zip(*rows, strict=True)],
    )


def unpack(packed: PackedOffsets) -> Offsets:
    """Return the offsets that `pack` was given, in the same order."""
    rows = zip(*map(_unpack_column, packed.columns), strict=True)
    items = ((TopicPartition(topic, partition), OffsetAndMetadata(*values)) for topic, partition, *values in rows)

    def take_groups(sizes: dict[str, int]) -> dict[str, PartitionOffsets]:
        return {group: dict(islice(items, size)) for group, size in sizes.items()}

    offsets = Offsets()
    offsets.committed = take_groups(packed.committed)
    offsets.pending = {producer: take_groups(sizes) for producer, sizes in packed.pending.items()}
    return Offsets.copy_of(offsets)  # The copy also knows which producers a partition has.


def _pack_column(values: Sequence[Any]) -> Column:
    try:
        return Column(array("q", values))
    except TypeError:  # There are texts, or None.
        indexes: dict[Any, int] = {}
        numbers = array("q", [indexes.setdefault(value, len(indexes)) for value in values])
        return Column(numbers, list(indexes))


def _unpack_column(column: Column) -> Iterator[Any]:
    return iter(column.numbers) if column.values is None else map(column.values.__getitem__, column.numbers)


class _Result(NamedTuple):
    """What `fold` returned or raised, and the offsets of its shard."""

    outcome: Shard | Exception
    offsets: PackedOffsets


def work() -> None:
    """Be a worker: fold the logs that arrive on stdin until the parent closes it."""
    messages = sys.stdout.buffer
    sys.stdout = sys.stderr  # Whatever prints must not disturb the messages.
    tasks: SimpleQueue[tuple[Log, Dialect, Stop]] = SimpleQueue()
    Thread(target=_receive_tasks, args=[tasks], daemon=True).start()

    def send(message: int | _Result) -> None:
        pickle.dump(message, messages)
        messages.flush()

    with suppress(BrokenPipeError):
        while True:
            send(_fold(*tasks.get(), send))
    os._exit(1)


def _receive_tasks(tasks: SimpleQueue[tuple[Log, Dialect, Stop]]) -> None:
    """Read tasks from stdin in a thread of its own, so that a worker ends with its parent even while it folds."""
    try:
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(1)


def _fold(log: Log, dialect: Dialect, stop: Stop, send: Callable[[int], None]) -> _Result:
    """Return the result of a log, and send the numbers of bytes that were read."""
    unsent_bytes = 0

    def count_bytes(count: int, /) -> None:
        nonlocal unsent_bytes
        unsent_bytes += count
        if unsent_bytes >= _COUNTED_BYTES:
            send(unsent_bytes)
            unsent_bytes = 0

    outcome: Shard | Exception
    packed = pack(Offsets())
    try:
        outcome = fold(log, dialect, stop, count_bytes=count_bytes)
        packed = pack(outcome.offsets)
        outcome.offsets = Offsets()
    except BrokenPipeError:  # `count_bytes` does not reach the parent, which has ended.
        raise
    except Exception as error:
        outcome = error
    send(unsent_bytes)
    return _Result(outcome, packed)
