"""The Kafka versions that can have written a log, by ranges of offsets.

A range ends where no single Kafka version can have written both the records of the range and the next record: the
broker was replaced by another version.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkagroups.anatomy.written_by import describe_writers, writers_of
from kafkagroups.history.second_pass import Follower
from kafkagroups.log.batch import Batch
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.serde import decode
from kafkagroups.records.versions import EVERY_VERSION, VersionRange

_DECISIVE_STARTS = {(b"\0\1", version) for version in (b"\0\0", b"\0\2", b"\0\3")}
"""The first two bytes of key and value of records whose other bytes say nothing about the version of the writer.

Version 1 of a commit's value has an expire timestamp that decides, and version 4 has a topic id.
"""


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


class WriterRanges(Follower):
    """Finds the ranges while the records of a log are read in order: by an observer, or in a second pass.

    Most logs have one range: then the versions of their records need no second pass (`have_common_writer`). In a second
    pass, a record is decoded only if its type and its version do not decide.
    """

    def __init__(self, dialect: Dialect, *, needs_pass: bool = False) -> None:
        self._dialect = dialect
        self.producers = None if needs_pass else ()
        self._known: dict[tuple[bytes, bytes | None], VersionRange] = {}
        self._ranges: list[tuple[int, VersionRange]] = []
        """The first offset of each range, and the versions that can have written all records so far."""
        self._included: set[VersionRange] = set()
        """Versions of records that are in the last range."""

    def follow(self, batch: Batch) -> None:
        for record in () if batch.is_control else batch.records:
            start = (record.key[:2] if record.key else b"", record.value and record.value[:2])
            possible = self._known.get(start)
            if possible is None:
                decoded = decode(record.key, record.value, self._dialect)
                possible = writers_of(decoded, is_transactional=batch.is_transactional)
                if start[1] is None or start in _DECISIVE_STARTS:
                    self._known[start] = possible
            self.add(record.offset, possible)

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
