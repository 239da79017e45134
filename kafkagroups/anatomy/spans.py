"""The bytes of a record, walked from its declarations: spans with the field they belong to and what is odd in them.

Kafka's readers take more than its writers give. Odd is, and strictly refused:

    bytes after the end of a key or a value
    a varint that is longer than need be, or has bits above the 32nd
    null as another negative length than -1
    a presence byte of a nullable struct other than 1 and null's
    a string that is no UTF-8: it is read with U+FFFD in it
    tags that do not ascend or stand twice; a tag that no writer may write
    a known tag whose size is not that of its field, or that holds its default

A record has none of these exactly when Kafka's writer gives the same bytes back.
Source: the code that Kafka 4.3.1's MessageDataGenerator writes, RawTaggedFieldWriter, ByteUtils.writeUnsignedVarint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkagroups.errors import Deviation, nested
from kafkagroups.records.fields import Message, Spec, layout, specs
from kafkagroups.records.serde import Record
from kafkagroups.records.structs import MOST_TAG, Struct
from kafkagroups.records.text import encode_utf8
from kafkagroups.records.varint import read_uvarint, uvarint_bytes
from kafkagroups.records.versions import Dialect
from kafkagroups.records.wire import Array, At, Bytes, String, Wire, length_bytes, read_length


class Span(NamedTuple):
    """Bytes `start` to `end` of a key or a value (`part`).

    `field` is the field's path in Kafka's spelling, `type` how the bytes are to be read, `value` what they give,
    `meaning` what that says, in a few words; `odd` what Kafka's writer would not have written like that.
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
    """Every byte of the record that was decoded from this key and value, in order."""
    yield from _part(record, "key", key, rules)
    yield from _part(record, "value", value, rules)


def deviations_of(record: Record, key: bytes | None, value: bytes | None, rules: Dialect) -> list[Deviation]:
    """What is odd in the bytes that the record was decoded from, in the order of the bytes."""
    return [
        Deviation(nested(span.part, span.field), span.start, odd)
        for span in spans_of(record, key, value, rules)
        for odd in span.odd
    ]


def _part(record: Record, part: str, data: bytes | None, rules: Dialect) -> Iterator[Span]:
    if data is None:
        return
    content = record.key if part == "key" else record.value
    if not isinstance(content, Message):
        yield Span(
            part, 0, len(data), part, "bytes", data.hex(), f"a record type that Kafka {rules.kafka} does not know"
        )
        return
    if part == "key":
        yield Span(part, 0, 2, "type", "int16", record.type, f"the record type: {record.name}")
        at = layout(type(content), 0)
    else:
        yield Span(part, 0, 2, "version", "int16", record.value_version, "the version of the layout that follows")
        at = layout(type(content), record.value_version or 0, rules.version)
    end = 2
    for span in _struct(type(content), at, data, 2, ""):
        yield span._replace(part=part)
        end = span.end
    if end < len(data):
        odd = (f"bytes after the end: {len(data) - end}",)
        meaning = "after the end: a broker does not look here"
        yield Span(part, end, len(data), "", "bytes", data[end:].hex(), meaning, odd)


def _struct(cls: type[Message], at: At, data: bytes, position: int, path: str) -> Iterator[Span]:
    present = [spec for spec in specs(cls) if spec.stands_in(at)]
    for spec in present:
        if spec.tag is None:
            for span in _field(spec.wire, at, spec.nullable, data, position, path + spec.json_name, spec.doc):
                yield span
                position = span.end
    if at.flexible:
        yield from _tags({spec.tag: spec for spec in present if spec.tag is not None}, at, data, position, path)


def _tags(known: dict[int, Spec], at: At, data: bytes, position: int, path: str) -> Iterator[Span]:
    count, end = read_uvarint(data, position)
    odd = _unlike(data[position:end], uvarint_bytes(max(count, 0)), "for the count")
    yield Span("", position, end, f"{path}tagged fields", "uvarint", count, "how many tagged fields follow", odd)
    before, seen = -1, set()
    for _ in range(count):
        start = end
        tag, size_at = read_uvarint(data, start)
        size, end = read_uvarint(data, size_at)
        spec = known.get(tag)
        name = path + (spec.json_name if spec else f"tag {tag}")
        odd = _unlike(data[start:size_at], uvarint_bytes(tag), "for the tag's number")
        odd += _unlike(data[size_at:end], uvarint_bytes(size), "for the tag's size")
        if tag in seen:
            odd += (f"tag {tag} stands twice" + (", the last one counts" if spec else ""),)
        elif not 0 <= tag < MOST_TAG:
            odd += (f"no writer may write a tag {tag}",)
        elif tag < before:
            odd += (f"tag {tag} stands after tag {before}",)
        before = tag
        seen.add(tag)
        inner = list(_field(spec.wire, at, spec.nullable, data, end, name, spec.doc)) if spec else []
        if spec:
            content, after = spec.wire.reader(at, spec.nullable)(data, end)
            if size != after - end:
                odd += (f"the tag announces {size} bytes, its field takes {after - end}",)
            if content == spec.default:
                odd += ("the tag holds its default, which is written by leaving it out",)
        elif size:
            inner = [
                Span("", end, end + size, name, "bytes", data[end : end + size].hex(), "a tag that this Kafka lacks")
            ]
        yield Span("", start, end, name, "uvarint, uvarint", f"tag {tag}, {size} bytes", "its number and its size", odd)
        for span in inner:
            yield span
            end = span.end


def _field(wire: Wire, at: At, nullable: bool, data: bytes, position: int, path: str, doc: str) -> Iterator[Span]:
    if isinstance(wire, Struct):
        if nullable:
            present, start = wire.read_presence(data, position)
            kind, said = ("uvarint" if wire.tagged else "int8"), ("it is there" if present else "null")
            found = data[position:start]
            odd = _unlike(
                found, wire.presence_bytes(present), f"for a struct that {'is there' if present else 'is null'}"
            )
            yield Span("", position, start, path, kind, found.hex() if present else None, said, odd)
            if not present:
                return
            position = start
        yield from _struct(wire.cls, at, data, position, f"{path}.")
        return
    if isinstance(wire, Array | String | Bytes):
        length, start = read_length(wire, at, data, position)
        kind = ("uvarint" if at.flexible else "int16" if isinstance(wire, String) else "int32") + " length"
        what = "how many follow" if isinstance(wire, Array) else "how many bytes follow"
        what += " (stored plus 1)" if at.flexible else ""
        odd = _unlike(
            data[position:start], length_bytes(wire, at, length), "for null" if length < 0 else "for the length"
        )
        yield Span("", position, start, path, kind, None if length < 0 else length, "null" if length < 0 else what, odd)
        if isinstance(wire, Array):
            for index in range(max(length, 0)):
                for span in _field(wire.of, at, False, data, start, f"{path}[{index}]", doc):
                    yield span
                    start = span.end
        elif length > 0:
            value, end = wire.reader(at, nullable)(data, position)
            if isinstance(value, bytes):
                yield Span("", start, end, path, wire.name, value.hex(), doc)
            else:
                odd = () if encode_utf8(value) == data[start:end] else ("malformed UTF-8, read with U+FFFD in it",)
                yield Span("", start, end, path, wire.name, value, doc, odd)
        return
    value, end = wire.reader(at, nullable)(data, position)
    yield Span("", position, end, path, wire.name, value, doc)


def _unlike(found: bytes, written: bytes, what: str) -> tuple[str, ...]:
    """What is odd about a number's bytes when Kafka writes that number in others."""
    return () if found == written else (f"{written.hex(' ')} {what} was expected, found {found.hex(' ')}",)
