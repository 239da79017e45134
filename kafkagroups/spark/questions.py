"""Questions about a whole topic that Spark's tasks answer: its statistics (`stats`), and a group's history (`explain`).

A task loads one log after another, and returns small results: counts, or the records of one group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from kafkagroups.errors import UsageError
from kafkagroups.history.explain import Explanation, explain_log
from kafkagroups.history.group_log import load_group_logs
from kafkagroups.history.passes import refuse_foreign_log
from kafkagroups.history.scan import CountedTopic, finish
from kafkagroups.history.stats import Stats, check_row_kind
from kafkagroups.history.timeline import Question
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.loading.partition_count import choose_log
from kafkagroups.log.segments import NO_STOP, Stop
from kafkagroups.records.dialects import DEFAULT_DIALECT
from kafkagroups.spark.kafka_rows import RowTables
from kafkagroups.spark.session import prepare, session as get_session
from kafkagroups.spark.tasks import open_topic, run_for_each_log
from kafkagroups.topic import Rules, Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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

    def count_alone(part: OpenTopic) -> tuple[Stats, Groups]:
        counted = CountedTopic(part, by)
        (stats_of_log,) = counted.read_stats()
        return stats_of_log, counted.groups

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
    question.check()
    if not isinstance(path, str | Path):
        if until is not None or until_time is not None:
            raise UsageError("rows have no place to stop at: select the rows before it")
        return _explain_rows(RowTables(path, Topic("", **rules)), group, question)
    source = open_topic(Topic(path, **rules), Stop(until, until_time))
    logs = source.logs
    session = session or get_session(master)
    prepare(session)

    def explain_part(part: OpenTopic, whole: WholeTopic | None = None) -> tuple[_Part, Groups]:
        groups, group_logs = load_group_logs(part, [group], whole)
        explanation = explain_log(groups, group_logs[group], question)
        return _Part(explanation, groups.problems_by_partition, has_records=any(group_logs[group])), groups

    def find_numbers() -> set[int | None]:
        parts, *_ = run_for_each_log(session, replace(source, stop=NO_STOP), explain_part, fail_on_damage)
        return {log.partition for log, part in zip(logs, parts, strict=True) if part.has_records}

    if until is not None and len(logs) > 1:
        source = source.part(*choose_log(logs, group, source.partitions, find_numbers, path=source.path))
    parts, shared_logs, whole = run_for_each_log(session, source, explain_part, fail_on_damage)
    refuse_foreign_log(source, whole.partitions_of)
    logs = source.logs
    logs_of_group = [log for log, part in zip(logs, parts, strict=True) if part.has_records]
    # The logs of the group belong together even if a load does not get as far as its records, or does not use them.
    if len(logs_of_group) > 1:
        shared_logs = [log for log in logs if log in shared_logs or log in logs_of_group]
    if shared_logs:
        parts = [part for log, part in zip(logs, parts, strict=True) if log not in shared_logs]
        joint_part, _ = explain_part(source.part(*shared_logs), whole)
        parts.append(joint_part)
        topic_partitions = joint_part.explanation.topic_partitions
    else:
        topic_partitions = whole.topic.decide(whole.partitions_of)
    return replace(_join_parts(parts, [log.partition for log in logs]), topic_partitions=topic_partitions)


def _join_parts(parts: list[_Part], partitions: list[int | None]) -> Explanation:
    """At most one part has records of the group."""
    answering_part = next((part for part in parts if part.has_records), parts[0])
    problems = {number: lines for part in parts for number, lines in part.problems.items()}
    joined: dict[str, Any] = {"problems": [line for number in partitions for line in problems[number]]}
    for name in ("next_offsets", "gaps", "damage"):
        found = {number: each for part in parts for number, each in getattr(part.explanation, name).items()}
        joined[name] = {number: found[number] for number in partitions if number in found}
    return replace(answering_part.explanation, **joined)
