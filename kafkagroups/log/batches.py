"""The batches in a segment's bytes: parsing them, their bytes as spans, and the holes between them.

A broker writes the offsets of a partition without holes, so a missing offset belongs to a record that the log cleaner
has removed. The header of a batch says how many records the batch contains, but not which offsets are missing, so a
hole is a range of offsets and the number of records missing in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkagroups.errors import InvalidLog
from kafkagroups.log.batch import (
    HEADER,
    HEADER_FIELDS,
    HEADER_SIZE,
    MAX_VARLONG_BYTES,
    Batch,
    parse_message_set,
    parse_record_batch,
    read_varint,
    record_count,
)
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.segment_file import BytesLike, Frame, FrameState, find_frame, find_frames
from kafkagroups.records.spans import Span
from kafkagroups.records.structs import camel_case


def read_batches(data: BytesLike, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES) -> Iterator[Batch]:
    """Yield the batches of a segment's bytes, up to the zeros at its end.

    Raises InvalidLog at the first batch that is not whole or has a wrong checksum.
    """
    for frame in find_frames(data):
        if frame.state is FrameState.ZEROS:
            return
        yield parse_valid_batch(frame, bytes(data[frame.position : frame.end]), file, max_batch_bytes)


def parse_valid_batch(
    frame: Frame, data: bytes, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES
) -> Batch:
    """Raises InvalidLog if the batch is not whole or its checksum is wrong."""
    batch = parse_batch(frame, data, file, max_batch_bytes)
    if batch.crc != batch.computed_crc:
        reason = f"expected checksum {batch.crc:08x}, the bytes give {batch.computed_crc:08x}"
        raise InvalidLog(reason, file=file, position=frame.position)
    return batch


def parse_batch_at(data: BytesLike, position: int, file: str | None = None) -> Batch:
    """Return the batch at a position, without a check of its checksum. Raises InvalidLog if it is not whole."""
    frame = find_frame(data, position)
    return parse_batch(frame, bytes(data[position : frame.end]), file)


def parse_batch(frame: Frame, data: bytes, file: str | None = None, max_batch_bytes: int = MAX_BATCH_BYTES) -> Batch:
    """Do what `parse_valid_batch` does, but without a check of the checksum."""
    if frame.state is not FrameState.WHOLE:
        raise frame.make_error(file)
    parse = parse_record_batch if frame.magic == 2 else parse_message_set
    return parse(data, frame.position, file, max_batch_bytes)


class Position(NamedTuple):
    """How far a log was read: the next Kafka offset, and the byte after the last batch in the file `segment`.

    A reader searches for `next_offset` if the position has only this, or if the file has another inode because the
    cleaner has replaced it.
    """

    next_offset: int
    segment: str = ""
    byte: int = 0
    inode: int = -1


class FoundBatch(NamedTuple):
    """`inode` identifies the file; -1 means that the segment is in memory."""

    frame: Frame
    data: bytes
    segment: str
    inode: int
    max_batch_bytes: int = MAX_BATCH_BYTES

    def parse(self) -> Batch:
        return parse_valid_batch(self.frame, self.data, self.segment, self.max_batch_bytes)

    @property
    def end(self) -> Position:
        return Position(self.frame.next_offset, self.segment, self.frame.end, self.inode)


def list_batch_fields(data: bytes, position: int = 0) -> list[Span]:
    """Return the fields of one batch, in order. Compressed records are one span.

    Raises InvalidLog if the batch cannot be read, or if its magic is not 2.
    """
    batch = parse_batch_at(data, position)
    if batch.magic != 2 or not batch.is_valid:
        raise InvalidLog(f"byte {position}: expected a batch with magic 2 and the correct checksum")
    spans = []
    start = 0
    values = HEADER.unpack_from(data, position)
    for (name, (wire, meaning)), value in zip(HEADER_FIELDS.items(), values, strict=True):
        end = start + wire.struct.size
        spans.append(Span("batch", start, end, camel_case(name), wire.name, value, meaning))
        start = end
    if batch.compression:
        codec = batch.compression.name.lower()
        meaning = "the records, compressed together"
        spans.append(Span("batch", start, batch.size, "records", codec, batch.count, meaning))
    else:
        spans += _spans_of_records(batch)
    return spans


def _spans_of_records(batch: Batch) -> Iterator[Span]:
    data = batch.payload
    position = 0  # `position` and `end` count from the end of the header, spans from the start of the header.

    def take_span(end: int, field: str, type_name: str, value: object, meaning: str) -> Span:
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


class Hole(NamedTuple):
    """A range of offsets, of which `missing` have no record."""

    first: int
    last: int
    missing: int


class DamagedHole(Hole):
    """A hole whose bytes are damaged."""


class OffsetGaps:
    def __init__(self, start_offset: int = 0) -> None:
        self._next_offset = start_offset

    def skip_to(self, offset: int) -> None:
        self._next_offset = max(self._next_offset, offset)

    def find_before(self, offset: int) -> tuple[int, int] | None:
        first_missing = self._next_offset
        self.skip_to(offset)
        return (first_missing, offset - 1) if first_missing < offset else None

    def find_holes(self, batch: Batch) -> list[Hole]:
        """Return the hole before the next batch of the log, and the hole in this batch, if they exist.

        A batch whose offsets do not rise has no hole.
        """
        next_offset = self._next_offset
        self.skip_to(batch.last_offset + 1)
        if batch.base_offset < next_offset:
            return []
        missing_inside = batch.last_offset - batch.base_offset + 1 - record_count(batch)
        before = Hole(next_offset, batch.base_offset - 1, batch.base_offset - next_offset)
        inside = Hole(batch.base_offset, batch.last_offset, missing_inside)
        return [hole for hole in (before, inside) if hole.missing > 0]
