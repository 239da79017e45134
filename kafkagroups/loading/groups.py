"""One coordinator loads logs: opened, read batch by batch, counted; and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kafkagroups.errors import BadBytes, LoadFailed, UsageError
from kafkagroups.groups.loading import ClassicCache, NewCache, Orphan
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.observer import NOBODY, Observer
from kafkagroups.log.batch import Batch, record_count
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segments import Damage, Log, open_logs
from kafkagroups.records.versions import Dialect, dialect

if TYPE_CHECKING:
    import pandas as pd


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
                lines.append(failure(self.path, partition, self.kafka, loaded.error))
        return lines

    def __getitem__(self, group_id: str) -> AnyGroup:
        return self.groups[group_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def offsets_frame(self) -> pd.DataFrame:
        """A pandas DataFrame with a row for each committed offset: group, topic, partition and what was committed."""
        from kafkagroups.tables.frames import offsets_frame

        return offsets_frame(self.groups.values())

    def members_frame(self) -> pd.DataFrame:
        """A pandas DataFrame with a row for each member of each group."""
        from kafkagroups.tables.frames import members_frame

        return members_frame(self.groups.values())


def failure(path: str, partition: int | None, kafka: str, error: str) -> str:
    return f"{path}, partition {partition}: Kafka {kafka} fails to load it: {error}"


class Folded(Protocol):
    """What a log says, its offsets folded: the same as its batches, for a cache that takes it."""

    batches: int
    records: int
    next_offset: int

    def into(self, cache: ClassicCache | NewCache, partition: int | None) -> bool:
        """False, and nothing has changed: only Cache.load can tell."""


Scan = Callable[..., Generator[Folded | None, None, None]]
"""Folds logs, in order: (logs, rules, until, until_time); None for one that the readable loader is to load."""


def opened(
    path: str | Path,
    coordinator: str,
    kafka: str | None,
    partitions: int | None = None,
    until: int | None = None,
    find: Callable[[str | Path], list[Log]] = open_logs,
) -> tuple[list[Log], Dialect]:
    """The logs that `find` gives of a path, and the rules to load them by. UsageError as `load`."""
    if partitions is not None and partitions < 1:
        raise UsageError(f"a topic has at least 1 partition, not {partitions}")
    rules = dialect(coordinator, kafka)
    logs = find(path)
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
    scan: Scan | None = None,
    passed: Callable[[int], None] = lambda more: None,
) -> Groups:
    """What `load` does once the logs are open: one coordinator loads them all, in this order.

    `scan` folds the offsets of logs faster than the cache, where it can; who observes is told nothing then. `passed`
    hears how many bytes the cache has read more.
    """
    logs = list(logs)
    cache = empty_cache(rules, observer, partitions)
    read: dict[int | None, LoadedPartition] = {}
    folded = scan(logs, rules, until, until_time) if scan else (None for _ in logs)
    with closing(folded):
        for log, fast in zip(logs, folded, strict=True):
            loaded = read[log.partition] = LoadedPartition(len(log.segments), 0, 0, log.start_offset, log.start_offset)
            if fast is not None and fast.into(cache, log.partition):
                loaded.batches, loaded.records = fast.batches, fast.records
                loaded.next_offset = fast.next_offset
                continue
            batches = _counted(take(log, until, until_time), log.partition, loaded, observer, passed)
            try:
                cache.load(log.partition, batches)
            except (LoadFailed, BadBytes) as error:
                loaded.error = str(error)
                for _ in batches:
                    pass  # the counts are the log's, however far the load came
            loaded.damage = log.damage
    return known_groups(cache, read, path, partitions)


def known_groups(
    cache: ClassicCache | NewCache,
    read: dict[int | None, LoadedPartition],
    path: str = "",
    partitions: int | None = None,
) -> Groups:
    """What is in a coordinator's cache, and what was read to fill it."""
    return Groups(
        cache.rules.coordinator,
        cache.rules.kafka,
        path,
        read,
        cache.groups,
        {group_id: orphan for group_id, orphan in cache.orphans.items() if group_id not in cache.groups},
        _elsewhere(cache.named, cache.groups, partitions),
        cache.named,
    )


def empty_cache(rules: Dialect, observer: Observer = NOBODY, partitions: int | None = None) -> ClassicCache | NewCache:
    """A coordinator that has read nothing."""
    return ClassicCache(rules, observer) if rules.coordinator == "classic" else NewCache(rules, observer, partitions)


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


def take(log: Log, until: int | None = None, until_time: int | None = None) -> Iterator[Batch]:
    """The batches of a log whose base offset is below `until`, up to the first that holds a time after `until_time`."""
    for batch in log:
        if until is not None and batch.base_offset >= until:
            return
        if until_time is not None and batch.max_timestamp > until_time:
            return
        yield batch


def _counted(
    batches: Iterator[Batch],
    partition: int | None,
    loaded: LoadedPartition,
    observer: Observer,
    passed: Callable[[int], None],
) -> Iterator[Batch]:
    for batch in batches:
        passed(batch.size)
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
        if len(where) == 1 and not partitions:
            continue
        answering = partition_for(group_id, partitions) if partitions and where[0] is not None else where[0]
        if group_id in groups:
            answering = groups[group_id].partition
        if others := [partition for partition in where if partition != answering]:
            out[group_id] = others
    return out
