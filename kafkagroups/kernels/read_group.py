"""Reads the batches of one group from a log that the compiled engine has loaded without an error."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

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
    copy_producers,
    find_group_batches,
)
from kafkagroups.kernels.layout import COMPRESSED, NEEDS_MORE_BYTES, NO_SPACE, OK
from kafkagroups.kernels.secret import process_secret
from kafkagroups.kernels.state import PIECE_BYTES
from kafkagroups.kernels.unpack import as_array, decompress_batches
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch
from kafkagroups.log.batches import parse_batch_at
from kafkagroups.log.holes import Hole
from kafkagroups.log.segments import Log

Array = np.ndarray[Any, Any]
FOUND_ROWS = 4096
INITIAL_PRODUCER_ROWS = 64


class GroupReader:
    """The reader of the batches of one group.

    `group_id` is the group id. `batch_count` is how many batches the load of the log has read: later batches are not
    read. Compressed batches are yielded without compression.
    """

    def __init__(self, log: Log, group_id: str, batch_count: int) -> None:
        self.log = log
        encoded_id = group_id.encode()
        self._id_size = len(encoded_id)
        # A group id can be empty, but numpy cannot make an array from 0 bytes.
        self._group_id = as_array(encoded_id or b"\0")
        self._producer_ids = np.full(INITIAL_PRODUCER_ROWS, NO_PRODUCER_ID, np.int64)
        self._counts = np.zeros(len(COUNTS), np.int64)
        self._counts[BATCHES_LEFT] = batch_count
        self._counts[NEWEST_OFFSET] = -1
        self._found = np.empty((FOUND_ROWS, 4), np.int64)

    def read(self) -> Iterator[Batch | Hole]:
        """Yield the batches with records of the group, and the markers of their producers, in the order of the log.

        If offsets are missing before or in a batch, a hole is yielded before the batch. The last hole can be after the
        last batch.
        """
        for segment in self.log.segments:
            if not self._counts[BATCHES_LEFT]:
                return
            with self.log.open(segment) as file:
                unread = b""
                while piece := file.read(PIECE_BYTES):
                    data = as_array(unread + piece)
                    position = yield from self._read_piece(data, segment)
                    if position is None:
                        break
                    unread = data[position:].tobytes()
        if self._counts[MISSING_COUNT]:
            yield Hole(*self._counts[[FIRST_MISSING, LAST_MISSING, MISSING_COUNT]].tolist())

    def _read_piece(self, data: Array, segment: str) -> Generator[Batch | Hole, None, int | None]:
        """Yield the group's batches and the holes in a piece of a segment.

        Return the position in `data` of the first byte that was not read, or None if no batch follows in the segment.
        """
        position = 0
        while True:
            status, position, found_count = find_group_batches(
                data,
                position,
                self._group_id,
                self._id_size,
                self._producer_ids,
                self._counts,
                self._found,
                process_secret(),
            )
            for row in self._found[:found_count].tolist():
                if row[HOLE_MISSING]:
                    yield Hole(row[HOLE_FIRST], row[HOLE_LAST], row[HOLE_MISSING])
                yield parse_batch_at(data, row[POSITION], segment)
            if status == NO_SPACE:
                self._grow_producers()
            elif status == COMPRESSED:
                uncompressed, position, _ = decompress_batches(data, position, self.log.max_batch_bytes)
                if uncompressed is None:  # The load stopped before this batch.
                    return None
                yield from self._read_piece(uncompressed, segment)
            elif status == NEEDS_MORE_BYTES:
                return position
            elif status == OK:
                return None

    def _grow_producers(self) -> None:
        larger = np.full(2 * len(self._producer_ids), NO_PRODUCER_ID, np.int64)
        copy_producers(self._producer_ids, larger, process_secret())
        self._producer_ids = larger
