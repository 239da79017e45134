"""Builds a shard from a compiled fold. The shard's own rules decide which groups are known.

Plain group records stay undecoded. All other group records are replayed as the readable engine replays them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from kafkagroups.groups.classic_shard import ClassicShard
from kafkagroups.groups.group import Group, GroupRecord
from kafkagroups.groups.new_shard import NewShard
from kafkagroups.groups.offsets import PartitionOffsets
from kafkagroups.groups.shard import Shard
from kafkagroups.kernels.folded_offsets import FoldedOffsets
from kafkagroups.kernels.other_records import OtherRecord
from kafkagroups.kernels.state import FoldState
from kafkagroups.log.batch import LogRecord
from kafkagroups.records.group_keys import GroupIdKey
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.serde import Record

FindCommits = Callable[[Collection[str]], Sequence[tuple[int, str]]]
"""For some groups: at which records a commit may have made one, the first and the first after each group record."""


class FoldedShardOffsets:
    """The offsets of a shard in the arrays of a fold. They are found when they are first read."""

    def __init__(self, state: FoldState) -> None:
        self.state = state

    @property
    def committed(self) -> Mapping[str, FoldedOffsets]:
        """The committed offsets of each group."""
        return self._committed_and_newest[0]

    @property
    def newest(self) -> Mapping[str, int]:
        """For each group that an offset record names: the newest such record with a value (-1: only tombstones)."""
        return self._committed_and_newest[1]

    @cached_property
    def _committed_and_newest(self) -> tuple[dict[str, FoldedOffsets], dict[str, int]]:
        return self.state.committed()

    @cached_property
    def pending(self) -> Mapping[int, Mapping[str, PartitionOffsets]]:
        """What is pending, by producer id and then by group."""
        return self.state.decode_pending()


class _Step(NamedTuple):
    """Something to replay: a plain record, a decoded record, or (None) a commit that may make its group."""

    offset: int
    what: OtherRecord | Record | None
    group_id: str


def replay_fold(
    shard: Shard,
    offsets: FoldedShardOffsets,
    others: Sequence[OtherRecord],
    find_commits: FindCommits,
    since: int = 0,
) -> None:
    """Give a shard the offsets of a fold, and replay the other records of the log from `since` on.

    Raise LoadFailed or BadBytes where that broker's load fails.
    """
    shard.offsets = offsets
    shard.names.update(dict.fromkeys(offsets.newest))
    shard.names.update((record.plain, None) for record in others if record.plain is not None)
    if isinstance(shard, ClassicShard):
        _replay_classic(shard, others)
    elif isinstance(shard, NewShard):
        _replay_new(shard, offsets, others, find_commits, since)


def _replay_classic(shard: ClassicShard, others: Sequence[OtherRecord]) -> None:
    for other in others:
        if other.plain is None:
            record, group_id = shard.decode(_log_record(other))
            shard.replay_group(other.offset, record, group_id)
            continue
        _replay_plain(shard, other.plain, other)
        if other.value is None:
            shard.removed_groups[other.plain] = None
        else:
            shard.removed_groups.pop(other.plain, None)


def _replay_new(
    shard: NewShard,
    offsets: FoldedShardOffsets,
    others: Sequence[OtherRecord],
    find_commits: FindCommits,
    since: int,
) -> None:
    steps = []
    for other in others:
        if other.plain is not None:
            steps.append(_Step(other.offset, other, other.plain))
        else:
            steps.append(_Step(other.offset, *shard.decode(_log_record(other))))
    # What a record of a newer group type does depends on whether a commit made a group of that name before it.
    shared = {
        step.group_id for step in steps if isinstance(step.what, Record) and isinstance(step.what.key, GroupIdKey)
    }
    shared &= offsets.newest.keys()
    commits = find_commits(shared) if shared else ()
    if commits:
        steps += [_Step(offset, None, group_id) for offset, group_id in commits if offset < shard.loaded.next_offset]
        steps.sort(key=lambda step: step.offset)
    removed_at: dict[str, int] = {}
    for offset, what, group_id in steps:
        if what is None:
            shard.groups.setdefault(group_id, Group(group_id, shard.partition))
            continue
        if isinstance(what, OtherRecord):
            _replay_plain(shard, group_id, what)
        elif isinstance(what.key, GroupMetadataKey | GroupIdKey):
            shard.replay_group(offset, what, group_id)
        else:
            continue
        if group_id not in shard.groups:
            removed_at[group_id] = offset
    for group_id, newest in offsets.newest.items():
        is_new = group_id not in shard.groups and group_id not in shared
        if is_new and newest >= since and newest > removed_at.get(group_id, -1):
            shard.groups[group_id] = Group(group_id, shard.partition)


def _replay_plain(shard: Shard, group_id: str, record: OtherRecord) -> None:
    """Replay a plain group record without decoding it: the group is known, or no longer known."""
    if record.value is None:
        shard.groups.pop(group_id, None)
    else:
        shard.groups[group_id] = GroupRecord(shard.partition, record.offset, record.key, record.value, shard.dialect)


def _log_record(record: OtherRecord) -> LogRecord:
    return LogRecord(record.offset, -1, record.key, record.value)
