"""What comes out of the fold, put into a coordinator's cache; who knows whom, the cache's own rules decide."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.group import Group
from kafkagroups.groups.loading import ClassicCache, ClassicShard, NewCache, Shard
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.offsets import Offsets
from kafkagroups.kernels.kept_group import KeptGroup, KeptRecord
from kafkagroups.log.batch import LogRecord
from kafkagroups.records.group_keys import GroupIdKey
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.serde import Record

if TYPE_CHECKING:
    from kafkagroups.kernels.state import Fold

AnyCache = ClassicCache | NewCache
AnyShard = ClassicShard | Shard


@dataclass
class Scanned:
    """What a log says, its offsets folded: the same as its batches, for a cache that takes it.

    `last_values` has, for each group that an offset's record names, the newest such record with a value (-1: there are
    only tombstones); `others` are the records of other types, in order. `next_offset` is where it ended.
    `commits` tells of some groups at which records a commit may have made them: the first, and the first after each
    record of the group's own.
    """

    offsets: Offsets
    last_values: Mapping[str, int]
    others: Sequence[KeptRecord]
    batches: int
    records: int
    next_offset: int
    fold: Fold
    commits: Callable[[Collection[str]], Sequence[tuple[int, str]]]

    def into(self, cache: AnyCache, partition: int | None) -> bool:
        """Loads one partition into the cache. False, and nothing has changed: only Cache.load can tell."""
        named, cache.named = cache.named, {}
        shard = empty_shard(cache, partition)
        try:
            if taken := self.onto(cache, shard):
                cache.add(shard)
        except (LoadFailed, BadBytes):
            taken = False
        named, cache.named = cache.named, named
        cache.name_groups(partition, named if taken else ())
        return taken

    def onto(self, cache: AnyCache, shard: AnyShard, since: int = 0) -> bool:
        """Replays what was read from `since` on onto a shard; its offsets are then the fold's. False: as `into`."""
        if not cache.rules.since(0, 10, 1):
            return False
        shard.offsets = self.offsets
        cache.name_groups(shard.partition, self.last_values)
        cache.name_groups(shard.partition, (each.plain for each in self.others if each.plain is not None))
        if isinstance(cache, ClassicCache) and isinstance(shard, ClassicShard):
            self._onto_classic(cache, shard)
        elif isinstance(shard, Shard):
            self._onto_new(cache, shard, since)
        return True

    def _onto_classic(self, cache: ClassicCache, shard: ClassicShard) -> None:
        for each in self.others:
            if each.plain is not None:
                _replay_plain(cache, shard, each.plain, each)
                if each.value is None:
                    shard.removed[each.plain] = None
                else:
                    shard.removed.pop(each.plain, None)
            else:
                record, group_id = cache.decode(shard.partition, None, _log_record(each))
                cache.replay_group(shard, each.offset, record, group_id)

    def _onto_new(self, cache: AnyCache, shard: Shard, since: int) -> None:
        partition = shard.partition
        steps: list[tuple[int, Record | KeptRecord | None, str]] = []
        for each in self.others:
            if each.plain is not None:
                steps.append((each.offset, each, each.plain))
            else:
                steps.append((each.offset, *cache.decode(partition, None, _log_record(each))))
        # What a newer group's record does depends on whether a commit had made a group of that name by then.
        entwined = {group for _, record, group in steps if isinstance(record, Record) and _is_newer(record)}
        entwined &= self.last_values.keys()
        if made := self.commits(entwined) if entwined else ():
            steps += [(offset, None, group) for offset, group in made if offset < self.next_offset]
            steps.sort(key=lambda step: step[0])
        ended: dict[str, int] = {}
        for offset, record, group_id in steps:
            if record is None:
                shard.groups.setdefault(group_id, Group(group_id, partition))
                continue
            if isinstance(record, KeptRecord):
                _replay_plain(cache, shard, group_id, record)
            elif isinstance(record.key, GroupMetadataKey | GroupIdKey):
                shard.replay_group(group_id, offset, record, cache.rules)
            else:
                continue
            if group_id not in shard.groups:
                ended[group_id] = offset
        for group_id, last in self.last_values.items():
            is_new = group_id not in shard.groups and group_id not in entwined
            if is_new and last >= since and last > ended.get(group_id, -1):
                shard.groups[group_id] = Group(group_id, partition)


def empty_shard(cache: AnyCache, partition: int | None) -> AnyShard:
    return ClassicShard(partition, Offsets()) if isinstance(cache, ClassicCache) else Shard(partition, Offsets())


def _log_record(kept: KeptRecord) -> LogRecord:
    return LogRecord(kept.offset, -1, kept.key, kept.value)


def _is_newer(record: Record) -> bool:
    return isinstance(record.key, GroupIdKey)


def _replay_plain(cache: AnyCache, shard: AnyShard, group_id: str, kept: KeptRecord) -> None:
    """A group's plain record, which nobody need decode: the group is known, or no longer."""
    groups: dict[str, AnyGroup] = shard.groups
    if kept.value is None:
        groups.pop(group_id, None)
    else:
        groups[group_id] = KeptGroup(group_id, shard.partition, kept, cache.rules)
