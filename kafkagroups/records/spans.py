"""The bytes of a record as spans: field, type, value, meaning (`annotate`), and non-canonical encodings (`deviations`).

All positions are counted in bytes from the start of the key or the value.

Kafka's readers accept more encodings than Kafka's writers produce. The following encodings are non-canonical, and a
strict `decode` refuses them:

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

import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from html import escape
from itertools import takewhile
from typing import Any, NamedTuple

from kafkagroups.errors import Deviation, InvalidRecord, join_path
from kafkagroups.records import serde
from kafkagroups.records.releases import AFTER_ALL_VERSIONS, DEFAULT_DIALECT, Dialect
from kafkagroups.records.serde import RECORD_TYPES, Record, decode_key
from kafkagroups.records.structs import TAG_LIMIT, FieldSpec, Message, Struct, make_format, present_fields
from kafkagroups.records.wire import Array, Sized, String, Wire, encode_utf8, read_uvarint, uvarint_bytes

_INT16 = struct.Struct(">h")


class Span(NamedTuple):
    """A range of the bytes of a key, a value or a batch (the `part`), with one field.

    It begins at `start`, and `end` is the position after its last byte. `field` is the path of the field, with Kafka's
    names, and `type` its type in the bytes, for example "int16". `value` and `meaning` say in a few words what was
    read, and what it means. `odd` has one text for each non-canonical encoding in these bytes.
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
        return "null" if self.value is None else str(self.value)


def split_into_spans(record: Record, key: bytes | None, value: bytes | None, dialect: Dialect) -> list[Span]:
    spans = _Spans()
    if key is not None:
        about_type = ("type", record.type, f"the record type: {record.name}")
        spans.add_part("key", key, about_type, type(record.key), 0, dialect)
    if value is not None:
        spans.add_part(
            "value", value, _about_version(record.value_version), type(record.value), record.value_version or 0, dialect
        )
    return spans.found


def split_before_error(error: InvalidRecord, key: bytes | None, value: bytes | None, dialect: Dialect) -> list[Span]:
    spans = _Spans()
    part = (error.field or "key").partition(".")[0]
    with suppress(InvalidRecord, struct.error, IndexError, KeyError):
        (type_id,) = _INT16.unpack_from(key or b"")
        record_type = RECORD_TYPES[type_id]
        about_type = ("type", type_id, f"the record type: {record_type.name}")
        spans.add_part("key", key or b"", about_type, record_type.key, 0, dialect)
        values = decode_key(key, dialect).values
        (version,) = _INT16.unpack_from(value or b"")
        if values is not None and 0 <= version < len(values.formats):
            spans.add_part("value", value or b"", _about_version(version), values.cls, version, dialect)
    position = error.position or 0
    return list(takewhile(lambda span: span.part != part or span.start < span.end <= position, spans.found))


def find_deviations(record: Record, key: bytes | None, value: bytes | None, dialect: Dialect) -> list[Deviation]:
    return [
        Deviation(join_path(span.part, span.field), span.start, reason)
        for span in split_into_spans(record, key, value, dialect)
        for reason in span.odd
    ]


def _about_version(version: int | None) -> tuple[str, int | None, str]:
    return "version", version, "the version of the layout that follows"


class _Spans:
    def __init__(self) -> None:
        self.found: list[Span] = []

    def add_part(
        self, part: str, data: bytes, first: tuple[str, Any, str], cls: type, version: int, dialect: Dialect
    ) -> None:
        self.part = part
        self.data = data
        self.position = 0
        if not issubclass(cls, Message):
            self.add(len(data), part, "bytes", data.hex(), f"a record type that Kafka {dialect.kafka} does not have")
            return
        self.form = make_format(cls, version, AFTER_ALL_VERSIONS if part == "key" else dialect.version)
        name, number, meaning = first
        self.add(2, name, "int16", number, meaning)
        self.add_struct(cls, "")
        count = len(data) - self.position
        if count > 0:
            odd = "1 byte after the end" if count == 1 else f"{count} bytes after the end"
            rest = data[self.position :].hex()
            self.add(len(data), "", "bytes", rest, "bytes after the end; a broker ignores them", odd)

    def add(self, end: int, field: str, type_name: str, value: Any, meaning: str, *odd: str) -> None:
        self.found.append(Span(self.part, self.position, end, field, type_name, value, meaning, odd))
        self.position = end

    def add_struct(self, cls: type[Message], path: str) -> None:
        fields = present_fields(cls, self.form)
        for spec in cls.specs:
            if spec.tag is None and spec.is_in(self.form):
                self.add_field(spec.wire, spec.nullable, path + spec.json_name, spec.doc)
        if self.form.flexible:
            self.add_tags(fields.tagged, path)

    def add_tags(self, declared: dict[int, FieldSpec], path: str) -> None:
        data = self.data
        count, end = read_uvarint(data, self.position)
        odd = _check_number(data[self.position : end], uvarint_bytes(max(count, 0)), "for the count")
        self.add(end, f"{path}tagged fields", "uvarint", count, "how many tagged fields follow", *odd)
        previous_tag = -1
        seen_tags: set[int] = set()
        for _ in range(count):
            start = self.position
            tag, size_start = read_uvarint(data, start)
            size, end = read_uvarint(data, size_start)
            spec = declared.get(tag)
            name = path + (spec.json_name if spec else f"tag {tag}")
            odd = _check_number(data[start:size_start], uvarint_bytes(tag), "for the tag's number")
            odd += _check_number(data[size_start:end], uvarint_bytes(size), "for the tag's size")
            odd += _check_tag_number(tag, previous_tag, is_repeated=tag in seen_tags, is_known=spec is not None)
            if spec:
                odd += self.check_known_tag(spec, end, size)
            previous_tag = tag
            seen_tags.add(tag)
            self.add(end, name, "uvarint, uvarint", f"tag {tag}, {size} bytes", "the tag's number and size", *odd)
            if spec:
                # Kafka's reader ignores the size of a declared field: the next tag begins after the field's content.
                self.add_field(spec.wire, spec.nullable, name, spec.doc)
            elif size:
                content = data[end : end + size].hex()
                self.add(end + size, name, "bytes", content, "a tag that this Kafka version does not have")

    def check_known_tag(self, spec: FieldSpec, position: int, size: int) -> tuple[str, ...]:
        content, end = spec.wire.read(self.data, position, self.form, spec.nullable)
        odd: tuple[str, ...] = ()
        if size != end - position:
            odd += (f"the tag's size is {size} bytes, its field has {end - position}",)
        if content == spec.default:
            odd += ("the tag's value is the default; Kafka's writer leaves the tag out",)
        return odd

    def add_field(self, wire: Wire, nullable: bool, path: str, doc: str) -> None:
        if isinstance(wire, Struct):
            if not nullable or self.add_presence(wire, path):
                self.add_struct(wire.cls, f"{path}.")
        elif isinstance(wire, Sized):
            self.add_sized(wire, nullable, path, doc)
        else:
            value, end = wire.read(self.data, self.position, self.form, nullable)
            self.add(end, path, wire.name, value, doc)

    def add_presence(self, wire: Struct, path: str) -> bool:
        is_present, end = wire.read_presence(self.data, self.position)
        prefix = self.data[self.position : end]
        purpose = "for a struct that is present" if is_present else "for a struct that is null"
        odd = _check_number(prefix, wire.encode_presence(is_present), purpose)
        type_name = "uvarint" if wire.is_tagged else "int8"
        self.add(end, path, type_name, prefix.hex() if is_present else None, "present" if is_present else "null", *odd)
        return is_present

    def add_sized(self, wire: Sized, nullable: bool, path: str, doc: str) -> None:
        start = self.position
        length, content_start = wire.read_length(self.data, start, self.form)
        purpose = "for null" if length < 0 else "for the length"
        odd = _check_number(self.data[start:content_start], wire.length_bytes(length, self.form), purpose)
        fixed_type = "int16" if isinstance(wire, String) else "int32"
        type_name = f"{'uvarint' if self.form.flexible else fixed_type} length"
        if length < 0:
            self.add(content_start, path, type_name, None, "null", *odd)
            return
        meaning = "how many elements follow" if isinstance(wire, Array) else "how many bytes follow"
        if self.form.flexible:
            meaning += "; stored plus 1"
        self.add(content_start, path, type_name, length, meaning, *odd)
        if isinstance(wire, Array):
            for index in range(length):
                self.add_field(wire.element_type, False, f"{path}[{index}]", doc)
        elif length > 0:
            value, end = wire.read(self.data, start, self.form, nullable)
            if isinstance(value, bytes):
                self.add(end, path, wire.name, value.hex(), doc)
            else:
                is_utf8 = encode_utf8(value) == self.data[content_start:end]
                odd = () if is_utf8 else ("malformed UTF-8; the reader replaces it with U+FFFD",)
                self.add(end, path, wire.name, value, doc, *odd)


def _check_tag_number(tag: int, previous_tag: int, *, is_repeated: bool, is_known: bool) -> tuple[str, ...]:
    if is_repeated:
        return (f"tag {tag} is repeated" + ("; the last one is used" if is_known else ""),)
    if not 0 <= tag < TAG_LIMIT:
        return (f"expected a tag from 0 to {TAG_LIMIT - 1}, found {tag}",)
    if tag < previous_tag:
        return (f"tag {tag} comes after tag {previous_tag}",)
    return ()


def _check_number(encoded: bytes, canonical: bytes, purpose: str) -> tuple[str, ...]:
    if encoded == canonical:
        return ()
    return (f"expected {canonical.hex(' ')} {purpose}, found {encoded.hex(' ')}",)


MAX_SHOWN_BYTES = 8
MAX_SHOWN_CHARACTERS = 40
_COLUMN_NAMES = ("byte", "bytes", "field", "type", "value", "meaning")


class Annotation(list[Span]):
    """The spans of a record, in order. `str()` returns a table as text, and a notebook shows HTML.

    `bytes_by_part` contains the bytes of the key and of the value, by the names "key" and "value".
    """

    def __init__(self, spans: Iterable[Span], bytes_by_part: Mapping[str, bytes]) -> None:
        super().__init__(spans)
        self.bytes_by_part = bytes_by_part

    def __str__(self) -> str:
        return "\n".join(
            f"{span.part} {span.start:>3}  {self._format_bytes(span):<26} "
            f"{span.field} = {_shorten(span.text)}  ({span.meaning})"
            for span in self
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(span.part)} {span.start}</td><td><code>{self._format_bytes(span)}</code></td>"
            f"<td>{escape(span.field)}</td><td>{escape(span.type)}</td>"
            f"<td>{escape(_shorten(span.text))}</td><td>{escape(span.meaning)}</td></tr>"
            for span in self
        )
        head = "".join(f"<th>{name}</th>" for name in _COLUMN_NAMES)
        return f"<table><tr>{head}</tr>{rows}</table>"

    def _format_bytes(self, span: Span) -> str:
        data = self.bytes_by_part[span.part][span.start : span.end]
        return data[:MAX_SHOWN_BYTES].hex(" ") + (" …" if len(data) > MAX_SHOWN_BYTES else "")


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"


def annotate(key: bytes | None, value: bytes | None, dialect: Dialect | None = None) -> Annotation:
    """Return a span for each field in the bytes of a record, in order, the key first.

    A value of None is a tombstone. `dialect` is that of the coordinator that reads the record; None means the new
    coordinator of Kafka 4.3.1. Bytes after the end of the key or the value are a separate span, because a broker
    ignores them. Raises InvalidRecord if the reader refuses the bytes.

    >>> annotate(bytes.fromhex("0002000167"), None)[2].value
    'g'
    """
    dialect = dialect or DEFAULT_DIALECT
    spans = split_into_spans(decode(key, value, dialect), key, value, dialect)
    return Annotation(spans, {"key": key or b"", "value": value or b""})


def decode(key: bytes | None, value: bytes | None, dialect: Dialect | None = None, *, strict: bool = False) -> Record:
    """Return the record of a key and a value, which is None for a tombstone.

    `dialect` is that of the coordinator that reads the record; None means the new coordinator of Kafka 4.3.1. Bytes
    after the end of a key or a value are ignored, unless `strict` is set: it refuses bytes that Kafka's writer would
    not produce for this record, and the error's `deviations` has all of them. Raises InvalidRecord if the coordinator
    cannot read the bytes.
    Source: GroupCoordinatorRecordSerde.java (4.3.1), GroupMetadataManager.scala (up to 3.9).

    >>> decode(bytes.fromhex("0002000167"), None).key
    GroupMetadataKey(group='g')
    """
    dialect = dialect or DEFAULT_DIALECT
    record = serde.decode(key, value, dialect)
    found_deviations = find_deviations(record, key, value, dialect) if strict else []
    if found_deviations:
        first = found_deviations[0]
        other_count = len(found_deviations) - 1
        others = f" (and {other_count} more)" if other_count > 0 else ""
        error = InvalidRecord(first.reason + others, field=first.field, position=first.position)
        error.deviations = tuple(found_deviations)
        raise error
    return record


def deviations(key: bytes | None, value: bytes | None, dialect: Dialect | None = None) -> list[Deviation]:
    """Return the encodings in a record that Kafka's reader accepts but Kafka's writer never produces, in their order.

    The arguments and the errors are those of `annotate`.

    >>> for deviation in deviations(bytes.fromhex("000200016700"), None):
    ...     print(deviation)
    byte 5, key: 1 byte after the end
    """
    dialect = dialect or DEFAULT_DIALECT
    return find_deviations(decode(key, value, dialect), key, value, dialect)
