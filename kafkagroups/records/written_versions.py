"""Which Kafka versions can have written a record or a log.

Up to 3.9, a broker writes the value versions of its inter.broker.protocol.version, which can be older than the broker.
In this module, "Kafka 2.0" therefore means a 2.0 broker, or a newer one with this setting. No broker writes value
version 4 of a group record. The fields that are set in a record limit its writers further: no version can have set a
field that a newer version added.
Source: GroupMetadataManager.scala (tags 0.9.0.1 to 3.9); GroupCoordinatorRecordHelpers.java; records of captured
brokers; records that Kafka's own code of nine versions (0.8.2.2 to 4.3.1) wrote.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from kafkagroups.errors import UsageError
from kafkagroups.records import releases
from kafkagroups.records.releases import AFTER_ALL_VERSIONS, EVERY_VERSION, Version, VersionRange
from kafkagroups.records.serde import RECORD_TYPES, Record, UnknownContent
from kafkagroups.records.structs import Message
from kafkagroups.records.wire import UUID, Array

TRANSACTIONAL_TOPIC_IDS_SINCE: Version = (4, 4)
"""The first version that writes topic ids in transactional commits. In other commits, topic ids begin with 4.1."""


def writers_of(record: Record, *, is_transactional: bool = False) -> VersionRange:
    """A tombstone has no value, so only its record type limits the versions."""
    if isinstance(record.key, UnknownContent) or isinstance(record.value, UnknownContent):
        return EVERY_VERSION
    if record.value is None:
        # A Kafka version that no longer writes values of a type can still write its tombstones.
        # Exception: from 0.9 on, Kafka writes no record of type 0, the first format of offset records.
        first_version = min(written.range.since for written in find_written_values(record.type))
        return VersionRange(first_version, (0, 9) if record.type == 0 else AFTER_ALL_VERSIONS)
    has_expire_timestamp = getattr(record.value, "expire_timestamp", -1) != -1
    has_topic_id = getattr(record.value, "topic_id", UUID.default) != UUID.default
    first_version = _find_first_version(record.value)
    if is_transactional and has_topic_id:
        first_version = TRANSACTIONAL_TOPIC_IDS_SINCE
    return _writers_of_value(record.type, record.value_version, has_expire_timestamp, first_version)


@cache
def _writers_of_value(
    record_type: int, value_version: int | None, has_expire_timestamp: bool, first_version: Version
) -> VersionRange:
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
    first_version: Version = (0,)
    for spec in type(message).specs:
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

    The text is "" if every version is possible. If no single version can have written all records, for example after an
    upgrade, the text goes from the oldest possible version of any record to the newest.
    """
    different_ranges = set(ranges)
    common = VersionRange.common_to(different_ranges)
    if common.is_empty():
        nonempty_ranges = [versions for versions in different_ranges if not versions.is_empty()]
        oldest = min((versions.since for versions in nonempty_ranges), default=(0,))
        newest = max((versions.until for versions in nonempty_ranges), default=AFTER_ALL_VERSIONS)
        common = VersionRange(oldest, newest)
    if common == EVERY_VERSION:
        return ""
    first = ""
    last = ""
    if common.since > (0,):
        first = next((text for text, version in releases.feature_releases().items() if version >= common.since), "")
    if common.until != AFTER_ALL_VERSIONS:
        last = [text for text, version in releases.feature_releases().items() if version < common.until][-1]
    return f"{first} – {last}"


class WrittenValue(NamedTuple):
    """A value version of a record type, and the Kafka versions that write it.

    If `needs_retention_time` is True, these Kafka versions write the value version only for a commit with a retention
    time.
    """

    type: int
    version: int
    range: VersionRange
    needs_retention_time: bool = False


_WRITERS_BY_TYPE = {4: VersionRange(releases.FIRST_WITH_NEW_COORDINATOR, (4, 1)), 15: VersionRange((4, 1))}
"""The Kafka versions that write types 4 and 15. Each other type above 2 is written by the versions that read it."""

WRITTEN_VALUES = (
    WrittenValue(0, 0, VersionRange((0, 8, 2), (0, 9))),
    WrittenValue(1, 1, VersionRange((0, 9), releases.VERSION_2_1_IV0)),
    WrittenValue(1, 1, VersionRange(releases.VERSION_2_1_IV0), needs_retention_time=True),
    WrittenValue(1, 2, VersionRange(releases.VERSION_2_1_IV0, (2, 1))),
    WrittenValue(1, 3, VersionRange((2, 1), (4, 1))),
    WrittenValue(1, 4, VersionRange((4, 1))),
    WrittenValue(2, 0, VersionRange((0, 9), (0, 10, 1))),
    WrittenValue(2, 1, VersionRange((0, 10, 1), releases.VERSION_2_1_IV0)),
    WrittenValue(2, 2, VersionRange(releases.VERSION_2_1_IV0, (2, 3))),
    WrittenValue(2, 3, VersionRange((2, 3))),
    *(
        WrittenValue(type_id, 0, _WRITERS_BY_TYPE.get(type_id, read_by))
        for type_id, read_by in releases.READ_TYPES.items()
    ),
)


@cache
def find_written_values(record_type: int) -> tuple[WrittenValue, ...]:
    return tuple(written for written in WRITTEN_VALUES if written.type == record_type)


def parse_writer(text: str) -> Version:
    return releases.VERSION_2_1_IV0 if text == "2.1-IV0" else releases.parse_release(text)


def value_version(record_type: int, kafka: str, *, expires: bool = False) -> int:
    """Return the value version that a broker writes for a record type: the first two bytes of the value.

    `kafka` is the broker's version, or the older version in its inter.broker.protocol.version. `expires` says whether
    the client asked for a retention time (OffsetCommit v2 to v4). Raises UsageError if the version does not exist, or
    if a broker of this version writes no record of this type.

    >>> value_version(1, "2.8.2"), value_version(1, "2.8.2", expires=True), value_version(1, "4.1.0")
    (3, 1, 4)
    """
    version = parse_writer(kafka)
    candidates = [written for written in find_written_values(record_type) if version in written.range]
    with_retention_time = [written for written in candidates if written.needs_retention_time and expires]
    matching = with_retention_time or [written for written in candidates if not written.needs_retention_time]
    if not matching:
        raise UsageError(f"Kafka {kafka} writes no record of type {record_type}")
    return matching[0].version
