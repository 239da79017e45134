"""Damaged bytes in a log (`Damage`, `Gap`), and whether a broker starts with it.

For people who want to know what is lost there, a reader can go on at the next readable batch: a batch with a correct
checksum and an offset above the last one that was read.

A folder that was copied has no index files, and neither has one whose broker crashed while it made a segment. The
broker then reads each segment from its start, and two kinds of offsets end the whole process, not only this partition:
an offset below the one in the segment's name, and one that is not above the last one of the index. The index gets an
entry for the first batch after each 4096 bytes (index.interval.bytes), so a short log with falling offsets does start.
Source (4.3.1): LogLoader.loadSegmentFiles; LogSegment.recover; OffsetIndex.append; TimeIndex.maybeAppend; LogFileUtils.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.errors import InvalidLog
from kafkagroups.helpers import MAX_INT64, MIN_INT64
from kafkagroups.log.batch import NO_TIMESTAMP, Batch
from kafkagroups.log.batch_frames import LOG_OVERHEAD, MAGIC_POSITION, BytesLike, FrameState, find_frame
from kafkagroups.log.batches import parse_valid_batch
from kafkagroups.log.segment_file import MAX_RELATIVE_OFFSET, ByteRange, base_offset_of, open_segment, read_segment

NAMED_GROUPS = 5
_WINDOW_BYTES = 4 * 1024 * 1024
_CHECKED_BYTES = 1024 * 1024 * 1024
_CHECKED_BYTES_PER_BYTE = 64
"""How many bytes the searches in a log include in checksums at most: the first number, and the second for each byte of
the log."""
_offset_and_length = struct.Struct(">qi")


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a log ends because its bytes are damaged.

    `position` is in bytes from the start of the segment `file`, and `offset` is the Kafka offset that was expected
    there.

    The other fields say what the recovery would cut off; None if the bytes after the damage were not read: the bytes up
    to the end of the last segment, the batches with a correct checksum among them, their records, and the ids of the
    groups in these records.
    """

    file: str
    position: int
    offset: int
    reason: str
    bytes_after: int | None = None
    readable_batches_after: int | None = None
    readable_records_after: int | None = None
    groups_after: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f"{self.file}, byte {self.position}"
        return f"{where}: the log ends here at offset {self.offset}: {self.reason}{self._describe_rest()}"

    def _describe_rest(self) -> str:
        if self.readable_batches_after is None:
            return ""
        if self.readable_batches_after == 0:
            return f"; no readable batch in the {self.bytes_after} bytes from here on"
        count = self.readable_batches_after
        batches = "1 readable batch" if count == 1 else f"{count} readable batches"
        records = "1 record" if self.readable_records_after == 1 else f"{self.readable_records_after} records"
        groups = ", ".join(self.groups_after[:NAMED_GROUPS])
        if len(self.groups_after) > NAMED_GROUPS:
            groups += f" and {len(self.groups_after) - NAMED_GROUPS} more groups"
        of_groups = f" of {groups}" if groups else ""
        return (
            f"; the {self.bytes_after} bytes from here on contain {batches} with {records}{of_groups} "
            "(--past-damage reads them)"
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """Damaged bytes that a reader has skipped.

    `from_offset` is the offset that was expected at the damage, and `to_offset` the first offset of the batch at which
    reading went on.
    """

    file: str
    position: int
    bytes: int
    from_offset: int
    to_offset: int
    reason: str

    def __str__(self) -> str:
        skipped = "1 damaged byte is" if self.bytes == 1 else f"{self.bytes} damaged bytes are"
        missing_count = self.to_offset - self.from_offset
        if missing_count == 0:
            lost = "no offset is"
        elif missing_count == 1:
            lost = f"offset {self.from_offset} is"
        else:
            lost = f"offsets {self.from_offset} to {self.to_offset - 1} are"
        return f"{self.file}, byte {self.position}: {skipped} skipped: {self.reason}; {lost} missing"


@dataclass(frozen=True)
class SegmentReader:
    """The bytes of one segment up to position `end`, in which a search looks for a readable batch.

    `content` are the bytes of a segment in memory; None if they are in the file `path`.
    """

    path: str
    folder: str
    end: int
    content: BytesLike | None = None

    def read(self, position: int, size: int) -> bytes:
        byte_range = ByteRange(position, min(position + size, self.end))
        if self.content is not None:
            return bytes(self.content[slice(*byte_range)])
        return read_segment(self.path, self.folder, byte_range)

    def skip_hole(self, position: int) -> int:
        if self.content is not None:
            return position
        with open_segment(self.path, self.folder, ByteRange(position, self.end)) as file:
            return position + file.skip_hole()


def offsets_of_segment(base_offset: int, next_offset: int) -> range:
    return range(max(0, next_offset), min(MAX_INT64, max(base_offset, next_offset) + MAX_RELATIVE_OFFSET) + 1)


class SearchBudget:
    """How many bytes the searches in one log may still include in checksums.

    Bytes that were written to mislead a search can look like large batches that overlap.
    """

    def __init__(self, log_bytes: int) -> None:
        self._bytes_left = _CHECKED_BYTES + _CHECKED_BYTES_PER_BYTE * log_bytes

    def spend(self, count: int) -> bool:
        """Take a number of bytes from the budget, and return False if it is used up."""
        self._bytes_left -= count
        return self._bytes_left >= 0


def find_batch_after(
    segment: SegmentReader, damaged: int, offsets: range, budget: SearchBudget
) -> tuple[int, int] | None:
    """Return the position and the first offset of the next readable batch after the damage at a position of a segment.

    If the damaged batch has a possible length, the position after it is tried first, because a record in it can contain
    bytes that look like a batch.
    """
    damaged_start = segment.read(damaged, LOG_OVERHEAD)
    if len(damaged_start) == LOG_OVERHEAD:
        _, length = _offset_and_length.unpack(damaged_start)
        next_start = damaged + LOG_OVERHEAD + length
        if length > 0 and next_start < segment.end:
            header = segment.read(next_start, MAGIC_POSITION + 1)
            size = _find_size(segment, next_start, header, offsets)
            if size is not None and budget.spend(size):
                offset = _read_offset(segment, next_start, size)
                if offset is not None:
                    return next_start, offset
    return find_readable_batch(segment, damaged + 1, offsets, budget)


def find_readable_batch(
    segment: SegmentReader, start: int, offsets: range, budget: SearchBudget
) -> tuple[int, int] | None:
    """Return the position and the first offset of the first readable batch of a segment.

    Return None if there is none with a correct checksum and a first offset in `offsets`, or if the budget is used up.
    """
    pattern = _header_pattern(offsets)
    window_start = start
    while window_start < segment.end:
        window_start = segment.skip_hole(window_start)
        window = segment.read(window_start, _WINDOW_BYTES + MAGIC_POSITION)
        for match in pattern.finditer(window):
            place = match.start()
            position = window_start + place
            size = _find_size(segment, position, window[place : place + MAGIC_POSITION + 1], offsets)
            if size is None:
                continue
            if not budget.spend(size):
                return None
            offset = _read_offset(segment, position, size)
            if offset is not None:
                return position, offset
        window_start += _WINDOW_BYTES
    return None


def _header_pattern(offsets: range) -> re.Pattern[bytes]:
    """Return the pattern of the first bytes of a batch whose first offset is in a range.

    The range has at most 2^32 offsets, so the first four bytes of an offset have at most two values.
    """
    high_halves = {offset >> 32 for offset in (offsets[0], offsets[-1])}
    starts = b"|".join(re.escape(half.to_bytes(4, "big")) for half in sorted(high_halves))
    return re.compile(rb"(?s)(?=(?:" + starts + rb").{4}(?!\0{4})[\0-\x7f].{3}.{4}[\0-\2])")


def _find_size(segment: SegmentReader, position: int, header: bytes, offsets: range) -> int | None:
    """Return the size of the batch that can begin at a position; None if its offset or its length is impossible."""
    if len(header) <= MAGIC_POSITION:
        return None
    offset, length = _offset_and_length.unpack_from(header)
    size = LOG_OVERHEAD + length
    is_possible = offset in offsets and length > 0 and position + size <= segment.end
    return size if is_possible else None


def _read_offset(segment: SegmentReader, position: int, size: int) -> int | None:
    data = segment.read(position, size)
    frame = find_frame(data, 0)
    if frame.state is not FrameState.WHOLE or frame.size != size:
        return None
    try:
        return parse_valid_batch(frame, data).base_offset
    except InvalidLog:
        return None


INDEX_INTERVAL_BYTES = 4096
_READ_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
_JAVA_LONG = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class StartFailure:
    """Why a broker does not start with a log. `offset` is that of the batch; None if a file's name is the reason."""

    file: str
    offset: int | None
    reason: str

    def __str__(self) -> str:
        place = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.file}{place}: a broker does not start with this file ({self.reason})"


def find_unreadable_name(paths: Iterable[Path]) -> StartFailure | None:
    for path in sorted(paths):
        text = path.name.partition(".")[0]
        is_offset = _JAVA_LONG.fullmatch(text) is not None and MIN_INT64 <= int(text) <= MAX_INT64
        if path.name.endswith(_READ_SUFFIXES) and not is_offset and path.is_file():
            return StartFailure(str(path), None, f'For input string: "{text}"')
    return None


class Recovery:
    """The recovery of a log's segments, to which each batch is added. `failure` is the first one."""

    def __init__(self) -> None:
        self.failure: StartFailure | None = None
        self._segment: _SegmentRecovery | None = None

    def add(self, path: str, batch: Batch) -> None:
        if self._segment is None or path != self._segment.path:
            self.end_segment()
            self._segment = _SegmentRecovery(path)
        self.failure = self.failure or self._segment.add(batch)

    def end_segment(self) -> None:
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
