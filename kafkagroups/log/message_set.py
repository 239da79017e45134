"""Messages of magic 0 (before Kafka 0.10) and magic 1 (0.10), alone or in a compressed wrapper.

    offset int64 · length int32 (bytes that follow) · crc uint32 (CRC-32 of all bytes that follow)
    magic int8 · attributes int8 (bits 0-2: codec; bit 3: log append time)
    timestamp int64 (magic 1 only)
    key length int32, key · value length int32, value (-1 = null)

A message with a codec is a wrapper: its value contains compressed messages, the inner messages. The offset of a wrapper
is the offset of its last inner message.

In a wrapper of magic 0, the inner messages contain their offsets in the log. In a wrapper of magic 1, the inner
messages contain their offsets minus the offset of the first inner message. If a wrapper of magic 1 has log append time,
all inner messages have the timestamp of the wrapper.
Source: LegacyRecord.java (4.3.1); AbstractLegacyRecordBatch.java (4.3.1).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import CODEC, LOG_APPEND_TIME, NO_TIMESTAMP, Batch, LogRecord
from kafkagroups.log.batch_frames import LOG_OVERHEAD, FrameState, find_frames, to_int64
from kafkagroups.log.compression import MAX_BATCH_BYTES, CompressionType, compression_type, decompress

_header = struct.Struct(">qiIbb")
"""The offset, the length, the CRC, the magic and the attributes of a message."""
_HEADER_SIZE = _header.size  # 18
_CRC_FROM = 16
"""The CRC covers all bytes of a message from this position on."""
_timestamp = struct.Struct(">q")
_length = struct.Struct(">i")


def parse_batch(data: bytes, position: int, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES) -> Batch:
    """Return the batch of `data`, which is one message or wrapper. `position` is where the batch begins in `file`."""
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
        decompress_content=decompress_content,
        parse_records=parse_records,
        max_timestamp=_timestamp.unpack_from(data, _HEADER_SIZE)[0] if magic == 1 else NO_TIMESTAMP,
        file=file,
        max_batch_bytes=max_batch_bytes,
    )
    if attributes & CODEC:
        # Only the inner messages contain the first offset. If they cannot be read, `records` raises the error later.
        with suppress(InvalidLog):
            return replace(batch, base_offset=batch.records[0].offset)
    return batch


def decompress_content(batch: Batch) -> bytes:
    """Return the bytes of the inner messages of a wrapper; the bytes of the message if it is not a wrapper.

    Raises InvalidLog if the wrapper cannot be decompressed, or if it is too large.
    """
    codec = batch.compression
    if codec is CompressionType.NONE:
        return batch.payload
    wrapper = _parse_message(batch.payload)
    if wrapper.value is None:
        raise InvalidLog("the compressed wrapper has no value")
    if codec is CompressionType.ZSTD:
        raise InvalidLog(f"zstd needs magic 2, found zstd in a wrapper of magic {batch.magic}")
    return decompress(codec, wrapper.value, batch.max_batch_bytes)


def parse_records(batch: Batch) -> tuple[LogRecord, ...]:
    """Return the messages of a batch: a single message, or the inner messages of a wrapper.

    Raises InvalidLog if the messages cannot be read, or if a wrapper contains more than `batch.max_records` messages.
    """
    message_or_wrapper = _parse_message(batch.payload)
    if batch.compression is CompressionType.NONE:
        return (message_or_wrapper,)
    wrapper = message_or_wrapper
    messages = []
    for message in _parse_message_set(batch.content):
        messages.append(message)
        if len(messages) > batch.max_records:
            raise batch.make_record_count_error(len(messages))
    if not messages:
        raise InvalidLog("the compressed wrapper contains no message")
    first_offset = 0
    # Some old clients did not set the offset of a wrapper: it is 0. The inner messages then have offsets in the log.
    if batch.magic == 1 and wrapper.offset != 0:
        last_inner_offset = messages[-1].offset
        first_offset = wrapper.offset - last_inner_offset
        if first_offset < 0:
            raise InvalidLog(
                f"the wrapper has offset {wrapper.offset}, but its last message has the higher offset "
                f"{last_inner_offset}"
            )
    append_time = wrapper.timestamp if batch.attributes & LOG_APPEND_TIME else None
    return tuple(_convert_message(message, first_offset, append_time) for message in messages)


def _convert_message(message: LogRecord, first_offset: int, append_time: int | None) -> LogRecord:
    """Return an inner message with the offset and the timestamp that it has in the log.

    `first_offset` is added to the offset of the message. `append_time` is the wrapper's log append time, or None.
    """
    offset = to_int64(first_offset + message.offset)
    if append_time is None or message.magic == 0:
        return message._replace(offset=offset)
    return message._replace(offset=offset, timestamp=append_time)


def _parse_message_set(data: bytes) -> Iterator[LogRecord]:
    for frame in find_frames(data, any_magic=True):
        if frame.state is FrameState.INCOMPLETE or frame.size < LOG_OVERHEAD:
            return  # Kafka's reader stops without an error at an incomplete message, even if its bytes are zeros.
        if frame.state is not FrameState.WHOLE:
            raise InvalidLog(frame.reason)
        message = _parse_message(data[frame.position : frame.end])
        if compression_type(message.attributes) is not CompressionType.NONE:
            raise InvalidLog("a message inside the compressed wrapper is compressed, too")
        yield message


def _parse_message(data: bytes) -> LogRecord:
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
    return LogRecord(
        offset, timestamp, key, value, size=len(data), crc=crc, is_valid=is_valid, magic=magic, attributes=attributes
    )


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    """Return a key or value, and the position after it.

    The length of the key or value is at `position`, before its bytes. A negative length means None.
    """
    (length,) = _length.unpack_from(data, position)
    position += _length.size
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise InvalidLog(f"expected a field of {length} bytes, found {len(data) - position} bytes in the message")
    return data[position:end], end
