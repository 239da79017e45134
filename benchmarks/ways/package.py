"""The package's own ways: the compiled engine, its Arrow tables, and the readable engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import kafkagroups as kg
from benchmarks.topics import Topic
from kafkagroups.api import load_table
from kafkagroups.loading.groups import Groups
from kafkagroups.log.folders import open_logs


def count_live_offsets(groups: Groups) -> int:
    return sum(len(group.offsets) for group in groups.values())


@contextmanager
def compiled(topic: Topic, threads: int) -> Iterator[tuple[Callable, Callable]]:
    load = partial(kg.load, topic.folder, engine="compiled", threads=threads)

    load()  # Compiles the kernels, or reads the cached machine code.
    yield load, count_live_offsets


one_thread = partial(compiled, threads=1)
two_threads = partial(compiled, threads=2)


@contextmanager
def arrow(topic: Topic) -> Iterator[tuple[Callable, Callable]]:
    def load() -> list:
        return [load_table(log, engine="compiled").read_all() for log in open_logs(topic.folder)]

    load()
    yield load, lambda tables: sum(table.num_rows for table in tables)


@contextmanager
def readable(topic: Topic) -> Iterator[tuple[Callable, Callable]]:
    yield partial(kg.load, topic.folder, engine="python", threads=1), count_live_offsets
