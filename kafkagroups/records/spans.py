"""The bytes of a record as spans: field, type, value, meaning, and non-canonical encodings.

A span is a range of bytes that contains one field, or the length of a field. All positions are counted in bytes from
the start of the key or the value.

Kafka's readers accept more encodings than Kafka's writers produce. The following encodings are non-canonical, and a
strict reader refuses them. A tag is the number of a tagged field (records/fields.py):

    bytes after the end of a key or a value
    a varint that is longer than necessary, or has bits above the 32nd
    null that is encoded as a negative length other than -1
    an unusual first number of a struct that can be null (Kafka writes 1 = present, -1 = null; 0 = null in a tag)
    a string that is not UTF-8 (the reader replaces malformed bytes with U+FFFD)
    tags that are not in ascending order, are repeated, or are larger than Kafka's writer allows
    a declared tagged field with a wrong size, or with its default value (Kafka's writer leaves such a field out)

If a record has none of these encodings, Kafka's writer produces the same bytes for the decoded record.
Source (4.3.1): the code that MessageDataGenerator writes; RawTaggedFieldWriter; ByteUtils.writeUnsignedVarint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkagroups.errors import Deviation, join_path
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.fields import FieldSpec, Message, field_specs, make_format
from kafkagroups.records.serde import Record
from kafkagroups.records.structs import TAG_LIMIT, Struct
from kafkagroups.records.text import encode_utf8
from kafkagroups.records.wire import (
    Array,
    Bytes,
    MessageFormat,
    String,
    Wire,
    encode_length,
    read_length,
    read_uvarint,
    uvarint_bytes,
)


class Span(NamedTuple):
    """A range of the bytes of a key, a value or a batch, with one field.

    Attributes
    ----------
    part
        What the bytes belong to: "key", "value" or "batch".
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
        What is non-canonical in these bytes: one text for each non-canonical encoding.
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


def split_into_spans(record: Record, key: bytes | None, value: bytes | None, dialect: Dialect) -> Iterator[Span]:
    """Yield the spans of a key and a value, in order. `record` is the record that `dialect` decoded from them."""
    yield from _spans_of_part(record, "key", key, dialect)
    yield from _spans_of_part(record, "value", value, dialect)


def find_deviations(record: Record, key: bytes | None, value: bytes | None, dialect: Dialect) -> list[Deviation]:
    """Return the non-canonical encodings in a key and a value, in order.

    The parameters are as in `split_into_spans`.
    """
    return [
        Deviation(join_path(span.part, span.field), span.start, reason)
        for span in split_into_spans(record, key, value, dialect)
        for reason in span.odd
    ]


def _spans_of_part(record: Record, part: str, data: bytes | None, dialect: Dialect) -> Iterator[Span]:
    """Yield the spans of one part of a record. `part` is "key" or "value", and `data` are the bytes of this part."""
    if data is None:
        return
    content = record.key if part == "key" else record.value
    if not isinstance(content, Message):
        meaning = f"a record type that Kafka {dialect.kafka} does not have"
        yield Span(part, 0, len(data), part, "bytes", data.hex(), meaning)
        return
    if part == "key":
        yield Span(part, 0, 2, "type", "int16", record.type, f"the record type: {record.name}")
        message_format = make_format(type(content), 0)
    else:
        yield Span(part, 0, 2, "version", "int16", record.value_version, "the version of the layout that follows")
        message_format = make_format(type(content), record.value_version or 0, dialect.version)
    end = 2
    for span in _spans_of_struct(type(content), message_format, data, 2, ""):
        yield span._replace(part=part)
        end = span.end
    if end < len(data):
        count = len(data) - end
        odd = ("1 byte after the end" if count == 1 else f"{count} bytes after the end",)
        yield Span(
            part, end, len(data), "", "bytes", data[end:].hex(), "bytes after the end; a broker ignores them", odd
        )


def _spans_of_struct(
    cls: type[Message], message_format: MessageFormat, data: bytes, position: int, path: str
) -> Iterator[Span]:
    """Yield the spans of a struct that begins at `position` of `data`.

    `path` is the path of the struct, with a dot at the end; "" for the outermost struct. This function and all
    functions below return spans whose `part` is "". `_spans_of_part` sets `part`.
    """
    present_fields = [spec for spec in field_specs(cls) if spec.is_in(message_format)]
    for spec in present_fields:
        if spec.tag is None:
            name = path + spec.json_name
            for span in _spans_of_field(spec.wire, message_format, spec.nullable, data, position, name, spec.doc):
                yield span
                position = span.end
    if message_format.flexible:
        field_by_tag = {spec.tag: spec for spec in present_fields if spec.tag is not None}
        yield from _spans_of_tags(field_by_tag, message_format, data, position, path)


def _spans_of_tags(
    field_by_tag: dict[int, FieldSpec], message_format: MessageFormat, data: bytes, position: int, path: str
) -> Iterator[Span]:
    """Yield the spans of the tagged fields at the end of a struct.

    `field_by_tag` contains the tagged fields that the Kafka version declares. `path` is as in `_spans_of_struct`.
    """
    count, end = read_uvarint(data, position)
    odd = _check_number(data[position:end], uvarint_bytes(max(count, 0)), "for the count")
    yield Span("", position, end, f"{path}tagged fields", "uvarint", count, "how many tagged fields follow", odd)
    previous_tag = -1
    seen_tags: set[int] = set()
    for _ in range(count):
        start = end
        tag, size_start = read_uvarint(data, start)
        size, end = read_uvarint(data, size_start)
        spec = field_by_tag.get(tag)
        name = path + (spec.json_name if spec else f"tag {tag}")
        odd = _check_number(data[start:size_start], uvarint_bytes(tag), "for the tag's number")
        odd += _check_number(data[size_start:end], uvarint_bytes(size), "for the tag's size")
        odd += _check_tag_number(tag, previous_tag, is_repeated=tag in seen_tags, is_known=spec is not None)
        previous_tag = tag
        seen_tags.add(tag)
        content: list[Span] = []
        if spec:
            content = list(_spans_of_field(spec.wire, message_format, spec.nullable, data, end, name, spec.doc))
            odd += _check_known_tag(spec, message_format, data, end, size)
        elif size:
            hex_text = data[end : end + size].hex()
            meaning = "a tag that this Kafka version does not have"
            content = [Span("", end, end + size, name, "bytes", hex_text, meaning)]
        yield Span(
            "", start, end, name, "uvarint, uvarint", f"tag {tag}, {size} bytes", "the tag's number and size", odd
        )
        # Kafka's reader ignores the size of a declared field: the next tag begins after the field's content.
        for span in content:
            yield span
            end = span.end


def _check_tag_number(tag: int, previous_tag: int, *, is_repeated: bool, is_known: bool) -> tuple[str, ...]:
    """Return what is non-canonical about the number of a tag; an empty tuple if the number is canonical.

    `previous_tag` is the tag before `tag`; -1 for the first tag.
    """
    if is_repeated:
        return (f"tag {tag} is repeated" + ("; the last one is used" if is_known else ""),)
    if not 0 <= tag < TAG_LIMIT:
        return (f"expected a tag from 0 to {TAG_LIMIT - 1}, found {tag}",)
    if tag < previous_tag:
        return (f"tag {tag} comes after tag {previous_tag}",)
    return ()


def _check_known_tag(
    spec: FieldSpec, message_format: MessageFormat, data: bytes, position: int, size: int
) -> tuple[str, ...]:
    """Return what is non-canonical about a known tagged field; an empty tuple if it is canonical.

    The field begins at `position` of `data`. `size` is the size that is stored before the field.
    """
    content, end = spec.wire.reader(message_format, spec.nullable)(data, position)
    odd: tuple[str, ...] = ()
    if size != end - position:
        odd += (f"the tag's size is {size} bytes, its field has {end - position}",)
    if content == spec.default:
        odd += ("the tag's value is the default; Kafka's writer leaves the tag out",)
    return odd


def _spans_of_field(
    wire: Wire, message_format: MessageFormat, nullable: bool, data: bytes, position: int, path: str, doc: str
) -> Iterator[Span]:
    """Yield the spans of a field that begins at `position` of `data`.

    `wire` is the wire type of the field, `path` is its path in the record, and `doc` says what the field means.
    """
    if isinstance(wire, Struct):
        if nullable:
            presence, is_present = _span_of_presence(wire, data, position, path)
            yield presence
            if not is_present:
                return
            position = presence.end
        yield from _spans_of_struct(wire.cls, message_format, data, position, f"{path}.")
    elif isinstance(wire, Array | String | Bytes):
        yield from _spans_of_length_and_content(wire, message_format, nullable, data, position, path, doc)
    else:
        value, end = wire.reader(message_format, nullable)(data, position)
        yield Span("", position, end, path, wire.name, value, doc)


def _span_of_presence(wire: Struct, data: bytes, position: int, path: str) -> tuple[Span, bool]:
    """Return the span of the first number of a struct that can be null, and whether the struct is present."""
    is_present, end = wire.read_presence(data, position)
    type_name = "uvarint" if wire.is_tagged else "int8"
    prefix = data[position:end]
    purpose = "for a struct that is present" if is_present else "for a struct that is null"
    odd = _check_number(prefix, wire.encode_presence(is_present), purpose)
    value = prefix.hex() if is_present else None
    return Span("", position, end, path, type_name, value, "present" if is_present else "null", odd), is_present


def _spans_of_length_and_content(
    wire: Array | String | Bytes,
    message_format: MessageFormat,
    nullable: bool,
    data: bytes,
    position: int,
    path: str,
    doc: str,
) -> Iterator[Span]:
    """Yield the spans of a string, bytes or array: first the length or the count, then the content.

    The parameters are as in `_spans_of_field`.
    """
    length, start = read_length(wire, message_format, data, position)
    yield _span_of_length(wire, message_format, length, data[position:start], position, path)
    if isinstance(wire, Array):
        for index in range(max(length, 0)):
            element_spans = _spans_of_field(
                wire.element_type,
                message_format,
                nullable=False,
                data=data,
                position=start,
                path=f"{path}[{index}]",
                doc=doc,
            )
            for span in element_spans:
                yield span
                start = span.end
    elif length > 0:
        value, end = wire.reader(message_format, nullable)(data, position)
        if isinstance(value, bytes):
            yield Span("", start, end, path, wire.name, value.hex(), doc)
        else:
            is_utf8 = encode_utf8(value) == data[start:end]
            odd = () if is_utf8 else ("malformed UTF-8; the reader replaces it with U+FFFD",)
            yield Span("", start, end, path, wire.name, value, doc, odd)


def _span_of_length(
    wire: Wire, message_format: MessageFormat, length: int, encoded: bytes, position: int, path: str
) -> Span:
    """Return the span of a length or count. `encoded` are its bytes, which begin at `position` of the key or value."""
    fixed_type = "int16" if isinstance(wire, String) else "int32"
    type_name = f"{'uvarint' if message_format.flexible else fixed_type} length"
    end = position + len(encoded)
    if length < 0:
        odd = _check_number(encoded, encode_length(wire, message_format, length), "for null")
        return Span("", position, end, path, type_name, None, "null", odd)
    meaning = "how many elements follow" if isinstance(wire, Array) else "how many bytes follow"
    if message_format.flexible:
        meaning += "; stored plus 1"
    odd = _check_number(encoded, encode_length(wire, message_format, length), "for the length")
    return Span("", position, end, path, type_name, length, meaning, odd)


def _check_number(encoded: bytes, canonical: bytes, purpose: str) -> tuple[str, ...]:
    """Return what is non-canonical about the bytes of a number; an empty tuple if the bytes are canonical.

    `encoded` are the bytes in the record, and `canonical` are the bytes that Kafka writes. `purpose` says what the
    number is for.
    """
    if encoded == canonical:
        return ()
    return (f"expected {canonical.hex(' ')} {purpose}, found {encoded.hex(' ')}",)
