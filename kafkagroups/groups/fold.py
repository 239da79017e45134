"""The readable engine: fold one log into a shard, batch by batch. Lists how the two coordinators differ.

Two coordinators read the same bytes, each in its own way. Both apply records in the order of the log. These are their
differences, as they are in Kafka:

                                  classic (Scala, up to 3.9)            new (Java, from 4.0)
    a commit is transactional     its batch has the transactional bit   its batch has a producer id
    a group tombstone             keeps the offsets: the group becomes  hides the offsets until a later record
                                  a simple group                        of the group makes it known again
    all offsets removed           a group without record is unknown     the group stays, Empty
    groups are built              when the log has been read            record by record
    a control batch               its first record counts               each record counts
    a load that fails             serves what was in the cache: nothing serves nothing: NOT_COORDINATOR
                                  while reading, all at its last step
    an id in two partitions       one cache: the first one loaded stays each partition has its own groups
    consumer, share, streams      are skipped                           modern.py

A marker decides everything pending of its producer id; epochs are not compared. A pending commit becomes the group's
offset only if the committed offset is older. Group records ignore transactions. Under the new coordinator a tombstone
of type 2 deletes a group of any type, and a value of type 2 replaces it.

Simpler than Kafka: the log is complete when it is read (no high watermark, no coordinator epochs). Nothing runs
afterwards: sessions, expiry and group.max.size belong to a living broker.
Source: GroupMetadataManager.doLoadGroupsAndOffsets (3.9; tags 0.8.2.2 to 2.8.2 for older rules),
CoordinatorLoaderImpl, OffsetMetadataManager.replay, GroupMetadataManager.replay (trunk of October 2024).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.classic_shard import ClassicShard
from kafkagroups.groups.new_shard import NewShard
from kafkagroups.groups.observer import NO_OBSERVER, Observer
from kafkagroups.groups.offsets import Offsets, ShardOffsets
from kafkagroups.groups.shard import CountBytes, LoadedPartition, Shard, ignore_bytes
from kafkagroups.log.batch import Batch, record_count
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop, batches_until
from kafkagroups.records.versions import Dialect


def fold(
    log: Log,
    dialect: Dialect,
    stop: Stop = NO_STOP,
    base: Shard | None = None,
    count_bytes: CountBytes = ignore_bytes,
    observer: Observer = NO_OBSERVER,
) -> Shard:
    """Fold a log, up to a stop, into a shard.

    With a `base`, batches below its next offset are skipped and the others are replayed onto a copy of it.
    `count_bytes` gets the size of each batch. The observer gets what becomes of each record.
    """
    shard = create_shard(log, dialect) if base is None else resume_shard(base, log, Offsets.copy_of(base.offsets))
    since = None if base is None else base.loaded.next_offset
    batches = _read(batches_until(log, stop), shard, since, count_bytes, observer)
    replay_batches(shard, batches, observer)
    shard.loaded.damage = log.damage
    return shard


def fold_batches(
    partition: int | None, batches: Iterable[Batch], dialect: Dialect, observer: Observer = NO_OBSERVER
) -> Shard:
    """Fold batches that are in no log on disk into a shard."""
    shard = _shard_class(dialect)(partition, dialect)
    replay_batches(shard, batches, observer)
    return shard


def replay_batches(shard: Shard, batches: Iterable[Batch], observer: Observer = NO_OBSERVER) -> None:
    """Replay batches onto a shard. If that broker's load fails, keep the failure and only read the rest."""
    rest = iter(batches)
    try:
        shard.replay(rest, observer)
    except (LoadFailed, BadBytes) as error:
        # A traceback would keep the whole load in memory.
        shard.failure = error.with_traceback(None)
        for _ in rest:
            pass


def create_shard(log: Log, dialect: Dialect, offsets: ShardOffsets | None = None) -> Shard:
    """Return the shard of a log of which nothing has been read."""
    start = log.start_offset
    loaded = LoadedPartition(len(log.segments), start_offset=start, next_offset=start)
    return _shard_class(dialect)(log.partition, dialect, loaded, Offsets() if offsets is None else offsets)


def _shard_class(dialect: Dialect) -> type[ClassicShard] | type[NewShard]:
    return ClassicShard if dialect.coordinator == "classic" else NewShard


def resume_shard(base: Shard, log: Log, offsets: ShardOffsets) -> Shard:
    """Return a copy of a shard, with these offsets, onto which the rest of its log can be folded."""
    shard = base.copy_with_offsets(offsets)
    shard.loaded = replace(base.loaded, segments=len(log.segments), error=None, damage=None)
    shard.failure = None
    return shard


def _read(
    batches: Iterable[Batch], shard: Shard, since: int | None, count_bytes: CountBytes, observer: Observer
) -> Iterator[Batch]:
    """Yield the batches that end behind `since`, and count them."""
    for batch in batches:
        count_bytes(batch.size)
        if since is not None and batch.next_offset <= since:
            continue
        observer.batch(shard.partition, batch)
        shard.loaded.batches += 1
        shard.loaded.records += record_count(batch)
        shard.loaded.next_offset = batch.next_offset
        yield batch
