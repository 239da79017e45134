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

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from kafkagroups.records.versions import NEWEST, Version, parse_release
from kafkagroups.records.wire import At, Wire


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
    since: Version
    doc: str

    def stands_in(self, at: At) -> bool:
        return at.version in self.versions and at.kafka >= self.since


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
    """A field of a message: its wire type, the versions that have it ("3+", "1", "0-2"), its default.

    `tag` makes it a tagged field. `since` is the first Kafka that knows the field, where the version does not tell: a
    tag, or one of the fields of share groups that changed after the preview of 4.0. `doc` says in a few words what
    the field means; `annotate` shows it.
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
            parse_release(since) if (since := declared.metadata["since"]) else (0,),
            declared.metadata["doc"],
        )
        for declared in dataclasses.fields(cls)
        if "wire" in declared.metadata
    )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def layout(cls: type[Message], version: int, kafka: Version = NEWEST) -> At:
    """What decides the bytes of one version of a message, for one Kafka's reader."""
    return At(version, version in _layouts[cls].flexible, kafka)
