"""The public verbs. They read logs, choose who loads them, and hand out results; what things mean lives in groups/."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kafkagroups import rows
from kafkagroups.columns import arrow_schema, columns_of, record_batches
from kafkagroups.errors import BadBytes, LoadFailed, UsageError
from kafkagroups.groups.answer import group_json, offset_json
from kafkagroups.groups.fates import Explanation, Fates
from kafkagroups.groups.loading import Cache, ClassicCache, NewCache, Orphan
from kafkagroups.groups.modern import AnyGroup
from kafkagroups.groups.observer import NOBODY, Observer
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.groups.stats import BY, Stats
from kafkagroups.log.batch import Batch, record_count
from kafkagroups.log.cleaner import CleanerConfig, Compaction, clean
from kafkagroups.log.log_to_clean import Progress
from kafkagroups.log.offset_map import DEFAULT_CAPACITY
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segments import SEGMENT_BYTES, BytesLike, Damage, Log, log_of_buffers, open_logs
from kafkagroups.records.dialect import Dialect, dialect

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ENGINES = ("auto", "python")


@dataclass
class LoadedPartition:
    """What was read of one partition of the topic, and how its load ended.

    `error` is why the load fails on that broker, `damage` where the log ends because its bytes are damaged.
    """

    segments: int = 0
    batches: int = 0
    records: int = 0
    start_offset: int = 0
    next_offset: int = 0
    error: str | None = None
    damage: Damage | None = None


@dataclass
class Groups(Mapping[str, AnyGroup]):
    """The groups that a coordinator knows after loading a log, by group id.

    A classic group is a Group, a consumer, share or streams group a ModernGroup. `elsewhere` names the other
    partitions in which a group has records, `named` in which partitions each group has records, known or not.
    """

    coordinator: str
    kafka: str
    path: str
    partitions: dict[int | None, LoadedPartition] = field(default_factory=dict)
    groups: dict[str, AnyGroup] = field(default_factory=dict)
    orphans: dict[str, Orphan] = field(default_factory=dict)
    elsewhere: dict[str, list[int | None]] = field(default_factory=dict)
    named: dict[str, list[int | None]] = field(default_factory=dict)

    @property
    def failed(self) -> dict[int | None, str]:
        """The partitions whose load fails on that broker, and why."""
        return {partition: loaded.error for partition, loaded in self.partitions.items() if loaded.error}

    @property
    def problems(self) -> list[str]:
        """A line for each partition whose bytes are damaged or whose load fails."""
        lines = []
        for partition, loaded in self.partitions.items():
            if loaded.damage:
                lines.append(str(loaded.damage))
            if loaded.error:
                lines.append(f"{self.path}, partition {partition}: Kafka {self.kafka} fails to load it: {loaded.error}")
        return lines

    def __getitem__(self, group_id: str) -> AnyGroup:
        return self.groups[group_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def offsets_frame(self) -> pd.DataFrame:
        """A pandas DataFrame with a row for each committed offset: group, topic, partition and what was committed."""
        from kafkagroups.groups.frames import offsets_frame

        return offsets_frame(self.groups.values())

    def members_frame(self) -> pd.DataFrame:
        """A pandas DataFrame with a row for each member of each group."""
        from kafkagroups.groups.frames import members_frame

        return members_frame(self.groups.values())


def load(
    path: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    partitions: int | None = None,
    until: int | None = None,
    until_time: int | None = None,
    engine: str = "auto",
) -> Groups:
    """The groups as a coordinator ("classic" or "new") of a Kafka version would answer after loading `path`.

    `path` is a partition directory, one .log file, or a folder of partition directories (one broker). `partitions`
    is the topic's partition count: with it the new coordinator answers a group from its home partition only. `until`
    takes records below an offset (of one partition), `until_time` batches up to the first whose newest record is
    after it (ms since the epoch). A load that fails as that broker's would is no exception: see `partitions`.

    UsageError: no such path, no log in it, an unknown coordinator or engine.

    >>> groups = load("data/harbour/3.9.2", coordinator="classic")
    >>> groups["billing"].state.value, groups["billing"].generation
    ('Stable', 6)
    """
    if engine not in ENGINES:
        raise UsageError(f"the engine is one of {', '.join(ENGINES)}, not {engine!r}")
    logs, rules = opened(path, coordinator, kafka, partitions, until)
    return load_logs(logs, rules, str(path), partitions=partitions, until=until, until_time=until_time)


def opened(
    path: str | Path, coordinator: str, kafka: str | None, partitions: int | None = None, until: int | None = None
) -> tuple[list[Log], Dialect]:
    """The logs at a path and the rules to load them by. UsageError as `load`."""
    if partitions is not None and partitions < 1:
        raise UsageError(f"a topic has at least 1 partition, not {partitions}")
    rules = dialect(coordinator, kafka)
    logs = open_logs(path)
    if until is not None and len(logs) > 1:
        raise UsageError(f"an offset to stop at needs one partition, {path} has {len(logs)}")
    return logs, rules


def load_logs(
    logs: Iterable[Log],
    rules: Dialect,
    path: str = "",
    *,
    partitions: int | None = None,
    until: int | None = None,
    until_time: int | None = None,
    observer: Observer = NOBODY,
) -> Groups:
    """What `load` does once the logs are open: one coordinator loads them all, in this order."""
    is_classic = rules.coordinator == "classic"
    cache: Cache = ClassicCache(rules, observer) if is_classic else NewCache(rules, observer, partitions)
    read: dict[int | None, LoadedPartition] = {}
    for log in logs:
        loaded = read[log.partition] = LoadedPartition(len(log.segments), 0, 0, log.start_offset, log.start_offset)
        batches = _counted(take(log, until, until_time), log.partition, loaded, observer)
        try:
            cache.load(log.partition, batches)
        except (LoadFailed, BadBytes) as error:
            loaded.error = str(error)
            for _ in batches:
                pass  # the counts are the log's, however far the load came
        loaded.damage = log.damage
    return Groups(
        rules.coordinator,
        rules.kafka,
        path,
        read,
        cache.groups,
        {group_id: orphan for group_id, orphan in cache.orphans.items() if group_id not in cache.groups},
        _elsewhere(cache.named, cache.groups, partitions),
        cache.named,
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
) -> Explanation:
    """Every record that touched a group, or one of its offsets, what became of it, and what a broker answers now.

    `topic` and `partition` choose one offset. The other arguments are those of `load`; so are the errors.

    >>> story = explain("data/harbour/3.9.2", "billing", "orders", 0, coordinator="classic")
    >>> [(record.offset, record.fate.value) for record in story.history][-2:]
    [(37, 'superseded'), (42, 'wins')]
    """
    if (topic is None) != (partition is None):
        raise UsageError("a topic and a partition name an offset: both or none were expected")
    logs, rules = opened(path, coordinator, kafka, partitions, until)
    fates = Fates(rules, group)
    groups = load_logs(
        logs, rules, str(path), partitions=partitions, until=until, until_time=until_time, observer=fates
    )
    fates.settle(groups.groups, groups.orphans, groups.failed)
    known = groups.get(group)
    if topic is None or partition is None:
        return Explanation(group, rules.coordinator, list(fates), known and group_json(known), groups.problems)
    key = TopicPartition(topic, partition)
    there = known.offsets.get(key) if known else None
    return Explanation(group, rules.coordinator, fates.of(key), there and offset_json(there), groups.problems)


def stats(
    path: str | Path,
    by: str = "group",
    *,
    coordinator: str = "new",
    kafka: str | None = None,
    partitions: int | None = None,
) -> Stats:
    """What a log holds and why it is so big: see `Stats.partitions` and `Stats.rows`, counted `by` what is asked.

    The other arguments are those of `load`; so are the errors.
    """
    if by not in BY:
        raise UsageError(f"rows are by {', '.join(BY)}, not {by!r}")
    logs, rules = opened(path, coordinator, kafka, partitions)
    counted = Stats(rules, by)
    groups = load_logs(logs, rules, str(path), partitions=partitions, observer=counted)
    counted.settle(groups.groups, groups.orphans, groups.failed)
    counted.finish({log.partition: len(log.segments) for log in logs}, groups.problems)
    return counted


def join(parts: Sequence[Groups], path: str, partitions: int | None = None) -> Groups:
    """One result of several: loads of different partitions of one topic, of which no two know the same group."""
    whole = Groups(parts[0].coordinator, parts[0].kafka, path)
    for part in sorted(parts, key=lambda part: min(number or 0 for number in part.partitions)):
        whole.partitions |= part.partitions
        whole.groups |= part.groups
        whole.orphans |= part.orphans
        for group_id, where in part.named.items():
            whole.named.setdefault(group_id, []).extend(where)
    whole.partitions = dict(sorted(whole.partitions.items(), key=lambda entry: entry[0] or 0))
    whole.elsewhere = _elsewhere(whole.named, whole.groups, partitions)
    return whole


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
    progress: Progress | None = None,
) -> Compaction:
    """Writes into `out`, a new or empty folder, what one pass of Kafka 4.3.1's log cleaner leaves of one partition.

    `now_ms` is the pass's time (None: the newest in the log), `first_dirty` where the clean part ends (None: at the
    log's start), `first_uncleanable` where the pass stops (None: at the active segment or the last stable offset, it
    never goes further), moved down to its segment's base; `map_entries` how many keys the offset map takes (None: as
    many as a broker's); a producer whose last batch is older than `producer_expiration_ms` is not active (-1: all
    are). All segments that are then in the log are written. `progress` hears of a step and the bytes read of how many.

    UsageError: no such path, several partitions, a folder that is not empty, a number out of range. InvalidLog and
    InvalidRecord: what Kafka's cleaner could not read either, and then `out` stays empty. Damage ends the log instead.
    """
    logs = open_logs(path)
    if len(logs) > 1:
        raise UsageError(f"compaction takes one partition, {path} has {len(logs)}")
    config = CleanerConfig(
        now_ms,
        delete_retention_ms,
        first_dirty,
        first_uncleanable,
        segment_bytes,
        DEFAULT_CAPACITY if map_entries is None else map_entries,
        producer_expiration_ms,
    )
    return clean(logs[0], Path(out), config, progress)


def load_columns(
    buffers: Iterable[tuple[str, BytesLike]],
    *,
    table: str = "offsets",
    coordinator: str = "new",
    kafka: str | None = None,
    partition: int | None = None,
    partitions: int | None = None,
    columns: Iterable[str] | None = None,
) -> pa.RecordBatchReader:
    """One table (columns.TABLES) of one log partition, as Arrow record batches; `.read_all()` makes one pyarrow.Table.

    This is the seam: whoever wants columns comes through here, whatever fills them. `buffers` are the segments in
    order, (name, bytes or memory map); `partition` is the log's number, `partitions` the topic's count (as in `load`);
    `columns` only these, in this order. Damage, and a load that fails as that broker's, stand in table `partitions`.

    UsageError: no segment, an unknown table, column or coordinator.

    >>> path = "data/harbour/3.9.2/__consumer_offsets-9/00000000000000000000.log"
    >>> batches = load_columns([(path, Path(path).read_bytes())], table="groups", coordinator="classic", partition=9)
    >>> batches.read_all().select(["group", "state", "generation"]).to_pylist()[0]
    {'group': 'billing', 'state': 'Stable', 'generation': 6}
    """
    import pyarrow as pa

    chosen = columns_of(table, columns)
    rules = dialect(coordinator, kafka)
    log = log_of_buffers(buffers, partition)
    content: Iterable[rows.Row]
    if table == "records":
        content = rows.record_rows(log, rules, with_json=any(column.name == "json" for column in chosen))
    else:
        content = _rows(load_logs([log], rules, partitions=partitions), table)
    return pa.RecordBatchReader.from_batches(arrow_schema(chosen), record_batches(table, chosen, content))


def loaded_columns(groups: Groups, table: str) -> pa.RecordBatchReader:
    """The same of what is loaded already; every table but `records`."""
    import pyarrow as pa

    columns = columns_of(table)
    batches = record_batches(table, columns, _rows(groups, table))
    return pa.RecordBatchReader.from_batches(arrow_schema(columns), batches)


def _rows(groups: Groups, table: str) -> Iterable[rows.Row]:
    if table == "ids":
        return [(rows.number(partition), group) for group, where in groups.named.items() for partition in where]
    if table == "partitions":
        return [
            (rows.number(partition), p.segments, p.batches, p.records, p.start_offset, p.next_offset, p.error, _text(p))
            for partition, p in groups.partitions.items()
        ]
    return rows.OF_GROUPS[table](groups[group_id] for group_id in sorted(groups))


def _text(loaded: LoadedPartition) -> str | None:
    return None if loaded.damage is None else str(loaded.damage)


def take(log: Log, until: int | None = None, until_time: int | None = None) -> Iterator[Batch]:
    """The batches of a log whose base offset is below `until`, up to the first that holds a time after `until_time`."""
    for batch in log:
        if until is not None and batch.base_offset >= until:
            return
        if until_time is not None and batch.max_timestamp > until_time:
            return
        yield batch


def _counted(
    batches: Iterator[Batch], partition: int | None, loaded: LoadedPartition, observer: Observer
) -> Iterator[Batch]:
    for batch in batches:
        observer.batch(partition, batch)
        loaded.batches += 1
        loaded.next_offset = batch.next_offset
        loaded.records += record_count(batch)
        yield batch


def _elsewhere(
    named: dict[str, list[int | None]], groups: dict[str, AnyGroup], partitions: int | None
) -> dict[str, list[int | None]]:
    out = {}
    for group_id, where in named.items():
        answering = partition_for(group_id, partitions) if partitions and where[0] is not None else where[0]
        if group_id in groups:
            answering = groups[group_id].partition
        if others := [partition for partition in where if partition != answering]:
            out[group_id] = others
    return out
