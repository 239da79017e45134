"""The file of a segment: its name, and a byte range of it that is read in pieces."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO, RawIOBase
from typing import TYPE_CHECKING, NamedTuple

from kafkagroups.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SEGMENT_NAME = re.compile(r"([0-9]{20})\.log")
SEGMENT_BYTES = 100 * 1024 * 1024
"""offsets.topic.segment.bytes."""
MOST_OFFSETS = 2**31 - 1
"""How far a segment's offsets may lie above its base."""


class ByteRange(NamedTuple):
    """Bytes of a file from `start` up to, not including, `end`. None is the end of the file."""

    start: int = 0
    end: int | None = None


WHOLE_FILE = ByteRange()


class MissingSegment(UsageError):
    """A segment's file was deleted after the folder was listed."""


def segment_name(base_offset: int) -> str:
    """Return the name of the segment's file that begins at an offset."""
    return f"{base_offset:020}.log"


def base_offset_of(segment: str) -> int:
    """Return the base offset in the name of a segment's file, 0 for another name."""
    name = SEGMENT_NAME.fullmatch(os.path.basename(segment))
    return int(name[1]) if name else 0


class SegmentFile(RawIOBase):
    """A byte range of a segment's file, open for reading.

    `inode` identifies the file: a file that replaces it under the same name has another one. `size` is the file's size
    when it was opened, up to the end of the range. `position` is the next byte that is read.
    """

    def __init__(self, file: FileIO, byte_range: ByteRange) -> None:
        super().__init__()
        status = os.fstat(file.fileno())
        self.inode = status.st_ino
        self.size = status.st_size if byte_range.end is None else min(status.st_size, byte_range.end)
        self._file = file
        self._end = byte_range.end
        self.move_to(byte_range.start)

    def move_to(self, position: int) -> None:
        """Let the next read begin at a byte of the file."""
        self.position = self._file.seek(position)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        room = memoryview(buffer)
        if self._end is not None:
            room = room[: max(0, self._end - self.position)]
        count = self._file.readinto(room) or 0
        self.position += count
        return count

    def readall(self) -> bytes:
        size = -1 if self._end is None else max(0, self._end - self.position)
        rest = self._file.read(size)
        self.position += len(rest)
        return rest


@contextmanager
def open_segment(segment: str, folder: str = "", byte_range: ByteRange = WHOLE_FILE) -> Iterator[SegmentFile]:
    """Open a segment's file; a relative name begins in `folder`. UsageError if it cannot be opened or read."""
    try:
        with open(os.path.join(folder, segment), "rb", buffering=0) as file:
            yield SegmentFile(file, byte_range)
    except FileNotFoundError as error:
        raise MissingSegment(f"{segment}: {error.strerror}") from None
    except OSError as error:
        raise UsageError(f"{segment}: {error.strerror}") from None


def read_segment(segment: str, folder: str = "", byte_range: ByteRange = WHOLE_FILE) -> bytes:
    """Return the bytes of a segment's file; a relative name begins in `folder`. UsageError if it cannot be read."""
    with open_segment(segment, folder, byte_range) as file:
        return file.readall()
