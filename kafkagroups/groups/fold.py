"""The readable engine: fold one log into a shard. How the two coordinators differ.

A simple group has offset records but no group record. The table shows how Kafka's two coordinators differ:

                                  classic (Scala, up to 3.9)            new (Java, from 4.0)
    a commit is transactional if  its batch has the transactional bit   its batch has a producer id
    a group tombstone             keeps the offsets: the group becomes  hides the offsets until a newer commit or
                                  a simple group                        group record creates the group again
    the last offset is deleted    a simple group no longer exists       a simple group stays, Empty
    a group is created            after the whole log was read          at the group's first record
    a control batch               only its first record is a marker     each record is a marker
    a load fails at a record      the broker has no group of the        the broker has no group: every request gets
                                  partition                             the error NOT_COORDINATOR
    a load fails after the last   the broker has all groups             does not happen
    record
    a group id in two partitions  one cache for all partitions: the     each partition has its own groups
                                  group that was loaded first stays
    records of consumer, share    are skipped                           are loaded (modern.py)
    and streams groups

A marker commits or aborts all pending commits of its producer id. Producer epochs are not compared. A pending commit
becomes the group's offset only if the committed offset is older. A group record takes effect immediately, even in a
transaction. Record type 2 is the record of a classic group. In the new coordinator a tombstone of type 2 deletes a
group of any type, and a value of type 2 replaces a group of any type.

Simpler than Kafka: during a load on a broker, the log can grow and another broker can become the leader. The broker
therefore checks the high watermark and the coordinator epoch. Here the log does not change during a load, so these
checks are not needed. `fold` does not start what a broker starts after a load: the session timers, the expiration and
the check of group.max.size.
Source: for the classic coordinator, GroupMetadataManager.doLoadGroupsAndOffsets (3.9; tags 0.8.2.2 to 2.8.2 for older
rules); for the new coordinator, CoordinatorLoaderImpl, OffsetMetadataManager.replay and GroupMetadataManager.replay
(trunk of October 2024).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.log_records import describe_rest
from kafkagroups.groups.observer import NO_OBSERVER, Observer
from kafkagroups.groups.shard import ClassicShard, CountBytes, LoadedPartition, NewShard, Shard, ignore_bytes
from kafkagroups.helpers import MAX_INT64
from kafkagroups.log.batch import Batch, record_count
from kafkagroups.log.segment_file import base_offset_of
from kafkagroups.log.segments import NO_STOP, Log, Notes, Stop, batches_until
from kafkagroups.records.dialects import Dialect


def fold(
    log: Log,
    dialect: Dialect,
    stop: Stop = NO_STOP,
    count_bytes: CountBytes = ignore_bytes,
    observer: Observer = NO_OBSERVER,
    notes: Notes | None = None,
) -> Shard:
    """Return the shard of a log. `stop` says where reading ends (log/segments.py).

    `count_bytes` receives the size of each batch in bytes. The methods of `observer` are called for each batch and
    record (observer.py). `notes` says what else the reading has found so far.
    """
    notes = Notes() if notes is None else notes
    shard = create_shard(log, dialect)
    loader = _Loader(log)
    batches = loader.select(_count_batches(batches_until(log, stop, notes), shard, count_bytes, observer))
    replay_batches(shard, batches, observer)
    if dialect.coordinator == "new" and shard.failure is None:
        shard.failure = loader.find_failure()
    shard.loaded.damage = describe_rest(log, notes.damage, dialect)
    shard.loaded.gaps = notes.gaps if log.skips_damage else None
    shard.loaded.zeros = notes.zeros
    shard.loaded.start = log.start_failure or notes.recovery.failure
    return shard


class _Loader:
    """What a coordinator reads of a log whose offsets fall, and whether the new coordinator fails because of them.

    It asks for the next offset, and gets the rest of the segment with the largest base offset up to this offset, from
    the first batch on that reaches it. So of overlapping segments, the batches are not read that are behind the offset.
    Source (4.3.1): UnifiedLog.read; CoordinatorLoaderImpl.processMemoryRecords;
    SnapshottableCoordinator.updateLastWrittenOffset.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._end = self._next_offset = self._newest = log.start_offset
        self._falls: list[tuple[int, int]] = []
        """Each next offset that is not above an earlier one, with the largest earlier one."""

    def select(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches that a coordinator reads."""
        bases = [base_offset_of(segment) for segment in self._log.segments]
        segments = iter(zip(self._log.segments, [*bases[1:], MAX_INT64], strict=True))
        segment: str | None = None
        is_read = False
        for batch in batches:
            self._end = batch.next_offset
            if batch.file != segment:
                is_read = segment is None
                segment, next_base = next((each for each in segments if each[0] == batch.file), (batch.file, MAX_INT64))
            if not is_read and (batch.last_offset < self._next_offset or next_base <= self._next_offset):
                continue
            is_read = True
            self._next_offset = batch.next_offset
            if self._next_offset <= self._newest:
                self._falls.append((self._next_offset, self._newest))
            self._newest = max(self._newest, self._next_offset)
            yield batch

    def find_failure(self) -> LoadFailed | None:
        """Return why the load fails: an offset from the end of the log on comes again, or a smaller one.

        The coordinator notes these offsets as written, because the high watermark is not above them.
        """
        for offset, newest in self._falls:
            if offset >= self._end:
                partition = f"__consumer_offsets-{self._log.partition}"
                reason = f"New last written offset {offset} of {partition} must be greater than {newest}."
                return LoadFailed(reason, offset - 1)
        return None


def fold_batches(
    partition: int | None, batches: Iterable[Batch], dialect: Dialect, observer: Observer = NO_OBSERVER
) -> Shard:
    """Return the shard of batches in memory, without a log on disk."""
    shard = _choose_shard_class(dialect)(partition, dialect)
    replay_batches(shard, batches, observer)
    return shard


def replay_batches(shard: Shard, batches: Iterable[Batch], observer: Observer = NO_OBSERVER) -> None:
    """Replay batches onto a shard.

    If the load fails as it would on a broker, the error becomes `shard.failure`. The batches after the failure are only
    counted.
    """
    unread_batches = iter(batches)
    try:
        shard.replay(unread_batches, observer)
    except (LoadFailed, BadBytes) as error:
        # A traceback refers to the variables of the load, so it would keep all decoded batches in memory.
        shard.failure = error.with_traceback(None)
        shard.loaded.record_offset = error.offset
        # The iterator counts each batch that it yields (`_count_batches`).
        for _ in unread_batches:
            pass


def create_shard(log: Log, dialect: Dialect) -> Shard:
    """Return the shard of a log before the first batch is read."""
    start = log.start_offset
    loaded = LoadedPartition(len(log.segments), start_offset=start, next_offset=start)
    return _choose_shard_class(dialect)(log.partition, dialect, loaded)


def _choose_shard_class(dialect: Dialect) -> type[ClassicShard] | type[NewShard]:
    return ClassicShard if dialect.coordinator == "classic" else NewShard


def _count_batches(
    batches: Iterable[Batch], shard: Shard, count_bytes: CountBytes, observer: Observer
) -> Iterator[Batch]:
    loaded = shard.loaded
    for batch in batches:
        count_bytes(batch.size)
        observer.start_batch(shard.partition, batch)
        loaded.batches += 1
        loaded.records += batch.count if batch.magic == 2 else record_count(batch)
        loaded.next_offset = batch.next_offset
        yield batch
