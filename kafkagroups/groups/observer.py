"""Callbacks of the readable engine: what becomes of each record while a log is loaded."""

from __future__ import annotations

from enum import Enum

from kafkagroups.log.batch import Batch
from kafkagroups.records.serde import Record


class Fate(Enum):
    """What became of a record.

    WINS: a broker answers from the record.
    SUPERSEDED: a newer record has the same key.
    DELETED: a tombstone deleted it.
    HIDDEN: a group tombstone deleted the group, and the new coordinator keeps the offsets of unknown groups.
    ABORTED: the marker of its transaction aborted it.
    PENDING: its transaction is open.
    TOMBSTONE, MARKER: the record itself says something about other records.
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


class Observer:
    """Load callbacks. This default implementation ignores them.

    All offsets are record offsets in the partition whose batch came last.
    """

    def batch(self, partition: int | None, batch: Batch) -> None:
        """Handle a batch that was read. After a failure the rest of the log is still read."""

    def set_fate(self, offset: int, fate: Fate, by: int) -> None:
        """Handle the fate of an offset record: WINS, SUPERSEDED, DELETED or ABORTED.

        `by` is the offset of the record that decided it. For WINS that is the marker that committed the record.
        """

    def group(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        """Handle a group record that was applied.

        `was_known` and `is_known` are whether the coordinator had the group before and after the record.
        """


NO_OBSERVER = Observer()
