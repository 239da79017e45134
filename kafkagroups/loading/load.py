"""A broker's load: opens the logs, folds each log into a shard, and adds the shards to one coordinator's cache.

What a start does with a segment that ends with zeros is judged here, too. Zeros follow the last batch if a broker has
reserved the file's space (log.preallocate=true) and then died, or if the file system lost the end of the file. Kafka's
readers refuse a batch with a length below 14, but they ignore a few bytes at the end:

    reader                         reads                                        ignores at most
    FileLogInputStream             a file: for the next offset of the log when  _IGNORED_IN_FILE bytes
                                   a broker starts, and to find an offset
    ByteBufferLogInputStream       a piece of a file in memory: for a load      _IGNORED_IN_MEMORY bytes

A broker that finds no mark of a clean shutdown repairs the log: it cuts a segment after its last valid batch. It also
repairs every segment that has no index files. A failover loads from the segment that the new leader has written as a
follower, with the space that is reserved in it.

Simpler than Kafka: a load reads a file in pieces of offsets.load.buffer.size (5 MiB). If the last batch ends exactly at
the end of a piece, Kafka does not reach the zeros, and the load succeeds.
Source: FileLogInputStream.nextBatch, ByteBufferLogInputStream.nextBatchSize, LogLoader.load, LogSegment.recover,
CoordinatorLoaderImpl.load (4.3.1); captured starts of 3.9.2, 4.3.1 and 4.4.0 (tests/captured, releases/zero).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from enum import Enum
from threading import Lock
from typing import NamedTuple

from kafkagroups.errors import BadBytes, LoadFailed, UsageError
from kafkagroups.groups.replay import CountBytes, LoadedPartition, Shard, ignore_bytes
from kafkagroups.loading.caches import Cache, create_cache
from kafkagroups.loading.engines import Engine, choose_engine
from kafkagroups.loading.groups import Groups, collect_groups
from kafkagroups.loading.topic_partitions import FoundPartitions, LogTimes, PartitionsOf, TopicPartitions
from kafkagroups.log.batch_frames import Zeros
from kafkagroups.log.log_to_clean import Progress
from kafkagroups.log.segments import NO_STOP, Log, Stop
from kafkagroups.records.dialects import Dialect


@dataclass(frozen=True)
class OpenTopic:
    """The logs of a topic, and the rules by which one coordinator loads them.

    Attributes
    ----------
    path
        Used in messages, and to tell a folder of partition folders from one partition.
    partitions
        The partition count that the caller gave; None if there is none.
    engine, threads
        The name of the engine that folds the logs, and with how many threads (engines.py). A worker of Spark chooses
        its engine by this name, because its machine can lack the native one.
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
        return FoundPartitions.of_logs(self.logs, self.path, self.partitions, self.stop)

    def load(
        self, *, engine: Engine | None = None, whole: WholeTopic | None = None, count_bytes: CountBytes = ignore_bytes
    ) -> Groups:
        """Return the groups that the coordinator has after loading the logs.

        `engine` is used instead of the topic's engine, for example to observe the load. `whole` describes the topic if
        these logs are only a part of it.
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

    The sum is limited to `total`, the size of all logs in bytes: if the native engine hands a partition to the readable
    engine, both engines count the bytes of the partition.
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


_IGNORED_IN_FILE = 17
"""The bytes of a batch's header up to its magic."""
_IGNORED_IN_MEMORY = 11
"""The reader of bytes in memory needs 12 bytes to read the length of a batch."""


class Start(Enum):
    """A kind of start. A failover is the start of a partition's new leader in a running broker."""

    UNCLEAN = "after an unclean shutdown"
    WITHOUT_INDEXES = "without index files"
    CLEAN = "after a clean shutdown"
    FAILOVER = "at a failover"


class Outcome(Enum):
    """What a broker does with the partition."""

    CUTS_ZEROS = "cuts the zeros off, and loads all batches"
    CUTS_LATER_SEGMENTS = "cuts the zeros off, deletes all later segments, and loads the batches before the zeros"
    IGNORES_ZEROS = "ignores the zeros, and loads all batches"
    LOAD_FAILS = "fails to load this partition: Record size 0 is less than the minimum record overhead (14)"
    LOADS_NOTHING = (
        "fails to load this partition, but answers as if its groups had never existed; the error is only in its log"
    )
    DOES_NOT_START = "does not start: Found record size 0 smaller than minimum record overhead (14)"

    @property
    def is_loaded(self) -> bool:
        return self in (Outcome.CUTS_ZEROS, Outcome.CUTS_LATER_SEGMENTS, Outcome.IGNORES_ZEROS)


def judge_start(start: Start, zeros: Zeros, coordinator: str) -> Outcome:
    is_last_segment = zeros.later_segments == 0
    has_batches = zeros.position > 0  # If zeros are not at the start of a segment, they follow a batch.
    if start is Start.UNCLEAN:
        return Outcome.CUTS_ZEROS if is_last_segment else Outcome.CUTS_LATER_SEGMENTS
    if start is Start.WITHOUT_INDEXES:
        return Outcome.CUTS_ZEROS
    if start is Start.CLEAN and is_last_segment and zeros.bytes > _IGNORED_IN_FILE:
        return Outcome.DOES_NOT_START
    if is_last_segment and not has_batches:
        return Outcome.IGNORES_ZEROS  # The load ends before this segment, at the next offset of the log.
    # In a segment without batches, the load searches for its next offset before it reads a piece into memory.
    ignored_bytes = _IGNORED_IN_MEMORY if has_batches else _IGNORED_IN_FILE
    if zeros.bytes <= ignored_bytes:
        return Outcome.IGNORES_ZEROS
    return Outcome.LOADS_NOTHING if coordinator == "classic" else Outcome.LOAD_FAILS
