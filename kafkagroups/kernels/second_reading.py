"""Reads a log again, after the compiled engine has loaded it without an error.

The file can have changed since the load. So a kernel checks each size again before it uses the size.

A subclass says what to find in the batches. Compressed batches are given to it without compression.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from kafkagroups.errors import InvalidLog
from kafkagroups.kernels.layout import COMPRESSED, HAND_OVER, NEEDS_MORE_BYTES, NO_SPACE, OK
from kafkagroups.kernels.state import PIECE_BYTES
from kafkagroups.kernels.unpack import as_array, decompress_batches
from kafkagroups.log.segments import Log

Array = np.ndarray[Any, Any]
FoundT = TypeVar("FoundT")
CHANGED_FILE = "the file has changed while it was read: read the log again"


class SecondReading(ABC, Generic[FoundT]):
    """A second reading of a log."""

    def __init__(self, log: Log) -> None:
        self.log = log

    @property
    @abstractmethod
    def has_more(self) -> bool:
        """Whether the load has read batches that `scan` has not read yet."""

    @abstractmethod
    def scan(self, data: Array, position: int) -> tuple[int, int, int]:
        """Call the kernel. Return a status (layout.py), the position of the next byte to read, and a count.

        After these statuses, `read` calls `scan` again:

        - NEEDS_MORE_BYTES: `data` ends before the end of the next batch.
        - COMPRESSED: the next batch is compressed.
        - NO_SPACE: `grow` must first make space.
        - PAUSED: there is no space for what the next batch contains. `collect` makes space.

        OK means that there is nothing more to read in the segment. HAND_OVER means that the file has changed since the
        load.
        """

    @abstractmethod
    def collect(self, data: Array, count: int, segment: str) -> Iterator[FoundT]:
        """Yield what the last call of `scan` has found in `data`, which contains bytes of a segment."""

    @abstractmethod
    def grow(self) -> None:
        """Make space, because `scan` returned NO_SPACE."""

    def read(self) -> Iterator[FoundT]:
        """Yield what is found, in the order of the log."""
        for segment in self.log.segments:
            if not self.has_more:
                return
            with self.log.open(segment) as file:
                unread = b""
                while piece := file.read(PIECE_BYTES):
                    data = as_array(unread + piece)
                    position = yield from self._read_piece(data, segment)
                    if position is None:
                        break
                    unread = data[position:].tobytes()

    def _read_piece(self, data: Array, segment: str) -> Generator[FoundT, None, int | None]:
        """Yield what is found in a piece of a segment.

        Return the position in `data` of the first byte that was not read, or None if no batch follows in the segment.
        """
        position = 0
        while True:
            status, position, count = self.scan(data, position)
            yield from self.collect(data, count, segment)
            if status == NO_SPACE:
                self.grow()
            elif status == COMPRESSED:
                uncompressed, position, _ = decompress_batches(data, position, self.log.max_batch_bytes)
                if uncompressed is None:  # The load stopped before this batch.
                    return None
                yield from self._read_piece(uncompressed, segment)
            elif status == NEEDS_MORE_BYTES:
                return position
            elif status == OK:
                return None
            elif status == HAND_OVER:
                raise InvalidLog(f"{segment}: {CHANGED_FILE}")
