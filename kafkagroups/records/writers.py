"""Which value version a broker of which Kafka writes, and the reverse: which Kafkas can have written a record.

One table says both: writer_versions.json. A broker that is set to an older inter.broker.protocol.version (up to 3.9
brokers could be) writes as that Kafka did, so "2.0" here is a 2.0 broker or a newer one that was told to be one.
Nobody writes version 4 of a group. Tagged fields narrow the reverse: a tag is not older than the Kafka that brought it.
Source: the writers of nine versions, run (0.8.2.2 to 4.3.1).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from kafkagroups.errors import UsageError
from kafkagroups.records.fields import Message, Spec, kafka_version, specs
from kafkagroups.records.serde import RECORD_TYPES, Record, Unread
from kafkagroups.records.structs import Struct
from kafkagroups.records.wire import Array, Wire

Version = tuple[int, ...]
FOREVER: Version = (2**31,)


class Range(NamedTuple):
    """Kafka versions from `since` on, below `until`."""

    since: Version
    until: Version

    def __contains__(self, version: object) -> bool:
        return isinstance(version, tuple) and self.since <= version < self.until

    def meet(self, other: Range) -> Range:
        """What both allow; empty (since >= until) when nothing is left."""
        return Range(max(self.since, other.since), min(self.until, other.until))


ANY = Range((0,), FOREVER)


class _Rule(NamedTuple):
    type: int
    version: int
    range: Range
    expires: bool | None


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("kafkagroups.records").joinpath("writer_versions.json").read_text())
    return table


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(row["type"], row["version"], Range(_version(row["since"]), _version(row["until"])), row.get("expires"))
        for row in _table()["values"]
    )


def _version(text: str | None) -> Version:
    """A Kafka version; 2.1-IV0 is the one step on the way to a release (2.1) that wrote something of its own."""
    if text is None:
        return FOREVER
    return (2, 0, 2**30) if text == "2.1-IV0" else kafka_version(text)


def value_version(record_type: int, kafka: str, *, expires: bool = False) -> int:
    """The value version that a broker of that Kafka writes for a record type.

    `expires`: the client asked for a retention time (OffsetCommit v2 to v4). "2.1-IV0" is the step before 2.1.
    UsageError when that Kafka writes no such record.

    >>> value_version(1, "2.8.2"), value_version(1, "2.8.2", expires=True), value_version(1, "4.1.0")
    (3, 1, 4)
    """
    version = _version(kafka)
    found = [rule for rule in _rules() if rule.type == record_type and version in rule.range]
    chosen = [rule for rule in found if rule.expires and expires] or [rule for rule in found if not rule.expires]
    if not chosen:
        raise UsageError(f"Kafka {kafka} writes no record of type {record_type}")
    return chosen[0].version


def writers_of(record: Record) -> Range:
    """The Kafkas that can have written a record. A tombstone only tells its type; an unread record nothing."""
    if isinstance(record.key, Unread) or isinstance(record.value, Unread):
        return ANY
    expires = getattr(record.value, "expire_timestamp", -1) != -1
    newest = (0,) if record.value is None else _newest_field(record.value)
    return _range(record.type, record.value_version, record.value is not None, expires, newest)


@cache
def _range(record_type: int, value_version: int | None, has_value: bool, expires: bool, newest: Version) -> Range:
    rules = [rule for rule in _rules() if rule.type == record_type]
    assert rules, f"writer_versions.json lacks record type {record_type}"
    if not has_value:
        # a type that has ended gets tombstones from the newer Kafkas still
        return Range(min(rule.range.since for rule in rules), FOREVER if record_type else (0, 9))
    fitting = [rule for rule in rules if rule.version == value_version]
    if record_type == 1 and value_version == 1 and not expires:
        fitting = [rule for rule in fitting if not rule.expires]
    if not fitting:
        return Range(FOREVER, FOREVER)
    brought = Range(newest, RECORD_TYPES[record_type].until)
    return Range(min(r.range.since for r in fitting), max(r.range.until for r in fitting)).meet(brought)


def _newest_field(message: Message) -> Version:
    """The Kafka that brought the newest of the fields that are set."""
    newest: Version = (0,)
    cls: Any = type(message)  # mypy takes dataclasses for unhashable
    for spec in _dated(cls):
        value = getattr(message, spec.name)
        if value != spec.default and spec.since > newest:
            newest = spec.since
        inner: Any = value if isinstance(spec.wire, Array) else (value,)
        for part in inner or ():
            if isinstance(part, Message):
                newest = max(newest, _newest_field(part))
    return newest


def written_by(ranges: Iterable[Range]) -> str:
    """The Kafkas that can have written all of it, as text: "0.9 – 2.0", "4.1 – ", "2.3 – 4.0".

    A log that was written by one Kafka after another has no such version: then from the oldest that wrote to it to
    the newest. "" when nothing tells.
    """
    seen = list(set(ranges))
    whole = ANY
    for each in seen:
        whole = whole.meet(each)
    if whole.since >= whole.until:
        told = [each for each in seen if each.since < each.until]
        whole = Range(min((r.since for r in told), default=(0,)), max((r.until for r in told), default=FOREVER))
    if whole == ANY:
        return ""
    releases = _table()["releases"]
    first = next((text for text in releases if kafka_version(text) >= whole.since), "") if whole.since > (0,) else ""
    last = [text for text in releases if kafka_version(text) < whole.until][-1] if whole.until != FOREVER else ""
    return f"{first} – {last}"


@cache
def _dated(cls: Any) -> tuple[Spec, ...]:
    """The fields that tell a Kafka, themselves or in what they hold."""
    return tuple(spec for spec in specs(cls) if spec.since > (0,) or _holds_messages(spec.wire))


def _holds_messages(wire: Wire) -> bool:
    return isinstance(wire, Struct) or (isinstance(wire, Array) and isinstance(wire.of, Struct))
