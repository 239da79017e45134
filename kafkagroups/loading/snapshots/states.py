"""The state of one partition, and how it goes on.

It is the cache as it is before the last step of a load, when transactions are open and nobody can tell which groups
will be known: so going on is what reading on would have been. Where the compiled engine folds the log, the offsets stay
in its arrays; once the readable loader had to take over, they stay in its maps. A half-written or damaged batch at the
end waits; it is read when it has been made good. A partition whose load fails has no state and is read anew each time.
Kafka before 0.10.1 keeps offsets in a cache of their own, of which there are no snapshots.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, Any

from kafkagroups.errors import BadBytes, InvalidLog, LoadFailed, UsageError
from kafkagroups.groups.loading import ClassicShard, Shard
from kafkagroups.groups.offsets import Offsets
from kafkagroups.loading.groups import LoadedPartition, empty_cache
from kafkagroups.log.batch import Batch, record_count
from kafkagroups.log.segments import BytesLike, Damage, Log, base_offset_of, read_batches
from kafkagroups.records.versions import Dialect

if TYPE_CHECKING:
    from kafkagroups.kernels.state import Fold

_HEADER = 61


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
    new, tail = log, None
    starts: dict[str, int] = {}
    if state is None or state.shard is None:
        offsets, start = Offsets(), log.start_offset
        shard = ClassicShard if rules.coordinator == "classic" else Shard
        state = PartitionState(LoadedPartition(0, 0, 0, start, start), [], shard(log.partition, offsets))
    else:
        compiled, since = state.fold is not None, state.loaded.next_offset
        new, starts, tail = _behind(log, since)
    loaded = replace(state.loaded, segments=len(log.segments), error=None, damage=tail)
    if since is not None and not new.segments:
        return replace(state, loaded=loaded)
    done = _folded(state, loaded, new, rules, since) if compiled else None
    if done is None and compiled and since is None:  # perhaps only a half-written batch was in the way
        trimmed, _, tail = _behind(log, None)
        done = _folded(state, replace(loaded, damage=tail), trimmed, rules, None) if tail and trimmed.segments else None
    if done is None:
        done = _replayed(state, loaded, new, rules, since)
        if new.damage:
            place = starts.get(new.damage.file, 0) + new.damage.position
            done.loaded.damage = replace(new.damage, position=place)
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


def _behind(log: Log, since: int | None) -> tuple[Log, dict[str, int], Damage | None]:
    """The whole batches behind an offset (None: all) as a log in memory; at which byte each segment's begin; and what
    is wrong with the end of the last one."""
    known = log.start_offset if since is None else since
    first = max((n for n, name in enumerate(log.segments) if base_offset_of(name) <= known), default=0)
    content: dict[str, BytesLike] = {}
    starts = {}
    end, damage = known if first or since is None else 0, None
    for number, segment in enumerate(log.segments[first:], first + 1):
        data = memoryview(_bytes(log, segment))
        start, at = None, 0
        while len(data) - at >= _HEADER and data[at + 16] == 2:
            size = int.from_bytes(data[at + 8 : at + 12], "big", signed=True) + 12
            if not _HEADER <= size <= len(data) - at:
                break
            end = int.from_bytes(data[at : at + 8], "big") + int.from_bytes(data[at + 23 : at + 27], "big") + 1
            start = at if start is None and (since is None or end > since) else start
            at += size
        try:
            if next(read_batches(bytes(data[at:]), segment), None):  # of an old format: the loader skips what is known
                start, at, end = 0, len(data), max(end, known)
        except InvalidLog as error:
            behind = len(log.segments) - number
            unread = f"; {behind} later segment{'s' * (behind > 1)} not read" if behind else ""
            place = at + (error.position or 0)
            damage = Damage(segment, place, max(end, known) if since else end, error.reason + unread)
        if start is not None:
            content[segment], starts[segment] = data[start:at], start
        if damage:
            break
    if since is not None and end < since and not damage:
        raise UsageError(f"{log.path}: it ends at offset {end}, a snapshot taken at {since} is of another log")
    new = Log(log.path, list(content) or log.segments[-1:], log.partition, content)
    new.segments, new.start_offset = list(content), known
    return new, starts, damage


def _bytes(log: Log, segment: str) -> BytesLike:
    if log.content:
        return log.content[segment]
    try:
        with open(os.path.join(log.folder, segment), "rb") as file:
            return mmap(file.fileno(), 0, access=ACCESS_READ) if os.fstat(file.fileno()).st_size else b""
    except OSError as error:
        raise UsageError(f"{segment}: {error.strerror}") from None
