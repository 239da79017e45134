"""Committed offsets, and those that wait for the end of their transaction.

`Offsets` holds both for many groups. Its operations are what the records of a log can do to them; the two
coordinators compose them differently (loading.py), because their rules differ:

                             classic                              new
    which commit is newer    by the first offset of its batch     by its own record's offset
    an offset tombstone      takes the committed offset; inside   takes the committed offset and what is pending
                             a transaction only that producer's   for that partition, of whatever producer
                             pending one

Source: GroupMetadataManager.scala doLoadGroupsAndOffsets (3.9), OffsetMetadataManager.java replay (4.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafkagroups.groups.observer import NOBODY, Fate, Observer
from kafkagroups.records.offset_commit import LegacyOffsetCommitValue, OffsetCommitValue
from kafkagroups.records.wire import UUID


class TopicPartition(NamedTuple):
    """A partition of a topic; as text `topic-partition`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """An offset as a coordinator holds it. Times in ms since the epoch.

    `leader_epoch` -1, `expire_timestamp` None and `topic_id` None mean that the record had none. `record_offset` is
    the commit record's offset in the log, `batch_offset` that of the first record in its batch.
    """

    offset: int
    metadata: str
    commit_timestamp: int
    leader_epoch: int
    expire_timestamp: int | None
    topic_id: str | None
    record_offset: int
    batch_offset: int


def offset_and_metadata(
    value: OffsetCommitValue | LegacyOffsetCommitValue, record_offset: int, batch_offset: int
) -> OffsetAndMetadata:
    """What a coordinator keeps of an offset record's value."""
    expire, epoch, topic_id = -1, -1, UUID.default
    if isinstance(value, OffsetCommitValue):
        expire, epoch, topic_id = value.expire_timestamp, value.leader_epoch, value.topic_id
    return OffsetAndMetadata(
        value.offset,
        value.metadata,
        value.commit_timestamp,
        epoch,
        None if expire == -1 else expire,
        None if topic_id == UUID.default else topic_id,
        record_offset,
        batch_offset,
    )


PartitionOffsets = dict[TopicPartition, OffsetAndMetadata]
KnownOffsets = Mapping[TopicPartition, OffsetAndMetadata]
"""What a load hands out; the compiled engine makes them when somebody looks."""


class Offsets:
    """The committed offsets of many groups, and the pending ones of each open transaction.

    `by` is the offset of the record that does it; the observer is told which records lose or get their place.
    """

    def __init__(self, observer: Observer = NOBODY) -> None:
        self.committed: dict[str, PartitionOffsets] = {}
        self.pending: dict[int, dict[str, PartitionOffsets]] = {}
        """By producer id, then group."""
        self.producers: dict[str, set[int]] = {}
        """Which producers have something pending for a group."""
        self.observer = observer

    def put(self, group: str, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        self._place(self.committed.setdefault(group, {}), partition, offset)

    def put_pending(self, producer: int, group: str, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        self._place(self.pending.setdefault(producer, {}).setdefault(group, {}), partition, offset)
        self.producers.setdefault(group, set()).add(producer)

    def _place(self, offsets: PartitionOffsets, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        if (there := offsets.get(partition)) is not None:
            self.observer.told(there.record_offset, Fate.SUPERSEDED, offset.record_offset)
        offsets[partition] = offset

    def remove(self, group: str, partition: TopicPartition, by: int) -> None:
        self._drop(self.committed, group, partition, by)

    def remove_pending(self, producer: int, group: str, partition: TopicPartition, by: int) -> None:
        self._drop(self.pending.get(producer, {}), group, partition, by)

    def remove_all_pending(self, group: str, partition: TopicPartition, by: int) -> None:
        for producer in self.producers.get(group, ()):
            self.remove_pending(producer, group, partition, by)

    def _drop(self, groups: dict[str, PartitionOffsets], group: str, partition: TopicPartition, by: int) -> None:
        offsets = groups.get(group)
        if offsets is not None and (there := offsets.pop(partition, None)) is not None:
            self.observer.told(there.record_offset, Fate.DELETED, by)
            if not offsets:
                del groups[group]

    def end_transaction(self, producer: int, *, commits: bool, by: int, whole_batches: bool) -> None:
        """Forgets what is pending of a producer; if the marker `commits`, what is newer than what is there stays.

        `whole_batches`: the offsets of their batches are compared, else those of the records.
        """
        for group, offsets in self.pending.pop(producer, {}).items():
            self.producers[group].discard(producer)
            for partition, offset in offsets.items():
                self.observer.told(offset.record_offset, Fate.WINS if commits else Fate.ABORTED, by)
                there = self.committed.get(group, {}).get(partition)
                if not commits:
                    continue
                if there is None or _place_of(there, whole_batches) < _place_of(offset, whole_batches):
                    self.put(group, partition, offset)
                else:
                    self.observer.told(offset.record_offset, Fate.SUPERSEDED, there.record_offset)

    def pending_of(self, group: str) -> dict[int, PartitionOffsets]:
        """What is pending for a group, by producer id."""
        open_ones = ((producer, self.pending.get(producer, {})) for producer in sorted(self.producers.get(group, ())))
        return {producer: groups[group] for producer, groups in open_ones if group in groups}


def _place_of(offset: OffsetAndMetadata, whole_batches: bool) -> int:
    return offset.batch_offset if whole_batches else offset.record_offset
