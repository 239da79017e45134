"""Which Kafkas can have written a record, and a log: records/writers.py read the other way.

Tagged fields narrow it: a tag is not older than the Kafka that brought it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from kafkagroups.records.fields import Message, Spec, kafka_version, specs
from kafkagroups.records.serde import RECORD_TYPES, Record, Unread
from kafkagroups.records.structs import Struct
from kafkagroups.records.wire import Array, Wire
from kafkagroups.records.writers import FOREVER, Range, Version, rules, table

ANY = Range((0,), FOREVER)


def writers_of(record: Record) -> Range:
    """The Kafkas that can have written a record. A tombstone only tells its type; an unread record nothing."""
    if isinstance(record.key, Unread) or isinstance(record.value, Unread):
        return ANY
    expires = getattr(record.value, "expire_timestamp", -1) != -1
    newest = (0,) if record.value is None else _newest_field(record.value)
    return _range(record.type, record.value_version, record.value is not None, expires, newest)


@cache
def _range(record_type: int, value_version: int | None, has_value: bool, expires: bool, newest: Version) -> Range:
    mine = [rule for rule in rules() if rule.type == record_type]
    assert mine, f"writer_versions.json lacks record type {record_type}"
    if not has_value:
        # a type that has ended gets tombstones from the newer Kafkas still
        return Range(min(rule.range.since for rule in mine), FOREVER if record_type else (0, 9))
    fitting = [rule for rule in mine if rule.version == value_version]
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


def describe_writers(ranges: Iterable[Range]) -> str:
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
    releases = table()["releases"]
    first = next((text for text in releases if kafka_version(text) >= whole.since), "") if whole.since > (0,) else ""
    last = [text for text in releases if kafka_version(text) < whole.until][-1] if whole.until != FOREVER else ""
    return f"{first} – {last}"


@cache
def _dated(cls: Any) -> tuple[Spec, ...]:
    """The fields that tell a Kafka, themselves or in what they hold."""
    return tuple(spec for spec in specs(cls) if spec.since > (0,) or _holds_messages(spec.wire))


def _holds_messages(wire: Wire) -> bool:
    return isinstance(wire, Struct) or (isinstance(wire, Array) and isinstance(wire.of, Struct))
