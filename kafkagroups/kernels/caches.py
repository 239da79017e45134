"""What comes out of the fold, put into a coordinator's cache; who knows whom, the cache's own rules decide."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.group import Group, group_from_record
from kafkagroups.groups.loading import Cache, ClassicCache, ClassicShard, NewCache, Shard
from kafkagroups.groups.modern import check_loaded
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup
from kafkagroups.groups.offsets import Offsets
from kafkagroups.kernels.kept import KeptRecord
from kafkagroups.kernels.kept_group import KeptGroup
from kafkagroups.log.batch import LogRecord
from kafkagroups.records.dialect import Dialect
from kafkagroups.records.group_keys import GroupIdKey
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.serde import Record, decode


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
    commits: Callable[[Collection[str]], Sequence[tuple[int, str]]]

    def into(self, cache: Cache, partition: int | None) -> bool:
        """Loads one partition into the cache. False, and nothing has changed: only Cache.load can tell."""
        named, cache.named = cache.named, {}
        try:
            taken = self._into_new(cache, partition) if isinstance(cache, NewCache) else False
            if isinstance(cache, ClassicCache):
                taken = self._into_classic(cache, partition)
        except (LoadFailed, BadBytes):
            taken = False
        named, cache.named = cache.named, named
        for group_id in named if taken else ():
            cache.name_group(partition, group_id)
        return taken

    def _into_classic(self, cache: ClassicCache, partition: int | None) -> bool:
        if not cache.rules.since(0, 10, 1):
            return False
        shard = ClassicShard(partition, self.offsets)
        for group_id in self.last_values:
            cache.name_group(partition, group_id)
        for each in self.others:
            if each.is_plain:
                group_id = _plain(cache, shard, each)
                if each.value is None:
                    shard.removed[group_id] = None
                else:
                    shard.removed.pop(group_id, None)
            else:
                record, group_id = cache.decode(partition, None, _log_record(each))
                cache.replay_group(shard, each.offset, record, group_id)
        cache.add(shard)
        return True

    def _into_new(self, cache: NewCache, partition: int | None) -> bool:
        shard = Shard(partition, self.offsets)
        steps: list[tuple[int, Record | KeptRecord | None, str]] = []
        for each in self.others:
            record, group_id = (each, "") if each.is_plain else cache.decode(partition, None, _log_record(each))
            steps.append((each.offset, record, group_id))
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
                group_id = _plain(cache, shard, record)
            elif isinstance(record.key, GroupMetadataKey | GroupIdKey):
                shard.replay_group(group_id, offset, record, cache.rules)
            else:
                continue
            if group_id not in shard.groups:
                ended[group_id] = offset
        for group_id, last in self.last_values.items():
            cache.name_group(partition, group_id)
            if group_id not in shard.groups and group_id not in entwined and last > ended.get(group_id, -1):
                shard.groups[group_id] = Group(group_id, partition)
        for group in shard.groups.values():
            if isinstance(group, ModernGroup):
                check_loaded(group)
        cache.add(shard)
        return True


def _log_record(kept: KeptRecord) -> LogRecord:
    return LogRecord(kept.offset, -1, kept.key, kept.value)


def _is_newer(record: Record) -> bool:
    return isinstance(record.key, GroupIdKey)


def _plain(cache: Cache, shard: ClassicShard | Shard, kept: KeptRecord) -> str:
    """A group's plain record, which nobody need decode: the group is known, or no longer. Gives its name."""
    group_id = kept.key[4 : 4 + int.from_bytes(kept.key[2:4], "big")].decode()
    cache.name_group(shard.partition, group_id)
    groups: dict[str, AnyGroup] = shard.groups
    if kept.value is None:
        groups.pop(group_id, None)
    else:
        groups[group_id] = KeptGroup(group_id, shard.partition, partial(_read, shard.partition, kept, cache.rules))
    return group_id


def _read(partition: int | None, kept: KeptRecord, rules: Dialect) -> Group:
    return group_from_record(partition, decode(kept.key, kept.value, rules), kept.offset, rules)
