"""The public verbs. They read logs, choose who loads them, and hand out results; what things mean lives in groups/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kafkagroups.errors import BadBytes, InvalidLog, LoadFailed, UsageError
from kafkagroups.groups.group import Group
from kafkagroups.groups.loading import Cache, ClassicCache, NewCache, Orphan
from kafkagroups.log.batch import Batch
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segments import Damage, Log, open_logs
from kafkagroups.records.dialect import dialect

if TYPE_CHECKING:
    import pandas as pd

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
class Groups(Mapping[str, Group]):
    """The groups that a coordinator knows after loading a log, by group id.

    `elsewhere` names the other partitions in which a group has records; `newer` the groups of newer types
    (consumer, share, streams), of which this version of the package knows only that they are there.
    """

    coordinator: str
    kafka: str
    path: str
    partitions: dict[int | None, LoadedPartition] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    orphans: dict[str, Orphan] = field(default_factory=dict)
    elsewhere: dict[str, list[int | None]] = field(default_factory=dict)
    newer: set[str] = field(default_factory=set)

    def __getitem__(self, group_id: str) -> Group:
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
    if partitions is not None and partitions < 1:
        raise UsageError(f"a topic has at least 1 partition, not {partitions}")
    rules = dialect(coordinator, kafka)
    logs = open_logs(path)
    if until is not None and len(logs) > 1:
        raise UsageError(f"an offset to stop at needs one partition, {path} has {len(logs)}")
    cache: Cache = ClassicCache(rules) if rules.coordinator == "classic" else NewCache(rules, partitions)
    read: dict[int | None, LoadedPartition] = {}
    for log in logs:
        loaded = read[log.partition] = LoadedPartition(len(log.segments), 0, 0, log.start_offset, log.start_offset)
        batches = _counted(take(log, until, until_time), loaded)
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
        str(path),
        read,
        cache.groups,
        {group_id: orphan for group_id, orphan in cache.orphans.items() if group_id not in cache.groups},
        _elsewhere(cache, partitions),
        cache.newer,
    )


def take(log: Log, until: int | None = None, until_time: int | None = None) -> Iterator[Batch]:
    """The batches of a log whose base offset is below `until`, up to the first that holds a time after `until_time`."""
    for batch in log:
        if until is not None and batch.base_offset >= until:
            return
        if until_time is not None and batch.max_timestamp > until_time:
            return
        yield batch


def _counted(batches: Iterator[Batch], loaded: LoadedPartition) -> Iterator[Batch]:
    for batch in batches:
        loaded.batches += 1
        loaded.next_offset = batch.next_offset
        try:
            loaded.records += batch.count if batch.magic >= 2 else len(batch.records)
        except InvalidLog:
            loaded.records += 1
        yield batch


def _elsewhere(cache: Cache, partitions: int | None) -> dict[str, list[int | None]]:
    out = {}
    for group_id, where in cache.named.items():
        answering = partition_for(group_id, partitions) if partitions else where[0]
        if group_id in cache.groups:
            answering = cache.groups[group_id].partition
        if others := [partition for partition in where if partition != answering]:
            out[group_id] = others
    return out
