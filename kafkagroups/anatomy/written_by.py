"""The Kafka versions that can have written a record or a log.

records/written_values.py lists which value versions each Kafka version writes. The fields that are set in a record
limit the versions further: a Kafka version cannot have set a field that a newer version added.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from kafkagroups.records.fields import FieldSpec, Message, field_specs
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.serde import Record, UnknownContent
from kafkagroups.records.structs import Struct
from kafkagroups.records.versions import AFTER_ALL_VERSIONS, EVERY_VERSION, Version, VersionRange, feature_releases
from kafkagroups.records.wire import UUID, Array
from kafkagroups.records.wire_base import Wire
from kafkagroups.records.written_values import find_written_values

TRANSACTIONAL_TOPIC_IDS_SINCE: Version = (4, 4)
"""The first version that writes topic ids in transactional commits. In other commits, topic ids begin with 4.1."""


def writers_of(record: Record, *, is_transactional: bool = False) -> VersionRange:
    """Return the Kafka versions that can have written a record.

    `is_transactional` says whether the record's batch is transactional. A tombstone has no value, so only its record
    type limits the versions. For an unknown record type, every version is possible.
    """
    if isinstance(record.key, UnknownContent) or isinstance(record.value, UnknownContent):
        return EVERY_VERSION
    if record.value is None:
        return _writers_of_tombstone(record.type)
    has_expire_timestamp = getattr(record.value, "expire_timestamp", -1) != -1
    has_topic_id = getattr(record.value, "topic_id", UUID.default) != UUID.default
    first_version = _find_first_version(record.value)
    if is_transactional and has_topic_id:
        first_version = TRANSACTIONAL_TOPIC_IDS_SINCE
    return _writers_of_value(record.type, record.value_version, has_expire_timestamp, first_version)


@cache
def _writers_of_tombstone(record_type: int) -> VersionRange:
    """Return the Kafka versions that can have written a tombstone of a record type."""
    first_version = min(written.range.since for written in find_written_values(record_type))
    # A Kafka version that no longer writes values of a type can still write its tombstones.
    # Exception: from 0.9 on, Kafka writes neither values nor tombstones of type 0, the first format of offset records.
    end_version = (0, 9) if record_type == 0 else AFTER_ALL_VERSIONS
    return VersionRange(first_version, end_version)


@cache
def _writers_of_value(
    record_type: int, value_version: int | None, has_expire_timestamp: bool, first_version: Version
) -> VersionRange:
    """Return the Kafka versions that can have written a value with a value version and certain fields.

    `first_version` is the first Kafka version that has all fields that are set in the value.
    """
    candidates = [written for written in find_written_values(record_type) if written.version == value_version]
    if record_type == 1 and value_version == 1 and not has_expire_timestamp:
        # Since 2.1, Kafka writes version 1 only for a commit with an expire timestamp.
        candidates = [written for written in candidates if not written.needs_retention_time]
    if not candidates:
        return VersionRange(AFTER_ALL_VERSIONS, AFTER_ALL_VERSIONS)  # An empty range: no version writes this value.
    oldest_writer = min(written.range.since for written in candidates)
    end_of_writers = max(written.range.until for written in candidates)
    end_of_readers = RECORD_TYPES[record_type].read_by.until
    return VersionRange(oldest_writer, end_of_writers).intersect(VersionRange(first_version, end_of_readers))


def _find_first_version(message: Message) -> Version:
    """Return the first Kafka version that has all fields that are set in a message. (0,) means every version."""
    first_version: Version = (0,)
    cls: Any = type(message)  # mypy does not accept dataclass types as hashable.
    for spec in _find_limiting_fields(cls):
        value = getattr(message, spec.name)
        if value != spec.default:
            first_version = max(first_version, spec.since)
        elements: Any = value if isinstance(spec.wire, Array) else (value,)
        for element in elements or ():
            if isinstance(element, Message):
                first_version = max(first_version, _find_first_version(element))
    return first_version


def describe_writers(ranges: Iterable[VersionRange]) -> str:
    """Return the Kafka versions that can have written all records, as a text such as "0.9 – 2.0" or "4.1 – ".

    `ranges` contains the possible versions of each record. The text is "" if every version is possible. After an
    upgrade of the broker, there may be no single version that can have written all records. The text then goes from
    the oldest possible version of any record to the newest.
    """
    different_ranges = set(ranges)
    common = EVERY_VERSION
    for versions in different_ranges:
        common = common.intersect(versions)
    if common.since >= common.until:
        nonempty_ranges = [versions for versions in different_ranges if versions.since < versions.until]
        oldest = min((versions.since for versions in nonempty_ranges), default=(0,))
        newest = max((versions.until for versions in nonempty_ranges), default=AFTER_ALL_VERSIONS)
        common = VersionRange(oldest, newest)
    if common == EVERY_VERSION:
        return ""
    first = ""
    last = ""
    if common.since > (0,):
        first = next((text for text, version in feature_releases().items() if version >= common.since), "")
    if common.until != AFTER_ALL_VERSIONS:
        last = [text for text, version in feature_releases().items() if version < common.until][-1]
    return f"{first} – {last}"


@cache
def _find_limiting_fields(cls: Any) -> tuple[FieldSpec, ...]:
    """Return the fields that can limit the versions: fields that a Kafka version added, and structs.

    Structs can contain added fields.
    """
    return tuple(spec for spec in field_specs(cls) if spec.since > (0,) or _contains_structs(spec.wire))


def _contains_structs(wire: Wire) -> bool:
    return isinstance(wire, Struct) or (isinstance(wire, Array) and isinstance(wire.element_type, Struct))
