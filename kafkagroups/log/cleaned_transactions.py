"""Which transactions a pass of the cleaner is inside of, as it walks through the log.

Says of a batch of data whether its transaction was aborted, and of a marker whether it is unused: whether the walk
met no batch of its transaction, not even an empty one. A batch counts when it is read, so the pass that removes a
transaction's data does not yet find its marker unused. Source: CleanedTransactionMetadata.java (4.3.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kafkagroups.log.batch import Batch
from kafkagroups.log.producer_state import AbortedTxn, read_marker
from kafkagroups.records.control import ControlType


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._to_come = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._aborted: dict[int, bool] = {}  # producer id: whether a batch of its transaction was met
        self._committed: set[int] = set()

    def can_discard(self, batch: Batch) -> bool:
        """Takes the next batch: true for data of an aborted transaction and for an unused marker."""
        while self._to_come and self._to_come[0].first_offset <= batch.last_offset:
            self._aborted.setdefault(self._to_come.popleft().producer_id, False)
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
        kind, producer_id = read_marker(batch), batch.producer_id
        if kind is ControlType.ABORT:
            return not self._aborted.pop(producer_id, False)
        if kind is ControlType.COMMIT:
            is_used = producer_id in self._committed
            self._committed.discard(producer_id)
            return not is_used
        return False  # of another type, or emptied before: then there is no record to discard
