"""Each question to a log as one function of a path, the question and the rules of a `Topic`; and tables for Polars.

A method of `Topic` explains the question, the result and the errors, and `Topic` itself the path and the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from kafkagroups.errors import UsageError
from kafkagroups.loading.columns import arrow_schema, columns_of
from kafkagroups.loading.groups import Groups
from kafkagroups.log.cleaner import CleanerConfig, Compaction, Progress
from kafkagroups.topic import Limits, Rules, Topic

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from kafkagroups.history.check import Check
    from kafkagroups.history.explain import Explanation
    from kafkagroups.history.replicas import Replicas
    from kafkagroups.history.stats import Stats
    from kafkagroups.history.timeline import Timeline
    from kafkagroups.html_report.page import Report
    from kafkagroups.repair.apply_plan import ApplyOptions, RescueRow
    from kafkagroups.repair.plan import RescuePlan


def load(
    path: str | Path,
    coordinator: str | None = None,
    kafka: str | None = None,
    *,
    until: int | None = None,
    until_time: int | None = None,
    progress: Progress | None = None,
    **rules: Unpack[Limits],
) -> Groups:
    """Return the groups that a coordinator has after loading a log, as `Topic.load` does.

    Examples
    --------
    >>> load("data/harbour/3.9.2", "classic")["billing"].generation
    6
    """
    return Topic(path, coordinator, kafka, **rules).load(until=until, until_time=until_time, progress=progress)


def explain(
    path: str | Path,
    group: str,
    topic: str | None = None,
    partition: int | None = None,
    *,
    until: int | None = None,
    until_time: int | None = None,
    since_time: int | None = None,
    retention_ms: int | None = None,
    **rules: Unpack[Rules],
) -> Explanation:
    """Return every record of a group, or of some of its offsets, and a broker's answer, as `Topic.explain` does."""
    options = {"until": until, "until_time": until_time, "since_time": since_time, "retention_ms": retention_ms}
    return Topic(path, **rules).explain(group, topic, partition, **options)


def timeline(
    path: str | Path,
    group: str,
    *,
    all: bool = False,
    topic: str | None = None,
    since_time: int | None = None,
    until_time: int | None = None,
    retention_ms: int | None = None,
    **rules: Unpack[Rules],
) -> Timeline:
    """Return the history of a group as events, as `Topic.timeline` does."""
    times = {"since_time": since_time, "until_time": until_time, "retention_ms": retention_ms}
    return Topic(path, **rules).timeline(group, all=all, topic=topic, **times)


def stats(path: str | Path, by: str = "group", **rules: Unpack[Rules]) -> Stats:
    """Return what a log contains and what makes it large, as `Topic.stats` does."""
    return Topic(path, **rules).stats(by)


def check(
    path: str | Path,
    coordinator: str | None = None,
    kafka: str | None = None,
    *,
    to: str | None = None,
    to_coordinator: str | None = None,
    **rules: Unpack[Limits],
) -> Check:
    """Return the verdict before a failover, an upgrade or a downgrade, as `Topic.check` does."""
    return Topic(path, coordinator, kafka, **rules).check(to=to, to_coordinator=to_coordinator)


def compact(
    path: str | Path,
    out: str | Path,
    config: CleanerConfig | None = None,
    *,
    progress: Progress | None = None,
    **rules: Unpack[Rules],
) -> Compaction:
    """Write the segments that one partition would have after one pass of the log cleaner, as `Topic.compact` does."""
    return Topic(path, **rules).compact(out, config, progress=progress)


def plan_rescue(
    path: str | Path,
    coordinator: str | None = None,
    kafka: str | None = None,
    *,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    renames: Mapping[str, str] | None = None,
    until_time: int | None = None,
    progress: Progress | None = None,
    **rules: Unpack[Limits],
) -> RescuePlan:
    """Return a plan to restore groups in another cluster, as `Topic.plan_rescue` does."""
    topic = Topic(path, coordinator, kafka, **rules)
    return topic.plan_rescue(groups=groups, topics=topics, renames=renames, until_time=until_time, progress=progress)


def record_table(
    path: str | Path, table: str = "fates", columns: Iterable[str] | None = None, **rules: Unpack[Rules]
) -> pa.RecordBatchReader:
    """Return a table of the logs at a path, as Arrow record batches, as `Topic.table` does."""
    return Topic(path, **rules).table(table, columns)


def scan(path: str | Path, table: str = "offsets", **rules: Unpack[Rules]) -> pl.LazyFrame:
    """Return a table of the logs at a path, as `Topic.table` does, as a LazyFrame of Polars.

    The log is read when a query runs, with only the columns that the query needs. Then it raises the errors; that there
    is no such table, it says at once.

    Examples
    --------
    >>> groups = scan("data/harbour/3.9.2", "groups", coordinator="classic")
    >>> groups.select("group", "state").sort("group").head(1).collect().rows()
    [('billing', 'Stable')]
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    topic = Topic(path, **rules)
    empty = arrow_schema(columns_of(table)).empty_table()

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        for batch in topic.table(table, columns):
            frame = pl.DataFrame(batch)
            frame = frame if predicate is None else frame.filter(predicate)
            yield frame if n_rows is None else frame.head(n_rows)
            n_rows = None if n_rows is None else max(0, n_rows - len(frame))
            if n_rows == 0:
                return

    return register_io_source(read, schema=pl.DataFrame(empty).schema)


def diff(a: Groups, b: Groups) -> dict[str, dict[str, Any]]:
    """Return the differences between two loads: from two logs, from one log at two times, or from two coordinators.

    The result is `{"groups": {group: [a, b]}, "offsets": {group: {topic-partition: [a, b]}}, "pending": …}`, with
    differences only. The values are in the form of `load --json`; None means that this load has no such group or
    offset.

    Examples
    --------
    >>> path = "data/harbour/3.9.2/__consumer_offsets-9"
    >>> sorted(diff(load(path, "classic", until=41), load(path, "classic"))["offsets"])
    ['billing']
    """
    from kafkagroups.history.replicas import compare

    return compare(a, b)


def compare_replicas(
    a: str | Path, b: str | Path, *, until: int | None = None, until_time: int | None = None, **rules: Unpack[Rules]
) -> Replicas:
    """Compare the replicas at two paths, which are read with the same rules, as `Topic.diff` does."""
    first, second = (Topic(path, **rules) for path in (a, b))
    return first.diff(second, until=until, until_time=until_time)


def report(path: str | Path | Sequence[str | Path], out: str | Path | None = None, **rules: Unpack[Rules]) -> Report:
    """Return a report on one or more logs: one HTML page, which makes no request to any host and runs no script.

    The page begins with the findings of `stats` and `check` and their remedies. Then it shows what stands out in the
    history of the groups, and their offsets. Of large tables, it has only the first rows, and says so.

    Each path is an independent log; `compare_replicas` compares two replicas. An existing file `out` is replaced.
    `Report.findings` and `Report.problems` are those of all paths. Raises UsageError as in `Topic`, or if there is no
    path, or `out` is a folder or a segment of one of the logs.

    Examples
    --------
    >>> [finding.kind for finding in report("data/harbour/3.9.2", coordinator="classic").findings]
    ['early_expiry']
    """
    from kafkagroups.html_report.page import report_on

    paths = [path] if isinstance(path, (str, Path)) else list(path)
    if not paths:
        raise UsageError("path: expected at least one path, found none")
    return report_on([Topic(one_path, **rules).open() for one_path in paths], out)


def apply_rescue(plan: RescuePlan | str | Path, bootstrap: str, **options: Unpack[ApplyOptions]) -> list[RescueRow]:
    """Compare a rescue plan with a cluster, and commit the offsets that differ if `writes` is true.

    The offsets only fit topics whose records kept their offsets. Each group's coordinator gets an OffsetCommit request,
    without a membership and without a leader epoch. The extra `live` is needed.

    Parameters
    ----------
    plan
        The result of `plan_rescue`, or the path of a file that `kafkagroups rescue plan` has written.
    bootstrap
        HOST:PORT of a broker, or of several brokers, separated by commas.
    out_of_range
        What to do with an offset below the log start offset or beyond the log end offset of its partition: "refuse" the
        offset, "clamp" it to the nearest offset of the log, or "skip" it.
    security
        The security settings of the connections (kafkagroups.repair.client). None means PLAINTEXT.
    max_wait, on_wait
        The limit of all waits together, in seconds, and what is called with a message about a wait that is longer than
        about two seconds. The time of a response that answers a request is not a wait.

    Returns, for each offset of the plan, what the cluster had, and whether the offset was set, was the same, or was
    refused and why: a refused offset raises no exception. Raises UsageError if the plan is malformed, kafka-python is
    not installed, no broker responds, or a parameter is wrong.
    """
    # Imported here, because most programs that import this package apply no plan.
    from kafkagroups.repair.apply_plan import apply_plan
    from kafkagroups.repair.plan import RescuePlan, read_plan

    return list(apply_plan(plan if isinstance(plan, RescuePlan) else read_plan(plan), bootstrap, **options))
