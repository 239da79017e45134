"""The offsets of one living group: committed, pending, and pending in a transaction.

A living group is in the cache of a running coordinator; a loaded group (group.py) is the result of a load. An append
means that the coordinator writes the commit's records to the log. A marker is the control record that ends a
transaction. A commit passes through up to three states:

- *Pending*: the commit is stored here before its append (`prepare`), so that two unfinished commits are not confused.
- *Committed*: the append was answered (`complete`), and no newer commit is committed. The newer commit is the commit
  that is later in the log, no matter which append was answered first.
- *Pending in a transaction*: the commit is stored here before its append and stays until the producer's marker
  (`prepare_txn_commit`, `complete_txn_append`, `end_transaction`).

If the append fails, `drop_pending` removes the pending offset only if it is still the offset of that append, because a
later commit may have replaced it. `fail_txn_commit` does not compare: it removes the pending offset, as Kafka does.

`remove` deletes an offset from all three states, but only a committed offset gets a tombstone. The record of a pending
commit therefore stays in the log, and a load brings the offset back, as in Kafka. `expire` keeps pending commits.
Source: GroupMetadata.scala (3.9), "prepareOffsetCommit" to "removeOffsets".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafkagroups.groups.map_orders import Version, hash_map_order, topic_partition_hash
from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition

NOT_APPENDED = -1
"""The value of a commit's `record_offset` and `batch_offset` until its append is answered."""


class NotAppended(Exception):
    """A marker commits an offset whose record never reached the log (Kafka's IllegalStateException)."""


@dataclass
class GroupOffsets:
    """The offsets of one group.

    `committed` and `transactions` are hard state: the log contains them. The keys of `transactions` are producer ids.
    The other fields are soft state: a crash loses them. `has_plain_commit` and `has_transactional_commit` tell whether
    commits came outside and inside transactions in the current generation.
    """

    committed: PartitionOffsets = field(default_factory=dict)
    transactions: dict[int, PartitionOffsets] = field(default_factory=dict)
    pending: PartitionOffsets = field(default_factory=dict)
    has_plain_commit: bool = False
    has_transactional_commit: bool = False

    def __bool__(self) -> bool:
        """Return whether the group has an offset, so that an Empty group must stay (GroupMetadata.hasOffsets)."""
        return bool(self.committed or self.pending or self.transactions)

    @property
    def mixes_commits(self) -> bool:
        """Whether both plain and transactional commits came in this generation. Kafka then logs a warning."""
        return self.has_plain_commit and self.has_transactional_commit

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store a commit before its append. It replaces earlier pending commits of the same partitions."""
        self.has_plain_commit = True
        self.pending.update(offsets)

    def complete(self, partition: TopicPartition, pending_offset: OffsetAndMetadata, batch_offset: int) -> None:
        """Commit a pending offset after its append, unless a newer offset is committed.

        `batch_offset` is the first offset of the batch that contains the commit.
        """
        if partition in self.pending:
            self._commit_if_newer(partition, _with_batch_offset(pending_offset, batch_offset))
        self.drop_pending(partition, pending_offset)

    def drop_pending(self, partition: TopicPartition, pending_offset: OffsetAndMetadata) -> None:
        """Remove a pending offset, unless a later commit has replaced it."""
        if self.pending.get(partition) == pending_offset:
            del self.pending[partition]

    def prepare_txn_commit(self, producer: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store a transactional commit before its append."""
        self.has_transactional_commit = True
        self.transactions.setdefault(producer, {}).update(offsets)

    def complete_txn_append(
        self, producer: int, partition: TopicPartition, pending_offset: OffsetAndMetadata, batch_offset: int
    ) -> None:
        """Store the first offset of the batch that contains a transactional commit.

        The producer's marker can now commit the offset.
        """
        pending = self.transactions.get(producer, {})
        if pending.get(partition) == pending_offset:
            pending[partition] = _with_batch_offset(pending_offset, batch_offset)

    def fail_txn_commit(self, producer: int, partition: TopicPartition) -> None:
        """Remove the pending offset of a transactional commit whose append failed."""
        pending = self.transactions.get(producer)
        if pending is None:
            return
        pending.pop(partition, None)
        if not pending:
            del self.transactions[producer]

    def end_transaction(self, producer: int, *, commits: bool, kafka: Version) -> None:
        """Commit the producer's pending offsets if the marker `commits`, otherwise drop them.

        A commit is newer than another commit if its batch is later in the log. Raises NotAppended if a pending commit
        has no record. Up to 2.8 a commit has no record if its metadata string was too large. The offsets that come
        after this commit in the order of Kafka's hash map are then lost until the next load, as in Kafka.
        """
        pending = self.transactions.pop(producer, {})
        if not commits:
            return
        for partition in hash_map_order(pending, kafka, topic_partition_hash):
            if pending[partition].batch_offset == NOT_APPENDED:
                raise NotAppended(f"producer {producer}: the pending commit of {partition} has no record in the log")
            self._commit_if_newer(partition, pending[partition])

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Return whether the partition has a pending commit, outside or inside a transaction (KIP-447)."""
        return partition in self.pending or any(partition in pending for pending in self.transactions.values())

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove committed and pending offsets. Return the partitions that had a committed offset.

        The caller writes a tombstone for each returned partition.
        """
        removed = []
        for partition in partitions:
            self.pending.pop(partition, None)
            for pending in self.transactions.values():
                pending.pop(partition, None)
            if self.committed.pop(partition, None) is not None:
                removed.append(partition)
        return removed

    def expire(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove expired committed offsets. Return the partitions that had a committed offset.

        A pending commit stays, because it may still be committed later.
        """
        return [partition for partition in partitions if self.committed.pop(partition, None) is not None]

    def _commit_if_newer(self, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        current = self.committed.get(partition)
        if current is None or current.batch_offset < offset.batch_offset:
            self.committed[partition] = offset


def _with_batch_offset(pending_offset: OffsetAndMetadata, batch_offset: int) -> OffsetAndMetadata:
    return replace(pending_offset, batch_offset=batch_offset)
