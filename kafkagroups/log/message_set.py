"""Messages of magic 0 (before Kafka 0.10) and magic 1 (0.10), alone or in a compressed wrapper.

    offset int64 · size int32 (bytes that follow) · crc uint32 (CRC-32 of all bytes that follow)
    magic int8 · attributes int8 (0-2 codec, 3 log append time)
    timestamp int64 (magic 1 only)
    key length int32, key · value length int32, value (-1 = null)

If there is a codec, the value is a compressed message set and the offset is that of its last message. In a wrapper of
magic 1, the inner offsets are relative to the first message. With log append time, all messages have the wrapper's
timestamp.
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
_timestamp = struct.Struct(">q")
_length = struct.Struct(">i")


def parse_batch(data: bytes, position: int, file: str | None = None) -> Batch:
    """Return the message or wrapper that fills `data`. `position` is where it begins in `file`."""
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
        # Only the inner messages contain the first offset. If they are unreadable, `records` raises the error.
        with suppress(InvalidLog):
            object.__setattr__(batch, "base_offset", batch.records[0].offset)
    return batch


def parse_records(batch: Batch) -> tuple[LogRecord, ...]:
    """Return the message, or the messages in the wrapper. InvalidLog if they cannot be read."""
    outer = _parse_message(batch.payload)
    codec = batch.compression
    if codec is CompressionType.NONE:
        return (outer,)
    if outer.value is None:
        raise InvalidLog("the compressed wrapper has no value")
    if codec is CompressionType.ZSTD:
        raise InvalidLog(f"zstd needs magic 2, found it in a wrapper of magic {batch.magic}")
    inner = list(_inner_messages(decompress(codec, outer.value)))
    if not inner:
        raise InvalidLog("the compressed wrapper contains no message")
    shift = 0
    if batch.magic == 1 and outer.offset:  # Some old clients did not set the outer offset: it is 0.
        shift = outer.offset - inner[-1].offset
        if shift < 0:
            raise InvalidLog(
                f"the wrapper has offset {outer.offset}, but its last message has the higher offset {inner[-1].offset}"
            )
    wrapper_time = outer.timestamp if batch.attributes & LOG_APPEND_TIME else None
    return tuple(_move_inner(record, shift, wrapper_time) for record in inner)


def _move_inner(record: LogRecord, shift: int, wrapper_time: int | None) -> LogRecord:
    """Return a message of a wrapper with its offset and timestamp in the log."""
    if wrapper_time is None or record.magic == 0:
        return record._replace(offset=record.offset + shift)
    return record._replace(offset=record.offset + shift, timestamp=wrapper_time)


def _inner_messages(data: bytes) -> Iterator[LogRecord]:
    for frame in frames(data, any_magic=True):
        if frame.state is FrameState.INCOMPLETE or frame.size < LOG_OVERHEAD:
            return  # Kafka's reader stops at a message that is not whole, and reports nothing.
        if frame.state is not FrameState.WHOLE:
            raise InvalidLog(frame.reason)
        record = _parse_message(data[frame.position : frame.end])
        if compression_type(record.attributes) is not CompressionType.NONE:
            raise InvalidLog("a message inside the compressed wrapper is compressed too")
        yield record


def _parse_message(data: bytes) -> LogRecord:
    """Return the message that fills `data`."""
    try:
        offset, _, crc, magic, attributes = _header.unpack_from(data)
        at = _HEADER_SIZE
        timestamp = NO_TIMESTAMP
        if magic == 1:
            (timestamp,) = _timestamp.unpack_from(data, at)
            at += _timestamp.size
        key, at = _read_bytes(data, at)
        value, at = _read_bytes(data, at)
    except struct.error:
        raise InvalidLog("the message ends too early") from None
    is_valid = crc == zlib.crc32(memoryview(data)[_CRC_FROM:])
    return LogRecord(offset, timestamp, key, value, (), -1, len(data), crc, is_valid, magic, attributes)


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    (length,) = _length.unpack_from(data, position)
    position += _length.size
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise InvalidLog(f"expected a field of {length} bytes, found {len(data) - position} bytes in its message")
    return data[position:end], end
