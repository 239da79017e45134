"""Structs: the functions that read and write a message and convert it to and from JSON.

The functions are built from the declaration of the message class (fields.py). A struct inside a message has the same
format as the outermost message: the same version, and compact lengths and tagged fields only if the outermost message
has them.

In all public functions, `version` is the version of the message, and `kafka` is the Kafka version that reads or writes
the message. `newest_version` is the newest version of the message in this Kafka version. These numbers decide which
fields the message has.
Source: MessageDataGenerator (4.3.1); JsonConverterGenerator (4.3.1); RawTaggedFieldWriter (4.3.1).
"""

from __future__ import annotations

import base64
import struct
from operator import attrgetter
from typing import Any

from kafkagroups.errors import InvalidRecord, UsageError, join_path
from kafkagroups.helpers import MAX_INT32
from kafkagroups.records.fields import FieldSpec, M, Message, TaggedField, field_specs, make_format
from kafkagroups.records.plain_readers import is_plain, make_plain_reader
from kafkagroups.records.refusals import TOO_MANY_TAGS
from kafkagroups.records.versions import AFTER_ALL_VERSIONS, Version
from kafkagroups.records.wire import (
    LARGEST_VERSION,
    MessageFormat,
    Reader,
    Wire,
    Writer,
    read_uvarint,
    signed32,
    write_uvarint,
)

TAG_LIMIT = MAX_INT32
"""Every tag number is below this limit."""
MAX_TAGS = 10_000
"""The largest number of tagged fields in a struct since Kafka 4.4."""
_TAG_SECTION = "tagged fields"
"""The name of the tag section (fields.py) in the field path of an error."""
_reader_by_format: dict[tuple[type[Message], MessageFormat], Reader] = {}
_writer_by_format: dict[tuple[type[Message], MessageFormat], Writer] = {}


def reader(cls: type[Message], version: int, kafka: Version = AFTER_ALL_VERSIONS) -> Reader:
    """Return the function that reads one version of a message.

    The returned function has the parameters (buffer, position). It returns (message, position after the message).
    """
    message_format = make_format(cls, version, kafka)
    if (cls, message_format) not in _reader_by_format:
        _reader_by_format[cls, message_format] = _make_struct_reader(cls, message_format)
    return _reader_by_format[cls, message_format]


def plain_values_reader(cls: type[Message], version: int, kafka: Version = AFTER_ALL_VERSIONS) -> Reader:
    """Return a fast reader of the field values of one version of a message.

    The untagged fields of the message must be numbers and strings. The returned function has the parameters
    (buffer, position). It returns (values, position after the message): a list of the values in the order of their
    declaration. If the bytes are unusual or wrong, it returns None instead of the list. A function of `reader` must
    then read the same bytes, and raises the error if they are wrong.
    """
    return make_plain_reader(cls, make_format(cls, version, kafka))


def writer(
    cls: type[Message], version: int, kafka: Version = AFTER_ALL_VERSIONS, newest_version: int = LARGEST_VERSION
) -> Writer:
    """Return the function that appends one version of a message to a bytearray.

    The returned function raises UsageError if the value of a field is not the default, but this Kafka version does not
    have the field in any version of the message.
    """
    message_format = make_format(cls, version, kafka, newest_version)
    if (cls, message_format) not in _writer_by_format:
        _writer_by_format[cls, message_format] = _make_struct_writer(cls, message_format)
    return _writer_by_format[cls, message_format]


def to_json(value: Message, version: int, kafka: Version = AFTER_ALL_VERSIONS) -> dict[str, Any]:
    """Return the JSON of a message, as Kafka's JsonConverter.write prints it.

    If the message has unknown tagged fields, the JSON also has the field `_unknownTaggedFields`. Kafka's JSON does not
    have this field.
    """
    return _struct_to_json(value, make_format(type(value), version, kafka))


def from_json(
    cls: type[M], value: Any, version: int, kafka: Version = AFTER_ALL_VERSIONS, newest_version: int = LARGEST_VERSION
) -> M:
    """Return the message that a JSON value describes, as Kafka's JsonConverter.read does.

    Raises UsageError if a field of this version is missing or has a wrong type.
    """
    message: M = _struct_from_json(cls, value, make_format(cls, version, kafka, newest_version))
    return message


def has_structs(value: Message, ignored_classes: tuple[type[Message], ...] = ()) -> bool:
    """Return whether a message contains a struct of a class that is not in `ignored_classes`."""
    for spec in field_specs(type(value)):
        content = getattr(value, spec.name)
        elements = content if isinstance(content, tuple) else (content,)
        structs = [element for element in elements if isinstance(element, Message)]
        if any(not isinstance(struct, ignored_classes) for struct in structs):
            return True
    return False


def _make_struct_reader(cls: type[Message], message_format: MessageFormat) -> Reader:
    if not is_plain(cls, message_format):
        return _make_any_struct_reader(cls, message_format)
    read_values = make_plain_reader(cls, message_format)
    read_any = _make_any_struct_reader(cls, message_format)

    def read(buffer: bytes, position: int) -> tuple[Message, int]:
        values, end = read_values(buffer, position)
        if values is None:
            return read_any(buffer, position)
        return cls(*values), end

    return read


def _make_any_struct_reader(cls: type[Message], message_format: MessageFormat) -> Reader:
    declared = field_specs(cls)
    json_names = [spec.json_name for spec in declared]
    defaults = [spec.default for spec in declared]
    readers = [
        (index, spec.tag, spec.wire.reader(message_format, spec.nullable))
        for index, spec in enumerate(declared)
        if spec.is_in(message_format)
    ]
    untagged = [(index, read_field) for index, tag, read_field in readers if tag is None]
    readers_by_tag = {tag: (index, read_field) for index, tag, read_field in readers if tag is not None}
    is_flexible = message_format.flexible
    limits_tags = TOO_MANY_TAGS.applies_to(message_format.kafka)

    def read(buffer: bytes, position: int) -> tuple[Message, int]:
        values = defaults.copy()
        unknown: list[TaggedField] = []
        index = -1  # For errors: the index of the field in `declared` that is read now. -1 means the tag section.
        try:
            for index, read_field in untagged:
                values[index], position = read_field(buffer, position)
            if is_flexible:
                index = -1
                count, position = read_uvarint(buffer, position)
                if limits_tags:
                    _check_tag_count(count, len(buffer) - position, position)
                for _ in range(count):
                    index = -1
                    tag, position = read_uvarint(buffer, position)
                    size, position = read_uvarint(buffer, position)
                    if tag in readers_by_tag:
                        index, read_field = readers_by_tag[tag]
                        values[index], position = read_field(buffer, position)
                        continue
                    end = position + size
                    if not position <= end <= len(buffer):
                        raise _make_tag_size_error(tag, size, len(buffer) - position, position)
                    unknown.append(TaggedField(tag, buffer[position:end]))
                    position = end
        except InvalidRecord as error:
            error.field = join_path(json_names[index] if index >= 0 else _TAG_SECTION, error.field)
            raise
        except (struct.error, IndexError):
            field = json_names[index] if index >= 0 else _TAG_SECTION
            raise InvalidRecord("unexpected end of data: expected more bytes", position=position, field=field) from None
        return cls(*values, unknown_tagged_fields=tuple(unknown)), position

    return read


def _check_tag_count(count: int, bytes_left: int, position: int) -> None:
    """Raise InvalidRecord if `count`, the number of tagged fields in a struct, is negative or too large.

    `bytes_left` is the number of bytes after the count. Each tagged field needs at least one byte.
    """
    max_count = min(bytes_left, MAX_TAGS)
    error = InvalidRecord(f"expected at most {max_count} tagged fields, found {count}", position=position)
    if count < 0:
        raise error.with_cause("negative tags", count)
    if count > bytes_left:
        raise error.with_cause("tags", count, bytes_left)
    if count > MAX_TAGS:
        raise error.with_cause("too many tags", count, MAX_TAGS)


def _make_tag_size_error(tag: int, size: int, bytes_left: int, position: int) -> InvalidRecord:
    error = InvalidRecord(f"expected {size} bytes in tag {tag}, found {bytes_left} more bytes", position=position)
    return error.with_cause("bytes", size, bytes_left) if size >= 0 else error.with_cause("negative", size)


def _make_struct_writer(cls: type[Message], message_format: MessageFormat) -> Writer:
    present_fields = [spec for spec in field_specs(cls) if spec.is_in(message_format)]
    untagged = [
        (attrgetter(spec.name), spec.json_name, spec.wire.writer(message_format, spec.nullable))
        for spec in present_fields
        if spec.tag is None
    ]
    tagged = [
        (spec.tag, spec, spec.wire.writer(message_format, spec.nullable))
        for spec in present_fields
        if spec.tag is not None
    ]
    refused_fields = [spec for spec in field_specs(cls) if spec.is_unknown_to(message_format)]

    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, cls):
            raise UsageError(f"expected a {cls.__name__}, found {value!r}")
        for spec in refused_fields:
            if getattr(value, spec.name) != spec.default:
                raise _make_unknown_field_error(spec, message_format)
        name = ""
        try:
            for get_field, name, write_field in untagged:  # noqa: B007  # The error below needs the name.
                write_field(out, get_field(value))
            if message_format.flexible:
                known_fields: list[tuple[int, bytes]] = []
                for tag, spec, write_field in tagged:
                    name = spec.json_name
                    content = getattr(value, spec.name)
                    if content != spec.default:
                        data = bytearray()
                        write_field(data, content)
                        known_fields.append((tag, bytes(data)))
                name = _TAG_SECTION
                _write_tags(out, known_fields, value.unknown_tagged_fields)
            elif value.unknown_tagged_fields:
                name = _TAG_SECTION
                raise UsageError(
                    f"version {message_format.version} of {cls.__name__} has no tagged fields, but the value has some"
                )
        except UsageError as error:
            raise error.prefix_field(name) if name else error from None

    return write


def _make_unknown_field_error(spec: FieldSpec, message_format: MessageFormat) -> UsageError:
    kafka = ".".join(map(str, message_format.kafka))
    return UsageError(f"Kafka {kafka} has no such field; leave it out, or choose a later version", field=spec.json_name)


def _write_tags(out: bytearray, known_fields: list[tuple[int, bytes]], unknown_fields: tuple[TaggedField, ...]) -> None:
    """Append a tag section.

    `known_fields` contains the tag number and the bytes of each declared tagged field whose value is not the default.
    `unknown_fields` are the tagged fields that are not declared.

    An unknown tag can have the number of a declared field, if the reader was older than the field. Kafka refuses this
    tag. This function refuses the tag only if `known_fields` contains its number, too.
    """
    known_tags = {tag for tag, _ in known_fields}
    previous_tag = -1
    for tag, _ in unknown_fields:
        if tag in known_tags or not previous_tag < tag < TAG_LIMIT:
            raise UsageError(f"unknown tags must ascend and must not be known tags, found {tag} after {previous_tag}")
        previous_tag = tag
    tagged_fields = sorted([*known_fields, *unknown_fields])
    write_uvarint(out, len(tagged_fields))
    for tag, data in tagged_fields:
        write_uvarint(out, tag)
        write_uvarint(out, len(data))
        out += data


def _struct_to_json(value: Message, message_format: MessageFormat) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for spec in field_specs(type(value)):
        content = getattr(value, spec.name)
        if not spec.is_in(message_format) or (spec.tag is not None and content == spec.default):
            continue
        out[spec.json_name] = None if content is None else spec.wire.to_json(content, message_format)
    if value.unknown_tagged_fields:
        out["_unknownTaggedFields"] = [
            {"tag": tag, "data": base64.b64encode(data).decode()} for tag, data in value.unknown_tagged_fields
        ]
    return out


def _struct_from_json(cls: type[Message], value: Any, message_format: MessageFormat) -> Any:
    if not isinstance(value, dict):
        raise UsageError(f"expected an object with the fields of {cls.__name__}, found {value!r}")
    values: dict[str, Any] = {}
    for spec in field_specs(cls):
        is_unknown = spec.is_unknown_to(message_format)
        if not is_unknown and not spec.is_in(message_format):
            continue  # Kafka's writers leave out a field that this version does not have.
        if spec.json_name not in value:
            if spec.tag is None and not is_unknown:
                raise UsageError(
                    f"version {message_format.version} of {cls.__name__} needs this field", field=spec.json_name
                )
            continue
        content = value[spec.json_name]
        try:
            if content is None and not spec.nullable:
                raise UsageError("this field cannot be null")
            values[spec.name] = None if content is None else spec.wire.from_json(content, message_format)
        except UsageError as error:
            raise error.prefix_field(spec.json_name) from None
        if is_unknown and values[spec.name] != spec.default:
            raise _make_unknown_field_error(spec, message_format)
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
    """The wire type of a message inside another message.

    A struct that can be null begins with a prefix, which says whether the struct is present:

    untagged field                int8       -1 = null (Kafka reads any negative number as null), otherwise present
    tagged field (`is_tagged`)    uvarint    0 = null, 1 = present
    """

    def __init__(self, cls: type[Message], *, is_tagged: bool = False) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.default = None
        self.is_tagged = is_tagged

    def read_presence(self, buffer: bytes, position: int) -> tuple[bool, int]:
        """Return whether a struct that can be null is present, and the position after the prefix."""
        if self.is_tagged:
            number, position = read_uvarint(buffer, position)
            return signed32(number) > 0, position
        return buffer[position] < 0x80, position + 1

    def encode_presence(self, is_present: bool) -> bytes:
        """Return the bytes of the prefix, as Kafka writes them."""
        if is_present:
            return b"\x01"
        return b"\x00" if self.is_tagged else b"\xff"

    def reader(self, message_format: MessageFormat, nullable: bool) -> Reader:
        read_struct = _make_struct_reader(self.cls, message_format)
        if not nullable:
            return read_struct

        def read(buffer: bytes, position: int) -> tuple[Message | None, int]:
            is_present, position = self.read_presence(buffer, position)
            return read_struct(buffer, position) if is_present else (None, position)

        return read

    def writer(self, message_format: MessageFormat, nullable: bool) -> Writer:
        write_struct = _make_struct_writer(self.cls, message_format)
        if not nullable:
            return write_struct

        def write(out: bytearray, value: Any) -> None:
            out += self.encode_presence(value is not None)
            if value is not None:
                write_struct(out, value)

        return write

    def to_json(self, value: Any, message_format: MessageFormat) -> dict[str, Any]:
        return _struct_to_json(value, message_format)

    def from_json(self, value: Any, message_format: MessageFormat) -> Any:
        return _struct_from_json(self.cls, value, message_format)
