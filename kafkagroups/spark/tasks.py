"""The options of the Spark data source, the schema of each table, and the logs of a topic in Spark's tasks.

A log partition is a partition of the topic `__consumer_offsets`. A group's home partition is the log partition that the
hash of the group id selects.
"""

from __future__ import annotations

import gc
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.helpers import parse_whole_number
from kafkagroups.loading.columns import Column, arrow_schema, columns_of, parse_columns
from kafkagroups.loading.engines import ENGINES
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.log.compression import MAX_BATCH_BYTES
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
    """If a task has raised a UsageError or an InvalidLog, raise this error instead of Spark's exception."""
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
    """Warn once of all places where logs are damaged, in the process that asked."""
    if damages:
        warnings.warn("; ".join(map(str, damages)), DamagedLog, stacklevel=3)


def distribute(sized_items: Iterable[tuple[int, T]], max_lists: int) -> list[list[T]]:
    """Distribute items over at most `max_lists` lists of about the same total size.

    `sized_items` are pairs of a size and an item. The result has at least one list. Items are taken from the largest to
    the smallest. Each item is added to the list that has the smallest total size at that moment.
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
    """Exclude all objects that exist now from garbage collection. Only the first call in a worker process does this.

    PySpark collects garbage after every task, and each collection would check all objects that the worker imported.
    """
    gc.collect()
    gc.freeze()


FORMAT = "consumer_offsets"
"""The name of the data source."""
_DEFAULTS: dict[str, str | None] = {
    "table": "offsets",
    "coordinator": "new",
    "kafka": None,
    "path": None,
    "paths": "[]",
    "cwd": None,
    "partitions": None,
    "engine": "auto",
    "tasks": None,
    "pushdown": "false",
    "max_batch_bytes": str(MAX_BATCH_BYTES),
    "past_damage": "false",
    "failOnDamage": "true",
}
"""The default of each option, as text. The module docstring of source.py explains the options."""

BATCHES = parse_columns("partition int, base_offset long, next_offset long, bytes binary")
"""The columns of the table `batches`, which only streams have. Each row is a Kafka batch with its bytes."""
LOCATED_BATCHES = (*BATCHES, *parse_columns("file string, position long, damage string?"))
"""The columns BATCHES, and where each batch begins: the path of the segment's file, and the position in bytes in this
file. A stream has the other columns only if the user sets a schema that names them. If it names `damage`, a place at
which the log ends has a row with the reason, without bytes, if the option `failOnDamage` is false."""


@dataclass(frozen=True)
class Options:
    """The checked options of a reader. The module docstring of source.py explains each option.

    `topic` has the options that are rules of a `Topic`, without a path.
    """

    table: str
    paths: tuple[str, ...]
    cwd: str
    tasks: int
    pushdown: bool
    fail_on_damage: bool
    topic: Topic

    @property
    def columns(self) -> tuple[Column, ...]:
        return BATCHES if self.table == "batches" else columns_of(self.table)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns that a user's schema can name."""
        return LOCATED_BATCHES if self.table == "batches" else columns_of(self.table)

    @classmethod
    def parse(cls, user_options: Mapping[str, str], default_tasks: int) -> Options:
        """Return the options of a reader. Raise a UsageError if an option is unknown or has a wrong value.

        `user_options` are those that the user has set, as text; Spark's mapping ignores the case of their names.
        """
        unknown = sorted(set(map(str.lower, user_options)) - set(map(str.lower, _DEFAULTS)))
        if unknown:
            raise UsageError(f"{FORMAT} has no option {unknown[0]!r}; its options are {', '.join(_DEFAULTS)}")
        given = {name: user_options.get(name, default) for name, default in _DEFAULTS.items()}
        paths = [*json.loads(given["paths"] or ""), *([given["path"]] if "path" in user_options else [])]
        if not paths:
            raise UsageError(f"{FORMAT} needs a path: .load(path)")
        options = cls(
            table=given["table"] or "",
            paths=tuple(paths),
            cwd=given["cwd"] or os.getcwd(),
            tasks=_parse_count("tasks", given) or default_tasks,
            pushdown=_parse_flag("pushdown", given),
            fail_on_damage=_parse_flag("failOnDamage", given),
            topic=Topic(
                "",
                given["coordinator"] or "",
                given["kafka"],
                partitions=_parse_count("partitions", given),
                engine=given["engine"] or "",
                past_damage=_parse_flag("past_damage", given),
                max_batch_bytes=_parse_count("max_batch_bytes", given) or MAX_BATCH_BYTES,
            ),
        )
        if options.topic.engine not in ENGINES:
            raise UsageError(f"option engine: expected one of {', '.join(ENGINES)}, found {options.topic.engine!r}")
        assert options.columns  # The property raises a UsageError for an unknown table.
        assert options.topic.dialect  # This property raises it for an unknown coordinator or Kafka version.
        return options


def schema_ddl(columns: Iterable[Column]) -> str:
    """Return the columns as a schema in Spark's DDL (the language of CREATE TABLE)."""
    return ", ".join(f"{column.name} {column.type}{'' if column.nullable else ' NOT NULL'}" for column in columns)


def check_schema(options: Options, schema: StructType) -> None:
    """Raise a UsageError if the schema that the user has set has a column or a type that the table does not have."""
    table_schema = arrow_schema(options.all_columns)
    for field in to_arrow_schema(schema, timezone="UTC"):
        if field.name not in table_schema.names:
            raise UsageError(
                f"table {options.table} has no column {field.name!r}; its columns are {', '.join(table_schema.names)}"
            )
        expected_type = table_schema.field(field.name).type
        if not expected_type.equals(field.type):
            raise UsageError(
                f"table {options.table}, column {field.name}: expected type {expected_type}, found {field.type}"
            )


def _parse_flag(name: str, given: Mapping[str, str | None]) -> bool:
    value = (given[name] or "").lower()
    if value not in ("true", "false"):
        raise UsageError(f"option {name}: expected true or false, found {given[name]!r}")
    return value == "true"


def _parse_count(name: str, given: Mapping[str, str | None]) -> int | None:
    """Return the value of an option that is a number above 0; None if it was not given."""
    text = given[name]
    if text is None:
        return None
    try:
        count = parse_whole_number(text)
    except UsageError as error:
        raise UsageError(f"option {name}: {error}") from None
    if count < 1:
        raise UsageError(f"option {name}: expected a number above 0, found {text!r}")
    return count
