"""The newest value of each group record's key, and which records a new group record replaces.

Both engines use these rules to decide the fates (observer.py) of group records. A group record is a record of a
classic, consumer, share or streams group that is not an offset record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from kafkagroups.groups.observer import Fate
from kafkagroups.records.serde import Record

CLASSIC_GROUP_TYPE = 2
"""The record type of a classic group."""
GROUP_ENDING_TYPES = (2, 3, 11, 17)
"""The record types of a classic, consumer, share and streams group. A tombstone of these types deletes the group."""

RecordT = TypeVar("RecordT")
"""What the caller uses to refer to a record."""


class GroupKey(NamedTuple):
    """The key of a group record without the group id.

    `detail` is the other field of the key: a member id or a regular expression. It is "" if there is no other field.
    """

    record_type: int
    detail: str

    @classmethod
    def of(cls, record: Record) -> GroupKey:
        """Return the key of a decoded group record."""
        return cls(record.type, str(getattr(record.key, "member_id", getattr(record.key, "regular_expression", ""))))


class NewestValues(Generic[RecordT]):
    """The newest values of one group in one partition.

    `decide` is called with a record that another record replaces, its fate, the offset of the other record, and whether
    the two records have the same key.
    """

    def __init__(self, decide: Callable[[RecordT, Fate, int, bool], None]) -> None:
        self.records: dict[GroupKey, RecordT] = {}
        self._decide = decide

    def put(self, key: GroupKey, record: RecordT, offset: int) -> None:
        """Add a record with a value. `offset` is its offset in the log.

        A classic group record replaces a consumer, share or streams group. A record of these three types replaces a
        simple classic group. In both cases the earlier records of the group have no effect any longer.
        """
        is_classic = key.record_type == CLASSIC_GROUP_TYPE
        other_keys = [other for other in self.records if (other.record_type == CLASSIC_GROUP_TYPE) != is_classic]
        self._end(other_keys, Fate.SUPERSEDED, offset, has_same_key=False)
        self._end([key], Fate.SUPERSEDED, offset)
        self.records[key] = record

    def delete(self, key: GroupKey, offset: int) -> None:
        """Apply the tombstone of a key. `offset` is its offset in the log. A tombstone can delete the whole group."""
        self._end([key], Fate.DELETED, offset)
        if key.record_type in GROUP_ENDING_TYPES:
            self._end(list(self.records), Fate.DELETED, offset, has_same_key=False)

    def _end(self, keys: Iterable[GroupKey], fate: Fate, offset: int, *, has_same_key: bool = True) -> None:
        for key in keys:
            if key in self.records:
                self._decide(self.records.pop(key), fate, offset, has_same_key)
