"""The value versions that brokers write, by record type and Kafka version.

Up to 3.9, a broker writes the value versions of its inter.broker.protocol.version, which can be older than the broker.
In this module, "Kafka 2.0" therefore means a 2.0 broker, or a newer broker with this setting. No broker writes value
version 4 of a group record. anatomy/written_by.py uses the same table to find the versions that can have written a
value.
Source: GroupMetadataManager.scala (tags 0.9.0.1 to 3.9); GroupCoordinatorRecordHelpers.java; records of captured
brokers; records that Kafka's own code of nine versions (0.8.2.2 to 4.3.1) wrote.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kafkagroups.errors import UsageError
from kafkagroups.records.dialects import READ_TYPES
from kafkagroups.records.versions import (
    AFTER_ALL_VERSIONS,
    FIRST_WITH_NEW_COORDINATOR,
    VERSION_2_1_IV0,
    Version,
    VersionRange,
    parse_release,
)


class WrittenValue(NamedTuple):
    """A value version of a record type, and the Kafka versions that write it.

    `type` is the record type, `version` is the value version, and `range` contains the Kafka versions. If
    `needs_retention_time` is True, these Kafka versions write the value version only for a commit with a retention
    time. The value then has an expire timestamp.
    """

    type: int
    version: int
    range: VersionRange
    needs_retention_time: bool = False


_WRITERS_BY_TYPE = {4: VersionRange(FIRST_WITH_NEW_COORDINATOR, (4, 1)), 15: VersionRange((4, 1), AFTER_ALL_VERSIONS)}
"""The Kafka versions that write types 4 and 15. Each other type above 2 is written by the versions that read it."""

WRITTEN_VALUES = (
    WrittenValue(0, 0, VersionRange((0, 8, 2), (0, 9))),
    WrittenValue(1, 1, VersionRange((0, 9), VERSION_2_1_IV0)),
    WrittenValue(1, 1, VersionRange(VERSION_2_1_IV0, AFTER_ALL_VERSIONS), needs_retention_time=True),
    WrittenValue(1, 2, VersionRange(VERSION_2_1_IV0, (2, 1))),
    WrittenValue(1, 3, VersionRange((2, 1), (4, 1))),
    WrittenValue(1, 4, VersionRange((4, 1), AFTER_ALL_VERSIONS)),
    WrittenValue(2, 0, VersionRange((0, 9), (0, 10, 1))),
    WrittenValue(2, 1, VersionRange((0, 10, 1), VERSION_2_1_IV0)),
    WrittenValue(2, 2, VersionRange(VERSION_2_1_IV0, (2, 3))),
    WrittenValue(2, 3, VersionRange((2, 3), AFTER_ALL_VERSIONS)),
    *(WrittenValue(type_id, 0, _WRITERS_BY_TYPE.get(type_id, read_by)) for type_id, read_by in READ_TYPES.items()),
)
"""For each record type, the value versions and the Kafka versions that write them."""


@cache
def find_written_values(record_type: int) -> tuple[WrittenValue, ...]:
    """Return the lines of `WRITTEN_VALUES` for a record type."""
    return tuple(written for written in WRITTEN_VALUES if written.type == record_type)


def parse_writer(text: str) -> Version:
    """Return the Kafka version of a text: a release, or "2.1-IV0", which inter.broker.protocol.version can contain."""
    return VERSION_2_1_IV0 if text == "2.1-IV0" else parse_release(text)


def value_version(record_type: int, kafka: str, *, expires: bool = False) -> int:
    """Return the value version that a broker writes for a record type.

    Parameters
    ----------
    record_type
        The number in the key: 1 for an offset, 2 for a classic group, …
    kafka
        The broker's version, or the older version in inter.broker.protocol.version. It can also be "2.1-IV0".
    expires
        Whether the client asked for a retention time (OffsetCommit v2 to v4).

    Returns
    -------
    int
        The number in the first two bytes of the value.

    Raises
    ------
    UsageError
        The version does not exist, or a broker of this version writes no record of this type.

    Examples
    --------
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
