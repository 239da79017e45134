"""Frames: where each batch of a segment begins, and whether it is whole, incomplete, damaged or zeros.

All formats of a batch begin with the same fields. They are what a reader needs to step from batch to batch:

    offset int64 · size int32 (bytes that follow) · leader epoch or CRC, 4 bytes · magic int8

In magic 2 the offset is that of the first record, and the last offset is a delta in the header. In magic 0 and 1 the
offset is that of the message, or of the last message of a compressed wrapper. A frame does not check the batch's
checksum; `batches.py` does.
Source: FileLogInputStream.java, ByteBufferLogInputStream.java, Records.java (4.3.1).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from io import RawIOBase
from typing import NamedTuple

from kafkagroups.errors import InvalidLog

BytesLike = bytes | bytearray | memoryview

LOG_OVERHEAD = 12
"""Bytes of the offset and the size, which the size does not count."""
SIZE_AT = 8
MAGIC_AT = 16
SMALLEST_SIZE = 14
"""The least size of a message of magic 0: CRC, magic, attributes, two lengths."""
_SMALLEST_BATCH = (LOG_OVERHEAD + SMALLEST_SIZE, LOG_OVERHEAD + SMALLEST_SIZE + 8, 61)
"""The least bytes of a batch, by magic. Magic 1 added a timestamp; magic 2 has a header of 61 bytes."""
_PIECE_BYTES = 2 * 1024 * 1024
"""Bytes of a file that are read in one step."""
_offset_and_size = struct.Struct(">qi")
_header = struct.Struct(">qi4xB6xi")
"""The offset, the size, the magic and, in magic 2, the last offset's delta."""


class FrameState(Enum):
    """What is at the position where a batch should begin."""

    WHOLE = "whole"
    INCOMPLETE = "incomplete"
    """The data ends before the batch does."""
    DAMAGED = "damaged"
    """The fields are impossible."""
    ZEROS = "zeros"
    """Only zeros follow, as in a preallocated file: nothing has been written here yet."""


class Frame(NamedTuple):
    """The bytes from `position` on, seen as one batch. `reason` says why the batch is not whole.

    `size` counts all bytes of a whole batch, and the bytes that are left if the batch is not whole. The offsets are -1
    if the bytes do not contain them.
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
        """The position after the frame."""
        return self.position + self.size

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    def error(self, file: str | None = None) -> InvalidLog:
        """Return the error of a frame that is not whole."""
        return InvalidLog(self.reason, file=file, position=self.position)


def frames(data: BytesLike, at: int = 0, *, any_magic: bool = False) -> Iterator[Frame]:
    """Yield the frames of a segment's bytes from position `at` on.

    All frames are whole except perhaps the last one: a frame that is not whole ends the data. With `any_magic`, the
    magic is not checked: Kafka does not check it inside a compressed wrapper.
    """
    while at < len(data):
        frame = frame_at(data, at, any_magic=any_magic)
        yield frame
        if frame.state is not FrameState.WHOLE:
            return
        at = frame.end


def frame_at(data: BytesLike, at: int, *, any_magic: bool = False) -> Frame:
    """Return the frame at one position."""
    left = len(data) - at
    if left >= _SMALLEST_BATCH[2]:
        offset, length, magic, last_offset_delta = _header.unpack_from(data, at)
        if magic == 2 and _SMALLEST_BATCH[2] <= LOG_OVERHEAD + length <= left:
            return Frame(at, LOG_OVERHEAD + length, offset, offset + last_offset_delta, magic, FrameState.WHOLE)
    return _check_frame(data, at, any_magic)


def _check_frame(data: BytesLike, at: int, any_magic: bool) -> Frame:
    """Return the frame of a batch of magic 0 or 1, or of bytes that are not a whole batch."""
    left = len(data) - at
    if left < LOG_OVERHEAD:
        return _partial(data, at, FrameState.INCOMPLETE, f"expected a batch, found only {left} bytes")
    offset, length = _offset_and_size.unpack_from(data, at)
    if length < SMALLEST_SIZE:
        reason = f"expected a batch size of at least {SMALLEST_SIZE}, found {length}"
        return _partial(data, at, FrameState.DAMAGED, reason)
    size = LOG_OVERHEAD + length
    if size > left:
        reason = f"expected a batch of {size} bytes, found only {left} bytes"
        return _partial(data, at, FrameState.INCOMPLETE, reason)
    magic = data[at + MAGIC_AT]
    if any_magic:
        return Frame(at, size, offset, offset, magic, FrameState.WHOLE)
    if magic >= len(_SMALLEST_BATCH):
        reason = f"expected magic 0, 1 or 2, found {magic - 256 if magic > 127 else magic}"
        return _partial(data, at, FrameState.DAMAGED, reason)
    if size < _SMALLEST_BATCH[magic]:
        reason = f"expected at least {_SMALLEST_BATCH[magic]} bytes in a batch of magic {magic}, found {size}"
        return _partial(data, at, FrameState.DAMAGED, reason)
    return Frame(at, size, offset, offset, magic, FrameState.WHOLE)


def _partial(data: BytesLike, at: int, state: FrameState, reason: str) -> Frame:
    left = len(data) - at
    if not any(memoryview(data)[at : at + LOG_OVERHEAD]) and is_zeros(data, at):
        state = FrameState.ZEROS
    return Frame(at, left, -1, -1, -1, state, reason)


def is_zeros(data: BytesLike, at: int = 0) -> bool:
    """Return whether all bytes from a position on are zero."""
    rest = bytes(memoryview(data)[at:])
    return rest.count(0) == len(rest)


def read_frames(file: RawIOBase, position: int = 0) -> Iterator[tuple[Frame, bytes]]:
    """Yield the frames of a file, each with its bytes, as `frames` does. The file is read in pieces.

    `position` is the file's current byte, so that the frames' positions count from the file's first byte. The file is
    not mapped into memory, because the system ends this process if another one truncates a mapped file.
    """
    data = b""
    needed = _PIECE_BYTES
    while True:
        more = _read(file, needed)
        data += more
        is_last = len(more) < needed
        at = 0
        last = None
        while at < len(data):
            frame = frame_at(data, at)
            if frame.state is not FrameState.WHOLE:
                last = frame
                break
            content = data[at : frame.end]
            at = frame.end
            yield Frame(position + frame.position, *frame[1:]), content
        if last is None:
            if is_last:
                return
        elif last.state is FrameState.DAMAGED or is_last:
            yield last._replace(position=position + at), data[at:]
            return
        elif last.state is FrameState.ZEROS and last.size >= LOG_OVERHEAD:
            yield _after_zeros(file, last)._replace(position=position + at), data[at:]
            return
        position += at
        data = data[at:]
        needed = _PIECE_BYTES
        if len(data) >= LOG_OVERHEAD:
            needed = max(needed, LOG_OVERHEAD + _offset_and_size.unpack_from(data)[1] - len(data))


def _after_zeros(file: RawIOBase, zeros: Frame) -> Frame:
    """Return the frame of zeros at the end of a piece; it is damaged if the rest of the file is not zeros too."""
    size = zeros.size
    while piece := _read(file, _PIECE_BYTES):
        size += len(piece)
        if not is_zeros(piece):
            return zeros._replace(state=FrameState.DAMAGED)
    return zeros._replace(size=size)


def _read(file: RawIOBase, size: int) -> bytes:
    """Read so many bytes, or up to the end of the file. One read of a raw file may return fewer bytes.

    `size` may come from damaged bytes, so memory is taken as the bytes arrive.
    """
    pieces = []
    left = size
    while left and (piece := file.read(min(left, _PIECE_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
