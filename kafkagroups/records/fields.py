"""Declarations of messages: a declared field has a reader, a writer and a JSON form.

    @message(flexible="4+")
    class OffsetCommitValue(Message):
        offset: int = field(INT64)
        leader_epoch: int = field(INT32, versions="3+", default=-1)
        topic_id: str = field(UUID, versions="4+", tag=0, since="4.1")

The bytes of a message are its untagged fields in the order of their declaration. Only the fields of the message's
version are included. The versions in `flexible` have compact lengths (wire_base.py) and end with a tag section: a
uvarint count (varint.py), then the tagged fields in the order of their numbers. Each tagged field is written as its
number (the tag, a uvarint), its size (a uvarint) and its bytes. A tagged field is written only if it differs from its
default. Tags that are not declared are stored in `unknown_tagged_fields` and written back.

Kafka's readers do not check the size of a tagged field that is declared. If a tag occurs twice, they use the last
value. They accept tags in any order. Kafka's writers refuse to write repeated or unordered tags.

If the written version does not have a field, the writer drops the field silently (`"ignorable": true` in Kafka's
schemas). In this topic, all fields that were added or removed later are ignorable.
If the chosen Kafka version does not have the field in any version of the message, a value that is not the default is
refused.
Source: Kafka 4.3.1's message generator (MessageDataGenerator, JsonConverterGenerator) and RawTaggedFieldWriter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from kafkagroups.records.versions import NEWEST, Version, parse_release
from kafkagroups.records.wire_base import MessageFormat, Wire

NEWEST_VERSION = 2**15 - 1
"""The largest version number of a message."""


class TaggedField(NamedTuple):
    """A tagged field that is not declared here: its tag number, and its unchanged bytes."""

    tag: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Message:
    """The base class of record keys, record values and the structs in them: frozen data without methods."""

    unknown_tagged_fields: tuple[TaggedField, ...] = dataclasses.field(default=(), kw_only=True, repr=False)


M = TypeVar("M", bound=Message)


class FieldSpec(NamedTuple):
    """One declared field of a message.

    `name` is the name in Python, `json_name` is Kafka's name. `wire` is the field's type in the bytes (wire.py).
    `versions` are the message versions that have the field. `tag` is None if the field is not tagged. `since` is the
    first Kafka version that has the field. `doc` says what the field means.
    """

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
        """Return whether a message in this format has the field."""
        return form.version in self.versions and form.kafka >= self.since

    def is_unknown_to(self, form: MessageFormat) -> bool:
        """Return whether the Kafka version of the format does not have the field in any version of the message."""
        return form.kafka < self.since or self.versions.start > form.newest_version


def field(
    wire: Wire,
    versions: str = "0+",
    *,
    default: Any = dataclasses.MISSING,
    nullable: bool = False,
    tag: int | None = None,
    since: str | None = None,
    doc: str = "",
) -> Any:
    """Declare a field of a message: its wire type, the versions that have it ("3+", "1", "0-2"), its default.

    `tag` makes the field a tagged field. `since` is the first Kafka version that has the field. Tagged fields need
    `since`, because a new tag does not change the message version. The fields of share groups that changed after the
    preview in 4.0 need `since`, too, because the version did not change. `doc` says in a few words what the field
    means; `annotate` (anatomy/annotate.py) shows it.
    """
    settings = {"wire": wire, "versions": versions, "nullable": nullable, "tag": tag, "since": since, "doc": doc}
    value = wire.default if default is dataclasses.MISSING else default
    return dataclasses.field(default=value, metadata=settings)


@dataclass_transform(frozen_default=True)
def message(flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Return a decorator that turns a class with declared fields into a message.

    `flexible` are the message versions with compact lengths and tagged fields, such as "4+".
    """

    def decorate(cls: type[M]) -> type[M]:
        message_class = dataclass(frozen=True, slots=True)(cls)
        _layouts[message_class] = Layout(parse_versions(flexible), _make_specs(message_class))
        return message_class

    return decorate


class Layout(NamedTuple):
    """The declaration of a message: its flexible versions, and its fields in order."""

    flexible: range
    specs: tuple[FieldSpec, ...]


_layouts: dict[type[Message], Layout] = {}


def parse_versions(text: str) -> range:
    """Return the versions in a text: "3+" is 3 and all versions above, "0-2" is 0 to 2, "none" is an empty range."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), 2**15)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def field_specs(cls: type[Message]) -> tuple[FieldSpec, ...]:
    """Return the declared fields of a message in the order of their declaration."""
    return _layouts[cls].specs


def _make_specs(cls: type[Message]) -> tuple[FieldSpec, ...]:
    return tuple(_make_spec(declared) for declared in dataclasses.fields(cls) if "wire" in declared.metadata)


def _make_spec(declared: dataclasses.Field[Any]) -> FieldSpec:
    metadata = declared.metadata
    return FieldSpec(
        declared.name,
        _camel_case(declared.name),
        metadata["wire"],
        parse_versions(metadata["versions"]),
        metadata["nullable"],
        declared.default,
        metadata["tag"],
        (0,) if metadata["since"] is None else parse_release(metadata["since"]),
        metadata["doc"],
    )


def _camel_case(name: str) -> str:
    first_word, *other_words = name.split("_")
    return first_word + "".join(word.capitalize() for word in other_words)


def layout(
    cls: type[Message], version: int, kafka: Version = NEWEST, newest_version: int = NEWEST_VERSION
) -> MessageFormat:
    """Return the format of one version of a message. `kafka` is the Kafka version of the reader or writer.

    `newest_version` is the newest version of the message that this Kafka version has.
    """
    return MessageFormat(version, version in _layouts[cls].flexible, kafka, newest_version)
