"""Offsets that are missing in a partition: the log cleaner has removed their records.

A broker writes the offsets of a partition without holes. So a missing offset belongs to a record that was removed. The
header of a batch says how many records the batch contains, but not which offsets of the batch are missing. So a hole is
a range of offsets, and the number of records that are missing in this range.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.log.batch import Batch, record_count


class Hole(NamedTuple):
    """A range of offsets in which records are missing.

    `first` and `last` are the first and the last offset of the range. `missing` is how many offsets of the range have
    no record.
    """

    first: int
    last: int
    missing: int


class DamagedHole(Hole):
    """A range of offsets that are missing because their bytes are damaged. The cleaner did not remove them."""


class HoleFinder:
    """The holes of one partition, from offset 0 on."""

    def __init__(self) -> None:
        self._newest_offset = -1

    def find(self, batch: Batch) -> list[Hole]:
        """Return the hole before the next batch of the log, and the hole in this batch, if they exist.

        A batch whose offsets do not rise has no hole. A broker does not write such a batch.
        """
        newest_offset = self._newest_offset
        self._newest_offset = max(newest_offset, batch.last_offset)
        holes: list[Hole] = []
        missing_before = batch.base_offset - 1 - newest_offset
        if missing_before < 0:
            return holes
        if missing_before > 0:
            holes.append(Hole(newest_offset + 1, batch.base_offset - 1, missing_before))
        missing_inside = batch.last_offset - batch.base_offset + 1 - record_count(batch)
        if missing_inside > 0:
            holes.append(Hole(batch.base_offset, batch.last_offset, missing_inside))
        return holes


class OffsetGaps:
    """The offsets without a record, found while all records of a log are read in order.

    Use it if the records are read anyway: unlike HoleFinder, it finds the exact offsets inside a batch.
    """

    def __init__(self, start_offset: int) -> None:
        self._next_offset = start_offset

    def find_before(self, offset: int) -> tuple[int, int] | None:
        """Return the first and the last of the missing offsets right before `offset`; None if there are none.

        Each gap is returned only once.
        """
        first_missing = self._next_offset
        if offset <= first_missing:
            return None
        self._next_offset = offset
        return first_missing, offset - 1

    def skip_to(self, offset: int) -> None:
        """Continue at `offset`. The offsets before it are no gap."""
        self._next_offset = max(self._next_offset, offset)
