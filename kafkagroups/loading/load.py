"""A broker's load: chooses an engine, folds each log into a shard, and adds the shards to one coordinator's cache.

The cache combines the shards of all partitions and decides which groups exist. If a group does not exist but has
offsets, these offsets are called an orphan.

The readable engine, "python", is in groups/replay.py; the native one, "compiled", is in native.py and in a distribution
of its own, which need not be installed.

Source: GroupMetadataManager.doLoadGroupsAndOffsets (classic coordinator, 3.9); CoordinatorRuntime and
GroupCoordinatorShard.onLoaded (new coordinator, 4.3.1).
"""

from __future__ import annotations

import ast
import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import PurePath
from threading import Lock
from typing import NamedTuple, Protocol

from kafkagroups.errors import BadBytes, LoadFailed, UsageError
from kafkagroups.groups.group import Group
from kafkagroups.groups.map_orders import hash_set_order
from kafkagroups.groups.modern_group import ModernGroup
from kafkagroups.groups.modern_replay import check_loaded
from kafkagroups.groups.offsets import Observer, Orphan, PartitionOffsets, pending_by_group
from kafkagroups.groups.replay import (
    ClassicShard,
    CountBytes,
    LoadedPartition,
    LogKeys,
    Shard,
    fold,
    has_separate_offset_cache,
    ignore_bytes,
    read_keys,
)
from kafkagroups.helpers import describe_missing
from kafkagroups.loading import native
from kafkagroups.loading.groups import GroupParts, Groups, KnownGroups, Orphans, build_orphan
from kafkagroups.loading.partition_count import NO_TIMES, FoundPartitions, LogTimes, PartitionsOf
from kafkagroups.log.cleaner import Progress
from kafkagroups.log.segment_file import partition_for
from kafkagroups.log.segments import NO_STOP, Log, Stop
from kafkagroups.records.releases import DEFAULT_DIALECT, Dialect
from kafkagroups.records.serde import decode_with_key
from kafkagroups.records.wire import uuid_text

MAX_NAMED_BYTES = 64 * 2**20
MAX_BYTES_IN_MEMORY = 32 * 2**20
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""What stands before the topic id at the end of an offset value: one tagged field, tag 0, 16 bytes."""
_NAMING_TYPES = (4, 15)
"""The types of the records of a consumer group and of a share group that have ids and names of topics."""
_NAMING_FIELDS = ("topics", "initializing_topics", "initialized_topics")
ENGINES = ("auto", "python", "compiled")
"""The names that `choose_engine` accepts."""


class FoldLog(Protocol):
    """A function that folds a log into a shard, which is all that an engine is.

    `count_bytes` is called with the number of bytes that were read since its last call, from any thread.
    """

    def __call__(self, log: Log, dialect: Dialect, stop: Stop, *, count_bytes: CountBytes) -> Shard: ...


@dataclass(frozen=True)
class Engine:
    name: str
    fold: FoldLog

    def fold_logs(
        self,
        logs: Sequence[Log],
        dialect: Dialect,
        stop: Stop = NO_STOP,
        *,
        threads: int = 0,
        count_bytes: CountBytes = ignore_bytes,
    ) -> Generator[Shard, None, None]:
        """The native engine uses `threads` threads, and 0 means one per CPU. Those of the readable engine would only
        block each other, so it reads one log after another.
        """
        thread_count = min(threads or os.cpu_count() or 1, len(logs)) if self.name == "compiled" else 1
        if thread_count <= 1:
            for log in logs:
                yield self.fold(log, dialect, stop, count_bytes=count_bytes)
            return
        with ThreadPoolExecutor(thread_count) as pool:
            yield from pool.map(lambda log: self.fold(log, dialect, stop, count_bytes=count_bytes), logs)


PYTHON = Engine("python", fold)
"""The readable engine."""


def create_observed_engine(observer: Observer) -> Engine:
    return Engine("python", partial(fold, observer=observer))


def choose_engine(name: str) -> Engine:
    """ "auto" means the native engine if it is installed.

    Raises UsageError if there is none, or if "compiled" is not installed or has another interface.
    """
    if name not in ENGINES:
        raise UsageError(f"no engine {name!r}: choose one of {', '.join(ENGINES)}")
    if name == "python" or (name == "auto" and not native.is_available()):
        return PYTHON
    try:
        native.find_module()
    except ImportError as error:
        raise UsageError(describe_missing("kafkagroups_engine", 'the engine "compiled"') or str(error)) from None
    return Engine("compiled", native.fold)


@dataclass(frozen=True)
class OpenTopic:
    """The logs of a topic, and the rules by which one coordinator loads them.

    `path` is used in messages, and tells a folder of partition folders from one partition. `engine` is a name, because
    a worker of Spark, whose machine can lack the native engine, chooses again.
    """

    logs: Sequence[Log]
    dialect: Dialect
    path: str = ""
    partitions: int | None = None
    engine: str = "python"
    threads: int = 0
    stop: Stop = NO_STOP

    @property
    def chosen_engine(self) -> Engine:
        return choose_engine(self.engine)

    def part(self, *logs: Log) -> OpenTopic:
        return replace(self, logs=logs)

    def in_memory(self) -> OpenTopic:
        """Return the topic with logs that stay in memory after their first reading, if they are small."""
        is_small = sum(log.size for log in self.logs) <= MAX_BYTES_IN_MEMORY
        return self.part(*(log.in_memory() for log in self.logs)) if is_small else self

    @cached_property
    def topic_names(self) -> dict[str | None, str]:
        """The names of topics by their ids, as far as any record of a log of at most MAX_NAMED_BYTES has both, also
        after the stop.
        """
        is_small = sum(log.size for log in self.logs) <= MAX_NAMED_BYTES
        return dict(read_topic_names(self.logs if is_small else ()))

    def find_partitions(self) -> FoundPartitions:
        # An offset to stop at belongs to one partition, also if it is in a folder.
        has_folder = self.stop.until_offset is None and is_folder(self.logs, self.path)
        return FoundPartitions([log.partition for log in self.logs], has_folder, self.partitions)

    def load(
        self, *, engine: Engine | None = None, whole: WholeTopic | None = None, count_bytes: CountBytes = ignore_bytes
    ) -> Groups:
        """`engine` replaces the topic's engine, for example to observe the load. `whole` describes the topic if these
        logs are only a part of it.
        """
        engine = engine or self.chosen_engine
        shards = engine.fold_logs(self.logs, self.dialect, self.stop, threads=self.threads, count_bytes=count_bytes)
        with closing(shards):
            return self.combine(shards, engine.name, whole)

    def combine(self, shards: Iterable[Shard], engine: str, whole: WholeTopic | None = None) -> Groups:
        whole = whole or WholeTopic(self.find_partitions(), {})
        times = LogTimes({log.partition: (log, self.stop) for log in self.logs}, self.dialect, engine)
        return combine_shards(shards, self.dialect, self.path, whole, times)


def read_topic_names(logs: Iterable[Log]) -> Iterator[tuple[str, str]]:
    """Yield the id and the name of a topic of each record that has both."""
    keys = LogKeys(DEFAULT_DIALECT)
    for batch in chain.from_iterable(logs):
        for _, key, record in read_keys(batch, keys):
            value = record.value or b""
            if key.partition is not None and value[-19:-16] == _TOPIC_ID_TAG:
                yield uuid_text(value[-16:]), key.partition.topic
            elif key.decoded.type in _NAMING_TYPES:
                with suppress(BadBytes):
                    found = decode_with_key(key.decoded, record.value).value
                    for topic in chain.from_iterable(getattr(found, name, ()) for name in _NAMING_FIELDS):
                        yield topic.topic_id, topic.topic_name


def is_folder(logs: Sequence[Log], path: str) -> bool:
    return len(logs) > 1 or any(PurePath(log.path).name != PurePath(path).name for log in logs)


class WholeTopic(NamedTuple):
    topic: FoundPartitions
    partitions_of: PartitionsOf


def combine_shards(
    shards: Iterable[Shard],
    dialect: Dialect,
    path: str = "",
    whole: WholeTopic | None = None,
    read_times: LogTimes = NO_TIMES,
) -> Groups:
    topic, partitions_of = whole or WholeTopic(FoundPartitions(), {})
    cache: Cache = ClassicCache(dialect) if dialect.coordinator == "classic" else NewCache(dialect)
    loaded = {shard.partition: add_shard(cache, shard) for shard in shards}
    topic_partitions = None  # If no group has records in several partitions, the count is decided when it is needed.
    if any(len(numbers) > 1 for numbers in cache.partitions_of.values()):
        topic_partitions = topic.decide(partitions_of or cache.partitions_of, read_times)
    cache.choose_answers(topic.option if topic_partitions is None else topic_partitions.count)
    orphans = {group_id: orphan for group_id, orphan in cache.orphans.items() if group_id not in cache.groups}
    return Groups(
        dialect.coordinator,
        dialect.kafka,
        path,
        loaded,
        KnownGroups(cache.groups, GroupParts.build),
        Orphans(orphans, build_orphan),
        cache.partitions_of,
        topic,
        topic_partitions,
    )


def add_shard(cache: Cache, shard: Shard) -> LoadedPartition:
    """Add a shard, and return a copy of `shard.loaded`, with the error if a broker's load would fail."""
    try:
        cache.add(shard)
    except (LoadFailed, BadBytes) as error:
        return replace(shard.loaded, error=str(error))
    return replace(shard.loaded)


_UNEXPECTED_UNLOAD = "Unexpected unload of active group "


class Cache(ABC):
    """The groups and offsets that a coordinator has in memory. Add the shards in ascending order of their
    partitions.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.groups: dict[str, GroupParts] = {}
        self.orphans: dict[str, Orphan] = {}
        self.partitions_of: dict[str, list[int | None]] = {}
        """By group id: the partitions that contain records of the group. None is a log without a partition number."""

    def add(self, shard: Shard) -> None:
        """Raises LoadFailed or BadBytes if a broker's load would fail. The cache then has the same content as the
        broker's.
        """
        for group_id in shard.seen_group_ids:
            partitions = self.partitions_of.setdefault(group_id, [])
            # Only the last element can be this partition, because each shard is added once.
            if partitions[-1:] != [shard.partition]:
                partitions.append(shard.partition)
        self._add_groups(shard)

    @abstractmethod
    def choose_answers(self, partition_count: int | None) -> None:
        """After the last shard, keep only what the home partition of each group answers."""

    @abstractmethod
    def _add_groups(self, shard: Shard) -> None:
        """Add the groups and orphans of a shard, as the coordinator does."""


def read_unloaded_group(error: str) -> str | None:
    if not error.startswith(_UNEXPECTED_UNLOAD):
        return None
    return str(ast.literal_eval(error.removeprefix(_UNEXPECTED_UNLOAD)))


class ClassicCache(Cache):
    """The cache of the classic coordinator: one for all partitions. Of two groups with the same id, it keeps the
    first.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._has_separate_offset_cache = has_separate_offset_cache(dialect)
        self._offsets: dict[str, PartitionOffsets] = {}
        """By group id: the offsets from all partitions. Only Kafka up to 0.10.0 stores offsets separately from groups.
        For newer versions, this mapping is empty."""
        self._ids_with_new_offsets: dict[str, None] = {}

    def choose_answers(self, partition_count: int | None) -> None:
        """One cache answers for all partitions."""

    def _add_groups(self, shard: Shard) -> None:
        assert isinstance(shard, ClassicShard)
        if self._has_separate_offset_cache:
            self._add_offsets(shard)
        if shard.failure is not None:
            raise shard.failure
        committed = self._offsets if self._has_separate_offset_cache else shard.offsets.committed
        new_ids = self._ids_with_new_offsets if self._has_separate_offset_cache else committed
        committed_ids = [group_id for group_id in new_ids if group_id in committed]
        self._ids_with_new_offsets = {}
        pending = pending_by_group(shard.offsets)
        # A group exists if it has a group record. In all versions except 0.9 and 0.10.0, offsets are also enough.
        needs_group_record = self._has_separate_offset_cache and self.dialect.since(0, 9)
        ids_with_offsets = [] if needs_group_record else [*committed_ids, *pending]
        for group_id in dict.fromkeys([*shard.groups, *ids_with_offsets]):
            if group_id not in self.groups:
                group = shard.groups.get(group_id)
                if group is None:
                    group = Group(group_id, shard.partition)
                offsets = committed.get(group_id, {})
                group_pending = {} if needs_group_record else pending.get(group_id, {})
                self.groups[group_id] = GroupParts(group, offsets, group_pending)
        # The last group record of a removed group is a tombstone. The broker's load fails if another partition has
        # loaded a group with the same id. Since 0.10.1, committed offsets in this partition prevent the failure.
        # The broker names the first of its hash set. Which tombstone came first is not known to the native engine.
        for group_id in hash_set_order(sorted(shard.removed_groups), self.dialect.version):
            may_stay = group_id in committed and not self._has_separate_offset_cache
            if group_id in self.groups and not may_stay:
                raise LoadFailed(f"{_UNEXPECTED_UNLOAD}{group_id!r}")

    def _add_offsets(self, shard: ClassicShard) -> None:
        """A broker adds a partition's offsets even if the load fails."""
        for group_id, partition in shard.removed_offsets:
            self._offsets.get(group_id, {}).pop(partition, None)
        for group_id, offsets in shard.offsets.committed.items():
            all_offsets = self._offsets.setdefault(group_id, {})
            all_offsets.update(offsets)
            self._ids_with_new_offsets[group_id] = None
            self.orphans[group_id] = Orphan(all_offsets, {}, shard.partition, is_answered=True)
            if group_id in self.groups:
                self.groups[group_id] = self.groups[group_id]._replace(offsets=all_offsets)
        for group_id, _ in shard.removed_offsets:
            if self._offsets.get(group_id) == {}:
                del self._offsets[group_id]
                del self.orphans[group_id]


class NewCache(Cache):
    """The cache of the new coordinator, which stores each partition separately.

    Only the home partition of a group answers for it (`partition_for`), or a log without a partition number; without a
    partition count, the first partition that contains the group.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._parts_of: dict[tuple[str, int | None], GroupParts | Orphan] = {}
        """By group id and partition: what the partition would answer."""

    def _add_groups(self, shard: Shard) -> None:
        if shard.failure is not None:
            raise shard.failure
        for group in shard.groups.values():
            if isinstance(group, ModernGroup):
                check_loaded(group)
        committed = shard.offsets.committed
        pending = pending_by_group(shard.offsets)
        for group_id in dict.fromkeys([*shard.groups, *committed, *pending]):
            offsets = committed.get(group_id, {})
            group_pending = pending.get(group_id, {})
            loaded_group = shard.groups.get(group_id)
            if isinstance(loaded_group, ModernGroup) and loaded_group.type == "share":
                # A broker returns no offsets of a share group, even if offsets were committed for its id.
                offsets = {}
            parts: GroupParts | Orphan = Orphan(offsets, group_pending, shard.partition)
            if loaded_group is not None:
                parts = GroupParts(loaded_group, offsets, group_pending)
            self._parts_of[group_id, shard.partition] = parts

    def choose_answers(self, partition_count: int | None) -> None:
        for (group_id, partition), parts in self._parts_of.items():
            if partition_count and partition not in (None, partition_for(group_id, partition_count)):
                continue
            if isinstance(parts, GroupParts):
                self.groups.setdefault(group_id, parts)
            else:
                self.orphans.setdefault(group_id, parts)


class ByteProgress:
    """Adds up the bytes that the engines read, and reports the sum, at most `total`, the size of all logs.

    If the native engine hands a partition to the readable engine, both count the bytes of the partition.
    """

    def __init__(self, report: Progress, total: int) -> None:
        self._report = report
        self._total = total
        self._done = 0
        self._lock = Lock()

    def __call__(self, count: int, /) -> None:
        with self._lock:
            self._done = min(self._done + count, self._total)
            self._report("loading", self._done, self._total)
