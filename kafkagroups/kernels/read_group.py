"""Reads the batches of one group from a log that the compiled engine has loaded without an error."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkagroups.kernels.group_batches import (
    BATCHES_LEFT,
    COUNTS,
    FIRST_MISSING,
    HOLE_FIRST,
    HOLE_LAST,
    HOLE_MISSING,
    LAST_MISSING,
    MISSING_COUNT,
    NEWEST_OFFSET,
    POSITION,
    find_group_batches,
)
from kafkagroups.kernels.hash_table import copy_numbers
from kafkagroups.kernels.second_reading import Array, SecondReading
from kafkagroups.kernels.secret import process_secret
from kafkagroups.kernels.unpack import as_array
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import parse_batch_at
from kafkagroups.log.holes import Hole
from kafkagroups.log.segments import Log

FOUND_ROWS = 4096
INITIAL_PRODUCER_ROWS = 64


class GroupReader(SecondReading[Batch | Hole]):
    """The reader of the batches of one group.

    `group_id` is the group id. `batch_count` is how many batches the load of the log has read: later batches are not
    read. Compressed batches are yielded without compression.
    """

    def __init__(self, log: Log, group_id: str, batch_count: int) -> None:
        super().__init__(log)
        encoded_id = group_id.encode()
        self._id_size = len(encoded_id)
        # A group id can be empty, but numpy cannot make an array from 0 bytes.
        self._group_id = as_array(encoded_id or b"\0")
        self._producer_ids = np.zeros((INITIAL_PRODUCER_ROWS, 2), np.int64)
        self._counts = np.zeros(len(COUNTS), np.int64)
        self._counts[BATCHES_LEFT] = batch_count
        self._counts[NEWEST_OFFSET] = -1
        self._found = np.empty((FOUND_ROWS, 4), np.int64)

    @property
    def has_more(self) -> bool:
        return bool(self._counts[BATCHES_LEFT])

    def read(self) -> Iterator[Batch | Hole]:
        """Yield the batches with records of the group, and the markers of their producers, in the order of the log.

        If offsets are missing before or in a batch, a hole is yielded before the batch. The last hole can be after the
        last batch.
        """
        yield from super().read()
        if self._counts[MISSING_COUNT]:
            yield Hole(*self._counts[[FIRST_MISSING, LAST_MISSING, MISSING_COUNT]].tolist())

    def scan(self, data: Array, position: int) -> tuple[int, int, int]:
        status, next_position, count = find_group_batches(
            data,
            position,
            self._group_id,
            self._id_size,
            self._producer_ids,
            self._counts,
            self._found,
            process_secret(),
        )
        return status, next_position, count

    def collect(self, data: Array, count: int, segment: str) -> Iterator[Batch | Hole]:
        for row in self._found[:count].tolist():
            if row[HOLE_MISSING]:
                yield Hole(row[HOLE_FIRST], row[HOLE_LAST], row[HOLE_MISSING])
            yield parse_batch_at(data, row[POSITION], segment)

    def grow(self) -> None:
        larger = np.zeros((2 * len(self._producer_ids), 2), np.int64)
        copy_numbers(self._producer_ids, larger, process_secret())
        self._producer_ids = larger
