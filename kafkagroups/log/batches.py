"""The batches in a segment's bytes: parsing them, the holes between them, damaged bytes (`Damage`, `Gap`),
and whether a broker starts with them.

A broker writes the offsets of a partition without holes, so a missing offset belongs to a record that the log cleaner
has removed. The header of a batch says how many records the batch contains, but not which offsets are missing, so a
hole is a range of offsets and the number of records missing in it.

A folder that was copied has no index files, and neither has one whose broker crashed while it made a segment. The
broker then reads each segment from its start, and two kinds of offsets end the whole process: an offset below the one
in the segment's name, and one that is not above the last one of the index. The index gets an entry for the first batch
after each 4096 bytes (index.interval.bytes), so a short log with falling offsets does start.

Zeros follow the last batch if a broker has reserved the file's space (log.preallocate=true) and then died, or if the
file system lost the end of the file. Kafka's readers refuse a batch with a length below 14, but they ignore a few bytes
at the end:

    reader                         reads                                        ignores at most
    FileLogInputStream             a file: for the next offset of the log when  _IGNORED_IN_FILE bytes
                                   a broker starts, and to find an offset
    ByteBufferLogInputStream       a piece of a file in memory: for a load      _IGNORED_IN_MEMORY bytes

A broker cuts a segment after its last valid batch if it finds no mark of a clean shutdown, or no index files. A
failover loads from the segment that the new leader has written as a follower, with the space that is reserved in it.

Simpler than Kafka: a load reads a file in pieces of offsets.load.buffer.size (5 MiB); if the last batch ends exactly at
the end of a piece, Kafka does not reach the zeros, and the load succeeds.
Source (4.3.1): LogLoader.load, LogLoader.loadSegmentFiles; LogSegment.recover; OffsetIndex.append;
TimeIndex.maybeAppend; LogFileUtils; FileLogInputStream.nextBatch; ByteBufferLogInputStream.nextBatchSize;
CoordinatorLoaderImpl.load; captured starts of 3.9.2, 4.3.1 and 4.4.0 (tests/captured, releases/zero).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, parse_message_set, parse_record_batch, record_count
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.segment_file import BytesLike, Frame, FrameState, Zeros, base_offset_of, find_frame, find_frames

NAMED_GROUPS = 5


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a log ends because its bytes are damaged.

    `position` is in bytes from the start of the segment `file`, and `offset` is the Kafka offset that was expected
    there. The other fields say what the recovery would cut off: the bytes up to the end of the last segment, the
    batches with a correct checksum among them, their records, and the ids of the groups in these records. None: nobody
    has read them.
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


INDEX_INTERVAL_BYTES = 4096


@dataclass(frozen=True)
class StartFailure:
    """`offset` is that of the batch; None if a file's name is the reason."""

    file: str
    offset: int | None
    reason: str

    def __str__(self) -> str:
        place = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.file}{place}: a broker does not start with this file ({self.reason})"


class Recovery:
    """The recovery of a log's segments, with the indexes of one segment at a time. `failure` is the first one."""

    def __init__(self) -> None:
        self.failure: StartFailure | None = None
        self._start_segment("")

    def _start_segment(self, path: str) -> None:
        self._path = path
        self._base_offset = self._batch_offset = base_offset_of(path)
        self._position = 0
        self._indexed_position = 0
        self._index: list[int] = []
        """The offsets with an entry."""
        self._time_index: list[tuple[int, int]] = []
        """The entries: a timestamp and an offset."""
        self._newest = (NO_TIMESTAMP, self._base_offset)

    def add(self, path: str, batch: Batch) -> None:
        if path != self._path:
            self.end_segment()
            self._start_segment(path)
        self._batch_offset = batch.base_offset
        if batch.last_offset < self._base_offset:
            self._fail(f"Split operation is only permitted for segments with overflow, and the problem path is {path}")
        if batch.max_timestamp > self._newest[0]:
            self._newest = (batch.max_timestamp, batch.last_offset)
        if self._position - self._indexed_position > INDEX_INTERVAL_BYTES:
            self._add_to_index(batch.last_offset)
            self.end_segment()
            self._indexed_position = self._position
        self._position += batch.size

    def end_segment(self) -> None:
        """Add an entry to the time index, as a broker also does after each entry of the other index."""
        timestamp, offset = self._newest
        last_timestamp, last_offset = self._time_index[-1] if self._time_index else (NO_TIMESTAMP, offset)
        if offset < last_offset:
            self._refuse(f"an offset ({offset}) to slot {len(self._time_index)}", last_offset, ".timeindex")
        if timestamp > last_timestamp:
            self._time_index.append(self._newest)

    def _add_to_index(self, offset: int) -> None:
        if self._index and offset <= self._index[-1]:
            self._refuse(f"an offset {offset} to position {len(self._index)}", self._index[-1], ".index")
        self._index.append(offset)

    def _refuse(self, what: str, last: int, suffix: str) -> None:
        path = self._path.removesuffix(".log") + suffix
        self._fail(f"Attempt to append {what} no larger than the last offset appended ({last}) to {path}")

    def _fail(self, reason: str) -> None:
        self.failure = self.failure or StartFailure(self._path, self._batch_offset, reason)


_IGNORED_IN_FILE = 17
"""The bytes of a batch's header up to its magic."""
_IGNORED_IN_MEMORY = 11
"""The reader of bytes in memory needs 12 bytes to read the length of a batch."""


class Start(Enum):
    """A failover is the start of a partition's new leader in a running broker."""

    UNCLEAN = "after an unclean shutdown"
    WITHOUT_INDEXES = "without index files"
    CLEAN = "after a clean shutdown"
    FAILOVER = "at a failover"


class Outcome(Enum):
    CUTS_ZEROS = "cuts the zeros off, and loads all batches"
    CUTS_LATER_SEGMENTS = "cuts the zeros off, deletes all later segments, and loads the batches before the zeros"
    IGNORES_ZEROS = "ignores the zeros, and loads all batches"
    LOAD_FAILS = "fails to load this partition: Record size 0 is less than the minimum record overhead (14)"
    LOADS_NOTHING = (
        "fails to load this partition, but answers as if its groups had never existed; the error is only in its log"
    )
    DOES_NOT_START = "does not start: Found record size 0 smaller than minimum record overhead (14)"


def judge_start(start: Start, zeros: Zeros, coordinator: str) -> Outcome:
    is_last_segment = zeros.later_segments == 0
    has_batches = zeros.position > 0  # If zeros are not at the start of a segment, they follow a batch.
    if start is Start.UNCLEAN:
        return Outcome.CUTS_ZEROS if is_last_segment else Outcome.CUTS_LATER_SEGMENTS
    if start is Start.WITHOUT_INDEXES:
        return Outcome.CUTS_ZEROS
    if start is Start.CLEAN and is_last_segment and zeros.bytes > _IGNORED_IN_FILE:
        return Outcome.DOES_NOT_START
    if is_last_segment and not has_batches:
        return Outcome.IGNORES_ZEROS  # The load ends before this segment, at the next offset of the log.
    # In a segment without batches, the load searches for its next offset before it reads a piece into memory.
    ignored_bytes = _IGNORED_IN_MEMORY if has_batches else _IGNORED_IN_FILE
    if zeros.bytes <= ignored_bytes:
        return Outcome.IGNORES_ZEROS
    return Outcome.LOADS_NOTHING if coordinator == "classic" else Outcome.LOAD_FAILS


def read_batches(data: BytesLike, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES) -> Iterator[Batch]:
    """Yield the batches of a segment's bytes, up to the zeros at its end.

    Raises InvalidLog at the first batch that is not whole or has a wrong checksum.
    """
    for frame in find_frames(data):
        if frame.state is FrameState.ZEROS:
            return
        yield parse_valid_batch(frame, bytes(data[frame.position : frame.end]), file, max_batch_bytes)


def parse_valid_batch(
    frame: Frame, data: bytes, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES
) -> Batch:
    """Raises InvalidLog if the batch is not whole or its checksum is wrong."""
    batch = parse_batch(frame, data, file, max_batch_bytes)
    if batch.crc != batch.computed_crc:
        reason = f"expected checksum {batch.crc:08x}, the bytes give {batch.computed_crc:08x}"
        raise InvalidLog(reason, file=file, position=frame.position)
    return batch


def parse_batch_at(data: BytesLike, position: int, file: str | None = None) -> Batch:
    """Return the batch at a position, without a check of its checksum. Raises InvalidLog if it is not whole."""
    frame = find_frame(data, position)
    return parse_batch(frame, bytes(data[position : frame.end]), file)


def parse_batch(frame: Frame, data: bytes, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES) -> Batch:
    """Do what `parse_valid_batch` does, but without a check of the checksum."""
    if frame.state is not FrameState.WHOLE:
        raise frame.make_error(file)
    parse = parse_record_batch if frame.magic == 2 else parse_message_set
    return parse(data, frame.position, file, max_batch_bytes)


class Position(NamedTuple):
    """How far a log was read: the next Kafka offset, and the byte after the last batch in the file `segment`.

    A reader searches for `next_offset` if the position has only this, or if the file has another inode because the
    cleaner has replaced it.
    """

    next_offset: int
    segment: str = ""
    byte: int = 0
    inode: int = -1


class FoundBatch(NamedTuple):
    """`inode` identifies the file; -1 means that the segment is in memory."""

    frame: Frame
    data: bytes
    segment: str
    inode: int
    max_batch_bytes: int = MAX_BATCH_BYTES

    def parse(self) -> Batch:
        return parse_valid_batch(self.frame, self.data, self.segment, self.max_batch_bytes)

    @property
    def end(self) -> Position:
        return Position(self.frame.next_offset, self.segment, self.frame.end, self.inode)


class Hole(NamedTuple):
    """A range of offsets, of which `missing` have no record."""

    first: int
    last: int
    missing: int


class OffsetGaps:
    def __init__(self, start_offset: int = 0) -> None:
        self._next_offset = start_offset

    def skip_to(self, offset: int) -> None:
        self._next_offset = max(self._next_offset, offset)

    def find_before(self, offset: int) -> tuple[int, int] | None:
        first_missing = self._next_offset
        self.skip_to(offset)
        return (first_missing, offset - 1) if first_missing < offset else None

    def find_holes(self, batch: Batch) -> list[Hole]:
        """Return the hole before the next batch of the log, and the hole in this batch, if they exist.

        A batch whose offsets do not rise has no hole.
        """
        next_offset = self._next_offset
        self.skip_to(batch.last_offset + 1)
        if batch.base_offset < next_offset:
            return []
        missing_inside = batch.last_offset - batch.base_offset + 1 - record_count(batch)
        before = Hole(next_offset, batch.base_offset - 1, batch.base_offset - next_offset)
        inside = Hole(batch.base_offset, batch.last_offset, missing_inside)
        return [hole for hole in (before, inside) if hole.missing > 0]
