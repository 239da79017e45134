"""The log of one partition: a folder of segments, read in order.

A segment is a file `<base offset>.log` that contains batches of any magic. Reading ends where a broker's recovery would
cut the log: at a batch with a wrong checksum or an impossible header, or at a batch that is not whole. Zeros after the
last batch (a preallocated file) are the end of a segment, not damage. The log cleaner removes records, so offsets can
have gaps. For the same reason, a segment's first offset can be far above the offset in the segment's name.
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
    """Where a log ends because its bytes are damaged. A broker's recovery would cut the log here.

    `position` is the position of the damage in `file`. `offset` is the offset that was expected there.
    """

    file: str
    position: int
    offset: int
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}, byte {self.position}"
        return f"{where}: the log ends here at offset {self.offset}: {self.reason}"


class Log:
    """The segments of one partition. Iterate over the log to read its batches.

    `damage` is set when the iteration has reached the end: it is None if the log is not damaged. `partition` is the
    number in the folder's name; None if the folder is not named like a partition. `start_offset` is the base offset in
    the first segment's name; 0 if the file is not named like a segment. `segments` contains the files' paths, or the
    names in `content` if the bytes are in memory or in a remote file system. Relative paths are resolved in `folder`.
    `ranges` can contain a byte range for a segment; then only this part of the segment belongs to the log. `size` is
    the number of bytes of all segments, if the caller knows it.
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
            for found_batch in self.read_from(None):
                batch = found_batch.parse()
                yield batch
                next_offset = batch.next_offset
        except InvalidLog as error:
            self.damage = self.damage_of(error, next_offset)

    def after(self, position: Position | None) -> Iterator[FoundBatch]:
        """Yield the whole batches that end after a position, in order. If the position is None, yield all batches.

        Raises InvalidLog and MissingSegment as `read_from` does.
        """
        for found_batch in self.read_from(position):
            if position is None or found_batch.frame.next_offset > position.next_offset:
                yield found_batch

    def read_from(self, position: Position | None) -> Iterator[FoundBatch]:
        """Yield the whole batches from a position's byte on.

        If the file has changed or the byte is unknown, reading begins at the start of the segment that contains the
        position. Zeros end a segment, and reading continues with the next segment. This is safe, because brokers and
        the command `pull` write segments in order: if a next segment exists, the segment before it is complete.
        Checksums are not checked here, but in `FoundBatch.parse`.

        Raises InvalidLog at the first batch that is not whole, and MissingSegment if a file was deleted after the
        folder was listed.
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
        """Yield a segment's frames, their bytes and the file's inode. Begin at the position if it is in this file."""
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

    def damage_of(self, error: InvalidLog, expected_offset: int) -> Damage:
        """Return the damage that an error in a segment describes. `expected_offset` is the next offset of the log."""
        file = error.file or ""
        unread_count = len(self.segments) - 1 - self.segments.index(file)
        unread = f"; {unread_count} later segment{'s' * (unread_count > 1)} not read" if unread_count else ""
        return Damage(file, error.position or 0, expected_offset, error.reason + unread)

    def part(self, ranges: Mapping[str, ByteRange], start_offset: int | None = None) -> Log:
        """Return a log that contains only some byte ranges of these segments. Its segments are the keys of `ranges`."""
        part = Log(self.path, list(ranges), self.partition, self.content, self.folder, ranges)
        if start_offset is not None:
            part.start_offset = start_offset
        return part

    @property
    def size(self) -> int:
        """The number of bytes of all segments."""
        if self._size is None:
            return sum(self.segment_size(segment) for segment in self.segments)
        return self._size

    def segment_size(self, segment: str) -> int:
        """Return the number of bytes of one segment."""
        start, end = self.ranges.get(segment, WHOLE_FILE)
        if end is not None:
            return end - start
        if self.content:
            return len(self.content[segment]) - start
        return os.path.getsize(os.path.join(self.folder, segment)) - start

    def read(self, segment: str) -> BytesLike:
        """Return the bytes of a segment. Raises UsageError if they cannot be read."""
        byte_range = self.ranges.get(segment, WHOLE_FILE)
        if self.content:
            return memoryview(self.content[segment])[slice(*byte_range)]
        return read_segment(segment, self.folder, byte_range)

    @contextmanager
    def open(self, segment: str) -> Iterator[RawIOBase | BufferedIOBase]:
        """Open a segment to read it in pieces. Raises UsageError if it cannot be read."""
        if self.content:
            yield BytesIO(self.read(segment))
            return
        with open_segment(segment, self.folder, self.ranges.get(segment, WHOLE_FILE)) as file:
            yield file


Buffers = Iterable[tuple[str, BytesLike]] | Mapping[str, BytesLike]
"""The names and bytes of segments, in order. From a mapping, the bytes of one segment at a time are requested."""


def log_of_buffers(buffers: Buffers, partition: int | None) -> Log:
    """Return the log of segments in memory. Raises UsageError if there is no segment."""
    content = buffers if isinstance(buffers, Mapping) else dict(buffers)
    if not content:
        raise UsageError("a log has at least one segment")
    return Log("", list(content), partition, content)


def open_log(path: str | Path) -> Log:
    """Return the log of a partition directory or of one `.log` file.

    Parameters
    ----------
    path
        A folder `__consumer_offsets-N` that contains segments, or one segment's file.

    Returns
    -------
    Log
        Iterate over the log to read its batches. Its `damage` is set when the iteration has ended.

    Raises
    ------
    UsageError
        The path does not exist, cannot be read, or contains no log.

    Examples
    --------
    >>> log = open_log("data/harbour/1.0.1/__consumer_offsets-9")
    >>> next(iter(log)).base_offset
    0
    """
    file_or_folder = Path(path)
    try:
        if file_or_folder.is_file():
            if file_or_folder.suffix != ".log":
                raise UsageError(f"{path}: expected a .log file or a folder")
            return Log(str(path), [str(path)], _partition_of(file_or_folder.absolute().parent))
        if not file_or_folder.is_dir():
            raise UsageError(f"{path}: no such file or folder")
        names = _segment_names(file_or_folder)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not names:
        raise UsageError(f"{path}: no segment (20 digits and .log) in this folder")
    return Log(str(path), [os.path.join(path, name) for name in names], _partition_of(file_or_folder))


def open_logs(path: str | Path) -> list[Log]:
    """Return the log at a path, or the logs of all partition folders in the folder `path`, sorted by partition.

    Raises UsageError if there is no log, a folder cannot be read, or two folders have the same partition number.
    """
    parent = Path(path)
    try:
        if parent.is_dir():
            folders = [
                folder for folder in parent.iterdir() if PARTITION_FOLDER.fullmatch(folder.name) and folder.is_dir()
            ]
            logs = [open_log(os.path.join(path, folder.name)) for folder in folders if has_segments(folder)]
            if logs:
                check_one_log_per_partition(logs)
                return sorted(logs, key=lambda log: log.partition or 0)
            if not has_segments(parent):
                raise UsageError(f"{path}: neither a segment nor a folder __consumer_offsets-N with a segment")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return [open_log(path)]


def check_one_log_per_partition(logs: Iterable[Log]) -> None:
    """Raise UsageError if two logs have the same partition number, such as the folders `…-7` and `…-007`."""
    by_number: dict[int | None, Log] = {}
    for log in logs:
        other = by_number.setdefault(log.partition, log)
        if other is not log:
            first, second = sorted((other.path, log.path))
            raise UsageError(f"{first} and {second} are both partition {log.partition}: remove one of them")


def has_segments(folder: Path) -> bool:
    """Return whether a folder contains at least one segment."""
    return bool(_segment_names(folder))


def _segment_names(folder: Path) -> list[str]:
    """Return the names of a folder's segments in order; other files, such as hidden copies, are ignored."""
    return sorted(entry.name for entry in folder.iterdir() if SEGMENT_NAME.fullmatch(entry.name))


def _partition_of(folder: Path) -> int | None:
    match = PARTITION_FOLDER.fullmatch(folder.name) or PARTITION_FOLDER.fullmatch(folder.resolve().name)
    return int(match[1]) if match else None
