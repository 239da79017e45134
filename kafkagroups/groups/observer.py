"""What happens to each record while a log is loaded: fates, and the callbacks that report them.

`NewestValues` is the rule by which both engines find the fates of all records that are not offset records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Generic, NamedTuple, Protocol, TypeVar

from kafkagroups.log.batch import Batch
from kafkagroups.records.serde import Record


class Fate(Enum):
    """What happened to a record.

    WINS: the record is in effect; a broker's responses depend on it.
    SUPERSEDED: a newer record has the same key.
    DELETED: a tombstone deleted the content of the record.
    HIDDEN: a group tombstone deleted the group of an offset. The new coordinator keeps the offset, but does not return
        the offset to clients.
    ABORTED: a marker aborted the transaction of the record.
    PENDING: the transaction of the record is open.
    TOMBSTONE: the record deletes the content of another record.
    MARKER: the record commits or aborts a transaction.
    IGNORED: this coordinator does not use the record.
    """

    WINS = "wins"
    SUPERSEDED = "superseded"
    DELETED = "deleted"
    HIDDEN = "hidden"
    ABORTED = "aborted"
    PENDING = "pending"
    TOMBSTONE = "tombstone"
    MARKER = "marker"
    IGNORED = "ignored"


class StoredOffset(Protocol):
    """A committed or pending offset of a shard, which stays the same object, so that an observer can recognize it."""

    @property
    def record_offset(self) -> int: ...


class Observer:
    """The callbacks of a load.

    All offsets belong to the partition of the last `start_batch`. An offset does not identify a record, because a valid
    batch can contain several with the same one; the index in `start_record` does.
    """

    def start_batch(self, partition: int | None, batch: Batch) -> None:
        """Called before the records are applied, and also for the batches after a failure."""

    def start_record(self, index: int) -> None:
        """Until the next call, all callbacks report effects of this record."""

    def store_offset(self, offset: StoredOffset) -> None:
        """Called with the offset in the current record, which the shard stores as committed or pending."""

    def set_fate(self, offset: StoredOffset, fate: Fate, by: int) -> None:
        """Called with WINS, SUPERSEDED, DELETED or ABORTED for the record from which `offset` comes.

        `by` is the offset of the record that decided the fate, for WINS the marker that committed the transaction.
        """

    def end_group_record(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        """Handle a group record after it was applied."""


NO_OBSERVER = Observer()


CLASSIC_GROUP_TYPE = 2
"""The record type of a classic group."""
GROUP_ENDING_TYPES = (2, 3, 11, 17)
"""A tombstone of these types deletes the group."""

RecordT = TypeVar("RecordT")


class GroupKey(NamedTuple):
    record_type: int
    detail: str

    @classmethod
    def of(cls, record: Record) -> GroupKey:
        return cls(record.type, str(getattr(record.key, "member_id", getattr(record.key, "regular_expression", ""))))


class NewestValues(Generic[RecordT]):
    """`decide` gets a record that another one replaces, its fate, the offset of the other one, and whether their keys
    are the same.
    """

    def __init__(self, decide: Callable[[RecordT, Fate, int, bool], None]) -> None:
        self.records: dict[GroupKey, RecordT] = {}
        self._decide = decide

    def put(self, key: GroupKey, record: RecordT, offset: int) -> None:
        """A classic group record replaces a consumer, share or streams group, and the other way round a simple classic
        group.

        The earlier records of the group then have no effect any longer.
        """
        is_classic = key.record_type == CLASSIC_GROUP_TYPE
        other_keys = [other for other in self.records if (other.record_type == CLASSIC_GROUP_TYPE) != is_classic]
        self._end(other_keys, Fate.SUPERSEDED, offset, has_same_key=False)
        self._end([key], Fate.SUPERSEDED, offset)
        self.records[key] = record

    def delete(self, key: GroupKey, offset: int) -> None:
        self._end([key], Fate.DELETED, offset)
        if key.record_type in GROUP_ENDING_TYPES:
            self._end(list(self.records), Fate.DELETED, offset, has_same_key=False)

    def _end(self, keys: Iterable[GroupKey], fate: Fate, offset: int, *, has_same_key: bool = True) -> None:
        for key in keys:
            if key in self.records:
                self._decide(self.records.pop(key), fate, offset, has_same_key)
