"""Advances the state of one partition: folds what its log has behind a shard onto a copy of the shard.

The state is the shard before the last step of its load. Transactions may be open, and which groups will be known is not
decided yet. So advancing it gives what reading on would have given. The engine that folded a shard advances it: if the
readable engine had to take over once, it stays. A half-written or damaged batch at the end of the log waits; it is
read when it has been completed. A partition whose load fails is read again from its start.

There are no snapshots of Kafka before 0.10.1, which keeps offsets in a cache of their own.
"""

from __future__ import annotations

from dataclasses import replace

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.groups import fold as readable
from kafkagroups.groups.classic_shard import keeps_offsets_apart
from kafkagroups.groups.offsets import Offsets
from kafkagroups.groups.shard import Shard
from kafkagroups.log.position import Position
from kafkagroups.log.segment_file import ByteRange
from kafkagroups.log.segments import Damage, Log
from kafkagroups.records.versions import Dialect


def advance_shard(shard: Shard | None, log: Log, dialect: Dialect, compiled: bool) -> Shard:
    """Return the shard after what the log has behind it. The given shard is not changed.

    None is a partition that was not read yet; `compiled` chooses its engine.
    Raise UsageError if the log ends before the shard does.
    """
    if keeps_offsets_apart(dialect):
        raise UsageError(
            f"snapshots need Kafka 0.10.1 or newer: Kafka {dialect.kafka} keeps offsets in a cache of their own"
        )
    if shard is None or shard.failure is not None:
        return _fold_whole(log, dialect, compiled)
    rest, tail = _new_part(log, shard.loaded.next_offset)
    if rest is None:
        return replace(shard, loaded=replace(shard.loaded, segments=len(log.segments), damage=tail))
    advanced = _fold_compiled(rest, dialect, shard)
    if advanced is None:
        advanced = readable.fold(rest, dialect, base=shard)
    advanced.loaded.segments = len(log.segments)
    advanced.loaded.damage = rest.damage or tail
    return advanced


def _fold_whole(log: Log, dialect: Dialect, compiled: bool) -> Shard:
    """Fold a log from its start."""
    if compiled:
        shard = _fold_compiled(log, dialect)
        if shard is not None:
            return shard
        # A half-written batch at the end may be the only reason. Without it the engine can continue later.
        trimmed, tail = _new_part(log, None)
        shard = _fold_compiled(trimmed, dialect) if tail and trimmed else None
        if shard is not None:
            shard.loaded.segments = len(log.segments)
            shard.loaded.damage = tail
            return shard
    return readable.fold(log, dialect)


def _fold_compiled(log: Log, dialect: Dialect, base: Shard | None = None) -> Shard | None:
    """Fold a log with the compiled engine. None if it cannot, or if the base was folded by the readable engine."""
    if base is not None and isinstance(base.offsets, Offsets):
        return None
    from kafkagroups.kernels.fold_log import fold_if_possible

    return fold_if_possible(log, dialect, base=base)


def _new_part(log: Log, since: int | None) -> tuple[Log | None, Damage | None]:
    """Return the log of the whole batches that are new since an offset, and what is wrong with the bytes after them.

    The log is None if there are no new batches. Without an offset, all batches are new.
    Raise UsageError if the log ends before the offset.
    """
    position = None if since is None else Position(since)
    known = log.start_offset if since is None else since
    end = known
    ranges: dict[str, ByteRange] = {}
    damage = None
    try:
        for found in log.read_from(position):
            end = found.frame.next_offset
            if found.segment in ranges:
                ranges[found.segment] = ranges[found.segment]._replace(end=found.frame.end)
            elif since is None or end > since:
                ranges[found.segment] = ByteRange(found.frame.position, found.frame.end)
    except InvalidLog as error:
        damage = log.damage_of(error, max(end, known))
    if since is not None and end < since and not damage:
        raise UsageError(f"{log.path}: ends at offset {end}; a snapshot taken at offset {since} is of another log")
    return (log.part(ranges, known) if ranges else None), damage
