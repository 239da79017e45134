"""The arrays that the compiled engine needs only to follow fates (fates.py). layout.py describes their columns.

In a load, these arrays have no columns or no rows, so they need no memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels import layout
from kafkagroups.kernels.hash_table import copy_numbers
from kafkagroups.kernels.secret import process_secret

Array = np.ndarray[Any, Any]
INITIAL_TRANSACTIONS = 64
INITIAL_FATES = 1 << 14
"""How many rows the hash table of transactions and the array of fates have at first."""


class FateArrays:
    """The arrays to follow fates.

    `follows_fates` is true if the engine follows fates. `keeps_each_fate` is true if it also keeps the fate of each
    record. `segment_count` is the number of segments in the log.
    """

    counts: Array  # The subclass FoldArrays (arrays.py) sets these three arrays.
    key_records: Array
    node_records: Array

    def __init__(self, *, follows_fates: bool = False, keeps_each_fate: bool = False, segment_count: int = 0) -> None:
        self.follows_fates = follows_fates
        self.keeps_each_fate = keeps_each_fate
        self.record_columns = layout.RECORD_COLUMNS if follows_fates else 0
        self.total_columns = 2 * layout.TOTAL_COLUMNS if follows_fates else 0
        self.segments = np.zeros((segment_count, layout.SEGMENT_COLUMNS), np.int64)
        self.segments[:, layout.TRACE_END :] = -1
        self.transactions = np.zeros((INITIAL_TRANSACTIONS, layout.TRANSACTION_COLUMNS), np.int64)
        self.kinds = np.zeros((layout.KIND_COUNT if follows_fates else 0, 5), np.int64)
        self.disk_sizes = np.empty(0, np.int64)
        self.fates = np.zeros(INITIAL_FATES if keeps_each_fate else 0, np.uint8)
        self.by = np.full(len(self.fates), layout.NO_RECORD, np.int64)
        self.block_records = np.empty((layout.BLOCK_ROWS, 3), np.int64)

    def grow_fates(self, record_count: int) -> None:
        """Make space for a batch with `record_count` records, if the engine follows fates."""
        if self.follows_fates and 2 * (self.counts[layout.TRANSACTIONS] + 1) > len(self.transactions):
            open_rows = self.list_open_transactions()
            row_count = max(INITIAL_TRANSACTIONS, 1 << (4 * len(open_rows) + 4).bit_length())
            self.transactions = np.zeros((row_count, layout.TRANSACTION_COLUMNS), np.int64)
            copy_numbers(open_rows, self.transactions, process_secret())
            self.counts[layout.TRANSACTIONS] = len(open_rows)
        needed_fates = int(self.counts[layout.RECORDS]) + record_count
        if self.keeps_each_fate and needed_fates > len(self.fates):
            old_count = len(self.fates)
            fates = np.zeros(2 * needed_fates, np.uint8)
            fates[:old_count] = self.fates
            self.fates = fates
            by = np.full(2 * needed_fates, layout.NO_RECORD, np.int64)
            by[:old_count] = self.by
            self.by = by

    def list_open_transactions(self) -> Array:
        """Return the rows of the open transactions, in the order of their first offsets."""
        rows = self.transactions[self.transactions[:, layout.IS_OPEN] == 1]
        return rows[np.argsort(rows[:, layout.OPEN_FIRST_OFFSET], kind="stable")]

    def release_fate_arrays(self) -> None:
        """Release the memory of the arrays that are needed only while a log is read."""
        self.key_records = np.zeros((0, 0), np.int64)
        self.node_records = np.zeros((0, 0), np.int64)
        self.fates = np.zeros(0, np.uint8)
        self.by = np.zeros(0, np.int64)
