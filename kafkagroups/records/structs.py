"""Structs: the functions that read and write a message and convert it to and from JSON.

The functions are built from the message's declaration (fields.py). A struct inside a message has the version of the
outermost message. It has compact lengths and tagged fields if the outermost message has them. In all functions, `kafka`
is the Kafka version that reads or writes; it decides which fields the message has.
Source: Kafka 4.3.1's message generator (MessageDataGenerator, JsonConverterGenerator) and RawTaggedFieldWriter.
"""

from __future__ import annotations

import base64
import struct
from operator import attrgetter
from typing import Any

from kafkagroups.errors import InvalidRecord, UsageError, join_path
from kafkagroups.records.fields import NEWEST_VERSION, FieldSpec, M, Message, TaggedField, field_specs, layout
from kafkagroups.records.refusals import TOO_MANY_TAGS
from kafkagroups.records.varint import read_uvarint, signed32, write_uvarint
from kafkagroups.records.versions import NEWEST, Version
from kafkagroups.records.wire_base import MessageFormat, Reader, Wire, Writer

TAG_LIMIT = 2**31 - 1
"""Every tag number is below this limit."""
MAX_TAGS = 10_000
"""The most tagged fields that a struct may have since Kafka 4.4."""
_TAGS = "tagged fields"
"""The name of the tag section (fields.py) in the path of a field in an error."""
_readers: dict[tuple[type[Message], MessageFormat], Reader] = {}
_writers: dict[tuple[type[Message], MessageFormat], Writer] = {}


def reader(cls: type[Message], version: int, kafka: Version = NEWEST) -> Reader:
    """Return the function that reads one version of a message.

    Its parameters are a buffer and a position. It returns the message and the position after the message.
    """
    form = layout(cls, version, kafka)
    if (cls, form) not in _readers:
        _readers[cls, form] = _struct_reader(cls, form)
    return _readers[cls, form]


def writer(cls: type[Message], version: int, kafka: Version = NEWEST, newest_version: int = NEWEST_VERSION) -> Writer:
    """Return the function that appends one version of a message to a bytearray.

    It raises UsageError for a field that is set and that this Kafka version does not have at all.
    """
    form = layout(cls, version, kafka, newest_version)
    if (cls, form) not in _writers:
        _writers[cls, form] = _struct_writer(cls, form)
    return _writers[cls, form]


def to_json(value: Message, version: int, kafka: Version = NEWEST) -> dict[str, Any]:
    """Return a message as Kafka's JsonConverter.write prints it, plus unknown tags in `_unknownTaggedFields`."""
    return _struct_to_json(value, layout(type(value), version, kafka))


def from_json(
    cls: type[M], value: Any, version: int, kafka: Version = NEWEST, newest_version: int = NEWEST_VERSION
) -> M:
    """Return the message of a JSON value, as Kafka's JsonConverter.read does.

    Raises UsageError if a field of that version is missing or has a wrong type.
    """
    message: M = _struct_from_json(cls, value, layout(cls, version, kafka, newest_version))
    return message


def has_structs(value: Message) -> bool:
    """Return whether a message contains another message."""
    for spec in field_specs(type(value)):
        content = getattr(value, spec.name)
        parts = content if isinstance(content, tuple) else (content,)
        if any(isinstance(part, Message) for part in parts):
            return True
    return False


def _struct_reader(cls: type[Message], form: MessageFormat) -> Reader:
    declared = field_specs(cls)
    names = [spec.json_name for spec in declared]
    defaults = [spec.default for spec in declared]
    present_fields = [(index, spec) for index, spec in enumerate(declared) if spec.is_in(form)]
    untagged = [(index, spec.wire.reader(form, spec.nullable)) for index, spec in present_fields if spec.tag is None]
    tagged = {
        spec.tag: (index, spec.wire.reader(form, spec.nullable))
        for index, spec in present_fields
        if spec.tag is not None
    }
    flexible = form.flexible
    limits_tags = TOO_MANY_TAGS.holds(form.kafka)

    def read(buffer: bytes, position: int) -> tuple[Message, int]:
        values = defaults.copy()
        unknown: list[TaggedField] = []
        index = -1  # The index of the field that is read now, for error messages. -1 means the tag section.
        try:
            for index, read_field in untagged:
                values[index], position = read_field(buffer, position)
            if flexible:
                index = -1
                count, position = read_uvarint(buffer, position)
                if limits_tags:
                    _check_tag_count(count, len(buffer) - position, position)
                for _ in range(count):
                    index = -1
                    tag, position = read_uvarint(buffer, position)
                    size, position = read_uvarint(buffer, position)
                    if tag in tagged:
                        index, read_field = tagged[tag]
                        values[index], position = read_field(buffer, position)
                        continue
                    end = position + size
                    if not position <= end <= len(buffer):
                        raise _refuse_tag_size(tag, size, len(buffer) - position, position)
                    unknown.append(TaggedField(tag, buffer[position:end]))
                    position = end
        except InvalidRecord as error:
            error.field = join_path(names[index] if index >= 0 else _TAGS, error.field)
            raise
        except (struct.error, IndexError):
            field = names[index] if index >= 0 else _TAGS
            raise InvalidRecord("unexpected end of data: expected more bytes", position=position, field=field) from None
        if unknown:
            return cls(*values, unknown_tagged_fields=tuple(unknown)), position
        return cls(*values), position

    return read


def _check_tag_count(count: int, bytes_left: int, position: int) -> None:
    if not 0 <= count <= min(bytes_left, MAX_TAGS):
        raise InvalidRecord(
            f"expected at most {min(bytes_left, MAX_TAGS)} tagged fields, found {count}", position=position
        ).with_cause("tags", count, bytes_left)


def _refuse_tag_size(tag: int, size: int, bytes_left: int, position: int) -> InvalidRecord:
    error = InvalidRecord(f"expected {size} bytes in tag {tag}, found {bytes_left} more bytes", position=position)
    return error.with_cause("bytes", size, bytes_left) if size >= 0 else error.with_cause("negative", size)


def _struct_writer(cls: type[Message], form: MessageFormat) -> Writer:
    present_fields = [spec for spec in field_specs(cls) if spec.is_in(form)]
    untagged = [
        (attrgetter(spec.name), spec.json_name, spec.wire.writer(form, spec.nullable))
        for spec in present_fields
        if spec.tag is None
    ]
    tagged = [(spec, spec.wire.writer(form, spec.nullable)) for spec in present_fields if spec.tag is not None]
    unknown_fields = [spec for spec in field_specs(cls) if spec.is_unknown_to(form)]

    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, cls):
            raise UsageError(f"expected a {cls.__name__}, found {value!r}")
        for spec in unknown_fields:
            if getattr(value, spec.name) != spec.default:
                raise _refuse_unknown_field(spec, form)
        name = ""
        try:
            for get_field, name, write_field in untagged:  # noqa: B007  # The error below needs the name.
                write_field(out, get_field(value))
            if form.flexible:
                sections: list[tuple[int, bytes]] = []
                for spec, write_field in tagged:
                    name = spec.json_name
                    content = getattr(value, spec.name)
                    if content != spec.default:
                        section = bytearray()
                        write_field(section, content)
                        sections.append((spec.tag or 0, bytes(section)))
                name = _TAGS
                _write_tags(out, sections, value.unknown_tagged_fields)
            elif value.unknown_tagged_fields:
                name = _TAGS
                raise UsageError(
                    f"version {form.version} of {cls.__name__} has no tagged fields, but the value has some"
                )
        except UsageError as error:
            raise error.prefix_field(name) if name else error from None

    return write


def _refuse_unknown_field(spec: FieldSpec, form: MessageFormat) -> UsageError:
    kafka = ".".join(map(str, form.kafka))
    return UsageError(f"Kafka {kafka} has no such field; leave it out, or choose a later version", field=spec.json_name)


def _write_tags(out: bytearray, known: list[tuple[int, bytes]], unknown: tuple[TaggedField, ...]) -> None:
    """Append a tag section: the `known` fields that are declared, and the `unknown` fields.

    Kafka also refuses an unknown tag that has the number of a declared field, if that field has its default. This
    function accepts the tag, because an older reader may have stored the declared field as an unknown tag.
    """
    known_tags = {tag for tag, _ in known}
    previous_tag = -1
    for tag, _ in unknown:
        if tag in known_tags or not previous_tag < tag < TAG_LIMIT:
            raise UsageError(f"unknown tags must ascend and must not be known fields, found {tag} after {previous_tag}")
        previous_tag = tag
    sections = sorted([*known, *unknown])
    write_uvarint(out, len(sections))
    for tag, data in sections:
        write_uvarint(out, tag)
        write_uvarint(out, len(data))
        out += data


def _struct_to_json(value: Message, form: MessageFormat) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for spec in field_specs(type(value)):
        content = getattr(value, spec.name)
        if not spec.is_in(form) or (spec.tag is not None and content == spec.default):
            continue
        out[spec.json_name] = None if content is None else spec.wire.to_json(content, form)
    if value.unknown_tagged_fields:
        out["_unknownTaggedFields"] = [
            {"tag": tag, "data": base64.b64encode(data).decode()} for tag, data in value.unknown_tagged_fields
        ]
    return out


def _struct_from_json(cls: type[Message], value: Any, form: MessageFormat) -> Any:
    if not isinstance(value, dict):
        raise UsageError(f"expected an object with the fields of {cls.__name__}, found {value!r}")
    values: dict[str, Any] = {}
    for spec in field_specs(cls):
        is_unknown = spec.is_unknown_to(form)
        if not is_unknown and not spec.is_in(form):
            continue  # Kafka's writers silently drop a field that the version does not have.
        if spec.json_name not in value:
            if spec.tag is None and not is_unknown:
                raise UsageError(f"version {form.version} of {cls.__name__} needs this field", field=spec.json_name)
            continue
        content = value[spec.json_name]
        try:
            if content is None and not spec.nullable:
                raise UsageError("this field cannot be null")
            values[spec.name] = None if content is None else spec.wire.from_json(content, form)
        except UsageError as error:
            raise error.prefix_field(spec.json_name) from None
        if is_unknown and values[spec.name] != spec.default:
            raise _refuse_unknown_field(spec, form)
    if "_unknownTaggedFields" in value:
        values["unknown_tagged_fields"] = _tags_from_json(value["_unknownTaggedFields"])
    return cls(**values)


def _tags_from_json(value: Any) -> tuple[TaggedField, ...]:
    try:
        fields = tuple(TaggedField(tag["tag"], base64.b64decode(tag["data"], validate=True)) for tag in value)
        if all(type(field.tag) is int for field in fields):
            return fields
        raise TypeError
    except (TypeError, KeyError, ValueError):
        message = 'expected [{"tag": number, "data": base64}, …], found ' + repr(value)
        raise UsageError(message, field="_unknownTaggedFields") from None


class Struct(Wire):
    """A message inside a message. It has the version of the message around it.

    A struct that can be null has a prefix. The prefix is an int8: -1 = null, 1 = present. Kafka reads any other
    negative number as null, and any other number as present. In a tagged field the prefix is a uvarint: 0 = null, 1 =
    present.
    """

    def __init__(self, cls: type[Message], *, tagged: bool = False) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.default = None
        self.tagged = tagged

    def read_presence(self, buffer: bytes, position: int) -> tuple[bool, int]:
        """Return whether a struct that can be null is present, and the position after the prefix."""
        if self.tagged:
            number, position = read_uvarint(buffer, position)
            return signed32(number) > 0, position
        return buffer[position] < 0x80, position + 1

    def presence_bytes(self, is_present: bool) -> bytes:
        """Return the bytes of the prefix, as Kafka writes them."""
        if is_present:
            return b"\x01"
        return b"\x00" if self.tagged else b"\xff"

    def reader(self, form: MessageFormat, nullable: bool) -> Reader:
        read_struct = _struct_reader(self.cls, form)
        if not nullable:
            return read_struct

        def read(buffer: bytes, position: int) -> tuple[Message | None, int]:
            is_present, position = self.read_presence(buffer, position)
            return read_struct(buffer, position) if is_present else (None, position)

        return read

    def writer(self, form: MessageFormat, nullable: bool) -> Writer:
        write_struct = _struct_writer(self.cls, form)
        if not nullable:
            return write_struct

        def write(out: bytearray, value: Any) -> None:
            out += self.presence_bytes(value is not None)
            if value is not None:
                write_struct(out, value)

        return write

    def to_json(self, value: Any, form: MessageFormat) -> dict[str, Any]:
        return _struct_to_json(value, form)

    def from_json(self, value: Any, form: MessageFormat) -> Any:
        return _struct_from_json(self.cls, value, form)
