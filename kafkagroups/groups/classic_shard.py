"""The classic coordinator's shard: what each record of a partition changes.

Source: GroupMetadataManager.doLoadGroupsAndOffsets (3.9; tags 0.8.2.2 to 2.8.2 for older rules).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkagroups.errors import LoadFailed
from kafkagroups.groups.group import build_group
from kafkagroups.groups.log_records import LogKeys, read_control_type
from kafkagroups.groups.observer import NO_OBSERVER, Observer
from kafkagroups.groups.offsets import Offsets, TopicPartition, build_offset_and_metadata
from kafkagroups.groups.shard import Shard
from kafkagroups.log.batch import Batch
from kafkagroups.records.control import ControlType
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.serde import Record


def has_separate_offset_cache(dialect: Dialect) -> bool:
    """Return whether this Kafka version has one cache for the offsets of all partitions, separate from the groups.

    With this cache (before 0.10.1), even a load that fails adds its offsets.
    """
    return not dialect.since(0, 10, 1)


@dataclass
class ClassicShard(Shard):
    """What one partition's log contains, as the classic coordinator reads it.

    `removed_groups` are the ids of the groups whose last group record is a tombstone, in the order of the tombstones.
    `removed_offsets` are the keys of offset tombstones, as pairs (group id, topic partition). The pairs are stored only
    for a separate offset cache, where a tombstone also deletes an offset that came from another partition's log.
    """

    removed_groups: dict[str, None] = field(default_factory=dict)
    removed_offsets: set[tuple[str, TopicPartition]] = field(default_factory=set)

    def replay(self, batches: Iterable[Batch], observer: Observer = NO_OBSERVER) -> None:
        offsets = Offsets.copy_of(self.offsets, observer)
        self.offsets = offsets
        keys = LogKeys(self.dialect)
        for batch in batches:
            if batch.is_control:
                observer.start_record(0)
                self._end_transaction(offsets, batch)
                continue
            # If the batch has no records, nothing uses this offset.
            batch_offset = batch.records[0].offset if batch.records else batch.base_offset
            is_transactional = batch.is_transactional
            for record_offset, group_id, partition, record in self.decode_records(batch, keys, observer):
                if partition is None:
                    if isinstance(record.key, GroupMetadataKey):
                        was_known = group_id in self.groups
                        self.replay_group(record_offset, record, group_id)
                        is_known = group_id in self.groups
                        observer.end_group_record(group_id, record, record_offset, was_known, is_known)
                elif record.value is None:
                    self._replay_offset_tombstone(offsets, batch, record_offset, group_id, partition)
                else:
                    offset = build_offset_and_metadata(record, record_offset, batch_offset)
                    if is_transactional:
                        offsets.put_pending(batch.producer_id, group_id, partition, offset)
                    else:
                        offsets.put(group_id, partition, offset)

    def replay_group(self, offset: int, record: Record, group_id: str) -> None:
        """Replay a record of a classic group. The classic coordinator skips all other types."""
        if not isinstance(record.key, GroupMetadataKey):
            return
        if record.value is None:
            self.groups.pop(group_id, None)
            self.removed_groups[group_id] = None
        else:
            self.groups[group_id] = build_group(self.partition, record, offset, self.dialect)
            self.removed_groups.pop(group_id, None)

    def _replay_offset_tombstone(
        self, offsets: Offsets, batch: Batch, record_offset: int, group_id: str, partition: TopicPartition
    ) -> None:
        if batch.is_transactional:
            offsets.remove_pending(batch.producer_id, group_id, partition, record_offset)
        else:
            offsets.remove(group_id, partition, record_offset)
            if has_separate_offset_cache(self.dialect):
                self.removed_offsets.add((group_id, partition))

    def _end_transaction(self, offsets: Offsets, batch: Batch) -> None:
        if not batch.records:
            # The log cleaner removed the marker but kept its empty batch.
            if self.dialect.since(2, 0, 1):
                return
            raise LoadFailed(f"Kafka {self.dialect.kafka} expects a record in every control batch", batch.base_offset)
        marker = batch.records[0]
        commits = read_control_type(marker) is ControlType.COMMIT
        offsets.end_transaction(batch.producer_id, commits=commits, by=marker.offset, compares_batches=True)
