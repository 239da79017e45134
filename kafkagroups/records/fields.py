"""Declarations of messages: a declared field has a reader, a writer and a JSON form.

A message is the key or the value of a record, or a struct inside them. A message is declared as a class:

    @message(flexible="4+")
    class OffsetCommitValue(Message, frozen=True):
        offset: int = field(INT64)
        leader_epoch: int = field(INT32, versions="3+", default=-1)
        topic_id: str = field(UUID, versions="4+", tag=0, since="4.1")

The bytes of a message begin with its untagged fields, in the order of their declaration. A message contains only the
fields that its version has. The versions in `flexible` have compact lengths (wire.py) and end with a tag section:

    tag section     count of the tagged fields (uvarint), then the tagged fields, sorted by tag number
    tagged field    tag number (uvarint), size in bytes (uvarint), the bytes of the field

A tagged field is written only if its value is not the default. Tags that are not declared are stored in
`unknown_tagged_fields` and written back.

Kafka's readers do not compare the size of a declared tagged field with the bytes of the field. The readers accept tags
in any order. If a tag occurs twice, the readers use the last value. Kafka's writers refuse repeated or unsorted tags.

If the written version of a message does not have a field:

- The Kafka version has the field in another version of the message: the writer leaves the field out. Kafka's schemas
  mark these fields with `"ignorable": true`.
- The Kafka version has the field in no version of the message: the writer refuses a value that is not the default.

Source: MessageDataGenerator (4.3.1); JsonConverterGenerator (4.3.1); RawTaggedFieldWriter (4.3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from kafkagroups.records.versions import AFTER_ALL_VERSIONS, Version, parse_release
from kafkagroups.records.wire import LARGEST_VERSION, MessageFormat, Wire


class TaggedField(NamedTuple):
    """A tagged field that the message class does not declare: its tag number, and its unchanged bytes."""

    tag: int
    data: bytes


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The base class of record keys, record values and the structs inside them. A message cannot be changed."""

    unknown_tagged_fields: tuple[TaggedField, ...] = ()

    def __repr__(self) -> str:
        values = (f"{spec.name}={getattr(self, spec.name)!r}" for spec in field_specs(type(self)))
        return f"{type(self).__name__}({', '.join(values)})"


M = TypeVar("M", bound=Message)


class FieldSpec(NamedTuple):
    """One declared field of a message.

    `name` is the name in Python, `json_name` is Kafka's name. `wire` is the wire type (wire.py), which reads and writes
    the field. `tag` is None if the field is not tagged. `since` is (0,) if every Kafka version has the field. The
    function `field` describes the other attributes.
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
    default: Any = ...,
    nullable: bool = False,
    tag: int | None = None,
    since: str | None = None,
    doc: str = "",
) -> Any:
    """Declare a field of a message.

    `wire` is the wire type. `versions` are the message versions that have the field, such as "3+", "1" or "0-2".
    Without `default`, the field has the default of its wire type. `tag` is the tag number of a tagged field.

    `since` is the first Kafka version that has the field. A field needs `since` if the message version did not change
    when the field was added: tagged fields, and the fields that share groups got after the preview in 4.0.

    `doc` says in a few words what the field means; `annotate` (annotate.py) shows this text.
    """
    first_version = (0,) if since is None else parse_release(since)
    value = wire.default if default is ... else default
    return FieldSpec("", "", wire, parse_versions(versions), nullable, value, tag, first_version, doc)


def message(flexible: str = "none") -> Callable[[type[M]], type[M]]:
    """Return a decorator that turns a class with declared fields into a message class.

    `flexible` are the message versions with compact lengths and tagged fields, such as "4+". "none" means no version.
    """

    def decorate(cls: type[M]) -> type[M]:
        defaults = zip(cls.__struct_fields__, cls.__struct_defaults__, strict=True)
        own = [
            declared._replace(name=name, json_name=_camel_case(name))
            for name, declared in defaults
            if isinstance(declared, FieldSpec)
        ]
        # The declared fields were the defaults. They are replaced by the defaults of the fields.
        message_class: Any = msgspec.defstruct(
            cls.__name__,
            [(spec.name, Any, spec.default) for spec in own],
            bases=cls.__bases__,
            module=cls.__module__,
            namespace={"__doc__": cls.__doc__},
            frozen=True,
        )
        inherited = [spec for base in cls.__bases__ if base is not Message for spec in field_specs(base)]
        _declaration_by_class[message_class] = Declaration(parse_versions(flexible), (*inherited, *own))
        return cast(type[M], message_class)

    return decorate


class Declaration(NamedTuple):
    """The declaration of a message class: its flexible versions, and its fields in order."""

    flexible_versions: range
    specs: tuple[FieldSpec, ...]


_declaration_by_class: dict[type[Message], Declaration] = {}


def parse_versions(text: str) -> range:
    """Return the versions in a text: "3+" is 3 and above, "0-2" is 0 to 2, "1" is only 1, "none" is empty."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), LARGEST_VERSION + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def field_specs(cls: type[Message]) -> tuple[FieldSpec, ...]:
    """Return the declared fields of a message in the order of their declaration."""
    return _declaration_by_class[cls].specs


def _camel_case(name: str) -> str:
    first_word, *other_words = name.split("_")
    return first_word + "".join(word.capitalize() for word in other_words)


def make_format(
    cls: type[Message], version: int, kafka: Version = AFTER_ALL_VERSIONS, newest_version: int = LARGEST_VERSION
) -> MessageFormat:
    """Return the format of one version of a message. The parameters are described in MessageFormat (wire.py)."""
    return _make_format(version, version in _declaration_by_class[cls].flexible_versions, kafka, newest_version)


_make_format = cache(MessageFormat)


@cache
def present_fields(cls: type[Message], form: MessageFormat) -> PresentFields:
    """Return the fields that a message in this format has."""
    present = [spec for spec in field_specs(cls) if spec.is_in(form)]
    tagged = {spec.tag: spec for spec in present if spec.tag is not None}
    untagged = [(spec.name, spec.json_name, spec.wire, spec.nullable) for spec in present if spec.tag is None]
    return PresentFields(present, untagged, tagged)


class PresentFields(NamedTuple):
    """All fields in order; name, JSON name, wire type and nullability of the untagged ones; the tagged ones by tag."""

    specs: list[FieldSpec]
    untagged: list[tuple[str, str, Wire, bool]]
    tagged: dict[int, FieldSpec]
