"""The offsets of one living group: committed, and on their way.

A commit passes through three places. *Pending*: told to the group before the append, so that two commits in flight
cannot mix up (`prepare`). *Committed*: the append came back (`complete`) and nothing newer is there; newer is what
stands later in the log, whoever answered first. *Pending of a transaction*: appended or not, it waits for its
producer's marker (`prepare_transaction`, `complete_append`, `end_transaction`).

A failed append takes back what was staged (`fail`, `fail_transaction`) and nothing else: the staged value may be a
later commit's by then. `remove` takes an offset from all three places, but only what was committed gets a tombstone: so
in the log a pending one outlives its removal, and a load brings it back, as Kafka's does. `expire` leaves what is
pending.
Source: GroupMetadata.scala (3.9), "prepareOffsetCommit" to "removeOffsets".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafkagroups.groups.map_orders import Version, hash_map_order, topic_partition_hash
from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition

NOT_APPENDED = -1
"""The record and batch offset of a commit whose append has not come back."""


class NotAppended(Exception):
    """A marker completes a transactional commit whose record never reached the log (Kafka's IllegalStateException)."""


@dataclass
class GroupOffsets:
    """`committed` and `transactions` (by producer id) are hard state, what the log says; the rest is soft."""

    committed: PartitionOffsets = field(default_factory=dict)
    transactions: dict[int, PartitionOffsets] = field(default_factory=dict)
    pending: PartitionOffsets = field(default_factory=dict)
    received_plain: bool = False
    received_transactional: bool = False

    def __bool__(self) -> bool:
        """Whether anything is there that keeps an Empty group alive (GroupMetadata.hasOffsets)."""
        return bool(self.committed or self.pending or self.transactions)

    @property
    def mixes_commits(self) -> bool:
        """Whether plain and transactional commits came in one generation: "generally ... surprises", Kafka warns."""
        return self.received_plain and self.received_transactional

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Before the append: a later commit of the same partition takes the place of an earlier one."""
        self.received_plain = True
        self.pending.update(offsets)

    def complete(self, partition: TopicPartition, staged: OffsetAndMetadata, batch_offset: int) -> None:
        """The append came back: the offset counts unless a newer one does; it is pending no more if it still was."""
        if partition in self.pending:
            self._put(partition, _appended(staged, batch_offset))
        self.fail(partition, staged)

    def fail(self, partition: TopicPartition, staged: OffsetAndMetadata) -> None:
        """The append failed: what was staged is forgotten, if nothing else was staged since."""
        if self.pending.get(partition) == staged:
            del self.pending[partition]

    def prepare_transaction(self, producer: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.received_transactional = True
        self.transactions.setdefault(producer, {}).update(offsets)

    def complete_append(self, producer: int, partition: TopicPartition, staged: OffsetAndMetadata, batch: int) -> None:
        """The append came back: from now on the producer's marker can decide."""
        waiting = self.transactions.get(producer, {})
        if waiting.get(partition) == staged:
            waiting[partition] = _appended(staged, batch)

    def fail_transaction(self, producer: int, partition: TopicPartition) -> None:
        waiting = self.transactions.get(producer)
        if waiting is not None:
            waiting.pop(partition, None)
            if not waiting:
                del self.transactions[producer]

    def end_transaction(self, producer: int, *, commits: bool, kafka: Version) -> None:
        """A marker of that producer: whatever waits is decided, newer by its batch in the log, not by the marker.

        NotAppended when a commit has no record, which up to 2.8 comes of metadata that was too large; what stands
        behind it in the map is then lost until the next load, as in Kafka.
        """
        waiting = self.transactions.pop(producer, {})
        if commits:
            for partition in hash_map_order(waiting, kafka, topic_partition_hash):
                if waiting[partition].batch_offset == NOT_APPENDED:
                    raise NotAppended(f"producer {producer} commits {partition}, whose record is not in the log")
                self._put(partition, waiting[partition])

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether a commit of the partition is on its way, plain or in a transaction (KIP-447)."""
        return partition in self.pending or any(partition in waiting for waiting in self.transactions.values())

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forgets offsets, also those on their way; gives those that were committed, whose tombstones are due."""
        removed = []
        for partition in partitions:
            self.pending.pop(partition, None)
            for waiting in self.transactions.values():
                waiting.pop(partition, None)
            if self.committed.pop(partition, None) is not None:
                removed.append(partition)
        return removed

    def expire(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forgets committed offsets alone, as a sweep does: what is on its way stays, and may count later."""
        return [each for each in partitions if self.committed.pop(each, None) is not None]

    def _put(self, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        there = self.committed.get(partition)
        if there is None or there.batch_offset < offset.batch_offset:
            self.committed[partition] = offset


def _appended(staged: OffsetAndMetadata, batch_offset: int) -> OffsetAndMetadata:
    return replace(staged, batch_offset=batch_offset)
