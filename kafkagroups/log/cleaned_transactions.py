"""The cleaner's open transactions: which batches were aborted, and which markers are unused.

A marker is unused if the pass has read no batch of its transaction, not even an empty one. A batch counts when it is
read. So the pass that removes a transaction's data still finds its marker used.
Source: CleanedTransactionMetadata.java (4.3.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kafkagroups.log.batch import Batch
from kafkagroups.log.producer_state import AbortedTxn, read_marker
from kafkagroups.records.control import ControlType


class CleanedTransactions:
    """The transactions that are open at the current batch, as a pass reads the log in order."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._later = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._aborted: dict[int, bool] = {}  # By producer id: whether a batch of the transaction was read.
        self._committed: set[int] = set()

    def can_discard(self, batch: Batch) -> bool:
        """Read the next batch. Return True for data of an aborted transaction and for an unused marker."""
        while self._later and self._later[0].first_offset <= batch.last_offset:
            self._aborted.setdefault(self._later.popleft().producer_id, False)
        if batch.is_control:
            return self._is_unused(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._aborted[batch.producer_id] = True
            return True
        self._committed.add(batch.producer_id)
        return False

    def _is_unused(self, batch: Batch) -> bool:
        kind = read_marker(batch)
        producer_id = batch.producer_id
        if kind is ControlType.ABORT:
            return not self._aborted.pop(producer_id, False)
        if kind is ControlType.COMMIT:
            is_used = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_used
        return False  # Another type of marker, or a batch that an earlier pass emptied: it has no record to discard.
