"""What a broker would answer of a whole log, as Spark DataFrames or as the package's own Groups."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafkagroups.api import loaded_columns
from kafkagroups.loading.engines import engine_of
from kafkagroups.loading.groups import Groups, join, load_logs, opened
from kafkagroups.log.places import find_logs
from kafkagroups.log.segments import Log
from kafkagroups.records.versions import Dialect
from kafkagroups.spark.session import jobs, register, session as get_session
from kafkagroups.tables.columns import columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load(
    path: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    partitions: int | None = None,
    engine: str = "auto",
    session: SparkSession | None = None,
) -> Tables:
    """The tables of a log as `kafkagroups.load` of the same arguments has them; each is made when it is asked for.

    `path` may be a URI of a file system that pyarrow knows (log/places.py). UsageError: no such path, no log in it, an
    unknown coordinator or engine; whatever `session()` says.
    """
    logs, rules = _opened(path, coordinator, kafka, partitions, engine=engine)
    session = session or get_session()
    register(session)
    return Tables(session, logs, rules, partitions, engine)


def _opened(
    path: str | Path,
    coordinator: str,
    kafka: str | None,
    partitions: int | None,
    until: int | None = None,
    *,
    engine: str,
) -> tuple[list[Log], Dialect]:
    """Logs that are found from another folder too: in a worker, and after Python has changed its own."""
    engine_of(engine, 0)  # is there such an engine?
    return opened(path, coordinator, kafka, partitions, until, partial(find_logs, folder=os.getcwd()))


class Tables:
    """DataFrames of one topic's partitions: `offsets`, `pending`, `groups`, `members`, `partitions`, `records`.

    A group has its records in one partition, so tasks answer for their partitions alone. Where the topic's partition
    count was changed, ids occur in several; these partitions are loaded together on the driver, as one broker would.
    To find them, the first table costs a pass of its own, except under the new coordinator when `partitions` is given.
    The data source itself (`source.py`) answers each partition alone.
    """

    def __init__(
        self, session: SparkSession, logs: list[Log], rules: Dialect, partitions: int | None, engine: str
    ) -> None:
        self.session = session
        self._logs = logs
        self._rules = rules
        self._partitions = partitions
        self._engine = engine

    @cached_property
    def offsets(self) -> DataFrame:
        return self._table("offsets")

    @cached_property
    def pending(self) -> DataFrame:
        return self._table("pending")

    @cached_property
    def groups(self) -> DataFrame:
        return self._table("groups")

    @cached_property
    def members(self) -> DataFrame:
        return self._table("members")

    @cached_property
    def partitions(self) -> DataFrame:
        return self._table("partitions")

    @cached_property
    def records(self) -> DataFrame:
        return self._read("records", self._logs)

    def _table(self, table: str) -> DataFrame:
        from kafkagroups.spark.source import ddl

        shared, folded = self._folded
        alone = [log for log in self._logs if log not in shared]
        if folded is None:
            return self._read(table, alone)
        rows, schema = loaded_columns(folded, table).read_all(), ddl(columns_of(table))
        # PySpark cannot make lists out of a table of no chunks
        together = self.session.createDataFrame(rows.combine_chunks() if rows.num_rows else [], schema)
        return self._read(table, alone).union(together) if alone else together

    @cached_property
    def _folded(self) -> tuple[list[Log], Groups | None]:
        """The logs that share ids with others, and what one coordinator makes of them together."""
        if len(self._logs) == 1 or _tasks_know(self._rules, self._partitions):
            return [], None
        with jobs():
            named = self._read("ids", self._logs).select("group", "partition").collect()
        shared = _sharing(self._logs, [(group, number) for group, number in named])
        if not shared:
            return [], None
        scan = engine_of(self._engine, sum(log.size for log in self._logs))
        return shared, load_logs(shared, self._rules, partitions=self._partitions, scan=scan)

    def _read(self, table: str, logs: list[Log]) -> DataFrame:
        reader = self.session.read.format("consumer_offsets").option("table", table).option("engine", self._engine)
        reader = reader.option("coordinator", self._rules.coordinator).option("kafka", self._rules.kafka)
        if self._partitions:
            reader = reader.option("partitions", self._partitions)
        return reader.option("cwd", logs[0].folder).load([log.path for log in logs])


def load_groups(
    path: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    partitions: int | None = None,
    until: int | None = None,
    until_time: int | None = None,
    engine: str = "auto",
    session: SparkSession | None = None,
    master: str | None = None,
) -> Groups:
    """`kafkagroups.load`, its partitions loaded by Spark's tasks; the groups come to the driver.

    Without a `session` the one that exists is taken, or one of `master` is started. The errors are those of `load`.
    """
    from kafkagroups.spark.source import bins, freeze

    logs, rules = _opened(path, coordinator, kafka, partitions, until, engine=engine)
    session = session or get_session(master)
    register(session)
    context = session.sparkContext
    sized = [(log.size, log) for log in logs]
    tasks, whole = bins(sized, 2 * context.defaultParallelism), sum(length for length, _ in sized)

    def load(some: list[Log]) -> Groups:
        scan = engine_of(engine, whole)
        return load_logs(some, rules, str(path), partitions=partitions, until=until, until_time=until_time, scan=scan)

    def run(some: list[Log]) -> list[Groups]:
        parts = [load([log]) for log in some]
        freeze()
        return parts

    with jobs():
        parts = context.parallelize(tasks, len(tasks)).flatMap(run).collect()
    shared: list[Log] = []
    if not _tasks_know(rules, partitions):
        shared = _sharing(
            logs, [(group, number) for part in parts for group, where in part.named.items() for number in where]
        )
    if shared:
        numbers = {log.partition for log in shared}
        parts = [part for part in parts if not numbers & part.partitions.keys()]
        parts.append(load(shared))
    return join(parts, str(path), partitions)


def _tasks_know(rules: Dialect, partitions: int | None) -> bool:
    """Whether a task needs no other partition for its answer: it keeps a group only in its home partition."""
    return rules.coordinator == "new" and partitions is not None


def _sharing(logs: list[Log], named: Iterable[tuple[str, int | None]]) -> list[Log]:
    """The logs with an id that has records in another log as well, in order."""
    where: dict[str, set[int | None]] = {}
    for group, number in named:
        where.setdefault(group, set()).add(number)
    numbers = {number for numbers in where.values() if len(numbers) > 1 for number in numbers}
    return [log for log in logs if log.partition in numbers]
