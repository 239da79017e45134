"""Whether a broker starts with a log: the recovery of its segments, which builds their index files.

A folder that was copied has no index files, and neither has one whose broker crashed while it made a segment. The
broker then reads each segment from its start, and two kinds of offsets end the whole process, not only this partition:
an offset below the one in the segment's name, and one that is not above the last one of the index. The index gets an
entry for the first batch after each 4096 bytes (index.interval.bytes), so a short log with falling offsets does start.
Overlapping segments start, too.
Source (4.3.1): LogLoader.loadSegmentFiles; LogSegment.recover; OffsetIndex.append; TimeIndex.maybeAppend; LogFileUtils.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.helpers import MAX_INT64, MIN_INT64
from kafkagroups.log.batch import NO_TIMESTAMP, Batch
from kafkagroups.log.segment_file import base_offset_of

INDEX_INTERVAL_BYTES = 4096
_READ_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
_JAVA_LONG = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class StartFailure:
    """Why a broker does not start with a log. `offset` is that of the batch; None if the name of a file is the reason.

    `reason` is the message of the broker's exception.
    """

    file: str
    offset: int | None
    reason: str

    def __str__(self) -> str:
        place = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.file}{place}: a broker does not start with this file ({self.reason})"


def find_unreadable_name(paths: Iterable[Path]) -> StartFailure | None:
    """Return the first of a folder's files whose name a broker cannot read as an offset."""
    for path in sorted(paths):
        text = path.name.partition(".")[0]
        is_offset = _JAVA_LONG.fullmatch(text) is not None and MIN_INT64 <= int(text) <= MAX_INT64
        if path.name.endswith(_READ_SUFFIXES) and not is_offset and path.is_file():
            return StartFailure(str(path), None, f'For input string: "{text}"')
    return None


class Recovery:
    """The recovery of a log's segments. Add each batch, in the order of the log. `failure` is the first one."""

    def __init__(self) -> None:
        self.failure: StartFailure | None = None
        self._segment: _SegmentRecovery | None = None

    def add(self, path: str, batch: Batch) -> None:
        if self._segment is None or path != self._segment.path:
            self.end_segment()
            self._segment = _SegmentRecovery(path)
        self.failure = self.failure or self._segment.add(batch)

    def end_segment(self) -> None:
        """Add what a broker adds to the time index at the end of a segment."""
        if self._segment is not None:
            self.failure = self.failure or self._segment.add_to_time_index()


class _SegmentRecovery:
    """The indexes of a segment. Each method returns why the broker fails there; None if it does not."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._base_offset = self._batch_offset = base_offset_of(path)
        self._position = 0
        self._indexed_position = 0
        self._index: list[int] = []
        """The offsets with an entry."""
        self._time_index: list[tuple[int, int]] = []
        """The entries: a timestamp and an offset."""
        self._newest = (NO_TIMESTAMP, self._base_offset)
        """The largest timestamp, and the last offset of the first batch that has it."""

    def add(self, batch: Batch) -> StartFailure | None:
        self._batch_offset = batch.base_offset
        if batch.last_offset < self._base_offset:
            reason = "Split operation is only permitted for segments with overflow, and the problem path is"
            return self._fail(f"{reason} {self.path}")
        if batch.max_timestamp > self._newest[0]:
            self._newest = (batch.max_timestamp, batch.last_offset)
        failure = None
        if self._position - self._indexed_position > INDEX_INTERVAL_BYTES:
            failure = self._add_to_index(batch.last_offset) or self.add_to_time_index()
            self._indexed_position = self._position
        self._position += batch.size
        return failure

    def _add_to_index(self, offset: int) -> StartFailure | None:
        if self._index and offset <= self._index[-1]:
            return self._refuse(f"an offset {offset} to position {len(self._index)}", self._index[-1], ".index")
        self._index.append(offset)
        return None

    def add_to_time_index(self) -> StartFailure | None:
        timestamp, offset = self._newest
        last_timestamp, last_offset = self._time_index[-1] if self._time_index else (NO_TIMESTAMP, offset)
        if offset < last_offset:
            return self._refuse(f"an offset ({offset}) to slot {len(self._time_index)}", last_offset, ".timeindex")
        if timestamp > last_timestamp:
            self._time_index.append(self._newest)
        return None

    def _refuse(self, what: str, last: int, suffix: str) -> StartFailure:
        path = self.path.removesuffix(".log") + suffix
        return self._fail(f"Attempt to append {what} no larger than the last offset appended ({last}) to {path}")

    def _fail(self, reason: str) -> StartFailure:
        return StartFailure(self.path, self._batch_offset, reason)
