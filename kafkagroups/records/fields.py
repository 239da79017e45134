"""Declaring a field declares its bytes: reader, writer and Kafka's JSON follow from a message's dataclass.

    @message(flexible="4+")
    class OffsetCommitValue(Message):
        offset: int = field(INT64)
        leader_epoch: int = field(INT32, versions="3+", default=-1)
        topic_id: str = field(UUID, versions="4+", tag=0, since="4.1")

The bytes of a message are its untagged fields in the order of their declaration, those of the asked version only. A
flexible version ends in a tag section: a uvarint count, then for each tagged field, in ascending order, uvarint tag,
uvarint size and the field's bytes. A tagged field stands there only when it differs from its default. Tags that
nobody declared are kept in `unknown_tagged_fields` and written back. Kafka's readers do not check the size of a tag
that they know, take the last of two equal tags, and take tags in any order; its writers refuse to write those back.

A field whose version is not written is dropped silently (`"ignorable": true` in Kafka's schemas, which holds for
every field of this topic that came later or went).
Source: Kafka 4.3.1's message generator (MessageDataGenerator, JsonConverterGenerator) and RawTaggedFieldWriter.
"""

from __future__ import annotations

import base64
import dataclasses
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from kafkagroups.errors import InvalidRecord, UsageError, nested
from kafkagroups.records.wire import At, Reader, Wire, Writer, read_uvarint, write_uvarint

NEWEST = (2**31,)
"""Newer than every Kafka: such a reader knows all declared tags."""


class TaggedField(NamedTuple):
    """A tagged field that this reader does not know: its number and its bytes as they came."""

    tag: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """The base of every record key, record value and struct in them. Frozen, without methods: data."""

    unknown_tagged_fields: tuple[TaggedField, ...] = dataclasses.field(default=(), kw_only=True, repr=False)


M = TypeVar("M", bound=Message)


class Spec(NamedTuple):
    """One declared field."""

    name: str
    json_name: str
    wire: Wire
    versions: range
    nullable: bool
    default: Any
    tag: int | None
    since: tuple[int, ...]
    doc: str

    def stands_in(self, at: At) -> bool:
        return at.version in self.versions and (self.tag is None or at.kafka >= self.since)


def field(
    wire: Wire,
    versions: str = "0+",
    *,
    default: Any = dataclasses.MISSING,
    nullable: bool = False,
    tag: int | None = None,
    since: str = "0",
    doc: str = "",
) -> Any:
    """A field of a message: its wire type, the versions that have it ("3+", "1", "0-2"), its default.

    `tag` makes it a tagged field; `since` is then the first Kafka whose reader knows the tag. `doc` says in a few
    words what the field means; `annotate` shows it.
    """
    settings = {"wire": wire, "versions": versions, "nullable": nullable, "tag": tag, "since": since, "doc": doc}
    value = wire.default if default is dataclasses.MISSING else default
    return dataclasses.field(default=value, metadata=settings)


@dataclass_transform(frozen_default=True)
def message(flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Makes a message of a class with declared fields. `flexible`: the versions with compact lengths and tags."""

    def decorate(cls: type[M]) -> type[M]:
        made = dataclass(frozen=True, slots=True)(cls)
        _layouts[made] = Layout(version_range(flexible), _specs(made))
        return made

    return decorate


class Layout(NamedTuple):
    """What a message declares: its flexible versions, and its fields in the order of their declaration."""

    flexible: range
    specs: tuple[Spec, ...]


_layouts: dict[type[Message], Layout] = {}


def version_range(text: str) -> range:
    """ "3+" -> 3 and all above, "0-2", "1"; "none" -> empty."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), 2**15)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def kafka_version(text: str) -> tuple[int, ...]:
    """ "3.9.2" -> (3, 9, 2); "v2.8" and "4.4.0-SNAPSHOT" too. UsageError when it is no version."""
    number = re.match(r"v?([0-9]+(?:\.[0-9]+)*)(?![0-9.])", text)
    if number is None:
        raise UsageError(f"a Kafka version such as 3.9.2 was expected, not {text!r}")
    return tuple(int(part) for part in number[1].split("."))


def specs(cls: type[Message]) -> tuple[Spec, ...]:
    """The declared fields of a message in the order of their declaration."""
    return _layouts[cls].specs


def _specs(cls: type[Message]) -> tuple[Spec, ...]:
    return tuple(
        Spec(
            declared.name,
            _camel(declared.name),
            declared.metadata["wire"],
            version_range(declared.metadata["versions"]),
            declared.metadata["nullable"],
            declared.default,
            declared.metadata["tag"],
            kafka_version(declared.metadata["since"]),
            declared.metadata["doc"],
        )
        for declared in dataclasses.fields(cls)
        if "wire" in declared.metadata
    )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def layout(cls: type[Message], version: int, kafka: tuple[int, ...] = NEWEST) -> At:
    """What decides the bytes of one version of a message, for one Kafka's reader."""
    return At(version, version in _layouts[cls].flexible, kafka)


_readers: dict[tuple[type[Message], At], Reader] = {}
_writers: dict[tuple[type[Message], At], Writer] = {}


def reader(cls: type[Message], version: int, kafka: tuple[int, ...] = NEWEST) -> Reader:
    """The function that reads one version of a message: (buffer, position) -> (message, position after it)."""
    at = layout(cls, version, kafka)
    if (cls, at) not in _readers:
        _readers[cls, at] = _struct_reader(cls, at)
    return _readers[cls, at]


def writer(cls: type[Message], version: int, kafka: tuple[int, ...] = NEWEST) -> Writer:
    """The function that appends one version of a message to a bytearray."""
    at = layout(cls, version, kafka)
    if (cls, at) not in _writers:
        _writers[cls, at] = _struct_writer(cls, at)
    return _writers[cls, at]


def to_json(value: Message, version: int, kafka: tuple[int, ...] = NEWEST) -> dict[str, Any]:
    """What Kafka's JsonConverter.write gives, with unknown tagged fields beside (`_unknownTaggedFields`)."""
    return _struct_to_json(value, layout(type(value), version, kafka))


def from_json(cls: type[M], value: Any, version: int, kafka: tuple[int, ...] = NEWEST) -> M:
    """What Kafka's JsonConverter.read gives. UsageError when a field of that version is missing or of another type."""
    made: M = _struct_from_json(cls, value, layout(cls, version, kafka))
    return made


def _struct_reader(cls: type[Message], at: At) -> Reader:
    declared = specs(cls)
    names = [spec.json_name for spec in declared]
    defaults = [spec.default for spec in declared]
    present = [(i, spec) for i, spec in enumerate(declared) if spec.stands_in(at)]
    untagged = [(i, spec.wire.reader(at, spec.nullable)) for i, spec in present if spec.tag is None]
    tagged = {spec.tag: (i, spec.wire.reader(at, spec.nullable)) for i, spec in present if spec.tag is not None}
    flexible = at.flexible

    def read(buffer: bytes, position: int) -> tuple[Message, int]:
        values = defaults.copy()
        unknown: list[TaggedField] = []
        index = -1
        try:
            for index, read_field in untagged:
                values[index], position = read_field(buffer, position)
            if flexible:
                index = -1
                count, position = read_uvarint(buffer, position)
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
                        left = len(buffer) - position
                        raise InvalidRecord(f"tag {tag} announces {size} bytes, {left} are left", position=position)
                    unknown.append(TaggedField(tag, buffer[position:end]))
                    position = end
        except InvalidRecord as error:
            error.field = nested(names[index] if index >= 0 else "tagged fields", error.field)
            raise
        except (struct.error, IndexError):
            place = names[index] if index >= 0 else "tagged fields"
            raise InvalidRecord("more bytes were expected, the end came", position=position, field=place) from None
        if unknown:
            return cls(*values, unknown_tagged_fields=tuple(unknown)), position
        return cls(*values), position

    return read


def _struct_writer(cls: type[Message], at: At) -> Writer:
    present = [spec for spec in specs(cls) if spec.stands_in(at)]
    untagged = [(attrgetter(s.name), s.json_name, s.wire.writer(at, s.nullable)) for s in present if s.tag is None]
    tagged = [(s, s.wire.writer(at, s.nullable)) for s in present if s.tag is not None]

    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, cls):
            raise UsageError(f"a {cls.__name__} was expected, not {value!r}")
        name = ""
        try:
            for get, name, write_field in untagged:  # noqa: B007  # the name is for the error below
                write_field(out, get(value))
            if at.flexible:
                sections: list[tuple[int, bytes]] = []
                for spec, write_field in tagged:
                    name = spec.json_name
                    content = getattr(value, spec.name)
                    if content != spec.default:
                        section = bytearray()
                        write_field(section, content)
                        sections.append((spec.tag or 0, bytes(section)))
                name = "tagged fields"
                _write_tags(out, sections, value.unknown_tagged_fields)
            elif value.unknown_tagged_fields:
                raise UsageError(f"version {at.version} of {cls.__name__} has no tagged fields, some were given")
        except UsageError as error:
            raise error.inside(name) if name else error from None

    return write


def _write_tags(out: bytearray, known: list[tuple[int, bytes]], unknown: tuple[TaggedField, ...]) -> None:
    before = -1
    written = {tag for tag, _ in known}
    for tag, _ in unknown:
        if tag in written or not before < tag < 2**31 - 1:
            raise UsageError(
                f"unknown tags must ascend and differ from those that are known, found {tag} after {before}"
            )
        before = tag
    sections = sorted([*known, *unknown])
    write_uvarint(out, len(sections))
    for tag, data in sections:
        write_uvarint(out, tag)
        write_uvarint(out, len(data))
        out += data


def _struct_to_json(value: Message, at: At) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for spec in specs(type(value)):
        content = getattr(value, spec.name)
        if not spec.stands_in(at) or (spec.tag is not None and content == spec.default):
            continue
        out[spec.json_name] = None if content is None else spec.wire.to_json(content, at)
    if value.unknown_tagged_fields:
        out["_unknownTaggedFields"] = [
            {"tag": tag, "data": base64.b64encode(data).decode()} for tag, data in value.unknown_tagged_fields
        ]
    return out


def _struct_from_json(cls: type[Message], value: Any, at: At) -> Any:
    if not isinstance(value, dict):
        raise UsageError(f"an object with the fields of {cls.__name__} was expected, not {value!r}")
    values: dict[str, Any] = {}
    for spec in specs(cls):
        if not spec.stands_in(at):
            continue  # dropped silently, as Kafka's writers do
        if spec.json_name not in value:
            if spec.tag is None:
                raise UsageError(f"version {at.version} of {cls.__name__} needs it", field=spec.json_name)
            continue
        content = value[spec.json_name]
        try:
            if content is None and not spec.nullable:
                raise UsageError("may not be null")
            values[spec.name] = None if content is None else spec.wire.from_json(content, at)
        except UsageError as error:
            raise error.inside(spec.json_name) from None
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
        raise UsageError(
            '[{"tag": number, "data": base64}, …] was expected, not ' + repr(value), field="_unknownTaggedFields"
        ) from None


class Struct(Wire):
    """A message inside a message. It has the version and the flexibility of the message around it."""

    def __init__(self, cls: type[Message]) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.default = None

    def reader(self, at: At, nullable: bool) -> Reader:
        return _struct_reader(self.cls, at)

    def writer(self, at: At, nullable: bool) -> Writer:
        return _struct_writer(self.cls, at)

    def to_json(self, value: Any, at: At) -> dict[str, Any]:
        return _struct_to_json(value, at)

    def from_json(self, value: Any, at: At) -> Any:
        return _struct_from_json(self.cls, value, at)
