"""The fields of a committed offset, for JSON, pandas, Arrow, Spark and Parquet.

All these forms of a committed offset are made from `OFFSET_FIELDS`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

from kafkagroups.groups.offsets import OffsetAndMetadata


class OffsetField(NamedTuple):
    """A field of OffsetAndMetadata: its name, and the name and the type of its column in tables.

    `type` is Spark's name of the type, with a `?` at the end if the column can be null.
    """

    name: str
    column: str
    type: str


OFFSET_FIELDS = (
    OffsetField("offset", "committed_offset", "long"),
    OffsetField("leader_epoch", "leader_epoch", "int?"),
    OffsetField("metadata", "metadata", "string"),
    OffsetField("commit_timestamp", "commit_timestamp_ms", "long"),
    OffsetField("expire_timestamp", "expire_timestamp_ms", "long?"),
    OffsetField("topic_id", "topic_id", "string?"),
    OffsetField("record_offset", "record_offset", "long"),
)

OFFSET_FIELD_NAMES = tuple(field.name for field in OFFSET_FIELDS)
_read_values = attrgetter(*OFFSET_FIELD_NAMES)


def offset_values(offset: OffsetAndMetadata) -> tuple[Any, ...]:
    """Return the values of a committed offset in the order of `OFFSET_FIELDS`."""
    values: tuple[Any, ...] = _read_values(offset)
    return values


def offset_json(offset: OffsetAndMetadata) -> dict[str, Any]:
    """Return a committed offset as `load --json` prints it."""
    return dict(zip(OFFSET_FIELD_NAMES, _read_values(offset), strict=True))
