"""The Kafka versions that can have written a log, by ranges of offsets.

A range ends where no single Kafka version can have written both the records of the range and the next record: the
broker was replaced by another version.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkagroups.anatomy.written_by import describe_writers
from kafkagroups.records.versions import EVERY_VERSION, VersionRange


@dataclass(frozen=True)
class WriterRange:
    """The Kafka versions that can have written the records from offset `first` to offset `last`.

    `versions` is a text such as "0.9 – 2.0"; "" if every version can have written the records. `writers` are the same
    versions.
    """

    first: int
    last: int
    versions: str
    writers: VersionRange


class WriterRanges:
    """Finds the ranges while the records of a log are read in order."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, VersionRange]] = []
        """The first offset of each range, and the versions that can have written all records so far."""
        self._included: set[VersionRange] = set()
        """Versions of records that are in the last range."""

    def add(self, offset: int, writers: VersionRange) -> None:
        """Add the next record. No Kafka version writes some odd records: they belong to the range before them."""
        if writers in self._included or writers.since >= writers.until:
            return
        if self._ranges:
            first, versions = self._ranges[-1]
            common = versions.intersect(writers)
            if common.since < common.until:
                self._ranges[-1] = (first, common)
                self._included.add(writers)
                return
        self._ranges.append((offset, writers))
        self._included = {writers}

    def finish(self, first_offset: int, next_offset: int) -> list[WriterRange]:
        """Return the ranges of a log that begins at `first_offset` and ends before `next_offset`."""
        if first_offset >= next_offset:
            return []
        ranges = self._ranges or [(first_offset, EVERY_VERSION)]
        firsts = [first_offset, *(first for first, _ in ranges[1:])]
        ends = [*firsts[1:], next_offset]
        return [
            WriterRange(first, end - 1, describe_writers([versions]), versions)
            for first, end, (_, versions) in zip(firsts, ends, ranges, strict=True)
        ]


def have_common_writer(writers: set[VersionRange]) -> bool:
    """Return whether one Kafka version can have written all records. `writers` has the versions of each record."""
    common = EVERY_VERSION
    for versions in writers:
        if versions.since < versions.until:
            common = common.intersect(versions)
    return common.since < common.until
