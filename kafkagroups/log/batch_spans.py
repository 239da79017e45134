"""The bytes of a record batch (magic 2) as spans: fields of its header and its records."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import parse_batch_at
from kafkagroups.log.record_batch import HEADER_SIZE, MAX_VARLONG_BYTES, read_varint
from kafkagroups.records.spans import Span

# For each field: Kafka's name, the character of the type in Python's module struct, and the meaning.
_HEADER_FIELDS = (
    ("baseOffset", "q", "the first record's offset in the partition"),
    ("batchLength", "i", "how many bytes of this batch follow"),
    ("partitionLeaderEpoch", "i", "the leader's epoch when the batch was appended"),
    ("magic", "b", "the format: 2 since Kafka 0.11"),
    ("crc", "I", "CRC-32C of everything that follows"),
    ("attributes", "h", "the codec, and whether the batch is transactional or control"),
    ("lastOffsetDelta", "i", "the last offset minus the base offset"),
    ("baseTimestamp", "q", "the time to which each record's timestampDelta is added"),
    ("maxTimestamp", "q", "the newest time in the batch"),
    ("producerId", "q", "the producer that wrote the batch; -1 = no producer id"),
    ("producerEpoch", "h", "the producer's epoch; -1 = no producer"),
    ("baseSequence", "i", "the first record's sequence; has no meaning without a producer"),
    ("count", "i", "how many records follow"),
)
_TYPE_BY_CHARACTER = {"q": "int64", "i": "int32", "h": "int16", "b": "int8", "I": "uint32"}


def list_batch_fields(data: bytes, position: int = 0) -> list[Span]:
    """Return the fields of one batch, in order. `data` are the bytes of a segment, and the batch begins at `position`.

    In the spans, positions are counted from the first byte of the batch. Compressed records are one span. Raises
    InvalidLog if the batch cannot be read, or if the magic (the number of the batch format) is not 2.
    """
    batch = parse_batch_at(data, position)
    if batch.magic != 2 or not batch.is_valid:
        raise InvalidLog(f"byte {position}: expected a batch with magic 2 and the correct checksum")
    spans = []
    start = 0
    for name, character, meaning in _HEADER_FIELDS:
        (value,) = struct.unpack_from(">" + character, data, position + start)
        end = start + struct.calcsize(">" + character)
        spans.append(Span("batch", start, end, name, _TYPE_BY_CHARACTER[character], value, meaning))
        start = end
    if batch.compression:
        codec = batch.compression.name.lower()
        meaning = "the records, compressed together"
        spans.append(Span("batch", start, batch.size, "records", codec, batch.count, meaning))
    else:
        spans += _spans_of_records(batch)
    return spans


def _spans_of_records(batch: Batch) -> Iterator[Span]:
    """Yield the spans of the records in a batch that is not compressed. Raises InvalidLog if a record has headers."""
    data = batch.payload
    position = 0  # `position` and `end` count from the end of the header, spans from the start of the header.

    def take_span(end: int, field: str, type_name: str, value: object, meaning: str) -> Span:
        """Return the span from `position` to `end`, and move `position` to `end`."""
        nonlocal position
        start = HEADER_SIZE + position
        position = end
        return Span("batch", start, HEADER_SIZE + end, field, type_name, value, meaning)

    for index in range(batch.count):
        prefix = f"record {index}: "
        length, end = read_varint(data, position)
        yield take_span(end, prefix + "length", "varint", length, "how many bytes of this record follow")
        yield take_span(position + 1, prefix + "attributes", "int8", data[position], "not used")
        timestamp_delta, end = read_varint(data, position, MAX_VARLONG_BYTES)
        yield take_span(end, prefix + "timestampDelta", "varlong", timestamp_delta, "ms after the base timestamp")
        offset_delta, end = read_varint(data, position)
        offset_meaning = f"the record's offset is {batch.base_offset + offset_delta}"
        yield take_span(end, prefix + "offsetDelta", "varint", offset_delta, offset_meaning)
        for part in ("key", "value"):
            length, end = read_varint(data, position)
            yield take_span(end, prefix + part, "varint length", length, _meaning_of_length(length, part))
            if length > 0:
                content = data[position : position + length].hex()
                yield take_span(position + length, prefix + part, "bytes", content, f"the {part}; `decode` reads it")
        header_count, end = read_varint(data, position)
        header_meaning = "how many headers follow; records of __consumer_offsets have none"
        yield take_span(end, prefix + "headers", "varint", header_count, header_meaning)
        if header_count:
            raise InvalidLog(f"record {index} has headers, which are not annotated", position=HEADER_SIZE + position)


def _meaning_of_length(length: int, part: str) -> str:
    if length >= 0:
        return "how many bytes follow"
    return "-1: the value is null, a tombstone" if part == "value" else "-1: the key is null"
