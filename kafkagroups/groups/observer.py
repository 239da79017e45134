"""Who listens to a loader: what becomes of each record, told while the log is read."""

from __future__ import annotations

from enum import Enum

from kafkagroups.log.batch import Batch
from kafkagroups.records.serde import Record


class Fate(Enum):
    """What became of a record.

    WINS: a broker answers from it. SUPERSEDED by a newer record of its key. DELETED by a tombstone. HIDDEN by a
    group's tombstone, under the new coordinator, which keeps the offsets of a group that it does not know. ABORTED by
    its transaction's marker. PENDING: its transaction is open. TOMBSTONE and MARKER are records that say something of
    others. IGNORED: this coordinator makes nothing of it.
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
    """Told what happens; this one does not care. Offsets are those of records in the partition that is being read."""

    def batch(self, partition: int | None, batch: Batch) -> None:
        """A batch was read, whether or not the load comes that far."""

    def told(self, offset: int, fate: Fate, by: int) -> None:
        """What became of an offset record: WINS (by: the marker that committed it), SUPERSEDED, DELETED, ABORTED."""

    def group(self, group_id: str, record: Record, offset: int, was_known: bool, is_known: bool) -> None:
        """A group record was applied; whether the coordinator knew the group before, and knows it afterwards."""


NOBODY = Observer()
