"""The logs of a topic in Spark's tasks: which task reads which log, what follows from damage, and shared groups.

A group's home partition is the log partition that the hash of the group id selects.
"""

from __future__ import annotations

import gc
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeVar

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.log.damage import Damage
from kafkagroups.log.folders import find_logs
from kafkagroups.log.segments import NO_STOP, Log, Stop
from kafkagroups.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


class DamagedLog(UserWarning):
    """Logs are damaged, and were read up to the damage because the caller asked for it (`fail_on_damage=False`)."""


def open_topic(topic: Topic, stop: Stop = NO_STOP) -> OpenTopic:
    """Open a topic for Spark's tasks: its path can be a URI (log/folders.py).

    The logs contain the working folder of this process, because a worker process can have another working folder.
    """
    return topic.open(stop, partial(find_logs, folder=os.getcwd()))


def run_for_each_log(
    session: SparkSession,
    topic: OpenTopic,
    function: Callable[[Log], tuple[T, Groups]],
    fail_on_damage: bool | None,
) -> tuple[list[T], list[Log], WholeTopic]:
    """Run a function for each log of a topic in Spark's tasks: one task per core, with logs of about the same size.

    A second task per core costs more than it saves: 0.09 s of 0.55 s for ten million records on two cores.

    The function returns a result and the groups of the log. Return the results in the order of the logs, the logs that
    share a group with another log, and what is known about the whole topic. If the function raises a UsageError or an
    InvalidLog, this error is raised. If a log is damaged, `fail_on_damage` decides: True raises an InvalidLog, False
    warns, None does nothing.
    """

    def run_task(numbered_logs: list[tuple[int, Log]]) -> list[tuple[int, tuple[T, list[str], list[Damage]]]]:
        task_results = []
        for number, log in numbered_logs:
            result, groups = function(log)
            damages = [loaded.damage for loaded in groups.partitions.values() if loaded.damage is not None]
            task_results.append((number, (result, list(groups.partitions_of), damages)))
        exclude_objects_from_gc()
        return task_results

    context = session.sparkContext
    sized_logs = ((log.size, (number, log)) for number, log in enumerate(topic.logs))
    tasks = distribute(sized_logs, context.defaultParallelism)
    with task_errors():
        found = dict(context.parallelize(tasks, len(tasks)).flatMap(run_task).collect())
    damages = [damage for number in sorted(found) for damage in found[number][2]]
    if damages and fail_on_damage:
        raise damage_error(damages[0])
    if fail_on_damage is False:
        warn_of_damage(damages)
    partitions_of: dict[str, list[int | None]] = {}
    for number, log in enumerate(topic.logs):
        for group_id in found[number][1]:
            partitions_of.setdefault(group_id, []).append(log.partition)
    shared = {number for numbers in partitions_of.values() if len(numbers) > 1 for number in numbers}
    shared_logs = [log for log in topic.logs if log.partition in shared]
    results = [found[number][0] for number in range(len(topic.logs))]
    return results, shared_logs, WholeTopic(topic.find_partitions(), partitions_of)


@contextmanager
def task_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        found_errors = re.findall(r"kafkagroups\.errors\.(UsageError|InvalidLog): (.+)", str(error))
        if found_errors:
            name, message = found_errors[-1]
            raise (UsageError if name == "UsageError" else InvalidLog)(message) from None
        raise


def damage_error(damage: Damage) -> InvalidLog:
    """Return the error of a reader that must not end at damage without a word."""
    reason = f"{damage.reason}. With failOnDamage=false, the log is read up to here"
    return InvalidLog(reason, file=damage.file, offset=damage.offset, position=damage.position)


def warn_of_damage(damages: Sequence[Damage | str]) -> None:
    if damages:
        warnings.warn("; ".join(map(str, damages)), DamagedLog, stacklevel=3)


def distribute(sized_items: Iterable[tuple[int, T]], max_lists: int) -> list[list[T]]:
    """Distribute items over at most `max_lists` lists of about the same total size.

    Items are taken from the largest to the smallest, and each is added to the list with the smallest total size.
    """
    ordered = sorted(sized_items, key=lambda sized_item: -sized_item[0])
    lists: list[list[T]] = [[] for _ in range(max(1, min(max_lists, len(ordered))))]
    totals = [(0, number) for number in range(len(lists))]
    for size, item in ordered:
        total, number = heappop(totals)
        lists[number].append(item)
        # Without the 1, all items of size 0 (empty logs) would be added to the same list.
        heappush(totals, (total + size + 1, number))
    return lists


@cache
def exclude_objects_from_gc() -> None:
    """PySpark collects garbage after every task, which would check all objects that the worker has imported."""
    gc.collect()
    gc.freeze()
