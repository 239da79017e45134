"""The versions of the values of each record type in a log (`stats --by type`).

A program that reads the topic itself must know the version of each value. A broker can write a newer version after an
upgrade, for example version 4 of an OffsetCommit value since Kafka 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.history.second_pass import Follower
from kafkagroups.log.batch import NO_TIMESTAMP, Batch


class TypeAndVersion(NamedTuple):
    """A record type and the version of a value. The version is None for tombstones."""

    type: int
    version: int | None


@dataclass
class VersionCount:
    """The number of the records with a value version, and their first and last timestamps (None: no timestamps)."""

    records: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None

    def add(self, other: VersionCount) -> None:
        """Add the records of another count."""
        self.records += other.records
        firsts = [time for time in (self.first_timestamp_ms, other.first_timestamp_ms) if time is not None]
        lasts = [time for time in (self.last_timestamp_ms, other.last_timestamp_ms) if time is not None]
        self.first_timestamp_ms = min(firsts, default=None)
        self.last_timestamp_ms = max(lasts, default=None)


class VersionCounter(Follower):
    """Counts the value versions in a second pass.

    A record without a key, or with a key or a value of less than two bytes, is not counted.
    """

    def __init__(self) -> None:
        self.counts: dict[TypeAndVersion, VersionCount] = {}

    def follow(self, batch: Batch) -> None:
        if batch.is_control:
            return
        try:
            records = batch.records
        except BadBytes:
            return
        for record in records:
            if record.key is None or len(record.key) < 2 or (record.value is not None and len(record.value) < 2):
                continue
            version = None if record.value is None else int.from_bytes(record.value[:2], "big", signed=True)
            name = TypeAndVersion(int.from_bytes(record.key[:2], "big", signed=True), version)
            time_ms = None if record.timestamp == NO_TIMESTAMP else record.timestamp
            self.counts.setdefault(name, VersionCount()).add(VersionCount(1, time_ms, time_ms))


def value_versions_json(counts: dict[TypeAndVersion, VersionCount]) -> list[dict[str, Any]]:
    """Return the counts as `stats --by type --json` prints them, sorted by type and version."""
    return [{**name._asdict(), **vars(count)} for name, count in sort_versions(counts)]


def sort_versions(counts: dict[TypeAndVersion, VersionCount]) -> list[tuple[TypeAndVersion, VersionCount]]:
    """Return the counts in the order of the types and versions. The tombstones of a type are the last ones."""

    def sort_key(item: tuple[TypeAndVersion, VersionCount]) -> tuple[int, bool, int]:
        name = item[0]
        return name.type, name.version is None, name.version or 0

    return sorted(counts.items(), key=sort_key)
