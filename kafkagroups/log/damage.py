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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.errors import InvalidLog
from kafkagroups.helpers import MAX_INT64, MIN_INT64
from kafkagroups.log.batch import NO_TIMESTAMP, Batch
from kafkagroups.log.batch_frames import LOG_OVERHEAD, MAGIC_POSITION, BytesLike, FrameState, find_frame
from kafkagroups.log.batches import parse_valid_batch
from kafkagroups.log.segment_file import ByteRange, base_offset_of, open_segment, read_segment

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


class SearchEnded(Exception):
    """The searches in a log have included as many bytes in checksums as they may."""


class SearchBudget:
    """How many bytes the searches in one log may still include in checksums.

    Bytes that were written to mislead a search can look like large batches that overlap.
    """

    def __init__(self, log_bytes: int) -> None:
        self._bytes_left = _CHECKED_BYTES + _CHECKED_BYTES_PER_BYTE * log_bytes

    def spend(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise SearchEnded


@dataclass(frozen=True)
class SegmentSearch:
    """A search for a readable batch in one segment, up to position `end`.

    A batch is readable if its checksum is correct and its first offset is in `offsets`. `content` are the bytes of a
    segment in memory; None if they are in the file `path`. Each method raises SearchEnded if the budget is used up.
    """

    path: str
    folder: str
    end: int
    content: BytesLike | None
    offsets: range
    budget: SearchBudget

    def find_after(self, damaged: int) -> tuple[int, int] | None:
        """Return the position and the first offset of the next readable batch after the damage at a position.

        If the damaged batch has a possible length, the position after it is tried first, because a record in it can
        contain bytes that look like a batch.
        """
        damaged_start = self._read(damaged, LOG_OVERHEAD)
        if len(damaged_start) == LOG_OVERHEAD:
            _, length = _offset_and_length.unpack(damaged_start)
            next_start = damaged + LOG_OVERHEAD + length
            if length > 0 and next_start < self.end:
                offset = self._read_offset(next_start, self._read(next_start, MAGIC_POSITION + 1))
                if offset is not None:
                    return next_start, offset
        return self.find_from(damaged + 1)

    def find_from(self, start: int) -> tuple[int, int] | None:
        """Return the position and the first offset of the first readable batch from a position on."""
        pattern = _header_pattern(self.offsets)
        while start < self.end:
            start = self._skip_hole(start)
            window = self._read(start, _WINDOW_BYTES + MAGIC_POSITION)
            for match in pattern.finditer(window):
                position = start + match.start()
                offset = self._read_offset(position, window[match.start() : match.start() + MAGIC_POSITION + 1])
                if offset is not None:
                    return position, offset
            start += _WINDOW_BYTES
        return None

    def _read_offset(self, position: int, header: bytes) -> int | None:
        """Return the first offset of the batch whose header is at a position; None if it is not readable."""
        if len(header) <= MAGIC_POSITION:
            return None
        offset, length = _offset_and_length.unpack_from(header)
        size = LOG_OVERHEAD + length
        if offset not in self.offsets or length <= 0 or position + size > self.end:
            return None
        self.budget.spend(size)
        data = self._read(position, size)
        frame = find_frame(data, 0)
        if frame.state is FrameState.WHOLE and frame.size == size:
            with suppress(InvalidLog):
                return parse_valid_batch(frame, data).base_offset
        return None

    def _read(self, position: int, size: int) -> bytes:
        byte_range = ByteRange(position, min(position + size, self.end))
        if self.content is not None:
            return bytes(self.content[slice(*byte_range)])
        return read_segment(self.path, self.folder, byte_range)

    def _skip_hole(self, position: int) -> int:
        if self.content is not None:
            return position
        with open_segment(self.path, self.folder, ByteRange(position, self.end)) as file:
            return position + file.skip_hole()


def _header_pattern(offsets: range) -> re.Pattern[bytes]:
    """Return the pattern of the first bytes of a batch whose first offset is in a range.

    The range has at most 2^32 offsets, so the first four bytes of an offset have at most two values.
    """
    high_halves = {offset >> 32 for offset in (offsets[0], offsets[-1])}
    starts = b"|".join(re.escape(half.to_bytes(4, "big")) for half in sorted(high_halves))
    return re.compile(rb"(?s)(?=(?:" + starts + rb").{4}(?!\0{4})[\0-\x7f].{3}.{4}[\0-\2])")


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
