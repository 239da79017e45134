"""The cleaner's open transactions: which batches were aborted, and which markers are unused.

A pass is one run of the cleaner over a log (cleaner.py). A marker is the control record that commits or aborts a
transaction. A marker is unused if the pass has read no data batch of the marker's transaction, for example because
earlier passes have removed all data batches. An empty batch counts as a data batch.
Source: CleanedTransactionMetadata.java (4.3.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kafkagroups.log.batch import Batch
from kafkagroups.log.producer_state import AbortedTxn, read_marker
from kafkagroups.records.control import ControlType


class CleanedTransactions:
    """The transactions that are open at the current batch, while a pass reads batches in the order of the log.

    `aborted` are the aborted transactions whose markers the pass will read.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._later_aborted = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        """The aborted transactions that begin after the current batch."""
        self._has_data_by_aborted_producer: dict[int, bool] = {}
        """By producer id, for each open transaction that will be aborted: whether the pass has read a data batch."""
        self._committed_producers_with_data: set[int] = set()
        """The producers of open transactions that will be committed and of which the pass has read a data batch."""

    def check_next_batch(self, batch: Batch) -> bool:
        """Move to the next batch of the log. Return whether the batch is discardable: aborted data or unused marker."""
        while self._later_aborted and self._later_aborted[0].first_offset <= batch.last_offset:
            transaction = self._later_aborted.popleft()
            self._has_data_by_aborted_producer.setdefault(transaction.producer_id, False)
        if batch.is_control:
            return self._is_unused_marker(batch)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._has_data_by_aborted_producer:
            self._has_data_by_aborted_producer[batch.producer_id] = True
            return True
        self._committed_producers_with_data.add(batch.producer_id)
        return False

    def _is_unused_marker(self, batch: Batch) -> bool:
        marker_type = read_marker(batch)
        producer_id = batch.producer_id
        if marker_type is ControlType.ABORT:
            has_data = self._has_data_by_aborted_producer.pop(producer_id, False)
            return not has_data
        if marker_type is ControlType.COMMIT:
            has_data = producer_id in self._committed_producers_with_data
            self._committed_producers_with_data.discard(producer_id)
            return not has_data
        # The control record has another type, or an earlier pass has removed the marker from its batch.
        return False
