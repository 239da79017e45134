"""Fills a shard with the offsets and the groups that the compiled engine has read from a log.

A shard is the state of one partition (groups/shard.py). The offsets are in the arrays of a fold state (layout.py). A
group record is plain if the coordinator can certainly read it without an error (plain_groups.py). Plain group records
are stored in the shard without decoding them. All other group records are decoded and replayed with the code of the
readable engine.
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
from kafkagroups.log.batch import NO_TIMESTAMP, LogRecord
from kafkagroups.records.group_keys import GroupIdKey
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.serde import Record

FindCommits = Callable[[Collection[str]], Sequence[tuple[int, str]]]
"""A function that receives group ids. It returns the Kafka offset and the group id of each commit that may create one
of these groups, in the order of the log."""


class FoldedShardOffsets:
    """The offsets of a shard, in the arrays of a fold state. Offsets are decoded when they are first read."""

    def __init__(self, state: FoldState) -> None:
        self.state = state

    @property
    def committed(self) -> Mapping[str, FoldedOffsets]:
        """The committed offsets of each group."""
        return self._committed_and_newest_value_offsets[0]

    @property
    def newest_value_offsets(self) -> Mapping[str, int]:
        """The Kafka offset of each group's newest offset record with a value; -1 if the group has only tombstones."""
        return self._committed_and_newest_value_offsets[1]

    @cached_property
    def _committed_and_newest_value_offsets(self) -> tuple[dict[str, FoldedOffsets], dict[str, int]]:
        return self.state.collect_committed()

    @cached_property
    def pending(self) -> Mapping[int, Mapping[str, PartitionOffsets]]:
        """The pending commits of open transactions, by producer id and then by group."""
        return self.state.decode_pending()


class _Step(NamedTuple):
    """A step of the replay: a record that is not an offset record, or a commit that may create its group.

    `offset` is the Kafka offset of the record. `record` is an OtherRecord for a plain group record, a decoded Record
    for any other record, and None for a commit.
    """

    offset: int
    record: OtherRecord | Record | None
    group_id: str


def fill_shard(
    shard: Shard,
    offsets: FoldedShardOffsets,
    other_records: Sequence[OtherRecord],
    find_commits: FindCommits,
    first_offset: int = 0,
) -> None:
    """Set the offsets of a shard, and replay the other records of the log.

    `other_records` are the records that are not offset records (other_records.py). A shard from a snapshot already
    contains the records before the Kafka offset `first_offset`, where this load began.
    Raise LoadFailed or BadBytes if the broker's load would fail.
    """
    shard.offsets = offsets
    shard.seen_group_ids.update(dict.fromkeys(offsets.newest_value_offsets))
    shard.seen_group_ids.update(
        (record.plain_group_id, None) for record in other_records if record.plain_group_id is not None
    )
    if isinstance(shard, ClassicShard):
        _replay_classic(shard, other_records)
    elif isinstance(shard, NewShard):
        _replay_new(shard, offsets, other_records, find_commits, first_offset)


def _replay_classic(shard: ClassicShard, other_records: Sequence[OtherRecord]) -> None:
    """Replay the other records. Groups that have only commits are created later, in the cache (loading/caches.py)."""
    for other_record in other_records:
        if other_record.plain_group_id is None:
            record, group_id = shard.decode_record(_to_log_record(other_record))
            shard.replay_group(other_record.offset, record, group_id)
            continue
        _replay_plain(shard, other_record.plain_group_id, other_record)
        if other_record.value is None:
            shard.removed_groups[other_record.plain_group_id] = None
        else:
            shard.removed_groups.pop(other_record.plain_group_id, None)


def _replay_new(
    shard: NewShard,
    offsets: FoldedShardOffsets,
    other_records: Sequence[OtherRecord],
    find_commits: FindCommits,
    first_offset: int,
) -> None:
    """Replay the other records, and create the groups that have commits but no group record."""
    steps = []
    for other_record in other_records:
        if other_record.plain_group_id is not None:
            steps.append(_Step(other_record.offset, other_record, other_record.plain_group_id))
        else:
            steps.append(_Step(other_record.offset, *shard.decode_record(_to_log_record(other_record))))
    # A record of a consumer, share or streams group has another effect if an earlier commit has created a group with
    # its id. So the commits of these groups are replayed too, in the order of the log.
    modern_ids = {
        step.group_id for step in steps if isinstance(step.record, Record) and isinstance(step.record.key, GroupIdKey)
    }
    modern_ids_with_commits = modern_ids & offsets.newest_value_offsets.keys()
    commits = find_commits(modern_ids_with_commits) if modern_ids_with_commits else ()
    if commits:
        # After a snapshot, `find_commits` can also read batches after the stop (log/stop.py).
        steps += [_Step(offset, None, group_id) for offset, group_id in commits if offset < shard.loaded.next_offset]
        steps.sort(key=lambda step: step.offset)
    # By group id: the Kafka offset of the last record after which the group did not exist.
    last_removal_offsets: dict[str, int] = {}
    for offset, record, group_id in steps:
        if record is None:
            shard.groups.setdefault(group_id, Group(group_id, shard.partition))
            continue
        if isinstance(record, OtherRecord):
            _replay_plain(shard, group_id, record)
        elif isinstance(record.key, GroupMetadataKey | GroupIdKey):
            shard.replay_group(offset, record, group_id)
        else:
            continue
        if group_id not in shard.groups:
            last_removal_offsets[group_id] = offset
    # For all other groups, only the newest commit matters. It creates the group if it comes after the last removal.
    for group_id, newest_value_offset in offsets.newest_value_offsets.items():
        if group_id in modern_ids_with_commits or group_id in shard.groups:
            continue
        if newest_value_offset >= first_offset and newest_value_offset > last_removal_offsets.get(group_id, -1):
            shard.groups[group_id] = Group(group_id, shard.partition)


def _replay_plain(shard: Shard, group_id: str, record: OtherRecord) -> None:
    """Replay a plain group record without decoding it.

    Store the record as the group. If the record is a tombstone, remove the group.
    """
    if record.value is None:
        shard.groups.pop(group_id, None)
    else:
        shard.groups[group_id] = GroupRecord(shard.partition, record.offset, record.key, record.value, shard.dialect)


def _to_log_record(record: OtherRecord) -> LogRecord:
    return LogRecord(record.offset, NO_TIMESTAMP, record.key, record.value)
