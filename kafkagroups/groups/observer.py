"""Callbacks of the readable engine: what happens to each record while a log is loaded.

The readable engine (fold.py) calls the methods of an observer. history/ uses observers to explain a load.
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
    HIDDEN: a group tombstone deleted the group of the offset. The new coordinator keeps the offset, but does not return
        it.
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
    """A committed or pending offset of a shard. An observer may recognize it by its identity.

    It stays the same object as long as the shard (shard.py) contains it.
    """

    @property
    def record_offset(self) -> int: ...


class Observer:
    """The callbacks of a load. This class ignores all callbacks; a subclass overrides the methods that it needs.

    All record offsets belong to the partition of the last call of `batch`. An offset does not identify a record,
    because a valid batch can contain several records with the same offset. The index in `start_record` identifies the
    record.
    """

    def batch(self, partition: int | None, batch: Batch) -> None:
        """Handle a batch that was read. If the load fails, the batches after the failure are also reported."""

    def start_record(self, index: int) -> None:
        """Handle the start of a record. The callbacks until the next call of this method report its effects.

        `index` is the position of the record in the batch of the last call of `batch`: 0 for the first record.
        """

    def store_offset(self, offset: StoredOffset) -> None:
        """Handle an offset that the current record commits, immediately or at the end of its transaction."""

    def set_fate(self, offset: StoredOffset, fate: Fate, by: int) -> None:
        """Handle the fate of the record of a stored offset: WINS, SUPERSEDED, DELETED or ABORTED.

        `by` is the offset of the record that decided the fate. For WINS it is the offset of the marker that committed
        the record.
        """

    def group(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        """Handle a group record that was applied.

        `was_known` and `is_known` tell whether the coordinator had the group before and after the record.
        """


NO_OBSERVER = Observer()
