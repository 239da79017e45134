"""Parsing and encoding record batches of magic 2 (since Kafka 0.11).

A batch consists of these fields:

    baseOffset int64 · batchLength int32 (bytes that follow) · partitionLeaderEpoch int32 · magic int8
    crc uint32 (CRC-32C of all bytes that follow)
    attributes int16 (bits 0-2: codec; 3: log append time; 4: transactional; 5: control; 6: delete horizon)
    lastOffsetDelta int32 · baseTimestamp int64 · maxTimestamp int64
    producerId int64 · producerEpoch int16 · baseSequence int32 · count int32
    records, compressed together:
        length varint · attributes int8 · timestampDelta varlong · offsetDelta varint
        keyLength varint, key · valueLength varint, value (-1 = null)
        headers varint count, then key length varint, key, value length varint, value

Varints and varlongs are integers of variable length. They are zigzag-encoded: 0, -1, 1, -2, … are stored as 0, 1, 2,
3, … The CRC does not cover the fields before it: baseOffset, batchLength, partitionLeaderEpoch and magic. If bit 6 is
set, baseTimestamp is the delete horizon, the time at which the log cleaner may remove the batch's tombstones. The
timestamp of a record is maxTimestamp if bit 3 is set, and otherwise baseTimestamp + timestampDelta (even if bit 6 is
set).
Source: DefaultRecordBatch.java (4.3.1); DefaultRecord.java (4.3.1).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypedDict, Unpack

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.helpers import MAX_INT64
from kafkagroups.log.batch import CODEC, LOG_APPEND_TIME, NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.log.batch_frames import LOG_OVERHEAD, to_int64
from kafkagroups.log.compression import MAX_BATCH_BYTES, CompressionType, compress, decompress
from kafkagroups.records.wire import INT16, INT32, INT64

HEADER = struct.Struct(">qiibIhiqqqhii")
"""All fields of a batch before the records."""
HEADER_SIZE = HEADER.size  # 61
CRC_POSITION = 17
"""The position of the CRC in a batch."""
CRC_FROM = 21
"""The CRC covers all bytes of a batch from this position on."""
ATTRIBUTES_POSITION = 21
"""The position of the attributes in a batch."""
_TYPE_BY_HEADER_FIELD = {
    "base_offset": INT64,
    "partition_leader_epoch": INT32,
    "attributes": INT16,
    "last_offset_delta": INT32,
    "base_timestamp": INT64,
    "max_timestamp": INT64,
    "producer_id": INT64,
    "producer_epoch": INT16,
    "base_sequence": INT32,
}
"""For the numbers of the header that a caller of `encode_batch` chooses."""
MAX_VARINT_BYTES = 5
"""The largest number of bytes of a varint, which stores an int32."""
MAX_VARLONG_BYTES = 10
"""The largest number of bytes of a varlong, which stores an int64."""


def parse_batch(data: bytes, position: int, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES) -> Batch:
    """Return the batch of `data`. `position` is where the batch begins in `file`.

    The caller must have checked that `data` contains a whole header.
    """
    (
        base_offset,
        _,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = HEADER.unpack_from(data)
    return Batch(
        magic,
        base_offset,
        to_int64(base_offset + last_offset_delta),
        attributes,
        crc,
        crc32c(memoryview(data)[CRC_FROM:]),
        position,
        len(data),
        data[HEADER_SIZE:],
        decompress_content,
        parse_records,
        max_timestamp,
        base_timestamp,
        leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
        file,
        max_batch_bytes,
    )


def decompress_content(batch: Batch) -> bytes:
    """Return the bytes of a batch's records.

    Raises InvalidLog if they cannot be decompressed, or if the compressed batch has too many records or bytes.
    """
    if not batch.attributes & CODEC:
        return batch.payload
    if batch.count > batch.max_records:
        raise batch.make_record_count_error(batch.count)
    return decompress(batch.compression, batch.payload, batch.max_batch_bytes)


def parse_records(batch: Batch) -> tuple[LogRecord, ...]:
    """Return the records of a batch of magic 2.

    Raises InvalidLog if the records cannot be read, or if other bytes follow them.
    """
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
    """Append the records of a batch to `records`, and return the position after the last record.

    `data` are the uncompressed records of the batch. Raises InvalidLog if a record cannot be read, and IndexError if
    `data` ends inside a record. `records` then contains the records before it.
    """
    base_offset = batch.base_offset
    base_timestamp = batch.base_timestamp
    base_sequence = batch.base_sequence
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
        position += 1
        if data[position] | data[position + 1] < 0x80:  # Two varints of one byte, as in almost all records.
            timestamp_delta = _ZIGZAG[data[position]]
            offset_delta = _ZIGZAG[data[position + 1]]
            position += 2
        else:
            timestamp_delta, position = read_varint(data, position, MAX_VARLONG_BYTES)
            offset_delta, position = read_varint(data, position)
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        if data[position] == 0:  # No headers, as always in this topic.
            headers: tuple[tuple[bytes, bytes | None], ...] = ()
            position += 1
        else:
            headers, position = _read_headers(data, position, end)
        if position != end:
            raise InvalidLog(f"expected a record of {length} bytes, its fields take {position - end + length} bytes")
        if base_sequence >= 0:
            sequence = (base_sequence + offset_delta) & 0x7FFFFFFF  # The sequence number after 2**31 - 1 is 0.
        offset = base_offset + offset_delta
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        if not (0 <= offset <= MAX_INT64 and 0 <= timestamp <= MAX_INT64):
            offset = to_int64(offset)
            timestamp = to_int64(timestamp)
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
        raise _make_field_error(length, end - start)
    return data[start:content_end], content_end


def _make_field_error(length: int, bytes_left: int) -> InvalidLog:
    return InvalidLog(f"expected a field of {length} bytes, found {bytes_left} bytes in the record")


_ZIGZAG = [(byte >> 1) ^ -(byte & 1) for byte in range(0x80)]
"""The numbers that varints of one byte mean."""


def read_varint(data: bytes, position: int, max_bytes: int = MAX_VARINT_BYTES) -> tuple[int, int]:
    """Return the varint or varlong at a position, and the position after it.

    `max_bytes` is MAX_VARINT_BYTES or MAX_VARLONG_BYTES. Raises IndexError if the data ends inside the varint, and
    InvalidLog if the varint is longer than `max_bytes`.
    """
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
    """Append a number to `out` as a varint or varlong."""
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def rebuild_bytes(batch: Batch) -> bytes:
    """Return the bytes that a batch of magic 2 was parsed from."""
    header = HEADER.pack(
        batch.base_offset,
        batch.size - LOG_OVERHEAD,
        batch.partition_leader_epoch,
        batch.magic,
        batch.crc,
        batch.attributes,
        batch.last_offset - batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
    )
    return header + batch.payload


class BatchFields(TypedDict, total=False):
    """The fields in the header of a batch that `encode_batch` takes.

    `attributes` are the bits of the batch, which contain the codec. The defaults of four fields come from the records.
    Without records, the caller must set them:

    - `base_offset` and `base_timestamp`: the offset and the timestamp of the first record.
    - `last_offset`: the offset of the last record.
    - `max_timestamp`: the largest timestamp of the records.
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
    """Return the bytes of a batch of magic 2. Raises UsageError if a number does not fit into its field."""
    given = {name: number for name, number in fields.items() if isinstance(number, int)}
    base_offset = given["base_offset"] if "base_offset" in given else records[0].offset
    base_timestamp = given["base_timestamp"] if "base_timestamp" in given else records[0].timestamp
    last_offset = given["last_offset"] if "last_offset" in given else records[-1].offset
    leader_epoch = given.get("partition_leader_epoch", 0)
    if "max_timestamp" not in given:
        given["max_timestamp"] = max(record.timestamp for record in records)
    header = {
        "attributes": given.get("attributes", 0),
        "last_offset_delta": last_offset - base_offset,
        "base_timestamp": base_timestamp,
        "max_timestamp": given["max_timestamp"],
        "producer_id": given.get("producer_id", NO_PRODUCER_ID),
        "producer_epoch": given.get("producer_epoch", -1),
        "base_sequence": given.get("base_sequence", -1),
    }
    _check_header(base_offset=base_offset, partition_leader_epoch=leader_epoch, **header)
    body = bytearray()
    for record in records:
        _write_record(body, record, base_offset, base_timestamp)
    payload = compress(CompressionType(header["attributes"] & CODEC), bytes(body)) if records else b""
    after_crc = struct.pack(">hiqqqhii", *header.values(), len(records)) + payload
    length = CRC_FROM - LOG_OVERHEAD + len(after_crc)
    magic = 2
    return struct.pack(">qiibI", base_offset, length, leader_epoch, magic, crc32c(after_crc)) + after_crc


def _check_header(**numbers: int) -> None:
    for name, number in numbers.items():
        try:
            _TYPE_BY_HEADER_FIELD[name].check(number)
        except UsageError as error:
            raise error.prefix_field(name) from None


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
    """Return the CRC-32C of the data of `crc` and the bytes of the buffer `data` after it."""
    return _import_crc32c()(data, crc)


@cache
def _import_crc32c() -> Callable[[Any, int], int]:
    from crc32c import crc32c as compute

    return compute
