"""A broker's load: opens the logs, folds each log into a shard, and adds the shards to one coordinator's cache.

A shard is the state of one partition (groups/shard.py). To fold a log means to apply its records, one after another, to
a shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple

from kafkagroups.errors import BadBytes, LoadFailed, UsageError
from kafkagroups.groups.shard import CountBytes, LoadedPartition, Shard, ignore_bytes
from kafkagroups.loading.caches import Cache, create_cache
from kafkagroups.loading.engines import Engine, choose_engine
from kafkagroups.loading.groups import Groups, collect_groups
from kafkagroups.loading.topic_partitions import FoundPartitions, LogTimes, PartitionsOf, TopicPartitions
from kafkagroups.log.log_to_clean import Progress
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.dialects import Dialect


@dataclass(frozen=True)
class OpenTopic:
    """The logs of a topic, and the rules by which one coordinator loads them.

    Attributes
    ----------
    logs
        The logs of the partitions, in the order in which they are loaded.
    dialect
        The rules of the coordinator and its Kafka version.
    path
        Used in messages, and to tell a folder of partition folders from one partition.
    partitions
        The partition count that the caller gave; None if there is none.
    engine, threads
        The name of the engine that folds the logs, and with how many threads (engines.py). A worker of Spark chooses
        its engine by this name, because its machine can lack the native one.
    stop
        Where reading ends (log/stop.py).
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
        """The engine with the name `engine` on this machine."""
        return choose_engine(self.engine)

    def part(self, *logs: Log) -> OpenTopic:
        """Return the topic with only these logs."""
        return replace(self, logs=logs)

    def check_stop(self) -> None:
        """Raise UsageError if reading ends at an offset, and there are several partitions."""
        if self.stop.until_offset is not None and len(self.logs) > 1:
            raise UsageError(
                f"an offset to stop at needs one partition, but {self.path} has {len(self.logs)}: give the folder of "
                "one partition, or a time to stop at"
            )

    def find_partitions(self) -> FoundPartitions:
        """Return what is known about the partitions of the topic before its partition count is decided."""
        return FoundPartitions.of_logs(self.logs, self.path, self.partitions, self.stop)

    def load(
        self, *, engine: Engine | None = None, whole: WholeTopic | None = None, count_bytes: CountBytes = ignore_bytes
    ) -> Groups:
        """Return the groups that the coordinator has after loading the logs.

        `engine` is used instead of the topic's engine, for example to observe the load. `whole` describes the topic if
        these logs are only a part of it. `count_bytes` is called with the number of bytes that were read since its last
        call.
        """
        cache = create_cache(self.dialect, self.partitions)
        loaded: dict[int | None, LoadedPartition] = {}
        engine = engine or self.chosen_engine
        with ExitStack() as stack:
            shards = engine.fold_logs(self.logs, self.dialect, self.stop, threads=self.threads, count_bytes=count_bytes)
            for shard in stack.enter_context(closing(shards)):
                loaded[shard.partition] = add_shard(cache, shard)
            if whole is None:
                whole = WholeTopic(self.find_partitions(), cache.partitions_of)
            times = LogTimes(self.logs, self.dialect, dict.fromkeys(loaded, self.stop), engine)
            topic_partitions = settle(cache, whole, times)
        return collect_groups(cache, loaded, self.path, whole.topic, topic_partitions)


class WholeTopic(NamedTuple):
    """A topic, and by group id the partitions with records of the group (Groups.partitions_of)."""

    topic: FoundPartitions
    partitions_of: PartitionsOf


def settle(cache: Cache, whole: WholeTopic, read_times: LogTimes) -> TopicPartitions | None:
    """Decide the topic's partition count after all shards were added to a cache, and keep the groups that it answers.

    Return None if no group has records in several partitions. The count then changes no answer, and it is decided when
    it is needed.
    """
    if not cache.has_shared_groups:
        return None
    topic_partitions = whole.topic.decide(whole.partitions_of, read_times)
    if topic_partitions.count is not None:
        cache.keep_home_groups(topic_partitions.count)
    return topic_partitions


def add_shard(cache: Cache, shard: Shard) -> LoadedPartition:
    """Add a shard to a cache. Return a copy of `shard.loaded`, with the error if a broker's load would fail."""
    try:
        cache.add(shard)
    except (LoadFailed, BadBytes) as error:
        return replace(shard.loaded, error=str(error))
    return replace(shard.loaded)


class ByteProgress:
    """Adds up the bytes that the engines read, and calls `report` with "loading", the sum, and `total`.

    An engine calls this object with the number of bytes that it has read since its last call. The sum is limited to
    `total`, the size of all logs in bytes: if the native engine hands a partition to the readable engine, both
    engines count the bytes of the partition.
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
