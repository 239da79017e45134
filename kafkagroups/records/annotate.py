"""What each byte of a record means: spans of bytes with the field they belong to, walked from the declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, NamedTuple

from kafkagroups.records.dialect import Dialect, dialect
from kafkagroups.records.fields import Message, layout, specs
from kafkagroups.records.serde import Record, Unread, decode
from kafkagroups.records.structs import Struct
from kafkagroups.records.varint import read_uvarint
from kafkagroups.records.wire import Array, At, Bytes, String, Wire, read_length


class Span(NamedTuple):
    """Bytes `start` to `end` of a key or a value (`part`).

    `field` is the field's path in Kafka's spelling, `type` how the bytes are to be read, `value` what they give,
    `meaning` what that says, in a few words.
    """

    part: str
    start: int
    end: int
    field: str
    type: str
    value: Any
    meaning: str

    @property
    def text(self) -> str:
        """The value as text."""
        return "null" if self.value is None else str(self.value)


class Annotation(list[Span]):
    """Spans in order, with the bytes that they are of (`bytes_of`, by part).

    It shows itself as a table: `str()` as text, in a notebook as HTML. Long bytes and values are cut there.
    """

    def __init__(self, spans: Iterable[Span], bytes_of: Mapping[str, bytes]) -> None:
        super().__init__(spans)
        self.bytes_of = bytes_of

    def __str__(self) -> str:
        return "\n".join(
            f"{span.part} {span.start:>3}  {self._hex(span):<26} {span.field} = {span.text[:40]}  ({span.meaning})"
            for span in self
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(span.part)} {span.start}</td><td><code>{self._hex(span)}</code></td>"
            f"<td>{escape(span.field)}</td><td>{escape(span.type)}</td>"
            f"<td>{escape(span.text[:40])}</td><td>{escape(span.meaning)}</td></tr>"
            for span in self
        )
        head = "".join(f"<th>{name}</th>" for name in ("byte", "bytes", "field", "type", "value", "meaning"))
        return f"<table><tr>{head}</tr>{rows}</table>"

    def _hex(self, span: Span) -> str:
        data = self.bytes_of[span.part][span.start : span.end]
        return data[:8].hex(" ") + (" …" if len(data) > 8 else "")


def annotate(key: bytes | None, value: bytes | None, reader_of: Dialect | None = None) -> Annotation:
    """Every byte of a record, in order, key first. InvalidRecord for what the reader refuses.

    Bytes after the end, which a broker ignores, are a span of their own.
    """
    rules = reader_of or dialect("new")
    record = decode(key, value, rules)
    assert key is not None
    spans = list(_part(record, "key", key, rules))
    if value is not None:
        spans += _part(record, "value", value, rules)
    return Annotation(spans, {"key": key, "value": value or b""})


def _part(record: Record, part: str, data: bytes, rules: Dialect) -> Iterator[Span]:
    content = record.key if part == "key" else record.value
    if isinstance(content, Unread):
        yield Span(
            part, 0, len(data), part, "bytes", data.hex(), f"a record type that Kafka {rules.kafka} does not know"
        )
        return
    assert isinstance(content, Message)
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
        yield Span(part, end, len(data), "", "bytes", data[end:].hex(), "after the end: a broker does not look here")


def _struct(cls: type[Message], at: At, data: bytes, position: int, path: str) -> Iterator[Span]:
    present = [spec for spec in specs(cls) if spec.stands_in(at)]
    for spec in present:
        if spec.tag is None:
            for span in _field(spec.wire, at, spec.nullable, data, position, path + spec.json_name, spec.doc):
                yield span
                position = span.end
    if not at.flexible:
        return
    count, end = read_uvarint(data, position)
    yield Span("", position, end, f"{path}tagged fields", "uvarint", count, "how many tagged fields follow")
    tagged = {spec.tag: spec for spec in present if spec.tag is not None}
    for _ in range(count):
        start = end
        tag, end = read_uvarint(data, start)
        size, end = read_uvarint(data, end)
        known = tagged.get(tag)
        name = path + (known.json_name if known else f"tag {tag}")
        yield Span("", start, end, name, "uvarint, uvarint", (tag, size), "the tag's number and its size in bytes")
        if known:
            for span in _field(known.wire, at, known.nullable, data, end, name, known.doc):
                yield span
                end = span.end
        elif size:
            yield Span("", end, end + size, name, "bytes", data[end : end + size].hex(), "a tag that this Kafka lacks")
            end += size


def _field(wire: Wire, at: At, nullable: bool, data: bytes, position: int, path: str, doc: str) -> Iterator[Span]:
    if isinstance(wire, Struct):
        if nullable:
            present, start = wire.read_presence(data, position)
            kind, said = ("uvarint" if wire.tagged else "int8"), ("it is there" if present else "null")
            yield Span("", position, start, path, kind, data[position:start].hex() if present else None, said)
            if not present:
                return
            position = start
        yield from _struct(wire.cls, at, data, position, f"{path}.")
        return
    if isinstance(wire, Array | String | Bytes):
        length, start = read_length(wire, at, data, position)
        kind = ("uvarint" if at.flexible else "int16" if isinstance(wire, String) else "int32") + " length"
        what = "how many follow" if isinstance(wire, Array) else "how many bytes follow"
        what += ", plus 1" if at.flexible else ""
        yield Span("", position, start, path, kind, None if length < 0 else length, "null" if length < 0 else what)
        if isinstance(wire, Array):
            for index in range(max(length, 0)):
                for span in _field(wire.of, at, False, data, start, f"{path}[{index}]", doc):
                    yield span
                    start = span.end
        elif length > 0:
            value, end = wire.reader(at, nullable)(data, position)
            yield Span("", start, end, path, wire.name, value.hex() if isinstance(value, bytes) else value, doc)
        return
    value, end = wire.reader(at, nullable)(data, position)
    yield Span("", position, end, path, wire.name, value, doc)
