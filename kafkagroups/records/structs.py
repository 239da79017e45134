"""Messages: a declared field is its reader, its writer and its JSON form.

A message is the key or the value of a record, or a struct inside them. It is declared as a class:

    class OffsetCommitValue(Message, flexible="4+"):
        offset: int = field(INT64)
        leader_epoch: int = field(INT32, versions="3+", default=-1)
        topic_id: str = field(UUID, versions="4+", tag=0, since="4.1")

The bytes of a message begin with its untagged fields, in the order of their declaration. A message contains only the
fields that its version has. The versions in `flexible` have compact lengths (wire.py) and end with a tag section:

    tag section     count of the tagged fields (uvarint), then the tagged fields, sorted by tag number
    tagged field    tag number (uvarint), size in bytes (uvarint), the bytes of the field

A tagged field is written only if its value is not the default. Tags that are not declared are stored in
`unknown_tagged_fields` and written back. A struct inside a message has the format of the outermost message.

Kafka's readers do not compare the size of a declared tagged field with its bytes, accept tags in any order, and use the
last value of a tag that occurs twice. Its writers refuse repeated or unsorted tags.

If the written version of a message does not have a field, the Kafka version decides: if it has the field in another
version of the message, the writer leaves the field out (`"ignorable": true` in Kafka's schemas), and otherwise it
refuses a value that is not the default.

In all public functions, `version` is that of the message, and `newest_version` the newest one in the Kafka version
`kafka`, which reads or writes it.
Source: MessageDataGenerator (4.3.1); JsonConverterGenerator (4.3.1); RawTaggedFieldWriter (4.3.1).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast, dataclass_transform

import msgspec

from kafkagroups.errors import InvalidRecord, UsageError, join_path
from kafkagroups.helpers import MAX_INT32
from kafkagroups.records.releases import AFTER_ALL_VERSIONS, TOO_MANY_TAGS, Version, parse_release
from kafkagroups.records.wire import LARGEST_VERSION, Array, MessageFormat, Wire, read_uvarint, uvarint_bytes


class FieldSpec(NamedTuple):
    """`tag` is None if the field is not tagged. `since` is (0,) if every Kafka version has the field."""

    name: str
    json_name: str
    wire: Wire
    versions: range
    nullable: bool
    default: Any
    tag: int | None
    since: Version
    doc: str

    def is_in(self, form: MessageFormat) -> bool:
        return form.version in self.versions and form.kafka >= self.since

    def is_unknown_to(self, form: MessageFormat) -> bool:
        return form.kafka < self.since or self.versions.start > form.newest_version


def field(
    wire: Wire | type[Message],
    doc: str,
    *,
    versions: str = "0+",
    default: Any = ...,
    tag: int | None = None,
    since: str | None = None,
) -> Any:
    """Declare a field of a message. If its annotation ends with `| None`, the field can be null.

    `wire` is its type in the bytes; the class of a message stands for an array of such messages.
    `versions` are the message versions that have the field, such as "3+" or "1", and `since` is the first Kafka
    version that has it. Without `default`, the field has the default of its wire type.

    A field needs `since` if the message version did not change when it was added: tagged fields, and the fields that
    share groups got after the preview in 4.0.

    `doc` says in a few words what the field means; `annotate` (spans.py) shows this text.
    """
    wire = wire if isinstance(wire, Wire) else Array(Struct(wire))
    first_version = (0,) if since is None else parse_release(since)
    value = wire.default if default is ... else default
    return FieldSpec("", "", wire, parse_versions(versions), False, value, tag, first_version, doc)


def parse_versions(text: str) -> range:
    """Return the versions in a text: "3+" is 3 and above, "1" is only 1, "none" is empty."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), LARGEST_VERSION + 1)
    return range(int(text), int(text) + 1)


class MessageType(msgspec.StructMeta):
    """The type of a message class, which gives each declared field the default that its declaration names.

    `flexible` are the message versions with compact lengths and tagged fields, such as "4+". "none" means no version.
    """

    flexible_versions: range
    specs: tuple[FieldSpec, ...]

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], flexible: str = "none", **options: Any
    ) -> Any:
        own = [
            declared._replace(
                name=key, json_name=camel_case(key), nullable=namespace["__annotations__"][key].endswith("| None")
            )
            for key, declared in namespace.items()
            if isinstance(declared, FieldSpec)
        ]
        defaults = {spec.name: spec.default for spec in own}
        cls: Any = super().__new__(mcls, name, bases, namespace | defaults, **options)
        inherited = [spec for base in bases if isinstance(base, MessageType) for spec in base.specs]
        cls.specs = (*inherited, *own)
        cls.flexible_versions = parse_versions(flexible)
        return cls


class TaggedField(NamedTuple):
    tag: int
    data: bytes


@dataclass_transform(frozen_default=True)
class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False, metaclass=MessageType):
    unknown_tagged_fields: tuple[TaggedField, ...] = ()

    def __repr__(self) -> str:
        values = (f"{spec.name}={getattr(self, spec.name)!r}" for spec in type(self).specs)
        return f"{type(self).__name__}({', '.join(values)})"


M = TypeVar("M", bound=Message)


def camel_case(name: str) -> str:
    first_word, *other_words = name.split("_")
    return first_word + "".join(word.capitalize() for word in other_words)


def make_format(
    cls: type[Message], version: int, kafka: Version = AFTER_ALL_VERSIONS, newest_version: int = LARGEST_VERSION
) -> MessageFormat:
    return _make_format(version, version in cls.flexible_versions, kafka, newest_version)


_make_format = cache(MessageFormat)


@cache
def present_fields(cls: type[Message], form: MessageFormat) -> PresentFields:
    present = [spec for spec in cls.specs if spec.is_in(form)]
    tagged = {spec.tag: spec for spec in present if spec.tag is not None}
    untagged = [(spec.name, spec.json_name, spec.wire.read, spec.nullable) for spec in present if spec.tag is None]
    return PresentFields(present, untagged, tagged)


class PresentFields(NamedTuple):
    specs: list[FieldSpec]
    untagged: list[tuple[str, str, Callable[..., tuple[Any, int]], bool]]
    tagged: dict[int, FieldSpec]


TAG_LIMIT = MAX_INT32
"""Every tag number is below this limit."""
MAX_TAGS = 10_000
_TAG_SECTION = "tagged fields"


def read_message(
    cls: type[M], buffer: bytes, position: int, version: int, kafka: Version = AFTER_ALL_VERSIONS
) -> tuple[M, int]:
    return read_struct(cls, buffer, position, make_format(cls, version, kafka))


def write_message(
    out: bytearray,
    message: Any,
    cls: type[Message],
    version: int,
    kafka: Version = AFTER_ALL_VERSIONS,
    newest_version: int = LARGEST_VERSION,
) -> None:
    """Raises UsageError if a field has a wrong type, or is not the default although this Kafka version does not have
    the field in any version of the message.
    """
    Struct(cls).write(out, message, make_format(cls, version, kafka, newest_version), nullable=False)


def to_json(value: Message, version: int, kafka: Version = AFTER_ALL_VERSIONS) -> dict[str, Any]:
    """Return the JSON of a message, as Kafka's JsonConverter.write prints it.

    Unknown tagged fields are in `_unknownTaggedFields`, which Kafka's JSON does not have.
    """
    return Struct(type(value)).to_json(value, make_format(type(value), version, kafka))


def from_json(
    cls: type[M], value: Any, version: int, kafka: Version = AFTER_ALL_VERSIONS, newest_version: int = LARGEST_VERSION
) -> M:
    """Return the message that a JSON value describes, as Kafka's JsonConverter.read does.

    Raises UsageError if a field of this version is missing or has a wrong type.
    """
    return cast(M, Struct(cls).from_json(value, make_format(cls, version, kafka, newest_version)))


def has_structs(value: Message, ignored_classes: tuple[type[Message], ...] = ()) -> bool:
    contents = [getattr(value, spec.name) for spec in type(value).specs]
    elements = [element for content in contents for element in (content if isinstance(content, tuple) else (content,))]
    return any(isinstance(element, Message) and not isinstance(element, ignored_classes) for element in elements)


def read_struct(cls: type[M], buffer: bytes, position: int, form: MessageFormat) -> tuple[M, int]:
    fields = present_fields(cls, form)
    values: dict[str, Any] = {}
    place = _TAG_SECTION
    try:
        for name, place, read, nullable in fields.untagged:  # noqa: B007  # The errors below need the place.
            values[name], position = read(buffer, position, form, nullable)
        if form.flexible:
            unknown: list[TaggedField] = []
            place = _TAG_SECTION
            count, position = read_uvarint(buffer, position)
            if TOO_MANY_TAGS.applies_to(form.kafka):
                _check_tag_count(count, len(buffer) - position, position)
            for _ in range(count):
                place = _TAG_SECTION
                tag, position = read_uvarint(buffer, position)
                size, position = read_uvarint(buffer, position)
                tagged = fields.tagged.get(tag)
                if tagged is not None:
                    place = tagged.json_name
                    values[tagged.name], position = tagged.wire.read(buffer, position, form, tagged.nullable)
                    continue
                end = position + size
                if not position <= end <= len(buffer):
                    raise _make_tag_size_error(tag, size, len(buffer) - position, position)
                unknown.append(TaggedField(tag, buffer[position:end]))
                position = end
            values["unknown_tagged_fields"] = tuple(unknown)
    except InvalidRecord as error:
        error.field = join_path(place, error.field)
        raise
    except (struct.error, IndexError):
        raise InvalidRecord("unexpected end of data: expected more bytes", position=position, field=place) from None
    return cls(**values), position


def _check_tag_count(count: int, bytes_left: int, position: int) -> None:
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


def _write_field(out: bytearray, value: Message, spec: FieldSpec, form: MessageFormat) -> None:
    try:
        spec.wire.write(out, getattr(value, spec.name), form, spec.nullable)
    except UsageError as error:
        raise error.prefix_field(spec.json_name) from None


def _make_unknown_field_error(spec: FieldSpec, form: MessageFormat) -> UsageError:
    kafka = ".".join(map(str, form.kafka))
    return UsageError(f"Kafka {kafka} has no such field; leave it out, or choose a later version", field=spec.json_name)


def _write_tags(out: bytearray, value: Message, declared: dict[int, FieldSpec], form: MessageFormat) -> None:
    """An unknown tag can have the number of a declared field, if the reader was older than the field.

    Kafka refuses it; here it is refused only if the declared field is written, too.
    """
    data_by_tag: dict[int, bytes] = {}
    for tag, spec in declared.items():
        if getattr(value, spec.name) != spec.default:
            data = bytearray()
            _write_field(data, value, spec, form)
            data_by_tag[tag] = bytes(data)
    previous_tag = -1
    for tag, data_of_unknown in value.unknown_tagged_fields:
        if tag in data_by_tag or not previous_tag < tag < TAG_LIMIT:
            raise UsageError(f"unknown tags must ascend and must not be known tags, found {tag} after {previous_tag}")
        previous_tag = tag
        data_by_tag[tag] = data_of_unknown
    out += uvarint_bytes(len(data_by_tag))
    for tag, content in sorted(data_by_tag.items()):
        out += uvarint_bytes(tag) + uvarint_bytes(len(content)) + content


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

    default = None

    def __init__(self, cls: type[Message], *, is_tagged: bool = False) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.is_tagged = is_tagged

    def read_presence(self, buffer: bytes, position: int) -> tuple[bool, int]:
        if self.is_tagged:
            number, position = read_uvarint(buffer, position)
            return number > 0, position
        return buffer[position] < 0x80, position + 1

    def encode_presence(self, is_present: bool) -> bytes:
        if is_present:
            return b"\x01"
        return b"\x00" if self.is_tagged else b"\xff"

    def read(self, buffer: bytes, position: int, form: MessageFormat, nullable: bool) -> tuple[Message | None, int]:
        if nullable:
            is_present, position = self.read_presence(buffer, position)
            if not is_present:
                return None, position
        return read_struct(self.cls, buffer, position, form)

    def write(self, out: bytearray, value: Any, form: MessageFormat, nullable: bool) -> None:
        if nullable:
            out += self.encode_presence(value is not None)
            if value is None:
                return
        if not isinstance(value, self.cls):
            raise UsageError(f"expected a {self.name}, found {value!r}")
        for spec in self.cls.specs:
            if spec.is_unknown_to(form) and getattr(value, spec.name) != spec.default:
                raise _make_unknown_field_error(spec, form)
        fields = present_fields(self.cls, form)
        for spec in fields.specs:
            if spec.tag is None:
                _write_field(out, value, spec, form)
        try:
            if form.flexible:
                _write_tags(out, value, fields.tagged, form)
            elif value.unknown_tagged_fields:
                raise UsageError(f"version {form.version} of {self.name} has no tagged fields, but the value has some")
        except UsageError as error:
            raise error if error.field else error.prefix_field(_TAG_SECTION) from None

    def to_json(self, value: Any, form: MessageFormat) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for spec in present_fields(self.cls, form).specs:
            content = getattr(value, spec.name)
            if spec.tag is None or content != spec.default:
                out[spec.json_name] = None if content is None else spec.wire.to_json(content, form)
        if value.unknown_tagged_fields:
            out["_unknownTaggedFields"] = [
                {"tag": tag, "data": base64.b64encode(data).decode()} for tag, data in value.unknown_tagged_fields
            ]
        return out

    def from_json(self, value: Any, form: MessageFormat) -> Message:
        if not isinstance(value, dict):
            raise UsageError(f"expected an object with the fields of {self.name}, found {value!r}")
        values: dict[str, Any] = {}
        for spec in self.cls.specs:
            is_unknown = spec.is_unknown_to(form)
            if not is_unknown and not spec.is_in(form):
                continue  # Kafka's writers leave out a field that this version does not have.
            if spec.json_name not in value:
                if spec.tag is None and not is_unknown:
                    raise UsageError(f"version {form.version} of {self.name} needs this field", field=spec.json_name)
                continue
            content = value[spec.json_name]
            try:
                if content is None and not spec.nullable:
                    raise UsageError("this field cannot be null")
                values[spec.name] = None if content is None else spec.wire.from_json(content, form)
            except UsageError as error:
                raise error.prefix_field(spec.json_name) from None
            if is_unknown and values[spec.name] != spec.default:
                raise _make_unknown_field_error(spec, form)
        if "_unknownTaggedFields" in value:
            values["unknown_tagged_fields"] = _tags_from_json(value["_unknownTaggedFields"])
        return self.cls(**values)
