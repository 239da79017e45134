"""Reads the keys of all records in open transactions, from a log that the engine has loaded without an error."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkagroups.kernels.open_transactions import KEY_PRODUCER, KEY_SIZE, KEY_START, find_open_keys
from kafkagroups.kernels.second_reading import Array, SecondReading
from kafkagroups.kernels.secret import process_secret
from kafkagroups.log.segments import Log

INITIAL_KEY_ROWS = 4096


class OpenKeyReader(SecondReading[tuple[int, bytes]]):
    """The reader of the producer ids and the keys of all records in open transactions.

    `transactions` is the hash table of the transactions (layout.py). `batch_count` is how many batches the load of the
    log has read: later batches are not read.
    """

    def __init__(self, log: Log, transactions: Array, batch_count: int) -> None:
        super().__init__(log)
        self._batches_left = np.array([batch_count], np.int64)
        self._transactions = transactions
        self._keys = np.empty((INITIAL_KEY_ROWS, 3), np.int64)

    @property
    def has_more(self) -> bool:
        return bool(self._batches_left[0])

    def scan(self, data: Array, position: int) -> tuple[int, int, int]:
        status, next_position, count = find_open_keys(
            data, position, self._transactions, self._batches_left, self._keys, process_secret()
        )
        return status, next_position, count

    def collect(self, data: Array, count: int, segment: str) -> Iterator[tuple[int, bytes]]:
        memory = memoryview(data)
        for row in self._keys[:count].tolist():
            key_start = row[KEY_START]
            yield row[KEY_PRODUCER], bytes(memory[key_start : key_start + row[KEY_SIZE]])

    def grow(self) -> None:
        self._keys = np.empty((2 * len(self._keys), 3), np.int64)
