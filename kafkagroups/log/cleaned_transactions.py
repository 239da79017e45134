"""The cleaner's open transactions: which batches were aborted, and which markers are unused.

A pass is one run of the cleaner over a log (cleaner.py). A marker is the control record that commits or aborts a
transaction. The marker is unused if the pass has read no batch of its transaction, not even an empty batch. A batch
counts even if the same pass removes it. So the pass that removes a transaction's data still treats the transaction's
marker as used.
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
        self._later_aborted = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        """The aborted transactions that begin after the current batch."""
        self._aborted_has_data: dict[int, bool] = {}
        """For each open transaction that will be aborted, by producer id: whether a batch of it was read."""
        self._committed: set[int] = set()
        """The ids of the producers with an open transaction that will be committed, if a batch of it was read."""

    def can_discard(self, batch: Batch) -> bool:
        """Process the log's next batch. Return whether the batch is aborted data or an unused marker."""
        while self._later_aborted and self._later_aborted[0].first_offset <= batch.last_offset:
            self._aborted_has_data.setdefault(self._later_aborted.popleft().producer_id, False)
        if batch.is_control:
            return self._is_unused_marker(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted_has_data:
            self._aborted_has_data[batch.producer_id] = True
            return True
        self._committed.add(batch.producer_id)
        return False

    def _is_unused_marker(self, batch: Batch) -> bool:
        marker_type = read_marker(batch)
        producer_id = batch.producer_id
        if marker_type is ControlType.ABORT:
            return not self._aborted_has_data.pop(producer_id, False)
        if marker_type is ControlType.COMMIT:
            is_used = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_used
        return (
            False  # The marker has another type, or an earlier pass emptied the batch, so it has no record to discard.
        )
