"""The log of one partition: a folder of segments, read in order, up to an offset or a time (`Stop`).

A segment is a file `<base offset>.log` that contains batches of any format (batch.py). Reading ends where a broker's
recovery would cut the log: at a batch with a wrong checksum or an impossible header, or at a batch that is not whole.
Zeros after the last batch are not damage: a broker can reserve space in a segment before it writes. The log cleaner
removes records, so offsets can have gaps, and a segment can begin far above its base offset.

Source (4.3.1): FileLogInputStream.java; ByteBufferLogInputStream.java; LogSegment.recover; LogLoader.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.helpers import MAX_INT32, MAX_INT64
from kafkagroups.log import segment_file
from kafkagroups.log.batch import CODEC, Batch, LogRecord
from kafkagroups.log.batches import Damage, FoundBatch, Gap, Position, Recovery, StartFailure, parse_valid_batch
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.segment_file import ByteRange, BytesLike, FrameState, SegmentFile, Zeros

_WINDOW_BYTES = 4 * 1024 * 1024
_CHECKED_BYTES = 1024 * 1024 * 1024
_CHECKED_BYTES_PER_BYTE = 64
"""How many bytes the searches in a log include in checksums at most: the first number, and the second for each byte of
the log."""


@dataclass
class Notes:
    """What one reading of a log has found besides batches.

    `damage` says where the log ends because of damaged bytes; it is set when the reading ends. `zeros` are those at the
    end of the first segment that ends with zeros, once the reading has reached them.
    """

    damage: Damage | None = None
    gaps: list[Gap] = field(default_factory=list)
    zeros: Zeros | None = None
    recovery: Recovery = field(default_factory=Recovery)
    """Whether a broker starts with what was read."""


@dataclass(eq=False, repr=False)
class Log:
    """The log of one partition. Several iterations do not disturb each other.

    `segments` are paths, in order; with `content`, the bytes of segments in memory or in a remote file system, they are
    its keys. `partition` is the number in the folder's name, or None, and `start_offset` the base offset in the first
    segment's name, or 0. `ranges` has the byte range of some segments that belongs to the log. `known_size` is the size
    in bytes, if it was found with the files. `damage`, `gaps` and `zeros` are the `Notes` of the last reading that has
    reached the end of the log; if there was none, the log is read. `start_failure` is a file of the folder whose name
    ends the start of a broker.
    """

    path: str
    segments: list[str]
    partition: int | None
    content: Mapping[str, BytesLike] | None = None
    folder: str = ""
    ranges: Mapping[str, ByteRange] = field(default_factory=dict)
    known_size: int | None = None
    skips_damage: bool = False
    max_batch_bytes: int = MAX_BATCH_BYTES
    start_failure: StartFailure | None = None
    _notes: Notes | None = None

    def __post_init__(self) -> None:
        self.start_offset = segment_file.base_offset_of(self.segments[0])

    @property
    def damage(self) -> Damage | None:
        return self.notes.damage

    def keep_notes(self, notes: Notes) -> None:
        """Keep the notes of a reading to the end that did not iterate over this log."""
        self._notes = notes

    @property
    def notes(self) -> Notes:
        if self._notes is None:
            deque(self, maxlen=0)
        assert self._notes is not None
        return self._notes

    def limit_batches(self, max_batch_bytes: int) -> Log:
        """Return a copy of this log that ends, as if it were damaged, before a batch that needs more bytes when
        decompressed.
        """
        if max_batch_bytes < 1:
            raise UsageError(f"max_batch_bytes: expected at least 1, found {max_batch_bytes}")
        return self._change(max_batch_bytes=min(max_batch_bytes, MAX_INT32))

    def skip_damage(self) -> Log:
        return self._change(skips_damage=True)

    def _change(self, **attributes: Any) -> Log:
        log = copy(self)
        vars(log).update(attributes, _notes=None)
        return log

    def in_memory(self) -> Log:
        """Return a copy of this log that keeps each segment in memory after its first reading. Ranges are read each
        time.
        """
        log = copy(self)
        if not self.ranges and self.content is None:
            log.content = _SegmentCache(self)
        return log

    def __iter__(self) -> Iterator[Batch]:
        return self.read_until(lambda batch: False)

    def read_until(self, is_end: Callable[[Batch], bool], notes: Notes | None = None) -> Iterator[Batch]:
        notes = Notes() if notes is None else notes
        next_offset = self.start_offset
        unread: Log | None = self
        budget = SearchBudget(self.size) if self.skips_damage else None
        while unread is not None:
            last_batch: Batch | None = None
            try:
                for found_batch in unread.find_batches(None, notes):
                    batch = found_batch.parse()
                    if is_end(batch):
                        return
                    if batch.attributes & CODEC:
                        batch.check_size()
                    if not self.ranges:
                        notes.recovery.add(found_batch.segment, batch)
                    yield batch
                    last_batch = batch
                damage = None
            except InvalidLog as error:
                if last_batch is not None:
                    next_offset = last_batch.next_offset
                # A reader that skips damage also reads the later segments.
                damage = self.describe_damage(error, next_offset, names_unread=not self.skips_damage)
            unread = self.select_after(damage, budget) if damage and self.skips_damage else None
            if damage and unread is not None:
                skipped = self.count_bytes_from(damage) - unread.size
                place = (damage.file, damage.position, skipped, damage.offset, unread.start_offset)
                notes.gaps.append(Gap(*place, damage.reason))
        notes.damage = damage
        notes.recovery.end_segment()
        self.keep_notes(notes)

    def select_after(self, damage: Damage, budget: SearchBudget | None = None) -> Log | None:
        """Return the part of the log from the next readable batch after damage on; None if none follows."""
        budget = budget or SearchBudget(self.size)
        with suppress(SearchEnded):
            for segment in self.segments[self.segments.index(damage.file) :]:
                largest = max(segment_file.base_offset_of(segment), damage.offset) + segment_file.MAX_RELATIVE_OFFSET
                offsets = range(max(0, damage.offset), min(MAX_INT64, largest) + 1)
                with self.open(segment) as file:
                    search = SegmentSearch(file, offsets, budget)
                    is_damaged = segment == damage.file
                    found = search.find_after(damage.position) if is_damaged else search.find_from(file.position)
                if found is not None:
                    return self.select_from(segment, *found)
        return None

    def count_bytes_from(self, damage: Damage) -> int:
        index = self.segments.index(damage.file)
        read_bytes = damage.position - self.range_of(damage.file).start
        return sum(self.segment_size(segment) for segment in self.segments[index:]) - read_bytes

    def read_new_batches(self, position: Position | None) -> Iterator[FoundBatch]:
        for found_batch in self.find_batches(position):
            if position is None or found_batch.frame.next_offset > position.next_offset:
                yield found_batch

    def find_batches(self, position: Position | None, notes: Notes | None = None) -> Iterator[FoundBatch]:
        """Yield the batches after a position, and sometimes older batches first.

        Reading begins at the byte of the position if the segment is still the same file, and otherwise at its start.
        Zeros end a segment, and reading goes on with the next one: brokers and the command `pull` write segments in
        order, so nothing is missing between them.

        Raises InvalidLog at the first batch that is not whole, and MissingSegment if a file was deleted after the
        folder was listed.
        """
        for segment in self.segments[self.find_segment(position) :]:
            with self.open(segment) as file:
                is_in_file = position is not None and (position.segment, position.inode) == (segment, file.inode)
                if position is not None and is_in_file and position.byte <= file.end:
                    file.seek(position.byte)
                for frame, data in segment_file.read_frames(file, max_batch_bytes=self.max_batch_bytes):
                    if frame.state is FrameState.ZEROS:
                        if notes is not None and notes.zeros is None:
                            notes.zeros = self.describe_zeros(segment, frame.position, frame.size)
                        break
                    if frame.state is not FrameState.WHOLE:
                        raise frame.make_error(segment)
                    yield FoundBatch(frame, data, segment, file.inode, self.max_batch_bytes)

    def find_segment(self, position: Position | None) -> int:
        if position is None:
            return 0
        count = sum(segment_file.base_offset_of(segment) <= position.next_offset for segment in self.segments)
        return max(0, count - 1)

    def describe_zeros(self, segment: str, start: int, count: int) -> Zeros:
        later_segment_count = len(self.segments) - 1 - self.segments.index(segment)
        return Zeros(segment, start, count, later_segment_count)

    def describe_damage(self, error: InvalidLog, expected_offset: int, *, names_unread: bool = True) -> Damage:
        file = error.file or ""
        unread_count = len(self.segments) - 1 - self.segments.index(file)
        reason = error.reason
        if unread_count > 0 and names_unread:
            plural = "s" if unread_count > 1 else ""
            reason += f"; {unread_count} later segment{plural} not read"
        return Damage(file, error.position or 0, expected_offset, reason)

    def select_ranges(self, ranges: Mapping[str, ByteRange], start_offset: int | None = None) -> Log:
        """The selected log begins at `start_offset`, or at its first base offset."""
        selected = Log(self.path, list(ranges), self.partition, self.content, self.folder, ranges)
        selected.max_batch_bytes = self.max_batch_bytes
        if start_offset is not None:
            selected.start_offset = start_offset
        return selected

    def select_from(self, segment: str, position: int, offset: int) -> Log:
        later = self.segments[self.segments.index(segment) :]
        ranges = {each: self.range_of(each) for each in later}
        ranges[segment] = ranges[segment]._replace(start=position)
        return self.select_ranges(ranges, offset)

    @property
    def size(self) -> int:
        if self.known_size is None:
            return sum(self.segment_size(segment) for segment in self.segments)
        return self.known_size

    def segment_size(self, segment: str) -> int:
        start, end = self.range_of(segment)
        if end is not None:
            return end - start
        if self.content is not None:
            return len(self.content[segment]) - start
        with segment_file.segment_errors(segment):
            return os.path.getsize(os.path.join(self.folder, segment)) - start

    def range_of(self, segment: str) -> ByteRange:
        return self.ranges.get(segment, segment_file.WHOLE_FILE)

    def read(self, segment: str) -> bytes:
        with self.open(segment) as file:
            return file.read()

    @contextmanager
    def open(self, segment: str) -> Iterator[SegmentFile]:
        if self.content is not None:
            content = self.content[segment]
            yield SegmentFile(BytesIO(content), segment, self.range_of(segment), len(content))
            return
        with segment_file.open_segment(segment, self.folder, self.range_of(segment)) as file:
            yield file


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


@dataclass
class SegmentSearch:
    """A search for a readable batch in one segment: its checksum is correct, and its first offset is in `offsets`.

    Each method returns the position and the first offset, and raises SearchEnded if the budget is used up.
    """

    file: SegmentFile
    offsets: range
    budget: SearchBudget

    def find_after(self, damaged: int) -> tuple[int, int] | None:
        """If the damaged batch has a possible length, the position after it is tried first, because a record in it can
        contain bytes that look like a batch.
        """
        damaged_start = self.file.read_at(damaged, segment_file.LOG_OVERHEAD)
        if len(damaged_start) == segment_file.LOG_OVERHEAD:
            _, length = segment_file.offset_and_length.unpack(damaged_start)
            next_start = damaged + segment_file.LOG_OVERHEAD + length
            if length > 0 and next_start < self.file.end:
                offset = self._read_offset(next_start, self.file.read_at(next_start, segment_file.LOG_OVERHEAD))
                if offset is not None:
                    return next_start, offset
        return self.find_from(damaged + 1)

    def find_from(self, start: int) -> tuple[int, int] | None:
        pattern = _header_pattern(self.offsets)
        while start < self.file.end:
            start = self.file.seek(start) + self.file.skip_hole()
            for match in pattern.finditer(self.file.read(_WINDOW_BYTES + segment_file.MAGIC_POSITION)):
                position = start + match.start()
                offset = self._read_offset(position, match[1])
                if offset is not None:
                    return position, offset
            start += _WINDOW_BYTES
        return None

    def _read_offset(self, position: int, offset_and_length: bytes) -> int | None:
        if len(offset_and_length) < segment_file.LOG_OVERHEAD:
            return None
        offset, length = segment_file.offset_and_length.unpack(offset_and_length)
        size = segment_file.LOG_OVERHEAD + length
        if offset not in self.offsets or length <= 0 or position + size > self.file.end:
            return None
        self.budget.spend(size)
        data = self.file.read_at(position, size)
        with suppress(InvalidLog):
            return parse_valid_batch(segment_file.find_frame(data, 0), data).base_offset
        return None


def _header_pattern(offsets: range) -> re.Pattern[bytes]:
    """Return what the header of a batch looks like; its group is the offset and the length.

    The range has at most 2^32 offsets, so the first four bytes of an offset have at most two values.
    """
    high_halves = {offset >> 32 for offset in (offsets[0], offsets[-1])}
    starts = b"|".join(re.escape(half.to_bytes(4, "big")) for half in sorted(high_halves))
    return re.compile(rb"(?s)(?=((?:" + starts + rb").{4}(?!\0{4})[\0-\x7f].{3}).{4}[\0-\2])")


class _SegmentCache(dict[str, BytesLike]):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def __missing__(self, segment: str) -> BytesLike:
        self[segment] = self._log.read(segment)
        return self[segment]


def log_of_buffers(buffers: Mapping[str, BytesLike], partition: int | None) -> Log:
    """Return a log whose segments are in memory, by their names."""
    return Log("", list(buffers), partition, buffers)


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a reader stops, at an offset or at a time, whichever comes first.

    It stops before the first batch whose base offset is `until_offset` or higher, or that contains a timestamp after
    `until_time` (ms since 1970). A batch is read as a whole or not at all.
    """

    until_offset: int | None = None
    until_time: int | None = None

    def excludes(self, batch: Batch) -> bool:
        if self.until_offset is not None and batch.base_offset >= self.until_offset:
            return True
        return self.until_time is not None and batch.max_timestamp > self.until_time


NO_STOP = Stop()


def batches_until(log: Log, stop: Stop = NO_STOP, notes: Notes | None = None) -> Iterator[Batch]:
    return log.read_until(stop.excludes, notes)


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Which records of a log are selected: the beginning selects records, the end selects whole batches."""

    first_offset: int | None = None
    since_time: int | None = None
    stop: Stop = NO_STOP

    @property
    def has_start(self) -> bool:
        return self.first_offset is not None or self.since_time is not None

    def is_before(self, batch: Batch) -> bool:
        return self.first_offset is not None and batch.last_offset < self.first_offset

    def includes(self, log_record: LogRecord) -> bool:
        if self.first_offset is not None and log_record.offset < self.first_offset:
            return False
        return self.since_time is None or log_record.timestamp >= self.since_time

    def select_records(self, batch: Batch) -> list[LogRecord]:
        if self.is_before(batch):
            return []
        return [log_record for log_record in batch.records if self.includes(log_record)]


WHOLE_LOG = RecordRange()
"""All records of a log."""
