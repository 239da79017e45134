"""Which Kafka versions can have written a record or a log: records/versions.py in reverse.

Tagged fields narrow the range: a version older than the one that brought a field cannot have set it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from kafkagroups.records.fields import Message, Spec, specs
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.serde import Record, UnknownContent
from kafkagroups.records.structs import Struct
from kafkagroups.records.versions import EVERY_VERSION, NEWEST, Range, Version, feature_releases, written_values
from kafkagroups.records.wire import Array
from kafkagroups.records.wire_base import Wire


def writers_of(record: Record) -> Range:
    """Return the Kafka versions that can have written a record.

    A tombstone shows only its type. A record of an unknown type shows nothing.
    """
    if isinstance(record.key, UnknownContent) or isinstance(record.value, UnknownContent):
        return EVERY_VERSION
    if record.value is None:
        return _writers_of_tombstone(record.type)
    expires = getattr(record.value, "expire_timestamp", -1) != -1
    return _writers_of_value(record.type, record.value_version, expires, _newest_set_field(record.value))


@cache
def _writers_of_tombstone(record_type: int) -> Range:
    # Later versions still write tombstones of a type whose values have ended. Type 0 is the exception.
    since = min(written.range.since for written in written_values(record_type))
    return Range(since, NEWEST if record_type else (0, 9))


@cache
def _writers_of_value(record_type: int, value_version: int | None, expires: bool, newest_field: Version) -> Range:
    fitting = [written for written in written_values(record_type) if written.version == value_version]
    if record_type == 1 and value_version == 1 and not expires:
        fitting = [written for written in fitting if not written.expires]
    if not fitting:
        return Range(NEWEST, NEWEST)
    whole = Range(min(written.range.since for written in fitting), max(written.range.until for written in fitting))
    return whole.intersect(Range(newest_field, RECORD_TYPES[record_type].read_by.until))


def _newest_set_field(message: Message) -> Version:
    """Return the Kafka version that brought the newest of the fields that are set."""
    newest: Version = (0,)
    cls: Any = type(message)  # mypy does not accept dataclass types as hashable.
    for spec in _dated_fields(cls):
        value = getattr(message, spec.name)
        if value != spec.default and spec.since > newest:
            newest = spec.since
        parts: Any = value if isinstance(spec.wire, Array) else (value,)
        for part in parts or ():
            if isinstance(part, Message):
                newest = max(newest, _newest_set_field(part))
    return newest


def describe_writers(ranges: Iterable[Range]) -> str:
    """Return the Kafka versions that can have written everything, as text: "0.9 – 2.0", "4.1 – ", "2.3 – 4.0".

    If several versions wrote a log one after another, no single version can have written everything. The text then
    goes from the oldest version that wrote to it to the newest. It is "" if the records show nothing.
    """
    different = set(ranges)
    whole = EVERY_VERSION
    for each in different:
        whole = whole.intersect(each)
    if whole.since >= whole.until:
        possible = [each for each in different if each.since < each.until]
        since = min((each.since for each in possible), default=(0,))
        until = max((each.until for each in possible), default=NEWEST)
        whole = Range(since, until)
    if whole == EVERY_VERSION:
        return ""
    first = ""
    last = ""
    if whole.since > (0,):
        first = next((text for text, version in feature_releases().items() if version >= whole.since), "")
    if whole.until != NEWEST:
        last = [text for text, version in feature_releases().items() if version < whole.until][-1]
    return f"{first} – {last}"


@cache
def _dated_fields(cls: Any) -> tuple[Spec, ...]:
    """Return the fields that came with a certain Kafka version, and the fields that can contain such fields."""
    return tuple(spec for spec in specs(cls) if spec.since > (0,) or _holds_messages(spec.wire))


def _holds_messages(wire: Wire) -> bool:
    return isinstance(wire, Struct) or (isinstance(wire, Array) and isinstance(wire.of, Struct))
