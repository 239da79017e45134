"""A whole topic that Spark loads: its tables as DataFrames (`load`), or its groups as Python objects (`load_groups`).

A log partition is a partition of the topic `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from kafkagroups.history.fate_table import read_fate_table
from kafkagroups.loading.groups import Groups, join_groups
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.spark.logs import (
    collect_partitions_of,
    find_logs_with_shared_groups,
    open_topic,
    run_for_each_log,
    uses_home_partitions,
)
from kafkagroups.spark.session import register, session as get_session, task_errors
from kafkagroups.tables.arrow import read_table
from kafkagroups.tables.columns import arrow_schema, columns_of
from kafkagroups.topic import Limits, Topic

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def load(
    path: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    session: SparkSession | None = None,
    **rules: Unpack[Limits],
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
    session : SparkSession, optional
        The session to use (default: the session that :func:`session` returns).
    rules
        The other rules of a ``kafkagroups.Topic``.

    Returns
    -------
    Tables
        The tables as DataFrames. Each DataFrame is created when you first use it.

    Raises
    ------
    UsageError
        There is no such path or no log in it, the coordinator or the engine is unknown, or the session does not start.
    """
    topic = open_topic(Topic(path, coordinator, kafka, **rules))
    session = session or get_session()
    register(session)
    return Tables(session, topic)


class Tables:
    """The tables of a topic as DataFrames: offsets, pending, groups, members, partitions, records and fates.

    Attributes
    ----------
    offsets, pending, groups, members, partitions, records, fates : DataFrame
        The tables. ``kafkagroups.tables.columns.TABLES`` lists their columns.

    Notes
    -----
    Usually all records of a group are in one log partition, and Spark's tasks load each partition alone. If the topic's
    partition count was changed, a group can have records in several partitions. Spark's driver then loads these
    partitions together, as one broker would. To find these partitions, the first table needs an additional pass over
    the log, except for the new coordinator with ``partitions``.
    """

    def __init__(self, session: SparkSession, topic: OpenTopic) -> None:
        self.session = session
        self._topic = topic
        self._logs = topic.logs

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

    @cached_property
    def fates(self) -> DataFrame:
        return self._table("fates")

    def _table(self, table: str) -> DataFrame:
        """Return a table that depends on loaded groups."""
        from kafkagroups.spark.options import schema_ddl

        shared_logs, shared_groups = self._shared
        other_logs = [log for log in self._logs if log not in shared_logs]
        if shared_groups is None:
            return self._read(table, other_logs)
        rows = self._read_fates(shared_logs) if table == "fates" else read_table(shared_groups, table).read_all()
        schema = schema_ddl(columns_of(table))
        # PySpark fails on a table that has list columns and no chunks.
        shared_rows = self.session.createDataFrame(rows.combine_chunks() if rows.num_rows else [], schema)
        return self._read(table, other_logs).union(shared_rows) if other_logs else shared_rows

    def _read_fates(self, logs: Sequence[Log]) -> pa.Table:
        """Return the table `fates` of logs that are loaded together."""
        import pyarrow as pa

        columns = columns_of("fates")
        _, shared_groups = self._shared
        count = self._topic.partitions if shared_groups is None else shared_groups.topic_partitions.count
        batches = read_fate_table(replace(self._topic, path="", logs=logs, partitions=count), columns)
        return pa.Table.from_batches(batches, schema=arrow_schema(columns))

    @cached_property
    def _shared(self) -> tuple[Sequence[Log], Groups | None]:
        """The logs that share a group with another log, and the groups of these logs, loaded together.

        If no logs share a group: an empty list and None.
        """
        if len(self._logs) == 1 or uses_home_partitions(self._topic.dialect, self._topic.partitions):
            return [], None
        with task_errors():
            ids = self._read("ids", self._logs).select("partition", "group").collect()
        partitions_of = collect_partitions_of((group, number) for number, group in sorted(ids))
        shared_logs = find_logs_with_shared_groups(self._logs, partitions_of)
        if not shared_logs:
            return [], None
        whole = WholeTopic(self._topic.find_partitions(), partitions_of)
        return shared_logs, replace(self._topic, path="", logs=shared_logs).load(whole=whole)

    def _read(self, table: str, logs: Sequence[Log]) -> DataFrame:
        """Return a table of these logs. The data source loads each log alone."""
        topic = self._topic
        reader = self.session.read.format("consumer_offsets").option("table", table).option("engine", topic.engine)
        reader = reader.option("coordinator", topic.dialect.coordinator).option("kafka", topic.dialect.kafka)
        if topic.partitions:
            reader = reader.option("partitions", topic.partitions)
        reader = reader.option("max_batch_bytes", logs[0].max_batch_bytes)
        reader = reader.option("past_damage", str(logs[0].skips_damage).lower())
        return reader.option("cwd", logs[0].folder).load([log.path for log in logs])


def load_groups(
    path: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    until: int | None = None,
    until_time: int | None = None,
    session: SparkSession | None = None,
    master: str | None = None,
    **rules: Unpack[Limits],
) -> Groups:
    """Load a log with Spark's tasks and return the groups, as ``kafkagroups.load`` does.

    Parameters
    ----------
    path, coordinator, kafka, session, rules
        As in :func:`load`.
    until : int, optional
        Only batches whose base offset is below this offset are read. A batch is read as a whole. The path must be one
        partition.
    until_time : int, optional
        Reading stops in each partition before the first batch with a timestamp after this time (ms since the epoch).
    master : str, optional
        The URL of Spark's master for a new session. Used only if no session exists and ``session`` is not given.

    Returns
    -------
    Groups
        The groups of the whole topic, in the process that called this function.

    Raises
    ------
    UsageError
        As in :func:`load`.
    """
    topic = open_topic(Topic(path, coordinator, kafka, **rules), Stop(until, until_time))
    topic.check_stop()
    session = session or get_session(master)
    register(session)
    loads = run_for_each_log(session, topic.logs, lambda log: topic.part(log).load())
    partitions_of = collect_partitions_of(
        (group, number) for groups in loads for group, numbers in groups.partitions_of.items() for number in numbers
    )
    found = topic.find_partitions()
    topic_partitions = None
    shared_logs = find_logs_with_shared_groups(topic.logs, partitions_of)
    if shared_logs:
        shared_numbers = {log.partition for log in shared_logs}
        loads = [groups for groups in loads if not shared_numbers & groups.partitions.keys()]
        shared_groups = topic.part(*shared_logs).load(whole=WholeTopic(found, partitions_of))
        topic_partitions = shared_groups.decided_partitions
        loads.append(shared_groups)
    return join_groups(loads, str(path), found, topic_partitions)
