"""A whole log that Spark loads: its tables as DataFrames, or the package's own Groups."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafkagroups.api import loaded_columns
from kafkagroups.loading.engines import choose_engine, choose_engine_for
from kafkagroups.loading.groups import Groups, join_groups
from kafkagroups.loading.load import load_logs, open_for_load
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.locations import find_logs
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.records.dialects import Dialect
from kafkagroups.spark.session import register, session as get_session, task_errors
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
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Tables:
    """Return the tables of a log, with the same content as ``kafkagroups.load`` with the same arguments.

    Parameters
    ----------
    path : str or Path
        A partition directory, a .log file, or a folder of partition directories. The path can be a URI of a file system
        that pyarrow can open (``kafkagroups.log.locations``).
    coordinator : str
        ``"classic"`` or ``"new"``.
    kafka : str, optional
        The coordinator's Kafka version.
    partitions : int, optional
        The topic's partition count. The new coordinator then answers a group from its home partition only.
    engine : str
        ``"auto"``, ``"python"`` or ``"compiled"``.
    session : SparkSession, optional
        The session to use (default: the one of :func:`session`).
    max_batch_bytes : int
        The limit of one decompressed batch. A log ends before a larger batch, as before damage.

    Returns
    -------
    Tables
        The tables as DataFrames. Each DataFrame is created when you first use it.

    Raises
    ------
    UsageError
        There is no such path or no log in it, the coordinator or the engine is unknown, or the session does not start.
    """
    logs, dialect = _open_logs(path, coordinator, kafka, partitions, engine=engine, max_batch_bytes=max_batch_bytes)
    session = session or get_session()
    register(session)
    return Tables(session, logs, dialect, partitions, engine)


def _open_logs(
    path: str | Path,
    coordinator: str,
    kafka: str | None,
    partitions: int | None,
    until: int | None = None,
    *,
    engine: str,
    max_batch_bytes: int,
) -> tuple[list[Log], Dialect]:
    """Return the logs at a path, and the coordinator's dialect (coordinator and Kafka version).

    The logs can also be read in a worker process, and after this process has changed its working directory.
    """
    choose_engine(engine, 0)  # Raises a UsageError if there is no such engine.
    find = partial(find_logs, folder=os.getcwd())
    return open_for_load(path, coordinator, kafka, partitions, until, find, max_batch_bytes)


class Tables:
    """The DataFrames of one log: ``offsets``, ``pending``, ``groups``, ``members``, ``partitions``, ``records``.

    Attributes
    ----------
    offsets, pending, groups, members, partitions, records : DataFrame
        The tables; ``kafkagroups.tables.columns.TABLES`` lists their columns.

    Notes
    -----
    Usually a group has its records in one partition, so each task computes the rows of the partitions that it reads. If
    the topic's partition count was changed, a group can have records in several partitions. The driver loads these
    partitions together, as one broker would. To find these partitions, the first table needs an additional pass over
    the log. The new coordinator needs no additional pass if ``partitions`` is given. The data source itself
    (``source.py``) always loads each partition alone.
    """

    def __init__(
        self, session: SparkSession, logs: list[Log], dialect: Dialect, partitions: int | None, engine: str
    ) -> None:
        self.session = session
        self._logs = logs
        self._dialect = dialect
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
        from kafkagroups.spark.options import schema_ddl

        shared_logs, shared_groups = self._shared
        other_logs = [log for log in self._logs if log not in shared_logs]
        if shared_groups is None:
            return self._read(table, other_logs)
        rows = loaded_columns(shared_groups, table).read_all()
        schema = schema_ddl(columns_of(table))
        # PySpark fails on a table that has list columns and no chunks.
        shared_rows = self.session.createDataFrame(rows.combine_chunks() if rows.num_rows else [], schema)
        return self._read(table, other_logs).union(shared_rows) if other_logs else shared_rows

    @cached_property
    def _shared(self) -> tuple[list[Log], Groups | None]:
        """Return the logs that share a group with another log, and the groups that one load of these logs gives.

        The groups are None if no logs share a group.
        """
        if len(self._logs) == 1 or _is_home_enough(self._dialect, self._partitions):
            return [], None
        with task_errors():
            ids = self._read("ids", self._logs).select("group", "partition").collect()
        shared = _logs_with_shared_groups(self._logs, [(group, number) for group, number in ids])
        if not shared:
            return [], None
        engine = choose_engine_for(self._engine, self._logs)
        return shared, load_logs(shared, self._dialect, partitions=self._partitions, engine=engine)

    def _read(self, table: str, logs: list[Log]) -> DataFrame:
        reader = self.session.read.format("consumer_offsets").option("table", table).option("engine", self._engine)
        reader = reader.option("coordinator", self._dialect.coordinator).option("kafka", self._dialect.kafka)
        if self._partitions:
            reader = reader.option("partitions", self._partitions)
        reader = reader.option("max_batch_bytes", logs[0].max_batch_bytes)
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
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Groups:
    """Load a log with Spark's tasks and return the groups, as ``kafkagroups.load`` does.

    Parameters
    ----------
    path, coordinator, kafka, partitions, engine, session, max_batch_bytes
        As in :func:`load`.
    until : int, optional
        Only batches whose base offset is below this offset are read, each as a whole. The log must have one partition.
    until_time : int, optional
        Only batches before the first batch with a record after this time (ms since 1970) are read.
    master : str, optional
        The master of a new session, if none exists and ``session`` is not given.

    Returns
    -------
    Groups
        The groups of the whole log, on the driver.

    Raises
    ------
    UsageError
        As in :func:`load`.
    """
    from kafkagroups.spark.tasks import distribute, freeze_objects

    logs, dialect = _open_logs(
        path, coordinator, kafka, partitions, until, engine=engine, max_batch_bytes=max_batch_bytes
    )
    session = session or get_session(master)
    register(session)
    context = session.sparkContext
    sized_logs = [(log.size, log) for log in logs]
    tasks = distribute(sized_logs, 2 * context.defaultParallelism)
    total_size = sum(size for size, _ in sized_logs)
    stop = Stop(until, until_time)

    def load_together(task_logs: list[Log]) -> Groups:
        chosen_engine = choose_engine(engine, total_size)
        return load_logs(task_logs, dialect, str(path), partitions=partitions, stop=stop, engine=chosen_engine)

    def run_task(task_logs: list[Log]) -> list[Groups]:
        loaded = [load_together([log]) for log in task_logs]
        freeze_objects()
        return loaded

    with task_errors():
        loaded = context.parallelize(tasks, len(tasks)).flatMap(run_task).collect()
    shared: list[Log] = []
    if not _is_home_enough(dialect, partitions):
        ids = [(group, number) for groups in loaded for group, numbers in groups.named.items() for number in numbers]
        shared = _logs_with_shared_groups(logs, ids)
    if shared:
        shared_numbers = {log.partition for log in shared}
        loaded = [groups for groups in loaded if not shared_numbers & groups.partitions.keys()]
        loaded.append(load_together(shared))
    return join_groups(loaded, str(path), partitions)


def _is_home_enough(dialect: Dialect, partitions: int | None) -> bool:
    """Return whether a group is answered from its home partition alone, so that no task needs another partition."""
    return dialect.coordinator == "new" and partitions is not None


def _logs_with_shared_groups(logs: list[Log], ids: Iterable[tuple[str, int | None]]) -> list[Log]:
    """Return the logs that share a group with another log.

    `ids` has a pair for each group and each log with records of the group: the group id and the log's partition number.
    """
    numbers_of: dict[str, set[int | None]] = {}
    for group, number in ids:
        numbers_of.setdefault(group, set()).add(number)
    shared_numbers = {number for numbers in numbers_of.values() if len(numbers) > 1 for number in numbers}
    return [log for log in logs if log.partition in shared_numbers]
