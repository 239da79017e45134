"""A whole topic that Spark loads: its tables as DataFrames (`load`) or Parquet files, its groups (`load_groups`), its
statistics (`stats`), and a group's history (`explain`).

A task loads one log after another, and returns small results: groups, counts, or the records of one group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import Offsets
from kafkagroups.groups.replay import Shard
from kafkagroups.history.explain import Explanation, explain_log
from kafkagroups.history.group_log import load_group_logs
from kafkagroups.history.passes import refuse_foreign_log
from kafkagroups.history.scan import CountedTopic, finish
from kafkagroups.history.stats import Stats, check_row_kind
from kafkagroups.history.timeline import Question
from kafkagroups.loading.columns import columns_of, schema_ddl
from kafkagroups.loading.groups import Groups, describe_failure
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.loading.rows import TABLES, WrittenTables, read_table
from kafkagroups.log.folders import local_path
from kafkagroups.log.segments import Log, Stop
from kafkagroups.records.releases import DEFAULT_DIALECT, Dialect
from kafkagroups.spark.kafka_rows import LoadedTables, RowTables
from kafkagroups.spark.session import prepare, register, session as get_session
from kafkagroups.spark.tasks import FoundInLog, open_topic, run_for_each_log, task_errors
from kafkagroups.topic import Limits, Rules, Topic, read_topic_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RULES = Rules.__optional_keys__ - {"threads"}
"""The rules of a topic that are options of the data source, too."""
TIMESTAMP_SETTING = "spark.sql.parquet.outputTimestampType"


def load(
    path: str | Path | DataFrame,
    coordinator: str | None = None,
    kafka: str | None = None,
    *,
    session: SparkSession | None = None,
    fail_on_damage: bool | None = True,
    **rules: Unpack[Limits],
) -> Tables | RowTables:
    """Return the tables of a log, with the same content as ``kafkagroups.load`` with the same arguments.

    Parameters
    ----------
    path : str, Path or DataFrame
        A partition directory, a .log file, or a folder of partition directories, also as the URI of a file system that
        pyarrow can open. Or the rows of the topic, of a batch or a stream, with the columns ``key``, ``value``,
        ``partition``, ``offset`` and ``timestamp``, as Spark's Kafka source returns them with
        ``kafka.isolation.level=read_committed``.
    coordinator : str, optional
        ``"classic"`` or ``"new"`` (default: ``"classic"`` if ``kafka`` is below 4.0).
    kafka : str, optional
        The coordinator's Kafka version.
    session : SparkSession, optional
        The session to use (default: the session that :func:`session` returns).
    fail_on_damage : bool, optional
        Whether damaged bytes raise an InvalidLog that names the file and the offset, because rows after the damage can
        be missing. False: the tables end at the damage, as a broker's recovery cuts the log there. The table
        ``partitions`` has the reason, and one warning (``kafkagroups.spark.DamagedLog``) names all places, for which
        the first table needs an additional pass over the log. None: as False, without the warning and this pass.
    rules
        The other rules of a ``kafkagroups.Topic``. With ``past_damage``, bytes that are skipped are no error.

    Returns
    -------
    Tables or RowTables
        The tables as DataFrames. :class:`RowTables` says what rows do not show.

    Raises
    ------
    UsageError
        There is no such path or no log in it, the coordinator or the engine is unknown, or the session does not start.
    """
    if not isinstance(path, str | Path):
        return RowTables(path, Topic("", coordinator, kafka, **rules))
    return Tables(Topic(path, coordinator, kafka, **rules), session, fail_on_damage=fail_on_damage)


class Tables(LoadedTables):
    """The tables of a topic as DataFrames: offsets, pending, groups, members, partitions, records and fates.

    Attributes
    ----------
    offsets, pending, groups, members, partitions, records, fates : DataFrame
        The tables. ``kafkagroups.loading.columns.TABLES`` lists their columns.

    Notes
    -----
    Usually all records of a group are in one log partition, and Spark's tasks load each partition alone. If the topic's
    partition count was changed, a group can have records in several partitions. Spark's driver then loads these
    partitions together, as one broker would. To find these partitions, the first table needs an additional pass over
    the log, except for the new coordinator with ``partitions``.
    """

    def __init__(self, topic: Topic, session: SparkSession | None, *, fail_on_damage: bool | None) -> None:
        self._topic = open_topic(topic)
        self._rules = {name: value for name, value in vars(topic).items() if name in _RULES and value is not None}
        self._fails = fail_on_damage
        self._logs = self._topic.logs
        self.session = session or get_session()
        register(self.session)

    fates = cached_property(lambda self: self._table("fates"))

    @cached_property
    def records(self) -> DataFrame:
        if self._fails is False:
            _ = self._shared  # This warns of damage.
        return self._read("records", self._logs)

    def _table(self, table: str) -> DataFrame:
        shared_logs, shared_groups = self._shared
        other_logs = [log for log in self._logs if log not in shared_logs]
        if shared_groups is None:
            return self._read(table, other_logs)
        if table == "fates":
            count = shared_groups.topic_partitions.count
            shared_topic = replace(self._topic, path="", logs=shared_logs, partitions=count)
            rows = read_topic_table(shared_topic, table, None).read_all()
        else:
            rows = read_table(shared_groups, table).read_all()
        schema = schema_ddl(columns_of(table))
        # PySpark fails on a table that has list columns and no chunks.
        shared_rows = self.session.createDataFrame(rows.combine_chunks() if rows.num_rows else [], schema)
        return self._read(table, other_logs).union(shared_rows) if other_logs else shared_rows

    @cached_property
    def _shared(self) -> tuple[Sequence[Log], Groups | None]:
        """The logs that share a group with another log, and the groups of these logs, loaded together.

        If no logs share a group: an empty list and None.
        """
        topic = self._topic
        are_alone = len(self._logs) == 1 or (topic.dialect.coordinator == "new" and topic.partitions is not None)
        if are_alone and self._fails is not False:
            return [], None

        def list_groups(part: OpenTopic) -> FoundInLog[None]:
            shard = _fold(part)
            return None, [shard.loaded], shard.seen_group_ids

        _, shared_logs, whole = run_for_each_log(self.session, topic, list_groups, self._fails)
        if are_alone or not shared_logs:
            return [], None
        return shared_logs, replace(topic, path="", logs=shared_logs).load(whole=whole)

    def _read(self, table: str, logs: Sequence[Log]) -> DataFrame:
        reader = self.session.read.format("consumer_offsets").options(**self._rules)
        reader = reader.option("table", table).option("failOnDamage", bool(self._fails)).option("cwd", logs[0].folder)
        return reader.load([log.path for log in logs])


def load_groups(
    path: str | Path,
    coordinator: str | None = None,
    kafka: str | None = None,
    *,
    until: int | None = None,
    until_time: int | None = None,
    session: SparkSession | None = None,
    master: str | None = None,
    fail_on_damage: bool | None = True,
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
    fail_on_damage : bool, optional
        Whether damaged bytes raise an InvalidLog that names the file and the offset. False: the answer is that of a
        broker whose recovery has cut the log there, ``Groups.problems`` has the reason, and so has a warning. None: as
        False, but without a warning.

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
    session = session or get_session(master)
    register(session)

    def fold(part: OpenTopic) -> FoundInLog[Shard]:
        shard = _fold(part)
        shard.offsets = Offsets.copy_of(shard.offsets)  # Columns of the native engine stay in its process.
        return shard, [shard.loaded], shard.seen_group_ids

    shards, *_ = run_for_each_log(session, topic, fold, fail_on_damage)
    return topic.combine(shards, topic.chosen_engine.name)


def _fold(part: OpenTopic) -> Shard:
    (shard,) = part.chosen_engine.fold_logs(part.logs, part.dialect, part.stop)
    return shard


def load_and_write(
    path: str, dialect: Dialect, folder: str, master: str | None, **rules: Unpack[Limits]
) -> WrittenTables:
    """Load the log at `path`, and let the tasks write its tables as Parquet files into `folder`/<table>.

    Each table needs one pass over the log. Raises a UsageError if Spark cannot write to the folder.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import Observation, functions

    session = get_session(master)
    tables = load(path, dialect.coordinator, dialect.kafka, session=session, fail_on_damage=None, **rules)
    local_folder = local_path(folder)
    target = folder if local_folder is None else f"file://{os.path.abspath(local_folder)}"
    rows = {}
    previous_type = session.conf.get(TIMESTAMP_SETTING)
    # Spark's default type for timestamps is INT96. Other programs interpret the time zone of INT96 in different ways.
    session.conf.set(TIMESTAMP_SETTING, "TIMESTAMP_MICROS")
    try:
        for table in TABLES:
            observation = Observation()
            frame = getattr(tables, table).observe(observation, functions.count("*").alias("rows"))
            with task_errors():
                frame.write.parquet(f"{target}/{table}")
            rows[table] = observation.get["rows"]
    except PySparkException as error:
        raise UsageError(f"{folder}: Spark cannot write to this folder: {str(error).splitlines()[0]}") from error
    finally:
        session.conf.set(TIMESTAMP_SETTING, str(previous_type))
    problems = []
    bad_rows = session.read.parquet(f"{target}/partitions").where("error is not null or damage is not null")
    for row in bad_rows.orderBy("partition").collect():
        if row["damage"]:
            problems.append(row["damage"])
        if row["error"]:
            number = None if row["partition"] == -1 else row["partition"]
            problems.append(describe_failure(path, number, dialect.kafka, row["error"]))
    return WrittenTables(rows, problems)


def stats(
    path: str | Path | DataFrame,
    by: str = "group",
    *,
    session: SparkSession | None = None,
    master: str | None = None,
    fail_on_damage: bool | None = True,
    **rules: Unpack[Rules],
) -> Stats:
    """Return counts that show what a log contains and what makes it large, as ``kafkagroups.stats`` does.

    Parameters
    ----------
    path : str, Path or DataFrame
        As in :func:`load`. For rows of a DataFrame, bytes and batches are those of the segments that the tasks write
        from them, and ``findings`` is empty: most findings are about the files of a broker.
    by
        As in ``kafkagroups.stats``.
    session : SparkSession, optional
        The session to use (default: the session that :func:`kafkagroups.spark.session` returns).
    master : str, optional
        The URL of Spark's master for a new session. Used only if no session exists and ``session`` is not given.
    fail_on_damage : bool, optional
        As in :func:`load_groups`.
    rules
        The rules of a ``kafkagroups.Topic``.

    Returns
    -------
    Stats
        The counts of the whole topic, in the process that called this function.

    Raises
    ------
    UsageError
        As in ``kafkagroups.stats``, or the session does not start.
    """
    check_row_kind(by)
    if not isinstance(path, str | Path):
        return _count_rows(RowTables(path, Topic("", **rules)), by)
    topic = open_topic(Topic(path, **rules))
    logs = topic.logs
    session = session or get_session(master)
    prepare(session)

    def count_alone(part: OpenTopic) -> FoundInLog[Stats]:
        counted = CountedTopic(part, by)
        (stats_of_log,) = counted.read_stats()
        return stats_of_log, counted.groups.partitions.values(), counted.groups.partitions_of

    stats_of_logs, shared_logs, whole = run_for_each_log(session, topic, count_alone, fail_on_damage)
    refuse_foreign_log(topic, whole.partitions_of)
    stats_by_partition = {log.partition: each for log, each in zip(logs, stats_of_logs, strict=True)}
    if shared_logs:
        counted = CountedTopic(topic.part(*shared_logs), by, whole)
        for log, log_stats in zip(shared_logs, counted.read_stats(), strict=True):
            stats_by_partition[log.partition] = log_stats
        topic_partitions = counted.topic_partitions
    else:
        topic_partitions = whole.topic.decide(whole.partitions_of)
    statistics = Stats(by, topic_partitions=topic_partitions)
    for log in logs:
        statistics.add(stats_by_partition[log.partition])
    finish(statistics, topic)
    return statistics


def _count_rows(tables: RowTables, by: str) -> Stats:
    whole = tables.whole

    def count(topic: OpenTopic) -> Iterator[tuple[int, Stats]]:
        counted = CountedTopic(topic, by, whole)
        for log, stats_of_log in zip(topic.logs, counted.read_stats(watches_groups=False), strict=True):
            yield log.partition or 0, stats_of_log

    statistics = Stats(by, topic_partitions=replace(whole.topic.decide(whole.partitions_of), changed=None))
    for _, stats_of_log in sorted(tables.compute(count), key=itemgetter(0)):
        statistics.add(stats_of_log)
    finish(statistics, OpenTopic((), DEFAULT_DIALECT))
    statistics.findings = []
    return statistics


def _explain_rows(all_tables: RowTables, group: str, question: Question) -> Explanation:
    tables = all_tables.of_group(group)
    whole = tables.whole

    def explain_rows(topic: OpenTopic) -> Iterator[Explanation]:
        groups, group_logs = load_group_logs(topic, [group], whole)
        yield explain_log(groups, group_logs[group], question)

    explanations: list[Explanation] = tables.compute(explain_rows)
    if not explanations:
        raise UsageError(f"no row is a record of group {group!r}")
    return explanations[0]


@dataclass
class _Part:
    """What some of the logs say about a group, as if the topic had only these. `problems` are by partition number."""

    explanation: Explanation
    problems: dict[int | None, list[str]]
    has_records: bool


def explain(
    path: str | Path | DataFrame,
    group: str,
    topic: str | None = None,
    partition: int | None = None,
    *,
    until: int | None = None,
    until_time: int | None = None,
    since_time: int | None = None,
    retention_ms: int | None = None,
    session: SparkSession | None = None,
    master: str | None = None,
    fail_on_damage: bool | None = True,
    **rules: Unpack[Rules],
) -> Explanation:
    """Return every record of a group, or of one of its offsets, and a broker's answer, as ``kafkagroups.explain`` does.

    Parameters
    ----------
    path, session, master, fail_on_damage
        As in :func:`stats`. Rows of a DataFrame have no stops: select the rows instead. The files that the explanation
        names are those of the tasks.
    group, topic, partition, until, until_time, since_time, retention_ms
        As in ``kafkagroups.explain``.
    rules
        The rules of a ``kafkagroups.Topic``.

    Returns
    -------
    Explanation
        The records and the broker's answer, in the process that called this function.

    Raises
    ------
    UsageError
        As in ``kafkagroups.explain``, or the session does not start.
    """
    question = Question(topic, partition, since_time, retention_ms)
    if not isinstance(path, str | Path):
        if until is not None or until_time is not None:
            raise UsageError("rows have no place to stop at: select the rows before it")
        return _explain_rows(RowTables(path, Topic("", **rules)), group, question)
    source = open_topic(Topic(path, **rules), Stop(until, until_time))
    session = session or get_session(master)
    prepare(session)

    def explain_part(part: OpenTopic, whole: WholeTopic | None = None) -> FoundInLog[_Part]:
        groups, group_logs = load_group_logs(part, [group], whole)
        explanation = explain_log(groups, group_logs[group], question)
        found = _Part(explanation, groups.problems_by_partition, has_records=any(group_logs[group]))
        return found, groups.partitions.values(), groups.partitions_of

    parts, shared_logs, whole = run_for_each_log(session, source, explain_part, fail_on_damage)
    refuse_foreign_log(source, whole.partitions_of)
    logs = source.logs
    logs_of_group = [log for log, part in zip(logs, parts, strict=True) if part.has_records]
    # The logs of the group belong together even if a load does not get as far as its records, or does not use them.
    if len(logs_of_group) > 1:
        shared_logs = [log for log in logs if log in shared_logs or log in logs_of_group]
    if shared_logs:
        parts = [part for log, part in zip(logs, parts, strict=True) if log not in shared_logs]
        joint_part, *_ = explain_part(source.part(*shared_logs), whole)
        parts.append(joint_part)
        topic_partitions = joint_part.explanation.topic_partitions
    else:
        topic_partitions = whole.topic.decide(whole.partitions_of)
    return replace(_join_parts(parts, [log.partition for log in logs]), topic_partitions=topic_partitions)


def _join_parts(parts: list[_Part], partitions: list[int | None]) -> Explanation:
    """At most one part has records of the group."""
    answering_part = next((part for part in parts if part.has_records), parts[0])
    problems = {number: lines for part in parts for number, lines in part.problems.items()}
    found = {number: loaded for part in parts for number, loaded in part.explanation.partitions.items()}
    ordered = {number: found[number] for number in partitions}
    lines = [line for number in partitions for line in problems[number]]
    return replace(answering_part.explanation, problems=lines, partitions=ordered)
