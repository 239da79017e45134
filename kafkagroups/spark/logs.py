"""The logs of a topic: opens them, runs a function for each log in Spark's tasks, finds logs that share groups.

A log partition is a partition of the topic `__consumer_offsets`. A group's home partition is the log partition that the
hash of the group id selects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.topic_partitions import PartitionsOf
from kafkagroups.log.locations import find_logs
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.dialects import Dialect
from kafkagroups.spark.session import task_errors
from kafkagroups.spark.tasks import distribute, exclude_objects_from_gc
from kafkagroups.topic import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


def open_topic(topic: Topic, stop: Stop = NO_STOP) -> OpenTopic:
    """Open a topic for Spark's tasks: its path can be a URI (log/locations.py).

    The logs contain the working folder of this process, because a worker process can have another working folder.
    """
    return topic.open(stop, partial(find_logs, folder=os.getcwd()))


def run_for_each_log(
    session: SparkSession, logs: Sequence[Log], function: Callable[[Log], T], *, tasks_per_core: int = 2
) -> list[T]:
    """Run a function for each log in Spark's tasks, and return the results in the order of the logs.

    A task runs the function for one log after another. There are at most `tasks_per_core` tasks per core of the
    session. If the function raises a UsageError or an InvalidLog, this error is raised.
    """

    def run_task(numbered_logs: list[tuple[int, Log]]) -> list[tuple[int, T]]:
        task_results = [(number, function(log)) for number, log in numbered_logs]
        exclude_objects_from_gc()
        return task_results

    context = session.sparkContext
    sized_logs = ((log.size, (number, log)) for number, log in enumerate(logs))
    tasks = distribute(sized_logs, tasks_per_core * context.defaultParallelism)
    with task_errors():
        results = dict(context.parallelize(tasks, len(tasks)).flatMap(run_task).collect())
    return [results[number] for number in range(len(logs))]


def uses_home_partitions(dialect: Dialect, partitions: int | None) -> bool:
    """Return whether the coordinator uses the records of a group only from the group's home partition.

    If so, each log partition can be loaded alone.
    """
    return dialect.coordinator == "new" and partitions is not None


def collect_partitions_of(group_partitions: Iterable[tuple[str, int | None]]) -> dict[str, list[int | None]]:
    """Return by group id the numbers of the log partitions that have records of the group.

    `group_partitions` contains pairs of a group id and a number, in the order of the log partitions.
    """
    partitions_of: dict[str, list[int | None]] = {}
    for group, number in group_partitions:
        partitions_of.setdefault(group, []).append(number)
    return partitions_of


def find_logs_with_shared_groups(logs: Sequence[Log], partitions_of: PartitionsOf) -> list[Log]:
    """Return the logs that share a group with another log. `partitions_of` is from `collect_partitions_of`."""
    shared_numbers: set[int | None] = set()
    for numbers in partitions_of.values():
        if len(numbers) > 1:
            shared_numbers.update(numbers)
    return [log for log in logs if log.partition in shared_numbers]
