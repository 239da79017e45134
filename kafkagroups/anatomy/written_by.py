"""The Kafka versions that can have written a record or a log: records/versions.py in reverse.

records/versions.py says which value versions each Kafka version writes. The tagged fields of a record narrow the range
further: a Kafka version cannot have set a field that was added in a newer version.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from kafkagroups.records.fields import FieldSpec, Message, field_specs
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.serde import Record, UnknownContent
from kafkagroups.records.structs import Struct
from kafkagroups.records.versions import EVERY_VERSION, NEWEST, Version, VersionRange, feature_releases, written_values
from kafkagroups.records.wire import UUID, Array
from kafkagroups.records.wire_base import Wire

TOPIC_ID_IN_TRANSACTIONS: Version = (4, 4)
"""The first version whose transactional commits have a topic id. Plain commits have it since 4.1."""


def writers_of(record: Record, *, is_transactional: bool = False) -> VersionRange:
    """Return the Kafka versions that can have written a record. `is_transactional` is a property of its batch.

    A tombstone has no value, so only its record type limits the versions. For an unknown record type, every version is
    possible.
    """
    if isinstance(record.key, UnknownContent) or isinstance(record.value, UnknownContent):
        return EVERY_VERSION
    if record.value is None:
        return _writers_of_tombstone(record.type)
    expires = getattr(record.value, "expire_timestamp", -1) != -1
    newest_field = _newest_set_field(record.value)
    if is_transactional and getattr(record.value, "topic_id", UUID.default) != UUID.default:
        newest_field = TOPIC_ID_IN_TRANSACTIONS
    return _writers_of_value(record.type, record.value_version, expires, newest_field)


@cache
def _writers_of_tombstone(record_type: int) -> VersionRange:
    # A Kafka version that no longer writes values of a type can still write tombstones of this type. Type 0 is the
    # exception: 0.9 and newer versions write neither values nor tombstones of type 0.
    first_version = min(written.range.since for written in written_values(record_type))
    return VersionRange(first_version, NEWEST if record_type else (0, 9))


@cache
def _writers_of_value(
    record_type: int, value_version: int | None, expires: bool, newest_field: Version
) -> VersionRange:
    """Return the Kafka versions that can have written a value of this version.

    `expires` says whether the value has an expire timestamp. `newest_field` is the newest Kafka version that added one
    of the fields that are set.
    """
    candidates = [written for written in written_values(record_type) if written.version == value_version]
    if record_type == 1 and value_version == 1 and not expires:
        # Since 2.1 (2.1-IV0), Kafka writes version 1 only for a commit with an expire timestamp.
        candidates = [written for written in candidates if not written.expires]
    if not candidates:
        return VersionRange(NEWEST, NEWEST)  # The range is empty, because no version writes this value.
    first_version = min(written.range.since for written in candidates)
    end_version = max(written.range.until for written in candidates)
    return VersionRange(first_version, end_version).intersect(
        VersionRange(newest_field, RECORD_TYPES[record_type].read_by.until)
    )


def _newest_set_field(message: Message) -> Version:
    """Return the newest Kafka version that added one of the fields that are set in a message. (0,) means no version."""
    newest: Version = (0,)
    cls: Any = type(message)  # mypy does not accept dataclass types as hashable.
    for spec in _dated_fields(cls):
        value = getattr(message, spec.name)
        if value != spec.default and spec.since > newest:
            newest = spec.since
        contents: Any = value if isinstance(spec.wire, Array) else (value,)
        for content in contents or ():
            if isinstance(content, Message):
                newest = max(newest, _newest_set_field(content))
    return newest


def describe_writers(ranges: Iterable[VersionRange]) -> str:
    """Return the Kafka versions that can have written all records, as a text: "0.9 – 2.0", "4.1 – ", "2.3 – 4.0".

    `ranges` contains the possible versions of each record. If the broker was upgraded, perhaps no single version can
    have written all records. In this case, the text goes from the oldest to the newest possible
    version. The text is "" if every version is possible.
    """
    different_ranges = set(ranges)
    common = EVERY_VERSION
    for versions in different_ranges:
        common = common.intersect(versions)
    if common.since >= common.until:
        possible = [versions for versions in different_ranges if versions.since < versions.until]
        oldest = min((versions.since for versions in possible), default=(0,))
        newest = max((versions.until for versions in possible), default=NEWEST)
        common = VersionRange(oldest, newest)
    if common == EVERY_VERSION:
        return ""
    first = ""
    last = ""
    if common.since > (0,):
        first = next((text for text, version in feature_releases().items() if version >= common.since), "")
    if common.until != NEWEST:
        last = [text for text, version in feature_releases().items() if version < common.until][-1]
    return f"{first} – {last}"


@cache
def _dated_fields(cls: Any) -> tuple[FieldSpec, ...]:
    """Return the fields that a later Kafka version added, and the fields that can contain such fields.

    Fields whose `since` is (0,) exist in all versions.
    """
    return tuple(spec for spec in field_specs(cls) if spec.since > (0,) or _holds_messages(spec.wire))


def _holds_messages(wire: Wire) -> bool:
    return isinstance(wire, Struct) or (isinstance(wire, Array) and isinstance(wire.of, Struct))
