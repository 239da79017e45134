"""The bytes of a record as spans: field, type, value, meaning, and non-canonical encodings.

Kafka's readers accept more than its writers produce. These encodings are not canonical, and a strict reader refuses
them:

    bytes after the end of a key or a value
    a varint that is longer than necessary, or has bits above the 32nd
    null as a negative length other than -1
    a presence byte of a nullable struct other than 1 and the one for null
    a string that is not UTF-8 (it is read with U+FFFD in it)
    tags that do not ascend or are repeated; a tag that no writer may write
    a known tag whose size is not the size of its field, or that holds its default

A record has none of these exactly when Kafka's writer gives the same bytes back.
Source: the code that Kafka 4.3.1's MessageDataGenerator writes, RawTaggedFieldWriter, ByteUtils.writeUnsignedVarint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkagroups.errors import Deviation, join_path
from kafkagroups.records.fields import Message, Spec, layout, specs
from kafkagroups.records.serde import Record
from kafkagroups.records.structs import MOST_TAG, Struct
from kafkagroups.records.text import encode_utf8
from kafkagroups.records.varint import read_uvarint, uvarint_bytes
from kafkagroups.records.versions import Dialect
from kafkagroups.records.wire import Array, Bytes, String, length_bytes, read_length
from kafkagroups.records.wire_base import MessageFormat, Wire


class Span(NamedTuple):
    """The bytes from `start` to `end` of a key or a value (`part`).

    Attributes
    ----------
    part
        "key" or "value"; "batch" for the bytes of a batch.
    start, end
        The first byte, and the byte after the last one.
    field
        The path of the field, with Kafka's names.
    type
        How the bytes are read.
    value
        What the bytes give.
    meaning
        What the value means, in a few words.
    odd
        The non-canonical encodings in these bytes, one text each. Kafka's writer would not produce them.
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


def spans_of(record: Record, key: bytes | None, value: bytes | None, rules: Dialect) -> Iterator[Span]:
    """Yield the spans of every byte of the key and value that a record was decoded from, in order."""
    yield from _spans_of_part(record, "key", key, rules)
    yield from _spans_of_part(record, "value", value, rules)


def deviations_of(record: Record, key: bytes | None, value: bytes | None, rules: Dialect) -> list[Deviation]:
    """Return the non-canonical encodings in the key and value that a record was decoded from, in order."""
    return [
        Deviation(join_path(span.part, span.field), span.start, reason)
        for span in spans_of(record, key, value, rules)
        for reason in span.odd
    ]


def _spans_of_part(record: Record, part: str, data: bytes | None, rules: Dialect) -> Iterator[Span]:
    if data is None:
        return
    content = record.key if part == "key" else record.value
    if not isinstance(content, Message):
        meaning = f"a record type that Kafka {rules.kafka} does not have"
        yield Span(part, 0, len(data), part, "bytes", data.hex(), meaning)
        return
    if part == "key":
        yield Span(part, 0, 2, "type", "int16", record.type, f"the record type: {record.name}")
        form = layout(type(content), 0)
    else:
        yield Span(part, 0, 2, "version", "int16", record.value_version, "the version of the layout that follows")
        form = layout(type(content), record.value_version or 0, rules.version)
    end = 2
    for span in _spans_of_struct(type(content), form, data, 2, ""):
        yield span._replace(part=part)
        end = span.end
    if end < len(data):
        odd = (f"bytes after the end: {len(data) - end}",)
        yield Span(part, end, len(data), "", "bytes", data[end:].hex(), "after the end: a broker ignores it", odd)


def _spans_of_struct(cls: type[Message], form: MessageFormat, data: bytes, position: int, path: str) -> Iterator[Span]:
    present = [spec for spec in specs(cls) if spec.is_in(form)]
    for spec in present:
        if spec.tag is None:
            name = path + spec.json_name
            for span in _spans_of_field(spec.wire, form, spec.nullable, data, position, name, spec.doc):
                yield span
                position = span.end
    if form.flexible:
        tagged = {spec.tag: spec for spec in present if spec.tag is not None}
        yield from _spans_of_tags(tagged, form, data, position, path)


def _spans_of_tags(
    known: dict[int, Spec], form: MessageFormat, data: bytes, position: int, path: str
) -> Iterator[Span]:
    count, end = read_uvarint(data, position)
    odd = _compare(data[position:end], uvarint_bytes(max(count, 0)), "for the count")
    yield Span("", position, end, f"{path}tagged fields", "uvarint", count, "how many tagged fields follow", odd)
    before = -1
    seen: set[int] = set()
    for _ in range(count):
        start = end
        tag, size_at = read_uvarint(data, start)
        size, end = read_uvarint(data, size_at)
        spec = known.get(tag)
        name = path + (spec.json_name if spec else f"tag {tag}")
        odd = _compare(data[start:size_at], uvarint_bytes(tag), "for the tag's number")
        odd += _compare(data[size_at:end], uvarint_bytes(size), "for the tag's size")
        odd += _check_order(tag, before, tag in seen, spec is not None)
        before = tag
        seen.add(tag)
        content: list[Span] = []
        if spec:
            content = list(_spans_of_field(spec.wire, form, spec.nullable, data, end, name, spec.doc))
            odd += _check_known_tag(spec, form, data, end, size)
        elif size:
            found = data[end : end + size].hex()
            content = [Span("", end, end + size, name, "bytes", found, "a tag that this Kafka version does not have")]
        yield Span("", start, end, name, "uvarint, uvarint", f"tag {tag}, {size} bytes", "its number and its size", odd)
        for span in content:
            yield span
            end = span.end


def _check_order(tag: int, before: int, is_repeated: bool, is_known: bool) -> tuple[str, ...]:
    """Return what is not canonical about a tag's number after the tag `before`."""
    if is_repeated:
        return (f"tag {tag} is repeated" + ("; the last one counts" if is_known else ""),)
    if not 0 <= tag < MOST_TAG:
        return (f"no writer may write a tag {tag}",)
    if tag < before:
        return (f"tag {tag} comes after tag {before}",)
    return ()


def _check_known_tag(spec: Spec, form: MessageFormat, data: bytes, position: int, size: int) -> tuple[str, ...]:
    """Return what is not canonical about the content of a known tag."""
    content, end = spec.wire.reader(form, spec.nullable)(data, position)
    odd: tuple[str, ...] = ()
    if size != end - position:
        odd += (f"the tag's size is {size} bytes, its field has {end - position}",)
    if content == spec.default:
        odd += ("the tag holds its default; Kafka's writer leaves it out",)
    return odd


def _spans_of_field(
    wire: Wire, form: MessageFormat, nullable: bool, data: bytes, position: int, path: str, doc: str
) -> Iterator[Span]:
    if isinstance(wire, Struct):
        if nullable:
            presence, is_present = _span_of_presence(wire, data, position, path)
            yield presence
            if not is_present:
                return
            position = presence.end
        yield from _spans_of_struct(wire.cls, form, data, position, f"{path}.")
    elif isinstance(wire, Array | String | Bytes):
        yield from _spans_of_sized(wire, form, nullable, data, position, path, doc)
    else:
        value, end = wire.reader(form, nullable)(data, position)
        yield Span("", position, end, path, wire.name, value, doc)


def _span_of_presence(wire: Struct, data: bytes, position: int, path: str) -> tuple[Span, bool]:
    """Return the span of a nullable struct's prefix, and whether the struct is present."""
    is_present, end = wire.read_presence(data, position)
    kind = "uvarint" if wire.tagged else "int8"
    found = data[position:end]
    what = "for a struct that is present" if is_present else "for a struct that is null"
    odd = _compare(found, wire.presence_bytes(is_present), what)
    value = found.hex() if is_present else None
    return Span("", position, end, path, kind, value, "present" if is_present else "null", odd), is_present


def _spans_of_sized(
    wire: Array | String | Bytes, form: MessageFormat, nullable: bool, data: bytes, position: int, path: str, doc: str
) -> Iterator[Span]:
    """Yield the spans of a string, bytes or array: its length or count, then its content."""
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
            odd = () if is_utf8 else ("malformed UTF-8, read with U+FFFD in it",)
            yield Span("", start, end, path, wire.name, value, doc, odd)


def _span_of_length(wire: Wire, form: MessageFormat, length: int, found: bytes, position: int, path: str) -> Span:
    number = "int16" if isinstance(wire, String) else "int32"
    kind = f"{'uvarint' if form.flexible else number} length"
    end = position + len(found)
    if length < 0:
        odd = _compare(found, length_bytes(wire, form, length), "for null")
        return Span("", position, end, path, kind, None, "null", odd)
    meaning = "how many follow" if isinstance(wire, Array) else "how many bytes follow"
    if form.flexible:
        meaning += " (stored plus 1)"
    odd = _compare(found, length_bytes(wire, form, length), "for the length")
    return Span("", position, end, path, kind, length, meaning, odd)


def _compare(found: bytes, canonical: bytes, what: str) -> tuple[str, ...]:
    """Return the deviation of a number whose bytes are not those that Kafka writes for it."""
    return () if found == canonical else (f"expected {canonical.hex(' ')} {what}, found {found.hex(' ')}",)
