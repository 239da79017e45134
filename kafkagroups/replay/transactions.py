"""The open transactions of a recorded conversation, and the partitions in each transaction.

`Transactions` replaces Kafka's transaction coordinator. A group coordinator asks the transaction coordinator one
question: is this partition in the producer's open transaction (`verify`)? Transaction markers come from the recording.
Source: TransactionCoordinator.handleVerifyPartitionsInTransaction (3.9).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.coordinator import Errors

Json = dict[str, Any]


@dataclass
class Transaction:
    """The newest transaction of a transactional id.

    `partitions` are the partitions of the offsets topic that the transaction includes. `is_ending` is True from the
    client's EndTxn request until the transaction's marker is written.
    """

    producer_id: int
    producer_epoch: int
    partitions: set[int] = field(default_factory=set)
    is_ending: bool = False


class Transactions:
    """The newest transaction of each transactional id (`by_id`).

    The parameters `request` and `response` are a recorded request and its recorded response as JSON. `partition_for`
    returns the partition of the offsets topic that stores a group.
    """

    def __init__(self, partition_for: Callable[[str], int]) -> None:
        self.partition_for = partition_for
        self.by_id: dict[str, Transaction] = {}
        self._written: set[tuple[int, int, int]] = set()

    def init_producer_id(self, request: Json, response: Json) -> None:
        """Handle an InitProducerId: store the producer id and its new epoch, with an empty transaction.

        The marker that aborts an earlier open transaction comes from the recording.
        """
        transaction = Transaction(response["producerId"], response["producerEpoch"])
        if response["errorCode"] == Errors.NONE and request["transactionalId"] is not None:
            self.by_id[request["transactionalId"]] = transaction

    def add_offsets(self, request: Json, response: Json) -> None:
        """Handle an AddOffsetsToTxn: add the group's partition of the offsets topic to the transaction."""
        transaction = self.by_id.get(request["transactionalId"])
        if response["errorCode"] == Errors.NONE and transaction:
            if transaction.is_ending:
                # The previous transaction has ended, because a broker accepts the offsets only in the next transaction.
                transaction.partitions.clear()
            transaction.is_ending = False
            transaction.partitions.add(self.partition_for(request["groupId"]))

    def end(self, request: Json, response: Json) -> None:
        """Handle an EndTxn: until the transaction's marker is written, `verify` returns CONCURRENT_TRANSACTIONS.

        Since version 5, the response contains the producer epoch of the next transaction, and a transaction that
        contains nothing can be aborted, without a marker (KIP-890).
        """
        transaction = self.by_id.get(request["transactionalId"])
        if response["errorCode"] == Errors.NONE and transaction:
            transaction.is_ending = bool(transaction.partitions) or "producerEpoch" not in response
            transaction.producer_epoch = response.get("producerEpoch", transaction.producer_epoch)

    def note_append(self, producer_id: int, producer_epoch: int, partition: int) -> None:
        """Note that the partition of the offsets topic contains a commit of the producer's open transaction."""
        self._written.add((producer_id, producer_epoch, partition))

    def end_with_marker(self, producer_id: int) -> None:
        """End the producer's transaction after the marker was written."""
        self._written = {written for written in self._written if written[0] != producer_id}
        for transaction in self.by_id.values():
            if transaction.producer_id == producer_id:
                transaction.partitions.clear()
                transaction.is_ending = False

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: int, *, adds: bool = False
    ) -> Errors:
        """Return NONE if the partition is in this producer's open transaction, otherwise the error.

        If the partition already contains an offset of this transaction, Kafka does not verify the transaction. `adds`
        says whether the partition is added to the transaction: since version 5 of TxnOffsetCommit, no AddOffsetsToTxn
        comes before (KIP-890).
        """
        if (producer_id, producer_epoch, partition) in self._written:
            return Errors.NONE
        transaction = self.by_id.get(transactional_id)
        if transaction is None or transaction.producer_id != producer_id:
            return Errors.INVALID_PRODUCER_ID_MAPPING
        if transaction.producer_epoch != producer_epoch:
            return Errors.INVALID_PRODUCER_EPOCH
        if transaction.is_ending:
            return Errors.CONCURRENT_TRANSACTIONS
        if adds:
            transaction.partitions.add(partition)
        return Errors.NONE if partition in transaction.partitions else Errors.TRANSACTION_ABORTABLE
