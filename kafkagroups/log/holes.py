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


def join_holes(first: Hole, second: Hole) -> Hole:
    """Return one hole for two holes. `second` is later in the log."""
    return Hole(first.first, second.last, first.missing + second.missing)


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
