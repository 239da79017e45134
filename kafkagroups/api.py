"""The public functions `load`, `explain`, `diff`, `stats`, `compact` and others, and tables as Arrow data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkagroups.errors import UsageError
from kafkagroups.groups.shard import ignore_bytes
from kafkagroups.loading.engines import choose_engine
from kafkagroups.loading.group_choice import has_wildcard, match_groups
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import load_logs, open_for_load
from kafkagroups.loading.progress import ByteProgress
from kafkagroups.log.cleaner import CleanerConfig, Compaction, clean
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.folders import open_logs
from kafkagroups.log.log_to_clean import Progress
from kafkagroups.log.offset_map import DEFAULT_CAPACITY
from kafkagroups.log.segment_file import SEGMENT_BYTES
from kafkagroups.log.segments import Buffers, Log, log_of_buffers
from kafkagroups.log.stop import Stop
from kafkagroups.records import dialects
from kafkagroups.repair.connection import MAX_WAIT_SECONDS, ignore_report
from kafkagroups.tables.arrow import read_table
from kafkagroups.tables.columns import arrow_schema, columns_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkagroups.history.check import Check
    from kafkagroups.history.explain import Explanation
    from kafkagroups.history.replicas import Replicas
    from kafkagroups.history.stats import Stats
    from kafkagroups.history.timeline import Timeline
    from kafkagroups.repair.apply import RescueRow
    from kafkagroups.repair.connection import Security
    from kafkagroups.repair.plan import RescuePlan
    from kafkagroups.report.make_report import Report


def load(
    path: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    partitions: int | None = None,
    until: int | None = None,
    until_time: int | None = None,
    engine: str = "auto",
    threads: int = 0,
    progress: Progress | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    past_damage: bool = False,
) -> Groups:
    """Return the groups that a coordinator has after loading a log.

    Parameters
    ----------
    path
        A partition directory, one .log file, or a folder of partition directories (the log folder of one broker).
    coordinator
        "classic" (Kafka up to 3.9) or "new" (from 4.0 on).
    kafka
        The version of the coordinator, for example "3.9.2". None means "3.9.2" for the classic coordinator, and "4.3.1"
        for the new coordinator.
    partitions
        The partition count of `__consumer_offsets`. With this number, the new coordinator ignores records of a group
        outside the partition that `partition_for` returns for the group.
    until
        Read only batches whose base offset is below this offset. `path` must then be one partition. A batch is read as
        a whole, so the last batch can contain records with larger offsets. None means that there is no limit.
    until_time
        In each partition, stop before the first batch that contains a timestamp after this time (ms since the epoch).
        None means that there is no limit.
    engine
        "python" is the readable engine. "compiled" is the native engine, which is fast and must be installed. "auto"
        is the native engine if it is installed. Both give the same result.
    threads
        How many partitions are loaded at the same time: by threads of the native engine, or by as many processes of the
        readable engine, which uses only one for logs below 16 MiB together. 0 means as many as the machine has
        CPUs.
    progress
        A function that is called with "loading", the number of bytes read, and the total number of bytes. The call can
        come from any thread.
    max_batch_bytes
        The largest size of a decompressed batch. The log ends before a larger batch, as if it were damaged. No broker
        writes a batch above the default, 256 MiB.
    past_damage
        Go on at the next batch with a correct checksum and a higher offset after damaged bytes. `gaps` of a partition
        names the skipped bytes. The default, False, gives the answers of a broker, whose recovery cuts the log there.

    Returns
    -------
    Groups
        A mapping of group ids to groups. If a broker's load of a partition would fail, `load` raises no exception.
        `Groups.partitions` and `Groups.problems` contain the reason.

    Raises
    ------
    UsageError
        There is no such path, coordinator, version or engine; there is no log at the path; two folders have the same
        partition number; or a number is out of range.

    Notes
    -----
    Kafka's code: GroupMetadataManager.doLoadGroupsAndOffsets (classic, 3.9.2), CoordinatorLoaderImpl (new, 4.3.1).

    Examples
    --------
    >>> groups = load("data/harbour/3.9.2", coordinator="classic")
    >>> groups["billing"].state.value, groups["billing"].generation
    ('Stable', 6)
    """
    logs, dialect = open_for_load(
        path, coordinator, kafka, partitions, until, max_batch_bytes=max_batch_bytes, past_damage=past_damage
    )
    return load_logs(
        logs,
        dialect,
        str(path),
        partitions=partitions,
        stop=Stop(until, until_time),
        engine=choose_engine(engine),
        threads=threads,
        count_bytes=ByteProgress(progress, sum(log.size for log in logs)) if progress else ignore_bytes,
    )


def explain(
    path: str | Path,
    group: str,
    topic: str | None = None,
    partition: int | None = None,
    *,
    coordinator: str = "new",
    kafka: str | None = None,
    partitions: int | None = None,
    until: int | None = None,
    until_time: int | None = None,
    since_time: int | None = None,
    retention_ms: int | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    past_damage: bool = False,
    engine: str = "auto",
) -> Explanation:
    """Return every record of a group, or of some of its offsets, and what a broker would answer after a load.

    Parameters
    ----------
    path, coordinator, kafka, partitions, until_time, max_batch_bytes, past_damage, engine
        As in `load`.
    group
        The group's id.
    topic, partition
        A topic, and optionally one of its partitions: only the records of the group's offsets for this topic or
        partition. None means all records of the group.
    until
        As in `load`. In a folder of several partitions, only the partition with the group's records is read.
    since_time
        Return only records with this timestamp or a later one (ms since the epoch). The fates and the answer are those
        of the whole log.
    retention_ms
        The broker's offsets.retention.minutes, in ms. It decides when offsets without an expire timestamp expire. None
        means that only offsets with an expire timestamp are in `expires_next`.

    Returns
    -------
    Explanation
        The records and the broker's answer. Each record has a fate (what happened to it), for example "superseded".

    Raises
    ------
    UsageError
        As in `load`, or `partition` was given without `topic`, or with `until`, the records of the group are not in
        exactly one partition.

    Examples
    --------
    >>> story = explain("data/harbour/3.9.2", "billing", "orders", 0, coordinator="classic")
    >>> [(record.offset, record.fate.value) for record in story.history][-2:]
    [(37, 'superseded'), (42, 'wins')]
    """
    from kafkagroups.history.explain import Question, explain_group

    question = Question(group, topic, partition, since_time, retention_ms)
    question.check()
    logs, dialect = open_for_load(
        path, coordinator, kafka, partitions, max_batch_bytes=max_batch_bytes, past_damage=past_damage
    )
    return explain_group(
        logs,
        dialect,
        question,
        engine=engine,
        path=str(path),
        partitions=partitions,
        stop=Stop(until, until_time),
    )


def find_groups(
    path: str | Path,
    pattern: str,
    *,
    coordinator: str = "new",
    kafka: str | None = None,
    partitions: int | None = None,
    until_time: int | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    past_damage: bool = False,
    engine: str = "auto",
) -> list[str]:
    """Return the ids of the groups that a pattern matches, for `explain`.

    Parameters
    ----------
    path, coordinator, kafka, partitions, until_time, max_batch_bytes, past_damage, engine
        As in `load`.
    pattern
        A group id, or a pattern in which * stands for any characters and ? for one character. If a group has exactly
        this id, the text is no pattern.

    Returns
    -------
    list of str
        The group ids, sorted. If no group matches, the list contains only `pattern`.

    Raises
    ------
    UsageError
        As in `load`.

    Examples
    --------
    >>> find_groups("data/harbour/3.9.2", "*il*", coordinator="classic")
    ['billing', 'mailer']
    """
    if not has_wildcard(pattern):
        return [pattern]
    groups = load(
        path,
        coordinator,
        kafka,
        partitions=partitions,
        until_time=until_time,
        max_batch_bytes=max_batch_bytes,
        past_damage=past_damage,
        engine=engine,
    )
    return match_groups(groups.partitions_of, pattern)


def timeline(
    path: str | Path,
    group: str,
    *,
    coordinator: str = "new",
    kafka: str | None = None,
    partitions: int | None = None,
    all: bool = False,
    topic: str | None = None,
    since_time: int | None = None,
    until_time: int | None = None,
    retention_ms: int | None = None,
    past_damage: bool = False,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    engine: str = "auto",
) -> Timeline:
    """Return the history of a group as events: generations, commits, rewinds, transactions, deletions and gaps.

    Parameters
    ----------
    path, coordinator, kafka, partitions, until_time, past_damage, max_batch_bytes, engine
        As in `load`.
    group
        The group's id.
    all
        Also return the commits that only move an offset forward, and the steps of members towards a new assignment.
    topic
        Return only the events of the group's offsets for this topic.
    since_time
        Return only events with this timestamp or a later one, in ms since the epoch. Gaps have no timestamp.
    retention_ms
        The broker's offsets.retention.minutes, in ms. It decides whether a deleted offset had expired. None: not known.

    Returns
    -------
    Timeline
        `Timeline.events` are the events in the order of the log. `Timeline.to_json()` returns them as JSON, and
        `Timeline.events_frame()` as a pandas DataFrame. If the log has no record of the group, there are no events.
        `Timeline.positions` are the committed offsets at the end of the log, with their last moves and their members.

    Raises
    ------
    UsageError
        As in `load`.

    Notes
    -----
    The events come from the records of the group. The log cleaner removes records that newer records supersede. An
    event "gap" says where records are missing, and which records of the group can be among them.

    Examples
    --------
    >>> history = timeline("data/harbour/3.9.2", "billing", coordinator="classic")
    >>> [event.what for event in history.events if event.event == "generation"][0]
    'Generation 1 (range): billing-1 (127.0.0.1) joined, 1 member.'
    """
    from kafkagroups.history.timeline import build_timeline

    logs, dialect = open_for_load(
        path, coordinator, kafka, partitions, max_batch_bytes=max_batch_bytes, past_damage=past_damage
    )
    return build_timeline(
        logs,
        dialect,
        group,
        engine=engine,
        path=str(path),
        partitions=partitions,
        shows_all=all,
        stop=Stop(None, until_time),
        since_time=since_time,
        topic=topic,
        retention_ms=retention_ms,
    )


def diff(a: Groups, b: Groups) -> dict[str, dict[str, Any]]:
    """Return the differences between two loads.

    Parameters
    ----------
    a, b
        Two results of `load`: from two logs, from one log at two times, or from two coordinators.

    Returns
    -------
    dict
        `{"groups": {group: [a, b]}, "offsets": {group: {topic-partition: [a, b]}}, "pending": …}`. It contains only
        differences. A pair has the value in load `a` and the value in load `b`, in the form of `load --json`. None in
        a pair means that this load does not contain the group or the offset.

    Examples
    --------
    >>> path = "data/harbour/3.9.2/__consumer_offsets-9"
    >>> sorted(diff(load(path, "classic", until=41), load(path, "classic"))["offsets"])
    ['billing']
    """
    from kafkagroups.history.diff import compare

    return compare(a, b)


def compare_replicas(
    a: str | Path,
    b: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    partitions: int | None = None,
    until: int | None = None,
    until_time: int | None = None,
    engine: str = "auto",
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Replicas:
    """Compare two replicas: where they fork, what was lost after the fork, and what later records healed.

    Parameters
    ----------
    a, b
        Two partition directories, .log files, or folders of partition directories, as in `load`. Partitions with the
        same number are compared as replicas.
    coordinator, kafka, partitions, until, until_time, engine, max_batch_bytes
        As in `load`, for both paths.

    Returns
    -------
    Replicas
        `Replicas.differences` is the result of `diff`. `Replicas.forks` has the fork of each partition whose logs
        differ. `Replicas.to_json()` returns what `kafkagroups diff A B --json` prints.

    Raises
    ------
    UsageError
        As in `load`.

    Examples
    --------
    >>> path = "data/harbour/3.9.2/__consumer_offsets-9"
    >>> compare_replicas(path, path).forks
    {}
    """
    from kafkagroups.history import replicas

    loads = []
    logs = []
    for path in (a, b):
        side, dialect = open_for_load(path, coordinator, kafka, partitions, until, max_batch_bytes=max_batch_bytes)
        chosen = choose_engine(engine)
        stop = Stop(until, until_time)
        loads.append(load_logs(side, dialect, str(path), partitions=partitions, stop=stop, engine=chosen))
        logs.append(side)
    return replicas.compare_replicas(
        (logs[0], logs[1]), (loads[0], loads[1]), dialect, partitions=partitions, stop=stop, engine=chosen
    )


def stats(
    path: str | Path,
    by: str = "group",
    *,
    coordinator: str = "new",
    kafka: str | None = None,
    partitions: int | None = None,
    engine: str = "auto",
    threads: int = 0,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    past_damage: bool = False,
) -> Stats:
    """Return counts that show what a log contains and what makes it large.

    Parameters
    ----------
    path, coordinator, kafka, partitions, engine, threads, max_batch_bytes, past_damage
        As in `load`.
    by
        What each row of the result stands for: a "group", "topic", "type" (of record), "partition", or "writer". A
        writer is the commits of a group with the same leader epoch, transactional bit and number of records in a batch
        (``Stats.writers``). To find the writers, the log is read a second time, in plain Python.

    Returns
    -------
    Stats
        `Stats.partitions` has the counts of each partition. `Stats.rows` has the counts of each group, topic, type or
        partition.

    Raises
    ------
    UsageError
        As in `load`, or `by` has another value.

    Examples
    --------
    >>> stats("data/harbour/3.9.2/__consumer_offsets-9", coordinator="classic").partitions[9].next_offset
    44
    """
    from kafkagroups.history.count_logs import count_logs
    from kafkagroups.history.stats import check_row_kind

    check_row_kind(by)
    logs, dialect = open_for_load(
        path, coordinator, kafka, partitions, max_batch_bytes=max_batch_bytes, past_damage=past_damage
    )
    return count_logs(logs, dialect, by, engine=engine, path=str(path), partitions=partitions, threads=threads)


def check(
    path: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    partitions: int | None = None,
    to: str | None = None,
    to_coordinator: str | None = None,
    engine: str = "auto",
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Check:
    """Return the verdict before a failover, or before an upgrade: which partitions load, which fail, and why.

    Parameters
    ----------
    path, coordinator, kafka, partitions, engine, max_batch_bytes
        As in `load`.
    to
        The Kafka version after an upgrade or a downgrade, for example "4.3.1". The verdict is then about this version,
        and the findings name what differs from `kafka`. None: no other version is judged.
    to_coordinator
        The coordinator after the upgrade or the downgrade. None means "new" from Kafka 4.0 on. Before, it means the
        coordinator of `kafka` if this is also below 4.0, and otherwise "classic".

    Returns
    -------
    Check
        `Check.loads` says whether every partition loads. `Check.partitions` has the verdict about each partition.
        `Check.findings` say what is wrong, and what to do. `Check.to_json()` returns what `kafkagroups check --json`
        prints.

    Raises
    ------
    UsageError
        As in `load`, or `to_coordinator` was given without `to`.

    Notes
    -----
    With `to`, a difference is what a client sees if it sends the same request to brokers of both versions:

    - Kafka 4.4 also returns the name of a streams group's assignor, in a new version of the answer. The old version of
      the answer stays the same, so this is no difference.
    - Kafka 4.3 and newer return the partitions that a member of a consumer group has not revoked yet as assigned to it.
      This is a difference. If a topic was deleted, no broker returns its partitions, but a log does not say so.
    - A group without a record of its epoch has epoch 0 before Kafka 4.3, and epoch 1 from 4.3 on. This is a difference.

    Examples
    --------
    >>> verdict = check("data/harbour/3.9.2", coordinator="classic")
    >>> verdict.loads, verdict.findings
    (True, [])
    """
    from kafkagroups.history.check import check_logs, choose_target

    logs, dialect = open_for_load(path, coordinator, kafka, partitions, max_batch_bytes=max_batch_bytes)
    target = choose_target(dialect, to, to_coordinator)
    return check_logs(logs, dialect, str(path), target=target, partitions=partitions, engine=engine)


def report(
    path: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    coordinator: str = "new",
    kafka: str | None = None,
    partitions: int | None = None,
    engine: str = "auto",
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Report:
    """Return a report on one or more logs: one HTML page, which makes no request to any host and runs no script.

    The page begins with the findings of `stats` and `check` and their remedies. Then it shows what stands out in the
    history of groups, open transactions, damage, growth, live and dead bytes, writers, load times, and the groups.

    Parameters
    ----------
    path
        A path as in `load`, or several paths. Each path is an independent log. If two paths are replicas that fork, the
        page begins with their comparison (`compare_replicas`).
    out
        The file to write. An existing file is replaced. None: no file is written.
    coordinator, kafka, partitions, engine, max_batch_bytes
        As in `load`.

    Returns
    -------
    Report
        `Report.html` is the page. `Report.findings` and `Report.problems` are those of all paths.

    Raises
    ------
    UsageError
        As in `load`, or there is no path, or `out` is a folder or a segment of one of the logs.

    Notes
    -----
    Large tables contain only their first rows, and say so. To count what remains after a pass of the log cleaner, the
    function writes the result of the pass into a temporary folder, unless the pass would read more than 256 MiB.

    Examples
    --------
    >>> report("data/harbour/3.9.2", coordinator="classic").findings
    []
    """
    from kafkagroups.report.make_report import LogsOfPath, check_out, make_report, write_report

    paths = [path] if isinstance(path, (str, Path)) else list(path)
    if not paths:
        raise UsageError("path: expected at least one path, found none")
    sources = []
    for one_path in paths:
        logs, dialect = open_for_load(one_path, coordinator, kafka, partitions, max_batch_bytes=max_batch_bytes)
        sources.append(LogsOfPath(str(one_path), logs))
    if out is not None:
        check_out(Path(out), sources)
    result = make_report(sources, dialect, partitions=partitions, engine=engine)
    if out is not None:
        write_report(result, Path(out))
    return result


def compact(
    path: str | Path,
    out: str | Path,
    *,
    now_ms: int | None = None,
    delete_retention_ms: int = 86_400_000,
    first_dirty: int | None = None,
    first_uncleanable: int | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    map_entries: int | None = None,
    producer_expiration_ms: int = 86_400_000,
    engine: str = "auto",
    progress: Progress | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Compaction:
    """Write the segments that one partition would have after one pass of Kafka's log cleaner.

    Parameters
    ----------
    path
        One partition, as in `load`. Its files are not changed.
    out
        A new or empty folder, into which all segments of the log after the pass are written.
    now_ms
        The time of the pass, in ms since the epoch. None means the newest timestamp in the log.
    delete_retention_ms
        The time in ms for which tombstones and markers stay after the first pass that reads them
        (delete.retention.ms).
    first_dirty
        The first offset that no earlier pass has cleaned. None means the start of the log.
    first_uncleanable
        The pass stops at the start of the segment that contains this offset. None means the first offset of the active
        (newest) segment or of the oldest open transaction, whichever is smaller.
    segment_bytes
        The pass merges small segments into one segment of at most this number of bytes.
    map_entries
        The largest number of keys in the offset map, in which the cleaner stores the newest offset of each key. None
        means as many as in a broker with the default settings.
    producer_expiration_ms
        The cleaner keeps the last batch of an active producer. A producer is not active if its last batch is older than
        this number of ms. -1 means that all producers are active.
    engine
        As in `load`. There is one cleaner, so this changes nothing.
    progress
        A function that is called with the name of a step, the number of bytes that the step has read, and the number
        of bytes that the step will read in total.
    max_batch_bytes
        As in `load`.

    Returns
    -------
    Compaction
        Counts before and after the pass, and the offset at which the next pass starts.

    Raises
    ------
    UsageError
        The path does not exist or has several partitions, `out` is not empty, or a number is out of range.
    InvalidLog, InvalidRecord
        Kafka's cleaner would fail at this log, too. `out` stays empty. A damaged batch, for example with a wrong
        checksum, raises no error: as in a broker's recovery, the log ends before this batch.

    Notes
    -----
    Kafka's code: Cleaner and LogCleanerManager (4.3.1).
    """
    logs = open_logs(path)
    if len(logs) > 1:
        raise UsageError(f"compaction needs one partition, but {path} has {len(logs)}")
    config = CleanerConfig(
        now_ms,
        delete_retention_ms,
        first_dirty,
        first_uncleanable,
        segment_bytes,
        DEFAULT_CAPACITY if map_entries is None else map_entries,
        producer_expiration_ms,
    )
    log = logs[0].limit_batches(max_batch_bytes)
    choose_engine(engine)  # One cleaner serves all engines: only the name is checked.
    return clean(log, Path(out), config, progress)


def plan_rescue(
    path: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    renames: Mapping[str, str] | None = None,
    partitions: int | None = None,
    until_time: int | None = None,
    progress: Progress | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    past_damage: bool = False,
    engine: str = "auto",
) -> RescuePlan:
    """Return a plan to restore the groups of a dead or damaged cluster in another cluster.

    The plan lists the committed offsets of each group, exactly as `load` returns them, and the commits that are left
    out: pending, aborted, hidden and others. Nothing is sent to a cluster.

    Parameters
    ----------
    path, coordinator, kafka, partitions, until_time, progress, max_batch_bytes, past_damage, engine
        As in `load`. The native engine is not used with `until_time`.
    groups
        Group ids, or patterns in which * stands for any characters and ? for one character. Only groups that match one
        of them are in the plan. Empty: all groups.
    topics
        Topics, or patterns as in `groups`. The offsets of other topics are left out. Empty: all topics.
    renames
        The ids that groups get in the other cluster, by their ids in the log.

    Returns
    -------
    RescuePlan
        The plan. `RescuePlan.to_json()` returns what `kafkagroups rescue plan` writes into a file.
        `RescuePlan.problems` has a line for each partition that is damaged, and for each whose load fails.

    Raises
    ------
    UsageError
        As in `load`, or a pattern matches nothing, or a group to rename does not exist, or two groups would have the
        same id.

    Examples
    --------
    >>> plan = plan_rescue("data/harbour/3.9.2", coordinator="classic")
    >>> sorted(plan.groups)[:2], len(plan.groups["billing"].offsets)
    (['billing', 'café-☕'], 5)
    """
    from kafkagroups.repair.make_plan import Selection, make_plan

    logs, dialect = open_for_load(
        path, coordinator, kafka, partitions, max_batch_bytes=max_batch_bytes, past_damage=past_damage
    )
    return make_plan(
        logs,
        dialect,
        Selection(str(path), groups, topics, renames or {}),
        partitions=partitions,
        stop=Stop(None, until_time),
        engine=engine,
        count_bytes=ByteProgress(progress, sum(log.size for log in logs)) if progress else ignore_bytes,
    )


def apply_rescue(
    plan: RescuePlan | str | Path,
    bootstrap: str,
    *,
    writes: bool = False,
    out_of_range: str = "refuse",
    security: Security | None = None,
    max_wait: float = MAX_WAIT_SECONDS,
    on_wait: Callable[[str], None] = ignore_report,
) -> list[RescueRow]:
    """Compare a rescue plan with a cluster, and commit the offsets that differ if `writes` is true.

    The offsets only fit topics whose records kept their offsets. Each offset is committed by an OffsetCommit request to
    the group's coordinator, without a membership and without a leader epoch. The extra `live` is needed.

    Parameters
    ----------
    plan
        The result of `plan_rescue`, or the path of a file that `kafkagroups rescue plan` has written.
    bootstrap
        HOST:PORT of a broker, or of several brokers, separated by commas.
    writes
        Whether offsets are committed. False: only compare.
    out_of_range
        What to do with an offset below the log start offset or beyond the log end offset of its partition: "refuse" the
        offset, "clamp" it to the nearest offset of the log, or "skip" it.
    security
        The security settings of the connections (kafkagroups.repair.connection). None means PLAINTEXT.
    max_wait
        The limit of all waits together, in seconds. The time of a response that answers a request is not a wait.
    on_wait
        Called with a message that says what is waited for, if a wait is longer than about two seconds.

    Returns
    -------
    list of RescueRow
        A row for each offset of the plan: what the cluster had, and whether the offset was set, was the same, or was
        refused and why. A refused offset raises no exception.

    Raises
    ------
    UsageError
        The plan is malformed, kafka-python is not installed, no broker responds, or a parameter is wrong.
    """
    # Imported here, because most programs that import this package apply no plan.
    from kafkagroups.repair.apply import apply_plan
    from kafkagroups.repair.plan import RescuePlan, read_plan

    checked = plan if isinstance(plan, RescuePlan) else read_plan(plan)
    return list(
        apply_plan(
            checked,
            bootstrap,
            writes=writes,
            out_of_range=out_of_range,
            security=security,
            max_wait=max_wait,
            on_wait=on_wait,
        )
    )


def load_table(
    buffers: Buffers | Log,
    *,
    table: str = "offsets",
    coordinator: str = "new",
    kafka: str | None = None,
    partition: int | None = None,
    partitions: int | None = None,
    columns: Iterable[str] | None = None,
    engine: str = "auto",
    max_batch_bytes: int | None = None,
) -> pa.RecordBatchReader:
    """Load one partition, and return one of its tables as Arrow record batches.

    Spark's data source uses this function. The order of the rows is not defined.

    Parameters
    ----------
    buffers
        The segments of the partition, in one of three forms:
        - pairs of a file name and the bytes (or memory map) of the segment, in order;
        - a mapping of file names to bytes, from which one segment is read at a time;
        - a log that `open_log` returned.
    table
        "records", "fates", "offsets", "pending", "groups", "members", "partitions" or "ids". The table "ids" contains
        the ids of all groups that have records.
    coordinator, kafka, partitions, engine
        As in `load`.
    max_batch_bytes
        As in `load`. None means the default of `load`, but if `buffers` is a log, the limit of this log.
    partition
        The number of the partition; None if it is not known. If `buffers` is a log, this parameter is not used.
    columns
        The columns to return, in this order. None means all columns.

    Returns
    -------
    pyarrow.RecordBatchReader
        The record batches. `.read_all()` returns them as one pyarrow.Table. If the bytes are damaged or a broker's load
        would fail, the table "partitions" has the reason.

    Raises
    ------
    UsageError
        There is no segment, or there is no such table, column, coordinator, version or engine.

    Examples
    --------
    >>> path = "data/harbour/3.9.2/__consumer_offsets-9/00000000000000000000.log"
    >>> batches = load_table([(path, Path(path).read_bytes())], table="groups", coordinator="classic", partition=9)
    >>> batches.read_all().select(["group", "state", "generation"]).to_pylist()[0]
    {'group': 'billing', 'state': 'Stable', 'generation': 6}
    """
    import pyarrow as pa

    from kafkagroups.history.fate_table import read_fate_table, read_record_table

    selected_columns = columns_of(table, columns)
    dialect = dialects.dialect(coordinator, kafka)
    log = buffers if isinstance(buffers, Log) else log_of_buffers(buffers, partition)
    if max_batch_bytes is not None:
        log = log.limit_batches(max_batch_bytes)
    chosen_engine = choose_engine(engine)
    if table == "records":
        batches = read_record_table(log, dialect, selected_columns, chosen_engine)
    elif table == "fates":
        batches = read_fate_table([log], dialect, selected_columns, chosen_engine, partitions=partitions)
    else:
        groups = load_logs([log], dialect, partitions=partitions, engine=chosen_engine)
        return read_table(groups, table, [column.name for column in selected_columns])
    return pa.RecordBatchReader.from_batches(arrow_schema(selected_columns), batches)


def record_table(
    path: str | Path,
    table: str = "fates",
    *,
    coordinator: str = "new",
    kafka: str | None = None,
    partitions: int | None = None,
    columns: Iterable[str] | None = None,
    engine: str = "auto",
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> pa.RecordBatchReader:
    """Return a table with a row for each record of the logs at a path, as Arrow record batches.

    One batch is made at a time. `.read_pandas()` of the result returns a pandas DataFrame, and
    `pyarrow.dataset.write_dataset` writes it as Parquet.

    Parameters
    ----------
    path, coordinator, kafka, partitions, engine, max_batch_bytes
        As in `load`.
    table
        "fates": each record and its fate, i.e. what happened to the record when the logs were loaded. "records": each
        record with the bytes of its key and value, and with Kafka's JSON.
    columns
        The columns to return, in this order. None means all columns. The column "json" takes longer than all others
        together.

    Returns
    -------
    pyarrow.RecordBatchReader
        The rows, in the order of the logs.

    Raises
    ------
    UsageError
        As in `load`, or there is no such table or column.

    Examples
    --------
    >>> reader = record_table("data/harbour/3.9.2", coordinator="classic", columns=["offset", "group", "fate", "by"])
    >>> reader.read_all().to_pylist()[0]["fate"]
    'superseded'
    """
    import pyarrow as pa

    from kafkagroups.history.fate_table import RECORD_TABLES, read_fate_table, read_record_table

    if table not in RECORD_TABLES:
        raise UsageError(f"no table {table!r} of records: choose one of {', '.join(RECORD_TABLES)}")
    selected_columns = columns_of(table, columns)
    logs, dialect = open_for_load(path, coordinator, kafka, partitions, max_batch_bytes=max_batch_bytes)
    chosen_engine = choose_engine(engine)
    if table == "fates":
        batches = read_fate_table(logs, dialect, selected_columns, chosen_engine, path=str(path), partitions=partitions)
    else:
        batches = chain.from_iterable(read_record_table(log, dialect, selected_columns, chosen_engine) for log in logs)
    return pa.RecordBatchReader.from_batches(arrow_schema(selected_columns), batches)


def loaded_columns(groups: Groups, table: str) -> pa.RecordBatchReader:
    """Return one table of loaded groups as Arrow record batches.

    Parameters
    ----------
    groups
        The result of `load`.
    table
        The name of a table as in `load_table`, except "records" and "fates".

    Returns
    -------
    pyarrow.RecordBatchReader
        The record batches. `.read_all()` returns them as one pyarrow.Table.

    Raises
    ------
    UsageError
        There is no such table.
    """
    return read_table(groups, table)
