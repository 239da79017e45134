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

_header = struct.Struct(">qiIbb")
OVERHEAD = 14
"""The least size of a message: crc, magic, attributes, two lengths."""


def parse_batch(data: bytes, position: int, size: int, file: str | None = None) -> Batch:
    """The message or wrapper of `size` bytes (offset and size included) at `position`. InvalidLog: it is too short."""
    offset, _, crc, magic, attributes = _header.unpack_from(data, position)
    if magic == 1 and size - 12 < OVERHEAD + 8:
        raise InvalidLog(f"a message of magic 1 has at least {OVERHEAD + 8} bytes, this one {size - 12}")
    batch = Batch(
        magic=magic,
        base_offset=offset,
        last_offset=offset,
        attributes=attributes,
        crc=crc,
        computed_crc=zlib.crc32(memoryview(data)[position + 16 : position + size]),
        position=position,
        size=size,
        payload=data[position : position + size],
        parse_records=parse_records,
        max_timestamp=struct.unpack_from(">q", data, position + 18)[0] if magic == 1 else NO_TIMESTAMP,
        file=file,
    )
    if attributes & 0x07:
        # Only the messages inside tell the first offset; where they cannot be read, `records` says why.
        with suppress(InvalidLog):
            object.__setattr__(batch, "base_offset", batch.records[0].offset)
    return batch


def parse_records(batch: Batch) -> tuple[LogRecord, ...]:
    """The one message, or the messages in the wrapper. InvalidLog when they cannot be read."""
    outer, _ = _parse_message(batch.payload, 0)
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
    position = 0
    while position + 12 <= len(data):
        (size,) = struct.unpack_from(">i", data, position + 8)
        if size >= OVERHEAD and position + 12 + size > len(data):
            return  # a message that is not whole: Kafka's reader stops here, without a word
        record, end = _parse_message(data, position)
        if compression_type(record.attributes) is not CompressionType.NONE:
            raise InvalidLog("a message in a wrapper is compressed itself")
        yield record
        position = end


def _parse_message(data: bytes, position: int) -> tuple[LogRecord, int]:
    try:
        offset, size, crc, magic, attributes = _header.unpack_from(data, position)
        end = position + 12 + size
        if size < OVERHEAD or end > len(data):
            raise InvalidLog(f"a message announces {size} bytes, {len(data) - position - 12} are left")
        at = position + 18
        timestamp = NO_TIMESTAMP
        if magic == 1:
            (timestamp,) = struct.unpack_from(">q", data, at)
            at += 8
        key, at = _read_bytes(data, at, end)
        value, at = _read_bytes(data, at, end)
    except struct.error:
        raise InvalidLog("a message ends too early") from None
    is_valid = crc == zlib.crc32(memoryview(data)[position + 16 : end])
    return LogRecord(offset, timestamp, key, value, (), -1, size + 12, crc, is_valid, magic, attributes), end


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    (length,) = struct.unpack_from(">i", data, position)
    position += 4
    if length < 0:
        return None, position
    if position + length > end:
        raise InvalidLog(f"a field announces {length} bytes, {end - position} are left in its message")
    return data[position : position + length], position + length
