"""The offsets of one living group: committed, pending, and pending in a transaction.

A commit passes through up to three places:

- *Pending*: it is noted before the append, so that two unfinished commits are not confused (`prepare`).
- *Committed*: the append was answered (`complete`) and no newer commit is there. The newer commit is the one that is
  later in the log, no matter which one was answered first.
- *Pending in a transaction*: from before its append until the producer's marker (`prepare_transaction`,
  `complete_append`, `end_transaction`).

A failed append takes back only what was staged (`fail`, `fail_transaction`), because a later commit may have been
staged since.
`remove` deletes an offset from all three places, but only a committed offset gets a tombstone. The record of a pending
commit therefore stays in the log, and a load brings it back, as in Kafka. `expire` keeps pending commits.
Source: GroupMetadata.scala (3.9), "prepareOffsetCommit" to "removeOffsets".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafkagroups.groups.map_orders import Version, hash_map_order, topic_partition_hash
from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition

NOT_APPENDED = -1
"""The record and batch offset of a commit whose append was not answered yet."""


class NotAppended(Exception):
    """A marker commits an offset whose record never reached the log (Kafka's IllegalStateException)."""


@dataclass
class GroupOffsets:
    """The offsets of one group.

    `committed` and `transactions` (by producer id) are hard state, which the log contains. The other fields are soft
    state. `received_plain` and `received_transactional` are about the current generation.
    """

    committed: PartitionOffsets = field(default_factory=dict)
    transactions: dict[int, PartitionOffsets] = field(default_factory=dict)
    pending: PartitionOffsets = field(default_factory=dict)
    received_plain: bool = False
    received_transactional: bool = False

    def __bool__(self) -> bool:
        """Return whether an offset keeps an Empty group alive (GroupMetadata.hasOffsets)."""
        return bool(self.committed or self.pending or self.transactions)

    @property
    def mixes_commits(self) -> bool:
        """Whether plain and transactional commits came in one generation, which Kafka warns about."""
        return self.received_plain and self.received_transactional

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note a commit before its append. It replaces an earlier unfinished commit of the same partition."""
        self.received_plain = True
        self.pending.update(offsets)

    def complete(self, partition: TopicPartition, staged: OffsetAndMetadata, batch_offset: int) -> None:
        """Commit a staged offset after its append, unless a newer offset is committed."""
        if partition in self.pending:
            self._put(partition, _with_batch_offset(staged, batch_offset))
        self.fail(partition, staged)

    def fail(self, partition: TopicPartition, staged: OffsetAndMetadata) -> None:
        """Take back a staged offset, unless another one was staged since."""
        if self.pending.get(partition) == staged:
            del self.pending[partition]

    def prepare_transaction(self, producer: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note a transactional commit before its append."""
        self.received_transactional = True
        self.transactions.setdefault(producer, {}).update(offsets)

    def complete_append(
        self, producer: int, partition: TopicPartition, staged: OffsetAndMetadata, batch_offset: int
    ) -> None:
        """Note where a transactional commit was appended. The producer's marker can now commit it."""
        pending = self.transactions.get(producer, {})
        if pending.get(partition) == staged:
            pending[partition] = _with_batch_offset(staged, batch_offset)

    def fail_transaction(self, producer: int, partition: TopicPartition) -> None:
        """Take back a transactional commit whose append failed."""
        pending = self.transactions.get(producer)
        if pending is None:
            return
        pending.pop(partition, None)
        if not pending:
            del self.transactions[producer]

    def end_transaction(self, producer: int, *, commits: bool, kafka: Version) -> None:
        """Commit or drop the producer's pending offsets. The order of their batches decides which commit is newer.

        Raises NotAppended if a pending commit has no record. Up to 2.8 that happens if its metadata was too large.
        The offsets after it in map order are then lost until the next load, as in Kafka.
        """
        pending = self.transactions.pop(producer, {})
        if not commits:
            return
        for partition in hash_map_order(pending, kafka, topic_partition_hash):
            if pending[partition].batch_offset == NOT_APPENDED:
                raise NotAppended(f"producer {producer}: the pending commit of {partition} has no record in the log")
            self._put(partition, pending[partition])

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Return whether a commit of the partition is unfinished, plain or in a transaction (KIP-447)."""
        return partition in self.pending or any(partition in pending for pending in self.transactions.values())

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove offsets, also unfinished ones; return those that were committed and need a tombstone."""
        removed = []
        for partition in partitions:
            self.pending.pop(partition, None)
            for pending in self.transactions.values():
                pending.pop(partition, None)
            if self.committed.pop(partition, None) is not None:
                removed.append(partition)
        return removed

    def expire(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove committed offsets only; return those that were there. An unfinished commit may still count later."""
        return [partition for partition in partitions if self.committed.pop(partition, None) is not None]

    def _put(self, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        current = self.committed.get(partition)
        if current is None or current.batch_offset < offset.batch_offset:
            self.committed[partition] = offset


def _with_batch_offset(staged: OffsetAndMetadata, batch_offset: int) -> OffsetAndMetadata:
    return replace(staged, batch_offset=batch_offset)
