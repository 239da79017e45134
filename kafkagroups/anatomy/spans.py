"""The bytes of a record as spans: field, type, value, meaning, and non-canonical encodings.

A span is a range of bytes that contains one field, or the length of a field. Kafka's readers accept more encodings than
its writers produce. The following encodings are not canonical, and a strict reader refuses them:

    bytes after the end of a key or a value
    a varint that is longer than necessary, or has bits above the 32nd
    null that is encoded as a negative length other than -1
    a byte before a nullable struct that is neither 1 (present) nor the byte for null
    a string that is not UTF-8 (the reader replaces malformed bytes with U+FFFD)
    tags (numbers of tagged fields) that are not in ascending order, or are repeated; a tag that no writer may write
    a known tag whose size is not the size of its field, or whose field has its default value

If a record has none of these encodings, Kafka's writer produces the same bytes for the decoded record.
Source: the code that Kafka 4.3.1's MessageDataGenerator writes, RawTaggedFieldWriter, ByteUtils.writeUnsignedVarint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkagroups.errors import Deviation, join_path
from kafkagroups.records.fields import FieldSpec, Message, field_specs, layout
from kafkagroups.records.serde import Record
from kafkagroups.records.structs import TAG_LIMIT, Struct
from kafkagroups.records.text import encode_utf8
from kafkagroups.records.varint import read_uvarint, uvarint_bytes
from kafkagroups.records.versions import Dialect
from kafkagroups.records.wire import Array, Bytes, String, length_bytes, read_length
from kafkagroups.records.wire_base import MessageFormat, Wire


class Span(NamedTuple):
    """The bytes from `start` to `end` of a key, a value or a batch (`part`).

    Attributes
    ----------
    part
        "key" or "value"; "batch" for the bytes of a batch.
    start, end
        The position of the first byte, and the position after the last byte.
    field
        The path of the field, with Kafka's names.
    type
        The type of the field in the bytes, for example "int16".
    value
        The value that was read from the bytes.
    meaning
        What the value means, in a few words.
    odd
        A text for each non-canonical encoding in these bytes.
    """

    part: str
    start: int
    end: int
    field: str
    type: str
    value: Any
    meaning: str
    odd: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The value as text."""
        return "null" if self.value is None else str(self.value)


def spans_of(record: Record, key: bytes | None, value: bytes | None, dialect: Dialect) -> Iterator[Span]:
    """Yield the spans of every byte of the key and value that a record was decoded from, in order."""
    yield from _spans_of_part(record, "key", key, dialect)
    yield from _spans_of_part(record, "value", value, dialect)


def deviations_of(record: Record, key: bytes | None, value: bytes | None, dialect: Dialect) -> list[Deviation]:
    """Return the non-canonical encodings in the key and value that a record was decoded from, in order."""
    return [
        Deviation(join_path(span.part, span.field), span.start, reason)
        for span in spans_of(record, key, value, dialect)
        for reason in span.odd
    ]


def _spans_of_part(record: Record, part: str, data: bytes | None, dialect: Dialect) -> Iterator[Span]:
    """Yield the spans of one part of a record. `part` is "key" or "value", and `data` has the bytes of this part."""
    if data is None:
        return
    content = record.key if part == "key" else record.value
    if not isinstance(content, Message):
        meaning = f"a record type that Kafka {dialect.kafka} does not have"
        yield Span(part, 0, len(data), part, "bytes", data.hex(), meaning)
        return
    if part == "key":
        yield Span(part, 0, 2, "type", "int16", record.type, f"the record type: {record.name}")
        layout_format = layout(type(content), 0)
    else:
        yield Span(part, 0, 2, "version", "int16", record.value_version, "the version of the layout that follows")
        layout_format = layout(type(content), record.value_version or 0, dialect.version)
    end = 2
    for span in _spans_of_struct(type(content), layout_format, data, 2, ""):
        yield span._replace(part=part)
        end = span.end
    if end < len(data):
        odd = (f"bytes after the end: {len(data) - end}",)
        yield Span(
            part, end, len(data), "", "bytes", data[end:].hex(), "bytes after the end; a broker ignores them", odd
        )


def _spans_of_struct(cls: type[Message], form: MessageFormat, data: bytes, position: int, path: str) -> Iterator[Span]:
    """Yield the spans of a struct at a position. `form` is the layout of its version.

    `path` contains the names of the outer fields. The caller sets `part` of the spans that this and the following
    functions yield.
    """
    present_fields = [spec for spec in field_specs(cls) if spec.is_in(form)]
    for spec in present_fields:
        if spec.tag is None:
            name = path + spec.json_name
            for span in _spans_of_field(spec.wire, form, spec.nullable, data, position, name, spec.doc):
                yield span
                position = span.end
    if form.flexible:
        known_tags = {spec.tag: spec for spec in present_fields if spec.tag is not None}
        yield from _spans_of_tags(known_tags, form, data, position, path)


def _spans_of_tags(
    known_tags: dict[int, FieldSpec], form: MessageFormat, data: bytes, position: int, path: str
) -> Iterator[Span]:
    """Yield the spans of the tagged fields at the end of a struct. `known_tags` are the tags of this Kafka version."""
    count, end = read_uvarint(data, position)
    odd = _compare(data[position:end], uvarint_bytes(max(count, 0)), "for the count")
    yield Span("", position, end, f"{path}tagged fields", "uvarint", count, "how many tagged fields follow", odd)
    previous_tag = -1
    seen_tags: set[int] = set()
    for _ in range(count):
        start = end
        tag, size_start = read_uvarint(data, start)
        size, end = read_uvarint(data, size_start)
        spec = known_tags.get(tag)
        name = path + (spec.json_name if spec else f"tag {tag}")
        odd = _compare(data[start:size_start], uvarint_bytes(tag), "for the tag's number")
        odd += _compare(data[size_start:end], uvarint_bytes(size), "for the tag's size")
        odd += _check_order(tag, previous_tag, tag in seen_tags, spec is not None)
        previous_tag = tag
        seen_tags.add(tag)
        content: list[Span] = []
        if spec:
            content = list(_spans_of_field(spec.wire, form, spec.nullable, data, end, name, spec.doc))
            odd += _check_known_tag(spec, form, data, end, size)
        elif size:
            unknown = data[end : end + size].hex()
            content = [Span("", end, end + size, name, "bytes", unknown, "a tag that this Kafka version does not have")]
        yield Span(
            "", start, end, name, "uvarint, uvarint", f"tag {tag}, {size} bytes", "the tag's number and size", odd
        )
        for span in content:
            yield span
            end = span.end


def _check_order(tag: int, previous_tag: int, is_repeated: bool, is_known: bool) -> tuple[str, ...]:
    """Return what is not canonical about the order of a tag. `previous_tag` is the tag before it, or -1."""
    if is_repeated:
        return (f"tag {tag} is repeated" + ("; the last one is used" if is_known else ""),)
    if not 0 <= tag < TAG_LIMIT:
        return (f"no writer may write a tag {tag}",)
    if tag < previous_tag:
        return (f"tag {tag} comes after tag {previous_tag}",)
    return ()


def _check_known_tag(spec: FieldSpec, form: MessageFormat, data: bytes, position: int, size: int) -> tuple[str, ...]:
    """Return what is not canonical about the content of a known tag. `size` is the size that the record contains."""
    content, end = spec.wire.reader(form, spec.nullable)(data, position)
    odd: tuple[str, ...] = ()
    if size != end - position:
        odd += (f"the tag's size is {size} bytes, its field has {end - position}",)
    if content == spec.default:
        odd += ("the tag's value is the default; Kafka's writer leaves the tag out",)
    return odd


def _spans_of_field(
    wire: Wire, form: MessageFormat, nullable: bool, data: bytes, position: int, path: str, doc: str
) -> Iterator[Span]:
    """Yield the spans of a field. `wire` is its type, `path` its full name, and `doc` its meaning."""
    if isinstance(wire, Struct):
        if nullable:
            presence, is_present = _span_of_presence(wire, data, position, path)
            yield presence
            if not is_present:
                return
            position = presence.end
        yield from _spans_of_struct(wire.cls, form, data, position, f"{path}.")
    elif isinstance(wire, Array | String | Bytes):
        yield from _spans_of_length_and_content(wire, form, nullable, data, position, path, doc)
    else:
        value, end = wire.reader(form, nullable)(data, position)
        yield Span("", position, end, path, wire.name, value, doc)


def _span_of_presence(wire: Struct, data: bytes, position: int, path: str) -> tuple[Span, bool]:
    """Return the span of the bytes before a nullable struct, and whether the struct is present."""
    is_present, end = wire.read_presence(data, position)
    type_name = "uvarint" if wire.tagged else "int8"
    prefix = data[position:end]
    purpose = "for a struct that is present" if is_present else "for a struct that is null"
    odd = _compare(prefix, wire.presence_bytes(is_present), purpose)
    value = prefix.hex() if is_present else None
    return Span("", position, end, path, type_name, value, "present" if is_present else "null", odd), is_present


def _spans_of_length_and_content(
    wire: Array | String | Bytes, form: MessageFormat, nullable: bool, data: bytes, position: int, path: str, doc: str
) -> Iterator[Span]:
    """Yield the spans of a string, bytes or array: first the length or the count, then the content."""
    length, start = read_length(wire, form, data, position)
    yield _span_of_length(wire, form, length, data[position:start], position, path)
    if isinstance(wire, Array):
        for index in range(max(length, 0)):
            for span in _spans_of_field(wire.of, form, False, data, start, f"{path}[{index}]", doc):
                yield span
                start = span.end
    elif length > 0:
        value, end = wire.reader(form, nullable)(data, position)
        if isinstance(value, bytes):
            yield Span("", start, end, path, wire.name, value.hex(), doc)
        else:
            is_utf8 = encode_utf8(value) == data[start:end]
            odd = () if is_utf8 else ("malformed UTF-8; the reader replaces it with U+FFFD",)
            yield Span("", start, end, path, wire.name, value, doc, odd)


def _span_of_length(wire: Wire, form: MessageFormat, length: int, found: bytes, position: int, path: str) -> Span:
    """Return the span of a length or count. `found` has its bytes, which begin at `position`."""
    fixed_type = "int16" if isinstance(wire, String) else "int32"
    type_name = f"{'uvarint' if form.flexible else fixed_type} length"
    end = position + len(found)
    if length < 0:
        odd = _compare(found, length_bytes(wire, form, length), "for null")
        return Span("", position, end, path, type_name, None, "null", odd)
    meaning = "how many elements follow" if isinstance(wire, Array) else "how many bytes follow"
    if form.flexible:
        meaning += " (stored plus 1)"
    odd = _compare(found, length_bytes(wire, form, length), "for the length")
    return Span("", position, end, path, type_name, length, meaning, odd)


def _compare(encoded: bytes, canonical: bytes, purpose: str) -> tuple[str, ...]:
    """Return a text if the bytes of a number are not the bytes that Kafka writes for it, otherwise no text.

    `purpose` says what the number is.
    """
    return () if encoded == canonical else (f"expected {canonical.hex(' ')} {purpose}, found {encoded.hex(' ')}",)
