"""The state of one partition, and how it goes on.

It is the cache as it is before the last step of a load, when transactions are open and nobody can tell which groups
will be known: so going on is what reading on would have been. Where the compiled engine folds the log, the offsets stay
in its arrays; once the readable loader had to take over, they stay in its maps. A half-written or damaged batch at the
end waits; it is read when it has been made good. A partition whose load fails has no state and is read anew each time.
Kafka before 0.10.1 keeps offsets in a cache of their own, of which there are no snapshots.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkagroups.errors import BadBytes, InvalidLog, LoadFailed, UsageError
from kafkagroups.groups.loading import ClassicShard, Shard
from kafkagroups.groups.offsets import Offsets
from kafkagroups.loading.groups import LoadedPartition, empty_cache
from kafkagroups.log.batch import Batch, record_count
from kafkagroups.log.position import Position
from kafkagroups.log.segment_file import ByteRange
from kafkagroups.log.segments import Damage, Log
from kafkagroups.records.versions import Dialect

if TYPE_CHECKING:
    from kafkagroups.kernels.state import Fold


@dataclass
class PartitionState:
    """A partition, read up to `loaded.next_offset`. `names` are the groups with records there.

    `shard` is None when the load failed, or cannot go on. The offsets are `fold`'s, or, without one, the shard's.
    """

    loaded: LoadedPartition
    names: list[str] = field(default_factory=list)
    shard: ClassicShard | Shard | None = None
    fold: Fold | None = None


def advanced(state: PartitionState | None, log: Log, rules: Dialect, compiled: bool) -> PartitionState:
    """The state after what the log holds behind it; the given one stays as it is. `compiled` counts for a new one.

    UsageError: the log ends before the state does.
    """
    if not rules.since(0, 10, 1):
        raise UsageError(f"there are snapshots of Kafka 0.10.1 and newer: {rules.kafka} keeps offsets in another cache")
    since = None
    tail = None
    new: Log | None = log
    if state is None or state.shard is None:
        offsets, start = Offsets(), log.start_offset
        shard = ClassicShard if rules.coordinator == "classic" else Shard
        state = PartitionState(LoadedPartition(0, 0, 0, start, start), [], shard(log.partition, offsets))
    else:
        compiled, since = state.fold is not None, state.loaded.next_offset
        new, tail = _new_part(log, since)
    loaded = replace(state.loaded, segments=len(log.segments), error=None, damage=tail)
    if new is None:
        return replace(state, loaded=loaded)
    done = _folded(state, loaded, new, rules, since) if compiled else None
    if done is None and compiled and since is None:  # Perhaps only the damaged end was in the way.
        trimmed, tail = _new_part(log, None)
        if tail and trimmed:
            done = _folded(state, replace(loaded, damage=tail), trimmed, rules, None)
    if done is None:
        done = _replayed(state, loaded, new, rules, since)
        if new.damage:
            done.loaded.damage = new.damage
    return done


def whole_shard(state: PartitionState) -> Any:
    """A shard of its own, with the state's offsets."""
    shard = _copied(state.shard)
    if state.fold is not None:
        from kafkagroups.kernels.logs import offsets_of

        shard.offsets = offsets_of(state.fold)[0]
    return shard


def _copied(shard: Any) -> Any:
    return pickle.loads(pickle.dumps(shard))


def _replayed(
    state: PartitionState, loaded: LoadedPartition, new: Log, rules: Dialect, since: int | None
) -> PartitionState:
    """By the readable loader."""
    cache, shard = empty_cache(rules), whole_shard(state)
    shard.offsets.committed = {group: dict(offsets) for group, offsets in shard.offsets.committed.items()}
    batches = _counted(new, loaded, since)
    try:
        cache.scan(shard, batches)
    except (LoadFailed, BadBytes) as error:
        loaded.error = str(error)
        for _ in batches:
            pass
    return PartitionState(loaded, _named(state, cache), None if loaded.error else shard)


def _folded(
    state: PartitionState, loaded: LoadedPartition, new: Log, rules: Dialect, since: int | None
) -> PartitionState | None:
    """By the compiled engine; None when the readable loader is to do it."""
    from kafkagroups.kernels.logs import fold_log, scanned
    from kafkagroups.kernels.state import Fold

    fold = None
    if state.fold is not None:
        fold = Fold.restored(rules, {name: array.copy() for name, array in state.fold.saved().items()})
    fold = fold_log(new, rules, onto=fold)
    if fold is None:
        return None
    cache, shard = empty_cache(rules), _copied(state.shard)
    found = scanned(new, fold)
    try:
        if not found.onto(cache, shard, since or 0):
            return None
    except (LoadFailed, BadBytes):
        return None
    shard.offsets = Offsets()
    fold.go_on()
    loaded.batches, loaded.records, loaded.next_offset = found.batches, found.records, found.next_offset
    return PartitionState(loaded, _named(state, cache), shard, fold)


def _named(state: PartitionState, cache: Any) -> list[str]:
    return list(dict.fromkeys([*state.names, *cache.named]))


def _counted(log: Log, loaded: LoadedPartition, since: int | None) -> Iterator[Batch]:
    for batch in log:
        if since is None or batch.next_offset > since:
            loaded.batches += 1
            loaded.records += record_count(batch)
            loaded.next_offset = batch.next_offset
            yield batch


def _new_part(log: Log, since: int | None) -> tuple[Log | None, Damage | None]:
    """Return the log of the whole batches that are new since an offset, and what is wrong with the bytes after them.

    The log is None if there are no new batches. Without an offset, all batches are new.
    UsageError: the log ends before the offset.
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
