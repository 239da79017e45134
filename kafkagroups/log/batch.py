"""A batch of any format (magic 0, 1 or 2): its fields, its records, and its position in the log.

The magic is the number of the format: 0 before Kafka 0.10, 1 in 0.10, and 2 since 0.11. A batch of magic 2, whose
records are compressed together, consists of these fields:

    baseOffset int64 · batchLength int32 (bytes that follow) · partitionLeaderEpoch int32 · magic int8
    crc uint32 (CRC-32C of all bytes that follow)
    attributes int16 (bits 0-2: codec; 3: log append time; 4: transactional; 5: control; 6: delete horizon)
    lastOffsetDelta int32 · baseTimestamp int64 · maxTimestamp int64
    producerId int64 · producerEpoch int16 · baseSequence int32 · count int32
    records, compressed together:
        length varint · attributes int8 · timestampDelta varlong · offsetDelta varint
        keyLength varint, key · valueLength varint, value (-1 = null)
        headers varint count, then key length varint, key, value length varint, value

Varints and varlongs are zigzag-encoded: 0, -1, 1, -2, … are stored as 0, 1, 2, 3, … The CRC does not cover the fields
before it. If bit 6 is set, baseTimestamp is the delete horizon, the time at which the log cleaner may remove the
tombstones of the batch. The timestamp of a record is maxTimestamp if bit 3 is set, and otherwise baseTimestamp +
timestampDelta (even if bit 6 is set).

In magic 0 and 1, a record is a message:

    offset int64 · length int32 (bytes that follow) · crc uint32 (CRC-32 of all bytes that follow)
    magic int8 · attributes int8 (bits 0-2: codec; bit 3: log append time)
    timestamp int64 (magic 1 only)
    key length int32, key · value length int32, value (-1 = null)

A message with a codec is a wrapper: its value contains compressed messages, the inner messages, and its offset is that
of the last one. The inner messages contain their offsets in the log (magic 0), or their offsets minus that of the first
inner message (magic 1). If a wrapper of magic 1 has log append time, all inner messages have its timestamp.
Source (4.3.1): DefaultRecordBatch.java, DefaultRecord.java, LegacyRecord.java, AbstractLegacyRecordBatch.java.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, TypeVar, Unpack

import msgspec

from kafkagroups.errors import BatchTooLarge, InvalidLog, UsageError
from kafkagroups.log.compression import MAX_BATCH_BYTES, CompressionType, compress, compression_type, decompress
from kafkagroups.log.segment_file import LOG_OVERHEAD, FrameState, find_frames
from kafkagroups.records.wire import INT8, INT16, INT32, INT64, Int, to_int64

# The bits of a batch's attributes. The three bits of CODEC contain the number of the compression codec.
CODEC = 0x07
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
LOG_APPEND_TIME = 0x08

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1

MIN_RECORD_LIMIT = 2**20
MEMORY_BYTES_PER_RECORD = 256
"""The limit of the records in a compressed batch is `max_batch_bytes` / MEMORY_BYTES_PER_RECORD, but at least
MIN_RECORD_LIMIT. Even a short record needs about this much memory."""


T = TypeVar("T")


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One record of the log. `timestamp` is in ms since 1970; -1 in magic 0. `sequence` is the producer's sequence
    number; -1 without one. `size` is in bytes after decompression. Only a message of magic 0 or 1 has a checksum of its
    own: `crc`, and whether it is correct, `is_valid`.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    sequence: int = -1
    size: int = 0
    crc: int | None = None
    is_valid: bool = True
    magic: int = 2
    attributes: int = 0


@dataclass(slots=True)
class Batch:
    """A batch of magic 2, a single message of magic 0 or 1, or a wrapper of magic 0 or 1.

    `base_offset` and `last_offset` are the Kafka offsets of the first and the last record, and `position` is where the
    batch begins in the segment `file`. `count` is the number of records that the header states; 1 in magic 0 and 1,
    where the fields of a producer, `base_timestamp` and `partition_leader_epoch` are -1. Sizes are in bytes, timestamps
    in ms since 1970.
    """

    data: bytes = field(repr=False)
    parse_records: Callable[[Batch], tuple[LogRecord, ...]] = field(repr=False, compare=False)
    # The fields of the header, in its order.
    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset: int
    base_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int = 1
    position: int = 0
    file: str | None = None
    max_batch_bytes: int = field(default=MAX_BATCH_BYTES, repr=False, compare=False)
    _content: bytes | None = field(default=None, init=False, repr=False, compare=False)
    _records: tuple[LogRecord, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def computed_crc(self) -> int:
        if self.magic >= 2:
            return crc32c(memoryview(self.data)[CRC_FROM:])
        return zlib.crc32(memoryview(self.data)[_CRC_FROM:])

    @property
    def is_valid(self) -> bool:
        return self.crc == self.computed_crc

    @property
    def payload(self) -> bytes:
        """The bytes of the records, compressed if `attributes` has a codec. In magic 0 and 1, the whole message."""
        return self.data[HEADER_SIZE:] if self.magic >= 2 else self.data

    @property
    def compression(self) -> CompressionType:
        return compression_type(self.attributes)

    @property
    def is_transactional(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & CONTROL)

    @property
    def timestamp_type(self) -> str:
        """Kafka's name of the timestamp type: CreateTime, LogAppendTime, or NoTimestampType in magic 0."""
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.attributes & LOG_APPEND_TIME else "CreateTime"

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may remove the tombstones or the marker of this batch (ms since 1970); None if not set."""
        return self.base_timestamp if self.magic >= 2 and self.attributes & DELETE_HORIZON else None

    @property
    def next_offset(self) -> int:
        return to_int64(self.last_offset + 1)

    @property
    def max_records(self) -> int:
        return max(MIN_RECORD_LIMIT, self.max_batch_bytes // MEMORY_BYTES_PER_RECORD)

    @property
    def content(self) -> bytes:
        """The bytes of the records, decompressed. Raises InvalidLog."""
        if self._content is None:
            self._content = self._read(decompress_content)
        return self._content

    @property
    def records(self) -> tuple[LogRecord, ...]:
        """The records. Raises InvalidLog if they cannot be read."""
        if self._records is None:
            self._records = self._read(self.parse_records)
        return self._records

    def _read(self, read: Callable[[Batch], T]) -> T:
        try:
            return read(self)
        except InvalidLog as error:
            error.file = self.file
            error.position = self.position
            error.offset = self.base_offset
            raise error from None

    def check_size(self) -> None:
        """Raise BatchTooLarge if the records need more memory than `max_batch_bytes` allows.

        Every other error is left to `records`.
        """
        if not self.attributes & CODEC or self.count <= 0:
            return
        try:
            # In magic 0 and 1, the header does not state the number of messages, so the messages must be parsed.
            _ = self.content if self.magic >= 2 else self.records
        except BatchTooLarge:
            raise
        except InvalidLog:
            pass

    def make_error(self, reason: str) -> InvalidLog:
        return InvalidLog(reason, file=self.file, position=self.position, offset=self.base_offset)

    def make_record_count_error(self, count: int) -> BatchTooLarge:
        return BatchTooLarge(f"this compressed batch has {count} records, more than {self.max_records}")


def record_count(batch: Batch) -> int:
    """A wrapper that cannot be read counts as one record."""
    if batch.magic >= 2:
        return batch.count
    try:
        return len(batch.records)
    except InvalidLog:
        return 1


HEADER_FIELDS = {
    "base_offset": INT64,
    "batch_length": INT32,
    "partition_leader_epoch": INT32,
    "magic": INT8,
    "crc": Int("uint32", "I"),
    "attributes": INT16,
    "last_offset_delta": INT32,
    "base_timestamp": INT64,
    "max_timestamp": INT64,
    "producer_id": INT64,
    "producer_epoch": INT16,
    "base_sequence": INT32,
    "count": INT32,
}
"""All fields of a batch before the records, with their types."""
HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size  # 61
CRC_POSITION = 17
"""The position of the CRC in a batch."""
CRC_FROM = 21
ATTRIBUTES_POSITION = 21
"""The position of the attributes in a batch."""
MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def parse_record_batch(
    data: bytes, position: int, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES
) -> Batch:
    base_offset, _, leader_epoch, magic, crc, attributes, last_offset_delta, *others = HEADER.unpack_from(data)
    last_offset = to_int64(base_offset + last_offset_delta)
    fields = [base_offset, leader_epoch, magic, crc, attributes, last_offset, *others, position, file, max_batch_bytes]
    return Batch(data, parse_records, *fields)


def decompress_content(batch: Batch) -> bytes:
    if batch.magic < 2:
        return _decompress_wrapper(batch)
    if not batch.attributes & CODEC:
        return batch.payload
    if batch.count > batch.max_records:
        raise batch.make_record_count_error(batch.count)
    return decompress(batch.compression, batch.payload, batch.max_batch_bytes)


def parse_records(batch: Batch) -> tuple[LogRecord, ...]:
    """Raises InvalidLog if the records cannot be read, or if other bytes follow them."""
    if batch.count < 0:
        raise InvalidLog(f"expected a record count of 0 or more, found {batch.count}")
    if batch.count == 0:
        return ()
    # Without compression, the payload is the content.
    data = batch.content if batch.attributes & CODEC else batch.payload
    records: list[LogRecord] = []
    try:
        position = _add_records(records, data, batch)
    except IndexError:
        raise InvalidLog(f"expected {batch.count} records, the bytes end in record {len(records) + 1}") from None
    if position != len(data):
        raise InvalidLog(
            f"expected the batch to end after {batch.count} records, found {len(data) - position} more bytes"
        )
    return tuple(records)


def _add_records(records: list[LogRecord], data: bytes, batch: Batch) -> int:
    """Raises InvalidLog if a record cannot be read, and IndexError if `data` ends inside a record."""
    # If this is not None, it is the timestamp of all records.
    append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
    sequence = -1
    position = 0
    for _ in range(batch.count):
        start = position
        length, position = read_varint(data, position)
        end = position + length
        if length < 0 or end > len(data):
            raise InvalidLog(f"expected a record of {length} bytes, found {len(data) - position} bytes")
        attributes = data[position]
        timestamp_delta, position = read_varint(data, position + 1, MAX_VARLONG_BYTES)
        offset_delta, position = read_varint(data, position)
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        headers, position = _read_headers(data, position, end)
        if position != end:
            raise InvalidLog(f"expected a record of {length} bytes, its fields take {position - end + length} bytes")
        if batch.base_sequence >= 0:
            sequence = (batch.base_sequence + offset_delta) & 0x7FFFFFFF  # The sequence number after 2**31 - 1 is 0.
        offset = to_int64(batch.base_offset + offset_delta)
        timestamp = to_int64(batch.base_timestamp + timestamp_delta) if append_time is None else append_time
        records.append(
            LogRecord(offset, timestamp, key, value, headers, sequence, end - start, None, True, 2, attributes)
        )
    return position


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[tuple[bytes, bytes | None], ...], int]:
    header_count, position = read_varint(data, position)
    if not 0 <= header_count <= len(data) - position:
        raise InvalidLog(f"expected a possible number of record headers, found {header_count}")
    headers = []
    for _ in range(header_count):
        header_key, position = _read_bytes(data, position, end)
        header_value, position = _read_bytes(data, position, end)
        if header_key is None:
            raise InvalidLog("a record header has no key")
        headers.append((header_key, header_value))
    return tuple(headers), position


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, start = read_varint(data, position)
    if length < 0:
        return None, start
    content_end = start + length
    if content_end > end:
        raise InvalidLog(f"expected a field of {length} bytes, found {end - start} bytes in the record")
    return data[start:content_end], content_end


_ZIGZAG = [(byte >> 1) ^ -(byte & 1) for byte in range(0x80)]
"""The numbers that varints of one byte mean."""


def read_varint(data: bytes, position: int, max_bytes: int = MAX_VARINT_BYTES) -> tuple[int, int]:
    """Raises IndexError if the data ends inside the varint, and InvalidLog if it is longer than `max_bytes`."""
    byte = data[position]
    if byte < 0x80:
        return _ZIGZAG[byte], position + 1
    following = data[position + 1]
    if following < 0x80:
        zigzag = byte & 0x7F | following << 7
        return (zigzag >> 1) ^ -(zigzag & 1), position + 2
    value = 0
    for index in range(max_bytes):
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            value &= 0xFFFFFFFF if max_bytes == MAX_VARINT_BYTES else 0xFFFFFFFFFFFFFFFF
            return (value >> 1) ^ -(value & 1), position + index + 1
    raise InvalidLog(f"expected a varint of at most {max_bytes} bytes, found a longer varint")


def write_varint(out: bytearray, value: int) -> None:
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


class BatchFields(TypedDict, total=False):
    """The offsets and timestamps are by default those of the first and the last record, and the largest timestamp;
    without records, the caller must set them.
    """

    base_offset: int | None
    last_offset: int | None
    attributes: int
    base_timestamp: int | None
    max_timestamp: int | None
    partition_leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


def encode_batch(records: Sequence[LogRecord], **fields: Unpack[BatchFields]) -> bytes:
    """Raises UsageError if a number does not fit into its field."""
    header = {"batch_length": 0, "partition_leader_epoch": 0, "magic": 2, "crc": 0, "attributes": 0}
    header |= {"producer_id": NO_PRODUCER_ID, "producer_epoch": -1, "base_sequence": -1, "count": len(records)}
    if records:
        header |= {"base_offset": records[0].offset, "last_offset": records[-1].offset}
        header |= {"base_timestamp": records[0].timestamp, "max_timestamp": max(each.timestamp for each in records)}
    header |= {name: number for name, number in fields.items() if isinstance(number, int)}
    header["last_offset_delta"] = header["last_offset"] - header["base_offset"]
    for name, wire in HEADER_FIELDS.items():
        try:
            wire.check(header[name])
        except UsageError as error:
            raise error.prefix_field(name) from None
    body = bytearray()
    for record in records:
        _write_record(body, record, header["base_offset"], header["base_timestamp"])
    payload = compress(CompressionType(header["attributes"] & CODEC), bytes(body)) if records else b""
    header["batch_length"] = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    data = HEADER.pack(*(header[name] for name in HEADER_FIELDS)) + payload
    return data[:CRC_POSITION] + crc32c(memoryview(data)[CRC_FROM:]).to_bytes(4, "big") + data[CRC_FROM:]


def _write_record(out: bytearray, record: LogRecord, base_offset: int, base_timestamp: int) -> None:
    body = bytearray([record.attributes])
    write_varint(body, record.timestamp - base_timestamp)
    write_varint(body, record.offset - base_offset)
    for content in (record.key, record.value):
        _write_bytes(body, content)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        _write_bytes(body, key)
        _write_bytes(body, value)
    write_varint(out, len(body))
    out += body


def _write_bytes(out: bytearray, content: bytes | None) -> None:
    write_varint(out, -1 if content is None else len(content))
    if content is not None:
        out += content


def crc32c(data: Any, crc: int = 0) -> int:
    from crc32c import crc32c as compute

    return compute(data, crc)


_header = struct.Struct(">qiIbb")
_HEADER_SIZE = _header.size  # 18
_CRC_FROM = 16
_timestamp = struct.Struct(">q")
_length = struct.Struct(">i")


def parse_message_set(
    data: bytes, position: int, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES
) -> Batch:
    offset, _, crc, magic, attributes = _header.unpack_from(data)
    batch = Batch(
        data,
        parse_messages,
        base_offset=offset,
        partition_leader_epoch=-1,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset=offset,
        max_timestamp=_timestamp.unpack_from(data, _HEADER_SIZE)[0] if magic == 1 else NO_TIMESTAMP,
        position=position,
        file=file,
        max_batch_bytes=max_batch_bytes,
    )
    if attributes & CODEC:
        # Only the inner messages contain the first offset. If they cannot be read, `records` raises the error later.
        with suppress(InvalidLog):
            return replace(batch, base_offset=batch.records[0].offset)
    return batch


def _decompress_wrapper(batch: Batch) -> bytes:
    codec = batch.compression
    if codec is CompressionType.NONE:
        return batch.payload
    wrapper = _parse_message(batch.payload)
    if wrapper.value is None:
        raise InvalidLog("the compressed wrapper has no value")
    if codec is CompressionType.ZSTD:
        raise InvalidLog(f"zstd needs magic 2, found zstd in a wrapper of magic {batch.magic}")
    return decompress(codec, wrapper.value, batch.max_batch_bytes)


def parse_messages(batch: Batch) -> tuple[LogRecord, ...]:
    """Return the message of a batch, or the inner messages of a wrapper. Raises InvalidLog."""
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
    offset = to_int64(first_offset + message.offset)
    timestamp = message.timestamp if append_time is None or message.magic == 0 else append_time
    return msgspec.structs.replace(message, offset=offset, timestamp=timestamp)


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
        key, position = _read_message_bytes(data, position)
        value, position = _read_message_bytes(data, position)
    except struct.error:
        raise InvalidLog("the message ends too early") from None
    is_valid = crc == zlib.crc32(memoryview(data)[_CRC_FROM:])
    return LogRecord(
        offset, timestamp, key, value, size=len(data), crc=crc, is_valid=is_valid, magic=magic, attributes=attributes
    )


def _read_message_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    (length,) = _length.unpack_from(data, position)
    position += _length.size
    if length < 0:
        return None, position
    end = position + length
    if end > len(data):
        raise InvalidLog(f"expected a field of {length} bytes, found {len(data) - position} bytes in the message")
    return data[position:end], end
