"""`Topic`: the logs at a path, and the rules by which a coordinator loads them. Each question to a log is a method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from kafkagroups.errors import UsageError
from kafkagroups.groups.replay import CountBytes, ignore_bytes
from kafkagroups.loading.columns import arrow_schema, columns_of
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import ByteProgress, OpenTopic, choose_engine
from kafkagroups.loading.partition_count import refuse_pattern
from kafkagroups.loading.rows import read_table
from kafkagroups.log.cleaner import CleanerConfig, Compaction, Progress, clean
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.folders import open_logs
from kafkagroups.log.segments import NO_STOP, Log, Stop
from kafkagroups.records import releases

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkagroups.history.check import Check
    from kafkagroups.history.explain import Explanation
    from kafkagroups.history.replicas import Replicas
    from kafkagroups.history.stats import Stats
    from kafkagroups.history.timeline import Timeline
    from kafkagroups.html_report.page import Report
    from kafkagroups.repair.plan import RescuePlan


class Limits(TypedDict, total=False):
    partitions: int | None
    engine: str
    threads: int
    past_damage: bool
    max_batch_bytes: int


class Rules(Limits, total=False):
    coordinator: str | None
    kafka: str | None


@dataclass(frozen=True)
class Topic:
    """A topic `__consumer_offsets` on disk, and the rules by which it is read. Each method opens the logs anew.

    Each method raises a UsageError if there is no such path, coordinator, version or engine, if there is no log at the
    path, if two folders have the same partition number, or if a number is out of range.

    Attributes
    ----------
    path
        A partition directory, one .log file, or a folder of partition directories (the log folder of one broker).
    coordinator, kafka
        "classic" (Kafka up to 3.9) or "new" (from 4.0 on), and its version, by default "3.9.2" or "4.3.1". Without a
        coordinator, the version decides: it is "classic" below 4.0.
    partitions
        The partition count of `__consumer_offsets`. With it, the new coordinator ignores records of a group outside the
        partition that `partition_for` returns for the group.
    engine
        "python" is the readable engine, "compiled" the native one, which must be installed, and "auto" the native one
        if it is installed. Both give the same result.
    threads
        How many partitions the native engine loads at the same time; 0 means one for each CPU.
    past_damage
        Go on at the next sound batch after damaged bytes, which `gaps` of a partition names. The default gives the
        answers of a broker, whose recovery cuts the log there.
    max_batch_bytes
        The log ends before a batch that is larger when decompressed, as if it were damaged. No broker writes a batch
        above the default, 256 MiB.

    Examples
    --------
    >>> topic = Topic("data/harbour/3.9.2", coordinator="classic")
    >>> topic.load()["billing"].generation, topic.stats().partitions[9].next_offset
    (6, 44)
    """

    path: str | Path
    coordinator: str | None = None
    kafka: str | None = None
    _: KW_ONLY
    partitions: int | None = None
    engine: str = "auto"
    threads: int = 0
    past_damage: bool = False
    max_batch_bytes: int = MAX_BATCH_BYTES

    @property
    def dialect(self) -> releases.Dialect:
        """The rules by which the coordinator reads records."""
        return releases.dialect(self.coordinator, self.kafka)

    def open(self, stop: Stop = NO_STOP, find_logs: Callable[[str | Path], list[Log]] = open_logs) -> OpenTopic:
        """Return the logs, opened by `find_logs`, with the rules. `stop` says where reading ends (log/segments.py)."""
        numbers = {"partitions": self.partitions, "until": stop.until_offset, "until_time": stop.until_time}
        for name, value in numbers.items():
            if value is not None and not isinstance(value, Integral):
                raise UsageError(f"{name}: expected a whole number, found {value!r}")
        if self.partitions is not None and self.partitions < 1:
            raise UsageError(f"a topic has at least 1 partition, not {self.partitions}")
        logs = [log.limit_batches(self.max_batch_bytes) for log in find_logs(self.path)]
        if self.past_damage:
            logs = [log.skip_damage() for log in logs]
        if stop.until_offset is not None and len(logs) > 1:
            raise UsageError(
                f"an offset to stop at needs one partition, but {self.path} has {len(logs)}: give the folder of one "
                "partition, or a time to stop at"
            )
        choose_engine(self.engine)  # Raises a UsageError if there is no such engine.
        return OpenTopic(logs, self.dialect, str(self.path), self.partitions, self.engine, self.threads, stop)

    def load(
        self, *, until: int | None = None, until_time: int | None = None, progress: Progress | None = None
    ) -> Groups:
        """Return the groups that a coordinator has after loading a log.

        A load that would fail in a broker raises no exception: `Groups.partitions` and `Groups.problems` have the
        reason. Raises UsageError as in `Topic`, or if there are several partitions, and `until` is given.

        Source: GroupMetadataManager.doLoadGroupsAndOffsets (classic, 3.9.2), CoordinatorLoaderImpl (new, 4.3.1).

        Parameters
        ----------
        until
            Read only batches whose base offset is below this offset, of a path that is one partition. The last batch is
            read as a whole, so it can contain larger offsets.
        until_time
            In each partition, stop before the first batch with a timestamp after this time (ms since the epoch).
        progress
            Called with "loading", the number of bytes read, and the total number of bytes, from any thread.

        Examples
        --------
        >>> groups = Topic("data/harbour/3.9.2", coordinator="classic").load()
        >>> groups["billing"].state.value, groups["billing"].generation
        ('Stable', 6)
        """
        topic = self.open(Stop(until, until_time))
        return topic.load(count_bytes=_count_bytes(progress, topic.logs))

    def explain(
        self,
        group: str,
        topic: str | None = None,
        partition: int | None = None,
        *,
        until: int | None = None,
        until_time: int | None = None,
        since_time: int | None = None,
        retention_ms: int | None = None,
    ) -> Explanation:
        """Return every record of a group, or of some of its offsets, and what a broker would answer after a load.

        Each record has a fate (what happened to it), for example "superseded". With a `topic`, or a topic and a
        `partition`, only the records of the group's offsets for it are returned. `until` and `until_time` are as in
        `load`. `since_time` selects the records with
        this timestamp or a later one (ms since the epoch), while the fates and the answer are those of the whole log.
        `retention_ms` is the broker's offsets.retention.minutes, in ms; without it, only offsets with an expire
        timestamp are in `expires_next`.

        Raises UsageError as in `Topic`, or if `partition` is given without `topic`, or if there are several partitions,
        and `until` is given.

        Examples
        --------
        >>> story = Topic("data/harbour/3.9.2", coordinator="classic").explain("billing", "orders", 0)
        >>> [(record.offset, record.fate.value) for record in story.history][-2:]
        [(37, 'superseded'), (42, 'wins')]
        """
        from kafkagroups.history.explain import explain_groups
        from kafkagroups.history.timeline import Question

        question = Question(topic, partition, since_time, retention_ms)
        [explanation] = explain_groups(self.open(Stop(until, until_time)), [group], question)
        refuse_pattern(group, is_known=bool(explanation.record_partitions))
        return explanation

    def explain_groups(
        self,
        pattern: str,
        topic: str | None = None,
        partition: int | None = None,
        *,
        until: int | None = None,
        until_time: int | None = None,
        since_time: int | None = None,
        retention_ms: int | None = None,
    ) -> list[Explanation]:
        """Return what `explain` returns, for each group that a pattern matches, from one pass over the log.

        `pattern` is a group id, or, if no group has exactly this id, a pattern in which * stands for any characters and
        ? for one character. The explanations are sorted by group id. If no group matches, the list contains that of the
        text itself.

        Examples
        --------
        >>> stories = Topic("data/harbour/3.9.2", coordinator="classic").explain_groups("*il*")
        >>> [story.group for story in stories]
        ['billing', 'mailer']
        """
        from kafkagroups.history.explain import explain_matching
        from kafkagroups.history.timeline import Question

        question = Question(topic, partition, since_time, retention_ms)
        return explain_matching(self.open(Stop(until, until_time)), pattern, question)

    def timeline(
        self,
        group: str,
        *,
        all: bool = False,
        topic: str | None = None,
        since_time: int | None = None,
        until_time: int | None = None,
        retention_ms: int | None = None,
    ) -> Timeline:
        """Return the history of a group as events: generations, commits, rewinds, transactions, deletions and gaps.

        With `all`, it has also the commits that only move an offset forward, and the steps of members towards a new
        assignment; with a `topic`, only the events of the group's offsets for this topic. `since_time` selects the
        events with this timestamp or a later one (ms since the epoch), and `until_time` is as in `load`.
        `retention_ms`, the broker's offsets.retention.minutes in ms, decides whether a deleted offset had expired.

        `Timeline.events` are in the order of the log, and `Timeline.positions` are the committed offsets at the end,
        with their last moves and members. The log cleaner removes records that newer records supersede: an event "gap",
        which has no timestamp, says where records are missing, and which records of the group can be among them.

        Examples
        --------
        >>> history = Topic("data/harbour/3.9.2", coordinator="classic").timeline("billing")
        >>> [event.what for event in history.events if event.event == "empty"][0]
        'Generation 4: no member is left.'
        """
        from kafkagroups.history.timeline import Question, build_timeline

        question = Question(topic, since_time=since_time, retention_ms=retention_ms)
        return build_timeline(self.open(Stop(None, until_time)), group, question, shows_all=all)

    def diff(self, other: Topic, *, until: int | None = None, until_time: int | None = None) -> Replicas:
        """Compare two replicas: where they fork, what was lost after the fork, and what later records healed.

        Partitions with the same number are compared, with the same rules; `until` and `until_time` are as in `load`,
        for both. `Replicas.differences` is the result of `diff`, and `Replicas.forks` has the fork of each partition
        whose logs differ.

        Examples
        --------
        >>> topic = Topic("data/harbour/3.9.2/__consumer_offsets-9")
        >>> topic.diff(topic).forks
        {}
        """
        from kafkagroups.history.replicas import compare_replicas

        first, second = (topic.open(Stop(until, until_time)) for topic in (self, other))
        return compare_replicas((first, second), (first.load(), second.load()))

    def stats(self, by: str = "group") -> Stats:
        """Return counts that show what a log contains and what makes it large.

        `by` is what each row stands for: a "group", "topic", "type" (of record), "partition", or "writer". A writer is
        the commits of a group with the same leader epoch, transactional bit and number of records in a batch
        (``Stats.writers``), for which the log is read a second time, in plain Python. `Stats.partitions` has the counts
        of each partition, and `Stats.rows` those of each row, the one with the most bytes first. Raises UsageError as
        in `Topic`, or if `by` has another value.

        Examples
        --------
        >>> Topic("data/harbour/3.9.2/__consumer_offsets-9", coordinator="classic").stats().partitions[9].next_offset
        44
        """
        from kafkagroups.history.scan import count_logs
        from kafkagroups.history.stats import check_row_kind

        check_row_kind(by)
        return count_logs(self.open(), by)

    def check(self, *, to: str | None = None, to_coordinator: str | None = None) -> Check:
        """Return the verdict before a failover, or before an upgrade: which partitions load, which fail, and why.

        `Check.loads` says whether every partition loads, `Check.partitions` has the verdict about each of them, and
        `Check.findings` say what is wrong, and what to do. Raises UsageError as in `Topic`, or if `to_coordinator` is
        given without `to`.

        With `to`, the Kafka version after an upgrade or a downgrade, the verdict is about this version. Its coordinator
        is `to_coordinator`; None means "new" from Kafka 4.0 on; below, the coordinator of `kafka` if this is below 4.0,
        too, and otherwise "classic". The findings then name what differs from `kafka`, which is what a client sees if
        it sends the same request to brokers of both versions:

        - Kafka 4.4 also returns the name of a streams group's assignor, but only in a new version of the answer, so
          this is no difference.
        - Kafka 4.3 and newer return the partitions that a member of a consumer group has not revoked yet as assigned to
          it. This is a difference. If a topic was deleted, no broker returns its partitions, but a log does not say so.
        - A group without a record of its epoch has epoch 0 before Kafka 4.3, and epoch 1 from 4.3 on. This is a
          difference.

        Examples
        --------
        >>> verdict = Topic("data/harbour/3.9.2", coordinator="classic").check()
        >>> verdict.loads, verdict.findings
        (True, [])
        """
        from kafkagroups.history.check import check_logs, choose_target

        topic = self.open()
        return check_logs(topic, choose_target(topic.dialect, to, to_coordinator))

    def table(self, table: str = "fates", columns: Iterable[str] | None = None) -> pa.RecordBatchReader:
        """Return a table of the logs at a path, as Arrow record batches, of which one at a time is made.

        The table "fates" has each record and its fate, i.e. what happened to it in the load, and "records" each record
        with the bytes of its key and value, and with Kafka's JSON. "offsets", "pending", "groups", "members" and
        "partitions" are what `load` returns; the last one says which bytes are damaged, and why a load fails. "ids" has
        the ids of all groups that have records. The rows are in the order of the logs, and the `columns` in the given
        order. The column "json" takes longer than all others together. Raises UsageError as in `Topic`, or if there is
        no such table or column.

        Examples
        --------
        >>> topic = Topic("data/harbour/3.9.2", coordinator="classic")
        >>> topic.table(columns=["offset", "group", "fate", "by"]).read_all().to_pylist()[0]["fate"]
        'superseded'
        """
        return read_topic_table(self.open(), table, columns)

    def report(self, out: str | Path | None = None) -> Report:
        """Return a report on the logs. `kafkagroups.report` says more, and reports on several paths."""
        from kafkagroups.html_report.page import report_on

        return report_on([self.open()], out)

    def compact(
        self, out: str | Path, config: CleanerConfig | None = None, *, progress: Progress | None = None
    ) -> Compaction:
        """Write the segments that one partition would have after one pass of Kafka's log cleaner.

        They are written into `out`, a new or empty folder; the files at the path are not changed. `progress` is called
        with the name of a step, and the bytes that it has read and will read in total. The result has counts before and
        after the pass, and the offset at which the next pass starts.

        Raises UsageError as in `Topic`, or if the path has several partitions, or `out` is not empty. Raises InvalidLog
        or InvalidRecord if Kafka's cleaner would fail at this log, too; `out` then stays empty. A damaged batch, for
        example with a wrong checksum, raises no error: as in a broker's recovery, the log ends before this batch.

        Source: Cleaner and LogCleanerManager (4.3.1).
        """
        logs = self.open().logs
        if len(logs) > 1:
            raise UsageError(f"compaction needs one partition, but {self.path} has {len(logs)}")
        return clean(logs[0], Path(out), config or CleanerConfig(), progress)

    def plan_rescue(
        self,
        *,
        groups: Sequence[str] = (),
        topics: Sequence[str] = (),
        renames: Mapping[str, str] | None = None,
        until_time: int | None = None,
        progress: Progress | None = None,
    ) -> RescuePlan:
        """Return a plan to restore the groups of a dead or damaged cluster in another cluster, to which nothing is
        sent.

        The plan lists the committed offsets of each group, exactly as `load` returns them, and the commits that are
        left out: pending, aborted, hidden and others. `groups` and `topics` are names, or patterns in which * stands
        for any characters and ? for one character; the plan has those that match one of them, or all if there is none.
        `renames` has the ids that groups get in the other cluster, by their ids in the log. The native engine is not
        used with `until_time`, and offsets of a topic that was created again after this time are left out.

        `RescuePlan.to_json()` returns what `kafkagroups rescue plan` writes into a file. `RescuePlan.problems` has a
        line for each partition that is damaged, and for each whose load fails. Raises UsageError as in `Topic`, or if a
        pattern matches nothing, a group to rename does not exist, or two groups would have the same id.

        Examples
        --------
        >>> plan = Topic("data/harbour/3.9.2", coordinator="classic").plan_rescue()
        >>> sorted(plan.groups)[:2], len(plan.groups["billing"].offsets)
        (['billing', 'café-☕'], 5)
        """
        from kafkagroups.repair.make_plan import Selection, make_plan

        topic = self.open(Stop(None, until_time))
        return make_plan(topic, Selection(groups, topics, renames or {}), _count_bytes(progress, topic.logs))


def _count_bytes(progress: Progress | None, logs: Sequence[Log]) -> CountBytes:
    return ByteProgress(progress, sum(log.size for log in logs)) if progress else ignore_bytes


def read_topic_table(topic: OpenTopic, table: str, columns: Iterable[str] | None) -> pa.RecordBatchReader:
    """Return a table of the logs of a topic. The parameters and the errors are those of `Topic.table`."""
    import pyarrow as pa

    from kafkagroups.history.fates import RECORD_TABLES, read_fate_table, read_record_table

    selected = columns_of(table, columns)
    if table not in RECORD_TABLES:
        return read_table(topic.load(), table, [column.name for column in selected])
    if table == "fates":
        batches = read_fate_table(topic, selected)
    else:
        readings = (read_record_table(log, topic.dialect, selected, topic.chosen_engine) for log in topic.logs)
        batches = chain.from_iterable(readings)
    return pa.RecordBatchReader.from_batches(arrow_schema(selected), batches)
