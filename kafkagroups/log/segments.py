"""The log of one partition: a folder of segments, read in order.

A segment is a file `<base offset>.log` that contains batches of any magic. Reading ends where a broker's recovery would
cut the log: at a batch with a wrong checksum or an impossible header, or at a batch that is not whole. Zeros after the
last batch (a preallocated file) are the end, not damage. Offsets can have gaps, and a segment's first offset can be far
above the offset in its name, because the cleaner removes records.
Source: FileLogInputStream.java, ByteBufferLogInputStream.java, LogSegment.recover, LogLoader (4.3.1).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase, BytesIO, RawIOBase
from pathlib import Path

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.log.frames import BytesLike, Frame, FrameState, frames, read_frames
from kafkagroups.log.position import FoundBatch, Position
from kafkagroups.log.segment_file import (
    SEGMENT_NAME,
    WHOLE_FILE,
    ByteRange,
    base_offset_of,
    open_segment,
    read_segment,
)

PARTITION_FOLDER = re.compile(r"__consumer_offsets-([0-9]+)")


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a log ends because its bytes are damaged: a broker's recovery would cut it here.

    `position` is the byte in `file`. `offset` is the offset that was expected there.
    """

    file: str
    position: int
    offset: int
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}, byte {self.position}"
        return f"{where}: the log ends here at offset {self.offset}: {self.reason}"


class Log:
    """The segments of one partition. Iterate for its batches; `damage` is set after they were read to the end.

    `partition` is the number in the folder's name, None if the folder has another name. `start_offset` is the base
    offset in the first segment's name, 0 if the file has another name. `segments` contains the files' paths, or the
    names in `content` if the bytes are in memory. Relative paths begin in `folder`. If a segment is in `ranges`, only
    this byte range belongs to the log.
    """

    def __init__(
        self,
        path: str,
        segments: list[str],
        partition: int | None,
        content: Mapping[str, BytesLike] | None = None,
        folder: str = "",
        ranges: Mapping[str, ByteRange] | None = None,
        size: int | None = None,
    ) -> None:
        self.path = path
        self.segments = segments
        self.partition = partition
        self.damage: Damage | None = None
        self.content = content
        self.folder = folder
        self.ranges = ranges or {}
        self.start_offset = base_offset_of(segments[0])
        self._size = size

    def __iter__(self) -> Iterator[Batch]:
        self.damage = None
        next_offset = self.start_offset
        try:
            for found in self.read_from(None):
                batch = found.parse()
                yield batch
                next_offset = batch.next_offset
        except InvalidLog as error:
            self.damage = self.damage_of(error, next_offset)

    def after(self, position: Position | None) -> Iterator[FoundBatch]:
        """Yield the whole batches that are new since a position, in order; None yields all.

        InvalidLog and MissingSegment as in `read_from`.
        """
        for found in self.read_from(position):
            if position is None or found.frame.next_offset > position.next_offset:
                yield found

    def read_from(self, position: Position | None) -> Iterator[FoundBatch]:
        """Yield the whole batches from a position's byte on, or else from the start of the segment that contains it.

        Zeros end a segment. A segment has all its batches when the next one exists, because brokers and `pull` write
        them in this order. Checksums are not checked: `FoundBatch.parse` does that.

        InvalidLog at the first batch that is not whole. MissingSegment if a file was deleted after it was listed.
        """
        for segment in self.segments[self.first_segment(position) :]:
            for frame, data, inode in self._frames(segment, position):
                if frame.state is FrameState.ZEROS:
                    break
                if frame.state is not FrameState.WHOLE:
                    raise frame.error(segment)
                yield FoundBatch(frame, data, segment, inode)

    def first_segment(self, position: Position | None) -> int:
        """Return the index of the segment that contains a position."""
        if position is None:
            return 0
        return max(0, sum(base_offset_of(segment) <= position.next_offset for segment in self.segments) - 1)

    def _frames(self, segment: str, position: Position | None) -> Iterator[tuple[Frame, bytes, int]]:
        """Yield a segment's frames and the file's inode, from the position's byte on if it is in this file."""
        if self.content:
            view = memoryview(self.content[segment])
            start, end = self.ranges.get(segment, WHOLE_FILE)
            for frame in frames(view[:end], start):
                yield frame, bytes(view[frame.position : frame.end]), -1
            return
        with open_segment(segment, self.folder, self.ranges.get(segment, WHOLE_FILE)) as file:
            if position and (position.segment, position.inode) == (segment, file.inode) and position.byte <= file.size:
                file.move_to(position.byte)
            for frame, data in read_frames(file, file.position):
                yield frame, data, file.inode

    def damage_of(self, error: InvalidLog, offset: int) -> Damage:
        """Return where the log ends because of an error in a segment; `offset` is the next one that was expected."""
        file = error.file or ""
        later = len(self.segments) - 1 - self.segments.index(file)
        unread = f"; {later} later segment{'s' * (later > 1)} not read" if later else ""
        return Damage(file, error.position or 0, offset, error.reason + unread)

    def part(self, ranges: Mapping[str, ByteRange], start_offset: int | None = None) -> Log:
        """Return the log of some bytes of these segments."""
        part = Log(self.path, list(ranges), self.partition, self.content, self.folder, ranges)
        if start_offset is not None:
            part.start_offset = start_offset
        return part

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        if self._size is None:
            return sum(self.segment_size(segment) for segment in self.segments)
        return self._size

    def segment_size(self, segment: str) -> int:
        """Return the bytes of one segment."""
        start, end = self.ranges.get(segment, WHOLE_FILE)
        if end is not None:
            return end - start
        if self.content:
            return len(self.content[segment]) - start
        return os.path.getsize(os.path.join(self.folder, segment)) - start

    def read(self, segment: str) -> BytesLike:
        """Return the bytes of a segment. UsageError if they cannot be read."""
        byte_range = self.ranges.get(segment, WHOLE_FILE)
        if self.content:
            return memoryview(self.content[segment])[slice(*byte_range)]
        return read_segment(segment, self.folder, byte_range)

    @contextmanager
    def open(self, segment: str) -> Iterator[RawIOBase | BufferedIOBase]:
        """Open a segment to read it in pieces. UsageError if it cannot be read."""
        if self.content:
            yield BytesIO(self.read(segment))
            return
        with open_segment(segment, self.folder, self.ranges.get(segment, WHOLE_FILE)) as file:
            yield file


Buffers = Iterable[tuple[str, BytesLike]] | Mapping[str, BytesLike]
"""Segments in order: names and bytes. The bytes of a mapping are read one segment at a time."""


def log_of_buffers(buffers: Buffers, partition: int | None) -> Log:
    """Return the log of these segments. UsageError if there are none."""
    content = buffers if isinstance(buffers, Mapping) else dict(buffers)
    if not content:
        raise UsageError("a log has at least one segment")
    return Log("", list(content), partition, content)


def open_log(path: str | Path) -> Log:
    """Return the log of a partition directory or of one `.log` file.

    Parameters
    ----------
    path
        A folder `__consumer_offsets-N` with segments, or a segment's file.

    Returns
    -------
    Log
        Iterate it for its batches. `damage` is set after that.

    Raises
    ------
    UsageError
        The path does not exist, or there is no log.

    Examples
    --------
    >>> log = open_log("data/harbour/1.0.1/__consumer_offsets-9")
    >>> next(iter(log)).base_offset
    0
    """
    place = Path(path)
    try:
        if place.is_file():
            if place.suffix != ".log":
                raise UsageError(f"{path}: expected a .log file or a folder")
            return Log(str(path), [str(path)], _partition_of(place.absolute().parent))
        if not place.is_dir():
            raise UsageError(f"{path}: no such file or folder")
        names = _segments(place)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not names:
        raise UsageError(f"{path}: no segment (20 digits and .log) in this folder")
    return Log(str(path), [os.path.join(path, name) for name in names], _partition_of(place))


def open_logs(path: str | Path) -> list[Log]:
    """Return the logs of a partition, or of a folder of partition directories in ascending order of partition."""
    place = Path(path)
    try:
        if place.is_dir():
            folders = [f for f in place.iterdir() if PARTITION_FOLDER.fullmatch(f.name) and f.is_dir()]
            logs = [open_log(os.path.join(path, f.name)) for f in folders if _segments(f)]
            if logs:
                check_one_log_per_partition(logs)
                return sorted(logs, key=lambda log: log.partition or 0)
            if not _segments(place):
                raise UsageError(f"{path}: neither a segment nor a folder __consumer_offsets-N with a segment")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return [open_log(path)]


def check_one_log_per_partition(logs: Iterable[Log]) -> None:
    """Raise UsageError if two logs have the same partition number, as folders `…-7` and `…-007` would."""
    by_number: dict[int | None, Log] = {}
    for log in logs:
        other = by_number.setdefault(log.partition, log)
        if other is not log:
            first, second = sorted((other.path, log.path))
            raise UsageError(f"{first} and {second} are both partition {log.partition}: remove one of them")


def has_segments(folder: Path) -> bool:
    """Return whether a folder contains at least one segment."""
    return bool(_segments(folder))


def _segments(folder: Path) -> list[str]:
    """Return the names of a folder's segments in order, without other files such as hidden copies."""
    return sorted(entry.name for entry in folder.iterdir() if SEGMENT_NAME.fullmatch(entry.name))


def _partition_of(folder: Path) -> int | None:
    name = PARTITION_FOLDER.fullmatch(folder.name) or PARTITION_FOLDER.fullmatch(folder.resolve().name)
    return int(name[1]) if name else None
