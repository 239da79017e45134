"""Which releases of Kafka can read a record."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from kafkagroups.errors import BadBytes
from kafkagroups.records.dialects import CHECKED_VERSIONS, Coordinator, dialect
from kafkagroups.records.serde import UnknownContent, decode


def describe_readers(key: bytes | None, value: bytes | None) -> str:
    """Return which coordinators read a record, for example "read by the classic coordinator of 2.3.1 to 3.9.2".

    The releases are those whose loads were compared with this package's (`CHECKED_VERSIONS`).
    """
    parts = []
    for coordinator, versions in CHECKED_VERSIONS.items():
        ranges = list(_find_ranges(coordinator, versions, key, value))
        if ranges:
            parts.append(f"the {coordinator} coordinator of {', '.join(ranges)}")
    return f"read by {' and '.join(parts)}" if parts else "no checked release reads it"


def _find_ranges(
    coordinator: Coordinator, versions: tuple[str, ...], key: bytes | None, value: bytes | None
) -> Iterator[str]:
    """Yield the ranges of consecutive versions that read a record, for example "2.3.1 to 3.9.2"."""
    for can_read, run in groupby(versions, lambda kafka: _can_read(coordinator, kafka, key, value)):
        if can_read:
            readers = list(run)
            yield readers[0] if len(readers) == 1 else f"{readers[0]} to {readers[-1]}"


def _can_read(coordinator: Coordinator, kafka: str, key: bytes | None, value: bytes | None) -> bool:
    try:
        record = decode(key, value, dialect(coordinator, kafka))
    except BadBytes:
        return False
    return not isinstance(record.key, UnknownContent)
