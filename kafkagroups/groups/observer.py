"""Callbacks of the readable engine: what happens to each record while a log is loaded.

The readable engine (fold.py) calls the methods of an observer. The package history/ explains a load with observers.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

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
    """A committed or pending offset of a shard (shard.py).

    The object stays the same as long as the shard contains the offset. An observer can therefore recognize a stored
    offset by its identity. `record_offset` is the offset of the commit record in the log.
    """

    @property
    def record_offset(self) -> int: ...


class Observer:
    """The callbacks of a load. The methods of this class do nothing. A subclass overrides the methods that it needs.

    All record offsets belong to the partition of the last call of `start_batch`. An offset does not identify a record,
    because a valid batch can contain several records with the same offset. The index in `start_record` identifies the
    record.
    """

    def start_batch(self, partition: int | None, batch: Batch) -> None:
        """Handle a batch before its records are applied. If the load fails, the later batches are also reported."""

    def start_record(self, index: int) -> None:
        """Handle a record before it is applied. Until the next call, all callbacks report effects of this record.

        `index` is the position of the record in the current batch, from 0.
        """

    def store_offset(self, offset: StoredOffset) -> None:
        """Handle the offset in the current record. The shard stores the offset as committed or pending."""

    def set_fate(self, offset: StoredOffset, fate: Fate, by: int) -> None:
        """Handle the fate of the record from which `offset` comes: WINS, SUPERSEDED, DELETED or ABORTED.

        `by` is the offset of the record that decided the fate. If the fate is WINS, this record is the marker that
        committed the transaction.
        """

    def end_group_record(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        """Handle a group record after it was applied. `offset` is the record's offset in the log.

        `was_known` says whether the coordinator had the group before the record. `is_known` says whether the
        coordinator has the group after the record.
        """


NO_OBSERVER = Observer()
