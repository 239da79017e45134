"""Zeros after the last batch of a segment: a broker can reserve a file's space before it writes batches there."""

from __future__ import annotations

from dataclasses import dataclass
from io import BufferedIOBase, RawIOBase

from kafkagroups.log.segment_file import SegmentFile

_ZEROS = bytes(1024 * 1024)


@dataclass(frozen=True, slots=True)
class Zeros:
    """The zeros at the end of a segment.

    `file` is the path of the segment. `position` is the position of the first zero, in bytes from the start of the
    file. `bytes` is the number of zeros. `later_segments` is the number of segments after this one.
    """

    file: str
    position: int
    bytes: int
    later_segments: int = 0


def is_zeros(data: bytes | bytearray | memoryview, position: int = 0) -> bool:
    """Return whether all bytes from a position on are zero."""
    view = memoryview(data)
    for start in range(position, len(view), len(_ZEROS)):
        # Two objects of type `bytes` are compared much faster than a memoryview.
        piece = bytes(view[start : start + len(_ZEROS)])
        if piece != _ZEROS[: len(piece)]:
            return False
    return True


def count_zeros(file: RawIOBase | BufferedIOBase) -> tuple[int, bool]:
    """Read the zeros up to the end of a file. Return their number, and whether only zeros were found.

    Nothing is kept in memory. Holes of a sparse file are skipped: the file system has no bytes for them, and they are
    read as zeros.
    """
    count = 0
    while True:
        if isinstance(file, SegmentFile):
            count += file.skip_hole()
        piece = file.read(len(_ZEROS))
        if not piece:
            return count, True
        if not is_zeros(piece):
            return count, False
        count += len(piece)
