"""Frames: where each batch of a segment begins and ends, and whether the batch is whole.

All formats of a batch begin with the same fields. A reader needs only these fields to move from batch to batch:

    offset int64 · size int32 (bytes that follow) · leader epoch or CRC, 4 bytes · magic int8

The magic is the number of the batch's format. In magic 2, the field offset contains the offset of the first record, and
the header contains the difference to the last offset. In magic 0 and 1, the field contains the offset of the message,
or of the last message in a compressed wrapper. The checksum is not checked here, but in batches.py.
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
"""The number of bytes of the offset and the size. The size does not include them."""
SIZE_AT = 8
"""The position of the size in a batch."""
MAGIC_AT = 16
"""The position of the magic in a batch."""
MIN_SIZE = 14
"""The smallest possible size of a message of magic 0: CRC, magic, attributes, two lengths."""
_MIN_BATCH_BYTES = (LOG_OVERHEAD + MIN_SIZE, LOG_OVERHEAD + MIN_SIZE + 8, 61)
"""The smallest number of bytes of a batch, by magic. Magic 1 added a timestamp, magic 2 has 61 header bytes."""
_PIECE_BYTES = 2 * 1024 * 1024
"""The number of bytes of a file that are read in one step."""
_offset_and_size = struct.Struct(">qi")
_header = struct.Struct(">qi4xB6xi")
"""The offset, the size, the magic and, in magic 2, the difference from the first offset to the last."""


class FrameState(Enum):
    """What is at the position where a batch should begin."""

    WHOLE = "whole"
    INCOMPLETE = "incomplete"
    """The data ends before the end of the batch."""
    DAMAGED = "damaged"
    """The size or the magic has an impossible value."""
    ZEROS = "zeros"
    """All bytes from here on are zero, as in a preallocated file: nothing has been written here yet."""


class Frame(NamedTuple):
    """The bytes of one batch, which begins at `position`. If the batch is not whole, `reason` says why.

    `size` is the number of bytes of the batch. If the batch is not whole, `size` is the number of bytes from `position`
    to the end of the data, and the offsets and the magic are -1. In magic 0 and 1, `base_offset` and `last_offset` are
    both the offset in the header.
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


def frames(data: BytesLike, position: int = 0, *, any_magic: bool = False) -> Iterator[Frame]:
    """Yield the frames of a segment's bytes from a position on.

    All frames are whole except possibly the last frame, because the iteration ends at a frame that is not whole. With
    `any_magic`, the magic is not checked: Kafka does not check it inside a compressed wrapper.
    """
    while position < len(data):
        frame = frame_at(data, position, any_magic=any_magic)
        yield frame
        if frame.state is not FrameState.WHOLE:
            return
        position = frame.end


def frame_at(data: BytesLike, position: int, *, any_magic: bool = False) -> Frame:
    """Return the frame at one position. `any_magic` has the same meaning as in `frames`."""
    available = len(data) - position
    if available >= _MIN_BATCH_BYTES[2]:
        offset, length, magic, last_offset_delta = _header.unpack_from(data, position)
        size = LOG_OVERHEAD + length
        if magic == 2 and _MIN_BATCH_BYTES[2] <= size <= available:
            return Frame(position, size, offset, offset + last_offset_delta, magic, FrameState.WHOLE)
    return _check_frame(data, position, any_magic)


def _check_frame(data: BytesLike, position: int, any_magic: bool) -> Frame:
    """Return the frame at one position if the batch there is not a whole batch of magic 2."""
    available = len(data) - position
    if available < LOG_OVERHEAD:
        return _broken_frame(data, position, FrameState.INCOMPLETE, f"expected a batch, found only {available} bytes")
    offset, length = _offset_and_size.unpack_from(data, position)
    if length < MIN_SIZE:
        reason = f"expected a batch size of at least {MIN_SIZE}, found {length}"
        return _broken_frame(data, position, FrameState.DAMAGED, reason)
    size = LOG_OVERHEAD + length
    if size > available:
        reason = f"expected a batch of {size} bytes, found only {available} bytes"
        return _broken_frame(data, position, FrameState.INCOMPLETE, reason)
    magic = data[position + MAGIC_AT]
    if any_magic:
        return Frame(position, size, offset, offset, magic, FrameState.WHOLE)
    if magic >= len(_MIN_BATCH_BYTES):
        signed_magic = magic - 256 if magic > 127 else magic
        return _broken_frame(data, position, FrameState.DAMAGED, f"expected magic 0, 1 or 2, found {signed_magic}")
    if size < _MIN_BATCH_BYTES[magic]:
        reason = f"expected at least {_MIN_BATCH_BYTES[magic]} bytes in a batch of magic {magic}, found {size}"
        return _broken_frame(data, position, FrameState.DAMAGED, reason)
    return Frame(position, size, offset, offset, magic, FrameState.WHOLE)


def _broken_frame(data: BytesLike, position: int, state: FrameState, reason: str) -> Frame:
    """Return the frame of all bytes from a position on. Its state is `state`, or ZEROS if these bytes are all zero."""
    # The first bytes are checked first, because data that is not zero usually differs there.
    if not any(memoryview(data)[position : position + LOG_OVERHEAD]) and is_zeros(data, position):
        state = FrameState.ZEROS
    return Frame(position, len(data) - position, -1, -1, -1, state, reason)


def is_zeros(data: BytesLike, position: int = 0) -> bool:
    """Return whether all bytes from a position on are zero."""
    content = bytes(memoryview(data)[position:])
    return content.count(0) == len(content)


def read_frames(file: RawIOBase, position: int = 0) -> Iterator[tuple[Frame, bytes]]:
    """Yield the frames of a file as `frames` does, each with its bytes. The file is read in pieces.

    `position` is the file's current position. It is added to the frames' positions, so that they count from the start
    of the file. The file is not mapped into memory: if another process truncates a mapped file, the operating system
    ends this process.
    """
    data = b""
    bytes_to_read = _PIECE_BYTES
    while True:
        piece = _read_piece(file, bytes_to_read)
        data += piece
        is_at_end = len(piece) < bytes_to_read
        start = 0
        broken_frame = None
        while start < len(data):
            frame = frame_at(data, start)
            if frame.state is not FrameState.WHOLE:
                broken_frame = frame
                break
            content = data[start : frame.end]
            start = frame.end
            yield Frame(position + frame.position, *frame[1:]), content
        if broken_frame is None:
            if is_at_end:
                return
        elif broken_frame.state is FrameState.DAMAGED or is_at_end:
            yield broken_frame._replace(position=position + start), data[start:]
            return
        elif broken_frame.state is FrameState.ZEROS and broken_frame.size >= LOG_OVERHEAD:
            zeros = _extend_zeros(file, broken_frame)
            yield zeros._replace(position=position + start), data[start:]
            return
        # The last frame may continue in the next piece.
        position += start
        data = data[start:]
        bytes_to_read = _PIECE_BYTES
        if len(data) >= LOG_OVERHEAD:
            bytes_to_read = max(bytes_to_read, LOG_OVERHEAD + _offset_and_size.unpack_from(data)[1] - len(data))


def _extend_zeros(file: RawIOBase, zeros: Frame) -> Frame:
    """Read the file to its end. Return `zeros` with these zeros added, or a damaged frame if other bytes follow."""
    size = zeros.size
    while piece := _read_piece(file, _PIECE_BYTES):
        size += len(piece)
        if not is_zeros(piece):
            return zeros._replace(state=FrameState.DAMAGED)
    return zeros._replace(size=size)


def _read_piece(file: RawIOBase, size: int) -> bytes:
    """Read `size` bytes, or fewer at the end of the file. This takes a loop, because a raw file may return fewer bytes.

    `size` may come from damaged bytes and be huge. So memory is allocated only for bytes that exist.
    """
    pieces = []
    missing = size
    while missing and (piece := file.read(min(missing, _PIECE_BYTES))):
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)
