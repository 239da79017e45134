"""The file of a segment: its name, its bytes in pieces, and the frames of its batches.

A frame says where a batch begins and ends, and whether the batch is whole. A reader needs only these fields to move
from batch to batch:

    offset int64 · length int32 (bytes that follow) · leader epoch or CRC, 4 bytes · magic int8

In magic 2, `offset` is the Kafka offset of the first record, and the header also contains the difference between the
first and the last offset. In magic 0 and 1, `offset` is the Kafka offset of the message, or of the last message in a
compressed wrapper.

Source (4.3.1): FileLogInputStream.java; ByteBufferLogInputStream.java; Records.java.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from io import BytesIO, FileIO
from typing import NamedTuple

from kafkagroups.errors import BatchTooLarge, InvalidLog, UsageError
from kafkagroups.helpers import MAX_INT32, MAX_INT64, MIN_INT32
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.records.wire import java_hash, to_int64

_SEGMENT_NAME = re.compile(r"([0-9]{20})\.log")
_PARTITION_FOLDER = re.compile(r"__consumer_offsets-([0-9]+)")
SEGMENT_BYTES = 100 * 1024 * 1024
"""Kafka's default for offsets.topic.segment.bytes."""
DEFAULT_PARTITION_COUNT = 50
"""Kafka's default for offsets.topic.num.partitions."""
MAX_RELATIVE_OFFSET = MAX_INT32


class ByteRange(NamedTuple):
    start: int = 0
    end: int | None = None


WHOLE_FILE = ByteRange()


class MissingSegment(UsageError):
    """The file of a segment was deleted after the folder was listed."""


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020}.log"


def base_offset_of(segment_path: str) -> int:
    return _parse_base_offset(os.path.basename(segment_path)) or 0


def is_segment_name(file_name: str) -> bool:
    return _parse_base_offset(file_name) is not None


def _parse_base_offset(file_name: str) -> int | None:
    match = _SEGMENT_NAME.fullmatch(file_name)
    return int(match[1]) if match and int(match[1]) <= MAX_INT64 else None


def partition_of_folder(folder_name: str) -> int | None:
    match = _PARTITION_FOLDER.fullmatch(folder_name)
    return int(match[1]) if match and int(match[1]) <= MAX_INT32 else None


_FILE_TYPES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular(status: os.stat_result, path: str) -> None:
    """Raise UsageError if a file is not a regular file: reading a pipe or a device might never end."""
    if not stat.S_ISREG(status.st_mode):
        found = _FILE_TYPES.get(stat.S_IFMT(status.st_mode), "a special file")
        raise UsageError(f"{path}: expected a regular file, found {found}")


class SegmentFile:
    """A segment that is open for reading, in a file or in memory, of which `byte_range` is read.

    `inode` identifies the file; -1 means that the segment is in memory.
    """

    def __init__(self, file: FileIO | BytesIO, path: str, byte_range: ByteRange, size: int, inode: int = -1) -> None:
        self.inode = inode
        self.end = size if byte_range.end is None else min(size, byte_range.end)
        self._file = file
        self._path = path
        self._range_end = byte_range.end
        self.seek(byte_range.start)

    def seek(self, position: int) -> int:
        self.position = self._file.seek(position)
        return self.position

    def skip_hole(self) -> int:
        if not hasattr(os, "SEEK_DATA"):
            return 0
        end = self._range_end
        try:
            descriptor = self._file.fileno()
            end = os.fstat(descriptor).st_size if end is None else end
            next_byte = min(os.lseek(descriptor, self.position, os.SEEK_DATA), end)
        except OSError as error:
            # ENXIO means that no byte follows. Some file systems do not support holes, and bytes in memory have none.
            if error.errno != errno.ENXIO or end is None:
                return 0
            next_byte = end
        skipped_bytes = max(0, next_byte - self.position)
        self.seek(self.position + skipped_bytes)
        return skipped_bytes

    def read(self, size: int = -1) -> bytes:
        if self._range_end is not None:
            bytes_left = max(0, self._range_end - self.position)
            size = bytes_left if size < 0 else min(size, bytes_left)
        with segment_errors(self._path):
            data = self._file.read(size)
        self.position += len(data)
        return data

    def read_at(self, position: int, size: int) -> bytes:
        self.seek(position)
        return self.read(size)


@contextmanager
def open_segment(segment_path: str, folder: str = "", byte_range: ByteRange = WHOLE_FILE) -> Iterator[SegmentFile]:
    """Open a segment's file; a relative path is one in `folder`.

    Raises UsageError if it cannot be opened or read, or is not a regular file, and MissingSegment if it does not exist.
    """
    path = os.path.join(folder, segment_path)
    with segment_errors(segment_path):
        check_regular(os.stat(path), segment_path)
        file = open(path, "rb", buffering=0, opener=_open_without_waiting)  # noqa: SIM115  # It is closed below.
    with file:
        status = os.fstat(file.fileno())
        check_regular(status, segment_path)  # Another file can have replaced the file before it was opened.
        yield SegmentFile(file, segment_path, byte_range, status.st_size, status.st_ino)


@contextmanager
def segment_errors(segment_path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise MissingSegment(f"{segment_path}: {error.strerror}") from None
    except OSError as error:
        raise UsageError(f"{segment_path}: {error.strerror or error}") from None


def _open_without_waiting(path: str, flags: int) -> int:
    """Without O_NONBLOCK, a named pipe would wait for a process that writes."""
    return os.open(path, flags | os.O_NONBLOCK)


def partition_for(group: str, partitions: int = 50) -> int:
    """Return the partition that stores a group, in a topic of so many partitions (offsets.topic.num.partitions).

    It is `Utils.abs(group.hashCode()) % partitions`, with Java's hash code; Kafka's `Utils.abs` returns 0 for the
    smallest int32. Raises UsageError if `partitions` is below 1.
    Source: GroupMetadataManager.partitionFor (3.9), Utils.abs.

    >>> partition_for("my-group", partitions=50)
    12
    """
    if partitions < 1:
        raise UsageError(f"a topic has at least 1 partition, not {partitions}")
    return hash_group(group) % partitions


def hash_group(group: str) -> int:
    hash_code = java_hash(group)
    return 0 if hash_code == MIN_INT32 else abs(hash_code)


BytesLike = bytes | bytearray | memoryview

LOG_OVERHEAD = 12
"""The value of `length` does not include these bytes."""
LENGTH_POSITION = 8
MAGIC_POSITION = 16
"""The position of the magic in a batch."""
_MIN_LENGTH = 14
"""The smallest possible value of `length`. A message of magic 0 has a CRC, magic, attributes and two lengths."""
_MIN_BATCH_BYTES = (LOG_OVERHEAD + _MIN_LENGTH, LOG_OVERHEAD + _MIN_LENGTH + 8, 61)
"""The smallest number of bytes of a batch, by magic. Magic 1 added a timestamp, magic 2 has 61 header bytes."""
_PIECE_BYTES = 2 * 1024 * 1024
offset_and_length = struct.Struct(">qi")
_int32 = struct.Struct(">i")
_LAST_OFFSET_DELTA_POSITION = 23
_HEADER_BYTES = _LAST_OFFSET_DELTA_POSITION + 4
"""The bytes of a batch that a frame needs."""


class FrameState(Enum):
    WHOLE = "whole"
    """A batch that is complete. Its checksum can be wrong."""
    INCOMPLETE = "incomplete"
    DAMAGED = "damaged"
    TOO_LARGE = "too large"
    ZEROS = "zeros"
    """All bytes up to the end are zero, because a broker has reserved the file's space but not used it yet."""


class Frame(NamedTuple):
    """Where one batch begins and ends, and what its header contains.

    In magic 0 and 1, both offsets are the one in the header. If the batch is not whole, `reason` says why, `size` is
    the number of bytes up to the end of the data, and the offsets and the magic are -1.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int
    state: FrameState
    reason: str = ""

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def next_offset(self) -> int:
        return to_int64(self.last_offset + 1)

    def make_error(self, file: str | None = None) -> InvalidLog:
        error_type = BatchTooLarge if self.state is FrameState.TOO_LARGE else InvalidLog
        return error_type(self.reason, file=file, position=self.position)


def find_frames(data: BytesLike, position: int = 0, *, any_magic: bool = False) -> Iterator[Frame]:
    """Yield the frames of a segment's bytes from a position on, up to the first one that is not whole.

    With `any_magic`, every magic is accepted, as in Kafka's reader of the messages inside a compressed wrapper.
    """
    while position < len(data):
        frame = find_frame(data, position, any_magic=any_magic)
        yield frame
        if frame.state is not FrameState.WHOLE:
            return
        position = frame.end


def find_frame(
    data: BytesLike,
    position: int,
    *,
    any_magic: bool = False,
    data_start: int = 0,
    available: int | None = None,
    max_batch_bytes: int | None = None,
) -> Frame:
    """Return the frame at one position of `data`, which begins at `data_start` of its segment.

    `available` bytes follow up to the end of the segment, by default those in `data`, which must have at least the
    beginning of the batch up to its magic. `max_batch_bytes` can only raise the limit MAX_BATCH_BYTES; None: no limit.
    """
    available = len(data) - position if available is None else available
    start = data_start + position

    def make_broken_frame(state: FrameState, reason: str) -> Frame:
        if is_zeros(data, position):
            state = FrameState.ZEROS
        return Frame(start, available, -1, -1, -1, state, reason)

    if available < LOG_OVERHEAD:
        return make_broken_frame(FrameState.INCOMPLETE, f"expected a batch, found only {available} bytes")
    offset, length = offset_and_length.unpack_from(data, position)
    if length < _MIN_LENGTH:
        reason = f"expected a batch length of at least {_MIN_LENGTH}, found {length}"
        return make_broken_frame(FrameState.DAMAGED, reason)
    size = LOG_OVERHEAD + length
    if size > available:
        reason = f"expected a batch of {size} bytes, found only {available} bytes"
        return make_broken_frame(FrameState.INCOMPLETE, reason)
    magic = data[position + MAGIC_POSITION]
    if any_magic:
        return Frame(start, size, offset, offset, magic, FrameState.WHOLE)
    if magic >= len(_MIN_BATCH_BYTES):
        signed_magic = magic - 256 if magic > 127 else magic  # The magic is an int8.
        return make_broken_frame(FrameState.DAMAGED, f"expected magic 0, 1 or 2, found {signed_magic}")
    if size < _MIN_BATCH_BYTES[magic]:
        reason = f"expected at least {_MIN_BATCH_BYTES[magic]} bytes in a batch of magic {magic}, found {size}"
        return make_broken_frame(FrameState.DAMAGED, reason)
    last_offset = offset
    if magic == 2 and position + _HEADER_BYTES <= len(data):
        (last_offset_delta,) = _int32.unpack_from(data, position + _LAST_OFFSET_DELTA_POSITION)
        last_offset = to_int64(offset + last_offset_delta)
    content_size = size - _MIN_BATCH_BYTES[2]
    if max_batch_bytes is None or content_size <= MAX_BATCH_BYTES or content_size <= max_batch_bytes:
        return Frame(start, size, offset, last_offset, magic, FrameState.WHOLE)
    reason = f"this batch has more than {max(max_batch_bytes, MAX_BATCH_BYTES)} bytes"
    return Frame(start, size, offset, last_offset, magic, FrameState.TOO_LARGE, reason)


def read_frames(file: SegmentFile, *, max_batch_bytes: int = MAX_BATCH_BYTES) -> Iterator[tuple[Frame, bytes]]:
    """Yield the frames of a file from its position on, as `find_frames` does, each with its bytes, but not those of a
    batch that is too large.

    The file is read in pieces. It is not mapped into memory, because the system ends a process whose mapped file
    another process truncates.
    """
    position = file.position
    data = b""
    start = 0
    wanted_bytes = _HEADER_BYTES
    while position < file.end:
        buffered_bytes = len(data) - start
        if buffered_bytes < wanted_bytes:
            piece = file.read(max(wanted_bytes, _PIECE_BYTES))
            if not piece:  # Another process has truncated the file.
                file.end = position + buffered_bytes
            data = data[start:] + piece
            start = 0
            buffered_bytes = len(data)
        left = file.end - position
        if buffered_bytes < _HEADER_BYTES and buffered_bytes < left:
            continue
        frame = find_frame(data, start, data_start=position - start, available=left, max_batch_bytes=max_batch_bytes)
        if frame.state is FrameState.WHOLE and buffered_bytes < frame.size:
            wanted_bytes = frame.size
            continue
        wanted_bytes = _HEADER_BYTES
        if frame.state is FrameState.ZEROS:
            count, is_zero = count_zeros(file)
            state = FrameState.ZEROS if is_zero else FrameState.DAMAGED
            frame = frame._replace(size=buffered_bytes + count, state=state)
        yield frame, data[start : start + frame.size]
        if frame.state is not FrameState.WHOLE:
            return
        start += frame.size
        position += frame.size


_ZEROS = re.compile(rb"\0*")


@dataclass(frozen=True, slots=True)
class Zeros:
    """The zeros at the end of a segment, from a byte `position` on, and how many segments follow."""

    file: str
    position: int
    bytes: int
    later_segments: int = 0


def is_zeros(data: bytes | bytearray | memoryview, position: int = 0) -> bool:
    return _ZEROS.fullmatch(data, position) is not None


def count_zeros(file: SegmentFile) -> tuple[int, bool]:
    """Return the number of zeros up to the end of a file, and whether only zeros were found."""
    count = 0
    while True:
        count += file.skip_hole()
        piece = file.read(_PIECE_BYTES)
        if not piece:
            return count, True
        if not is_zeros(piece):
            return count, False
        count += len(piece)
