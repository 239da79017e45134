"""A broker's load: opens the logs, folds each log into a shard, and adds the shards to one coordinator's cache.

A shard is the state of one partition (groups/shard.py). To fold a log means to apply its records, one after another, to
a shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kafkagroups.errors import BadBytes, LoadFailed, UsageError
from kafkagroups.groups.shard import CountBytes, LoadedPartition, Shard, ignore_bytes
from kafkagroups.loading.caches import Cache, create_cache
from kafkagroups.loading.engines import PYTHON, Engine, pause_garbage_collector
from kafkagroups.loading.groups import Groups, collect_groups
from kafkagroups.loading.record_times import LogTimes
from kafkagroups.loading.topic_partitions import PartitionsOf, ReadTimes, Topic, TopicPartitions
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.folders import open_logs
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records import dialects
from kafkagroups.records.dialects import Dialect


def open_for_load(
    path: str | Path,
    coordinator: str,
    kafka: str | None,
    partitions: int | None = None,
    until: int | None = None,
    find_logs: Callable[[str | Path], list[Log]] = open_logs,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    *,
    past_damage: bool = False,
) -> tuple[list[Log], Dialect]:
    """Return the logs at a path, and the dialect, which contains the rules of the coordinator and its Kafka version.

    `find_logs` is the function that opens the logs. The other parameters are those of `kafkagroups.load`. Raise
    UsageError in the same cases as `kafkagroups.load`.
    """
    if partitions is not None and partitions < 1:
        raise UsageError(f"a topic has at least 1 partition, not {partitions}")
    dialect = dialects.dialect(coordinator, kafka)
    logs = [log.limit_batches(max_batch_bytes) for log in find_logs(path)]
    if past_damage:
        logs = [log.skip_damage() for log in logs]
    if until is not None and len(logs) > 1:
        raise UsageError(
            f"an offset to stop at needs one partition, but {path} has {len(logs)}: give the folder of one partition, "
            "or a time to stop at"
        )
    return logs, dialect


def load_logs(
    logs: Iterable[Log],
    dialect: Dialect,
    path: str = "",
    *,
    partitions: int | None = None,
    stop: Stop = NO_STOP,
    engine: Engine = PYTHON,
    threads: int = 0,
    count_bytes: CountBytes = ignore_bytes,
    whole: WholeTopic | None = None,
) -> Groups:
    """Return the groups that one coordinator has after loading these logs in this order.

    `path` is used in messages, and to tell a folder of partition folders from one partition. `stop` says where reading
    ends (log/stop.py). `count_bytes` is called with the number of bytes that were read since its last call.
    `partitions` and `threads` are those of `kafkagroups.load`. `whole` describes the topic if these logs are only a
    part of it; None if these logs are all logs.
    """
    logs = list(logs)
    cache = create_cache(dialect, partitions)
    loaded: dict[int | None, LoadedPartition] = {}
    with ExitStack() as stack:
        stack.enter_context(pause_garbage_collector())
        shards = engine.fold_logs(logs, dialect, stop, threads=threads, count_bytes=count_bytes)
        for shard in stack.enter_context(closing(shards)):
            loaded[shard.partition] = add_shard(cache, shard)
        if whole is None:
            whole = WholeTopic(Topic.of_logs(logs, path, partitions, stop), cache.partitions_of)
        topic_partitions = settle(cache, whole, LogTimes(logs, dialect, dict.fromkeys(loaded, stop), engine))
    return collect_groups(cache, loaded, path, whole.topic, topic_partitions)


class WholeTopic(NamedTuple):
    """A topic, and by group id the partitions with records of the group (Groups.partitions_of)."""

    topic: Topic
    partitions_of: PartitionsOf


def settle(cache: Cache, whole: WholeTopic, read_times: ReadTimes) -> TopicPartitions | None:
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
