"""The offsets of one living group: committed, pending, and pending in a transaction.

A commit has one of three states:

- *Pending*: a commit outside a transaction whose append is not answered yet (`prepare`).
- *Committed*: the append was answered (`complete`). If several commits for a partition are answered, the newest commit
  stays. The newest commit is the last commit in the log, no matter which append was answered first.
- *Pending in a transaction*: a commit in a transaction whose marker is not written yet (`prepare_txn_commit`,
  `complete_txn_append`, `end_transaction`).

If an append fails, the commit's pending offset is removed. If a later commit has already replaced this pending offset,
there are two cases, as in Kafka:

- Outside a transaction, the later offset stays (`drop_pending`).
- In a transaction, the later offset is removed (`fail_txn_commit`).

`remove` deletes committed and pending offsets, but only a committed offset gets a tombstone. The record of a pending
commit therefore stays in the log, and the next load restores its offset, as in Kafka. `expire` keeps pending commits.
Source: GroupMetadata.scala (3.9), "prepareOffsetCommit" to "removeOffsets".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkagroups.groups.map_orders import Version, hash_map_order, topic_partition_hash
from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition

NOT_APPENDED = -1
"""A commit's `batch_offset` has this value until the append is answered. `record_offset` always has this value."""


class NotAppended(Exception):
    """A marker commits an offset whose record never reached the log (Kafka's IllegalStateException)."""


@dataclass
class GroupOffsets:
    """The offsets of one group.

    `committed` and `transactions` are hard state: the log contains them. `transactions` contains the offsets of open
    transactions; the keys are producer ids. The other fields are soft state: a crash loses them. `pending` contains the
    offsets of unanswered commits outside transactions. `has_plain_commit` says whether a commit came outside a
    transaction in the current generation. `has_transactional_commit` says the same for commits in transactions.
    """

    committed: PartitionOffsets = field(default_factory=dict)
    transactions: dict[int, PartitionOffsets] = field(default_factory=dict)
    pending: PartitionOffsets = field(default_factory=dict)
    has_plain_commit: bool = False
    has_transactional_commit: bool = False

    def __bool__(self) -> bool:
        """Return whether the group has a committed or pending offset (Kafka's GroupMetadata.hasOffsets)."""
        return bool(self.committed or self.pending or self.transactions)

    @property
    def mixes_commits(self) -> bool:
        """Whether commits came inside and outside transactions in this generation. Kafka then logs a warning."""
        return self.has_plain_commit and self.has_transactional_commit

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store a commit as pending before its append. Replace earlier pending commits of the same partitions."""
        self.has_plain_commit = True
        self.pending.update(offsets)

    def complete(self, partition: TopicPartition, pending_offset: OffsetAndMetadata, batch_offset: int) -> None:
        """Commit a pending offset after its append, unless a newer offset is committed.

        `batch_offset` is the first offset of the batch that contains the commit. If the partition's pending offset was
        removed before, nothing is committed.
        """
        if partition in self.pending:
            self._commit_if_newer(partition, _with_batch_offset(pending_offset, batch_offset))
        self.drop_pending(partition, pending_offset)

    def drop_pending(self, partition: TopicPartition, pending_offset: OffsetAndMetadata) -> None:
        """Remove this pending offset. If a later commit has replaced the offset, the later offset stays."""
        if self.pending.get(partition) == pending_offset:
            del self.pending[partition]

    def prepare_txn_commit(self, producer_id: int, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Store a transactional commit as pending before its append."""
        self.has_transactional_commit = True
        self.transactions.setdefault(producer_id, {}).update(offsets)

    def complete_txn_append(
        self, producer_id: int, partition: TopicPartition, pending_offset: OffsetAndMetadata, batch_offset: int
    ) -> None:
        """Note that a transactional commit is in the log, so that the producer's marker can commit it.

        `batch_offset` is the first offset of the batch that contains the commit.
        """
        pending = self.transactions.get(producer_id, {})
        if pending.get(partition) == pending_offset:
            pending[partition] = _with_batch_offset(pending_offset, batch_offset)

    def fail_txn_commit(self, producer_id: int, partition: TopicPartition) -> None:
        """Remove the pending offset of a transactional commit whose append failed."""
        pending = self.transactions.get(producer_id)
        if pending is None:
            return
        pending.pop(partition, None)
        if not pending:
            del self.transactions[producer_id]

    def end_transaction(self, producer_id: int, *, commits: bool, kafka: Version) -> None:
        """Handle the marker of the producer's transaction. `commits` says whether the marker commits or aborts.

        If it commits, each pending offset becomes the committed offset, unless that one is from a later batch of the
        log. Raises NotAppended at a pending commit without a record; up to 3.7 that is one whose metadata string was
        too large. As in Kafka, the remaining partitions are then not committed until the next load.
        """
        pending = self.transactions.pop(producer_id, {})
        if not commits:
            return
        for partition in hash_map_order(pending, kafka, topic_partition_hash):
            if pending[partition].batch_offset == NOT_APPENDED:
                raise NotAppended(f"producer {producer_id}: the pending commit of {partition} has no record in the log")
            self._commit_if_newer(partition, pending[partition])

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Return whether the partition has a pending commit, outside or inside a transaction (KIP-447)."""
        return partition in self.pending or any(partition in pending for pending in self.transactions.values())

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove the committed and pending offsets of these partitions. Return the partitions that need a tombstone.

        A partition needs a tombstone if it had a committed offset.
        """
        need_tombstone = []
        for partition in partitions:
            self.pending.pop(partition, None)
            for pending in self.transactions.values():
                pending.pop(partition, None)
            if self.committed.pop(partition, None) is not None:
                need_tombstone.append(partition)
        return need_tombstone

    def expire(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Remove the committed offsets of these partitions. Return the partitions that had a committed offset.

        Pending commits stay, because they may still be committed later.
        """
        return [partition for partition in partitions if self.committed.pop(partition, None) is not None]

    def _commit_if_newer(self, partition: TopicPartition, offset: OffsetAndMetadata) -> None:
        current = self.committed.get(partition)
        if current is None or current.batch_offset < offset.batch_offset:
            self.committed[partition] = offset


def _with_batch_offset(pending_offset: OffsetAndMetadata, batch_offset: int) -> OffsetAndMetadata:
    return pending_offset._replace(batch_offset=batch_offset)
