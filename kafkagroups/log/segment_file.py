"""The file of a segment: its name, its partition, and reading a byte range of it in pieces."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO, RawIOBase
from typing import TYPE_CHECKING, NamedTuple

from kafkagroups.errors import UsageError
from kafkagroups.helpers import MAX_INT32, MAX_INT64, MIN_INT32, check_regular
from kafkagroups.records.wire import java_hash

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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
    """The file of a segment does not exist: it was deleted after the folder was listed."""


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


class SegmentFile(RawIOBase):
    """A byte range of a segment's file, open for reading.

    `end` is the position where the range ends: the end of `byte_range`, or the end of the file if this is earlier.
    """

    def __init__(self, file: FileIO, path: str, byte_range: ByteRange) -> None:
        super().__init__()
        status = os.fstat(file.fileno())
        check_regular(status, path)  # Another file can have replaced the file before it was opened.
        self.inode = status.st_ino
        self.end = status.st_size if byte_range.end is None else min(status.st_size, byte_range.end)
        self._file = file
        self._path = path
        self._range_end = byte_range.end
        self.seek(byte_range.start)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Let the next read begin at a position of the file. Only `SEEK_SET` is supported."""
        self.position = self._file.seek(offset)
        return self.position

    def skip_hole(self) -> int:
        """Move to the next byte that the file system has stored, over a hole of a sparse file.

        Return the number of skipped bytes, which are zero.
        """
        if not hasattr(os, "SEEK_DATA"):
            return 0
        descriptor = self._file.fileno()
        end = os.fstat(descriptor).st_size if self._range_end is None else self._range_end
        try:
            next_byte = min(os.lseek(descriptor, self.position, os.SEEK_DATA), end)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO means that no byte follows. Some file systems do not support holes.
                return 0
            next_byte = end
        skipped_bytes = max(0, next_byte - self.position)
        self.seek(self.position + skipped_bytes)
        return skipped_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        target = memoryview(buffer)
        if self._range_end is not None:
            bytes_left = max(0, self._range_end - self.position)
            target = target[:bytes_left]
        with segment_errors(self._path):
            byte_count = self._file.readinto(target) or 0
        self.position += byte_count
        return byte_count

    def readall(self) -> bytes:
        bytes_left = -1 if self._range_end is None else max(0, self._range_end - self.position)  # -1 means all bytes.
        with segment_errors(self._path):
            data = self._file.read(bytes_left)
        self.position += len(data)
        return data


@contextmanager
def open_segment(segment_path: str, folder: str = "", byte_range: ByteRange = WHOLE_FILE) -> Iterator[SegmentFile]:
    """Open a segment's file. A relative path is resolved in `folder`.

    Raises UsageError if the file cannot be opened or read, or is not a regular file, and MissingSegment if it does not
    exist.
    """
    path = os.path.join(folder, segment_path)
    with segment_errors(segment_path):
        check_regular(os.stat(path), segment_path)
        file = open(path, "rb", buffering=0, opener=_open_without_waiting)  # noqa: SIM115  # It is closed below.
    with file:
        yield SegmentFile(file, segment_path, byte_range)


def read_segment(segment_path: str, folder: str = "", byte_range: ByteRange = WHOLE_FILE) -> bytes:
    with open_segment(segment_path, folder, byte_range) as file:
        return file.readall()


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
    """Return the partition that stores a group.

    Parameters
    ----------
    partitions
        The number of partitions of the topic (offsets.topic.num.partitions).

    Returns
    -------
    int
        The partition: `Utils.abs(group.hashCode()) % partitions`, with Java's hash code. Kafka's `Utils.abs` returns 0
        for the smallest int32.

    Raises
    ------
    UsageError
        `partitions` is below 1.

    Notes
    -----
    Source: GroupMetadataManager.partitionFor (3.9), Utils.abs.

    Examples
    --------
    >>> partition_for("my-group", partitions=50)
    12
    """
    if partitions < 1:
        raise UsageError(f"a topic has at least 1 partition, not {partitions}")
    return hash_group(group) % partitions


def hash_group(group: str) -> int:
    hash_code = java_hash(group)
    return 0 if hash_code == MIN_INT32 else abs(hash_code)
