"""Messages of magic 0 (before Kafka 0.10) and magic 1 (0.10), alone or in a compressed wrapper.

    offset int64 · size int32 (bytes that follow) · crc uint32 (CRC-32 of all bytes that follow)
    magic int8 · attributes int8 (bits 0-2: codec; bit 3: log append time)
    timestamp int64 (magic 1 only)
    key length int32, key · value length int32, value (-1 = null)

If there is a codec, the message is a wrapper: its value is a compressed message set, and its offset is the offset of
the last message in this set. In a wrapper of magic 0, the inner messages contain their offsets in the log. In a wrapper
of magic 1, they contain offsets relative to the first inner message. With log append time, all inner messages of magic
1 have the wrapper's timestamp.
Source: LegacyRecord.java, AbstractLegacyRecordBatch.java (4.3.1).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress

from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import LOG_APPEND_TIME, NO_TIMESTAMP, Batch, LogRecord
from kafkagroups.log.compression import CompressionType, compression_type, decompress
from kafkagroups.log.frames import LOG_OVERHEAD, FrameState, frames

_header = struct.Struct(">qiIbb")
_HEADER_SIZE = _header.size  # 18
_CRC_FROM = 16
"""The CRC covers all bytes from this position on."""
_timestamp = struct.Struct(">q")
_length = struct.Struct(">i")


def parse_batch(data: bytes, position: int, file: str | None = None) -> Batch:
    """Parse `data` as one message or wrapper, which begins at `position` in `file`."""
    offset, _, crc, magic, attributes = _header.unpack_from(data)
    batch = Batch(
        magic=magic,
        base_offset=offset,
        last_offset=offset,
        attributes=attributes,
        crc=crc,
        computed_crc=zlib.crc32(memoryview(data)[_CRC_FROM:]),
        position=position,
        size=len(data),
        payload=data,
        parse_records=parse_records,
        max_timestamp=_timestamp.unpack_from(data, _HEADER_SIZE)[0] if magic == 1 else NO_TIMESTAMP,
        file=file,
    )
    if attributes & 0x07:
        # Only the inner messages contain the first offset. If they are unreadable, `records` raises the error later.
        # A Batch is frozen, so a plain assignment is not possible.
        with suppress(InvalidLog):
            object.__setattr__(batch, "base_offset", batch.records[0].offset)
    return batch


def parse_records(batch: Batch) -> tuple[LogRecord, ...]:
    """Return the message, or the messages in the wrapper. Raises InvalidLog if they cannot be read."""
    wrapper = _parse_message(batch.payload)
    codec = batch.compression
    if codec is CompressionType.NONE:
        return (wrapper,)
    if wrapper.value is None:
        raise InvalidLog("the compressed wrapper has no value")
    if codec is CompressionType.ZSTD:
        raise InvalidLog(f"zstd needs magic 2, found it in a wrapper of magic {batch.magic}")
    messages = list(_parse_message_set(decompress(codec, wrapper.value)))
    if not messages:
        raise InvalidLog("the compressed wrapper contains no message")
    first_offset = 0
    if batch.magic == 1 and wrapper.offset:  # Some old clients did not set the wrapper's offset, so it is 0.
        last_inner = messages[-1].offset
        first_offset = wrapper.offset - last_inner
        if first_offset < 0:
            raise InvalidLog(
                f"the wrapper has offset {wrapper.offset}, but its last message has the higher offset {last_inner}"
            )
    wrapper_time = wrapper.timestamp if batch.attributes & LOG_APPEND_TIME else None
    return tuple(_convert_message(message, first_offset, wrapper_time) for message in messages)


def _convert_message(message: LogRecord, first_offset: int, wrapper_time: int | None) -> LogRecord:
    """Return a message of a wrapper with the offset and the timestamp that it has in the log.

    `first_offset` is added to the offset. `wrapper_time` is the wrapper's log append time, or None without this time.
    """
    offset = first_offset + message.offset
    if wrapper_time is None or message.magic == 0:
        return message._replace(offset=offset)
    return message._replace(offset=offset, timestamp=wrapper_time)


def _parse_message_set(data: bytes) -> Iterator[LogRecord]:
    """Yield the messages of a wrapper, with the offsets and timestamps that their bytes contain."""
    for frame in frames(data, any_magic=True):
        if frame.state is FrameState.INCOMPLETE or frame.size < LOG_OVERHEAD:
            return  # Kafka's reader stops at an incomplete message without an error.
        if frame.state is not FrameState.WHOLE:
            raise InvalidLog(frame.reason)
        message = _parse_message(data[frame.position : frame.end])
        if compression_type(message.attributes) is not CompressionType.NONE:
            raise InvalidLog("a message inside the compressed wrapper is compressed too")
        yield message


def _parse_message(data: bytes) -> LogRecord:
    """Parse `data` as one message."""
    try:
        offset, _, crc, magic, attributes = _header.unpack_from(data)
        position = _HEADER_SIZE
        timestamp = NO_TIMESTAMP
        if magic == 1:
            (timestamp,) = _timestamp.unpack_from(data, position)
            position += _timestamp.size
        key, position = _read_bytes(data, position)
        value, position = _read_bytes(data, position)
    except struct.error:
        raise InvalidLog("the message ends too early") from None
    is_valid = crc == zlib.crc32(memoryview(data)[_CRC_FROM:])
    return LogRecord(offset, timestamp, key, value, (), -1, len(data), crc, is_valid, magic, attributes)


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    """Return the bytes after a length (None for a negative length), and the position after these bytes."""
    (length,) = _length.unpack_from(data, position)
    position += _length.size
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise InvalidLog(f"expected a field of {length} bytes, found {len(data) - position} bytes in its message")
    return data[position:end], end
