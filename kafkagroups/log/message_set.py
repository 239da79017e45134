"""Messages of magic 0 (before Kafka 0.10) and magic 1 (0.10), alone or many in a compressed wrapper.

    offset int64 · size int32 (bytes that follow) · crc uint32 (CRC-32 of all that follows)
    magic int8 · attributes int8 (0-2 codec, 3 log append time)
    timestamp int64 (magic 1 only)
    key length int32, key · value length int32, value (-1 = null)

With a codec the value is a compressed message set and the offset that of its last message. In a wrapper of magic 1
the inner offsets are relative to the first; with log append time the wrapper's time is that of all its messages.
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
        # Only the messages inside tell the first offset; where they cannot be read, `records` says why.
        with suppress(InvalidLog):
            object.__setattr__(batch, "base_offset", batch.records[0].offset)
    return batch


def parse_records(batch: Batch) -> tuple[LogRecord, ...]:
    """The one message, or the messages in the wrapper. InvalidLog when they cannot be read."""
    outer = _parse_message(batch.payload)
    codec = batch.compression
    if codec is CompressionType.NONE:
        return (outer,)
    if outer.value is None:
        raise InvalidLog("a compressed wrapper has no value")
    if codec is CompressionType.ZSTD:
        raise InvalidLog(f"zstd came with magic 2, found in a wrapper of magic {batch.magic}")
    inner = list(_inner_messages(decompress(codec, outer.value)))
    if not inner:
        raise InvalidLog("a compressed wrapper holds no message")
    shift = 0
    if batch.magic == 1 and outer.offset:  # 0: some old clients left the outer offset unset
        shift = outer.offset - inner[-1].offset
        if shift < 0:
            raise InvalidLog(f"a wrapper at offset {outer.offset} ends with a message at {inner[-1].offset}")
    time = outer.timestamp if batch.attributes & LOG_APPEND_TIME else None
    return tuple(
        record._replace(
            offset=record.offset + shift, timestamp=time if time is not None and record.magic else record.timestamp
        )
        for record in inner
    )


def _inner_messages(data: bytes) -> Iterator[LogRecord]:
    for frame in frames(data, any_magic=True):
        if frame.state is FrameState.INCOMPLETE or frame.size < LOG_OVERHEAD:
            return  # Kafka's reader stops at a message that is not whole, and reports nothing.
        if frame.state is not FrameState.WHOLE:
            raise InvalidLog(frame.reason)
        record = _parse_message(data[frame.position : frame.end])
        if compression_type(record.attributes) is not CompressionType.NONE:
            raise InvalidLog("a message in a wrapper is compressed itself")
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
        raise InvalidLog("a message ends too early") from None
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
