"""The fork of two replicas of a partition: the first offset at which their logs differ.

Two replicas fork if both append records at the same offsets, each as the leader of another leader epoch: after an
unclean leader election, or if a leader loses records that it did not write to its disk.

The log cleaner of each replica works on its own, so a record can be missing in one of them although they never forked.
A missing record is explained by cleaning in these cases:

- A later record with the same key is in the log.
- The record is a tombstone, or a later record with the same key was a tombstone that was removed, too.
- The record belongs to an aborted transaction.
- The record is a transaction marker or has no key.

Batches are not compared, because the cleaner writes them again. A missing record that nothing explains is no difference
either if a later record of both, or a leader epoch of both, shows that both had the same records there, or if the other
replica has no record of its own from there on: its cleaner can have removed it, and its tombstone before the first one
fetched that. Otherwise it is a difference, and the end of the shorter log is the fork if there is no earlier one.

Simpler than Kafka: if the cleaner has removed the first records after the fork, and these records can also have been
equal, the fork that is found here comes later than the real one.
Source (4.3.1): Cleaner.shouldRetainRecord.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, LogRecord
from kafkagroups.log.segment_file import base_offset_of, check_regular
from kafkagroups.log.segments import NO_STOP, Log, Stop

_ABORT_MARKER = b"\0\0\0\0"
_CHECKPOINT = "leader-epoch-checkpoint"
_METADATA = "partition.metadata"
_MAX_CHECKPOINT_BYTES = 2**20

Epochs = list[tuple[int, int]]
_Entry = tuple[LogRecord, Batch]
"""A record and its batch."""


class Branch(NamedTuple):
    """One replica from the fork on.

    `only` counts the records that only this replica has. `first` and `last` are their offsets, `times` their smallest
    and largest timestamps in ms since 1970, and `leader_epoch` is that of the first one; None without such records.
    `transactional` counts those in transactions, also markers.
    """

    only: int
    first: int | None
    last: int | None
    leader_epoch: int | None
    end_offset: int
    epochs: Epochs
    times: tuple[int, int] | None = None
    transactional: int = 0


@dataclass(frozen=True)
class Fork:
    """Where two replicas of a partition, a and b, begin to differ.

    All batches before `batch_offset` contain only records before the fork.
    """

    offset: int
    batch_offset: int
    a: Branch
    b: Branch


def find_fork(log_a: Log, log_b: Log, stop: Stop = NO_STOP) -> Fork | None:
    """Return the fork of two replicas of a partition, or None if they do not differ.

    A log ends at its first damaged batch, as in a load, or at `stop`.
    """
    a = _Replica(log_a, stop)
    b = _Replica(log_b, stop)
    first_pair: int | None = None
    agreed = max(log_a.start_offset, log_b.start_offset)
    while True:
        if a.is_between_batches() and b.is_between_batches() and a.has_same_batch(b):
            agreed = a.end
            for side in (a, b):
                side.skip_batch()
            continue
        entry_a = a.peek()
        entry_b = b.peek()
        if entry_a and entry_b and entry_a[0].offset == entry_b[0].offset:
            if _describe(entry_a) != _describe(entry_b):
                first_pair = entry_a[0].offset if first_pair is None else first_pair
                a.note_difference(entry_a)
                b.note_difference(entry_b)
            else:
                agreed = entry_a[0].offset + 1
            a.advance(entry_a, b)
            b.advance(entry_b, a)
        elif entry_a and (not entry_b or entry_a[0].offset < entry_b[0].offset):
            b.note_missing(entry_a, a)
            a.advance(entry_a, b)
        elif entry_b:
            a.note_missing(entry_b, b)
            b.advance(entry_b, a)
        else:
            break
    common_end = _find_common_end(a, b)
    if first_pair is None or first_pair >= common_end:
        agreed = max(agreed, common_end)
    offsets = (first_pair, a.first_unexplained(agreed), b.first_unexplained(agreed))
    offset = min((offset for offset in offsets if offset is not None), default=None)
    if offset is None:
        return None
    return Fork(offset, min(side.batch_offset_of(offset) for side in (a, b)), a.branch(offset), b.branch(offset))


def _describe(entry: _Entry) -> tuple[object, ...]:
    """Return what does not change when the cleaner writes the record's batch again."""
    record, batch = entry
    of_producer = (batch.producer_id, batch.producer_epoch, record.sequence, batch.is_transactional, batch.is_control)
    return record.key, record.value, record.timestamp, batch.partition_leader_epoch, of_producer


def _find_common_end(a: _Replica, b: _Replica) -> int:
    """Where the first of both ends the newest leader epoch that both have; 0 if their files do not say it."""
    common = dict(a.checkpoint).keys() & dict(b.checkpoint)
    starts = [start for epoch, start in [*a.checkpoint, *b.checkpoint] if epoch > max(common, default=0)]
    return min(a.end, b.end, *starts) if common else 0


class _Replica:
    def __init__(self, log: Log, stop: Stop) -> None:
        self.batch: Batch | None = None
        self._batches: Iterator[Batch] = log.read_until(self._is_end)
        self._log = log
        self.checkpoint = _read_checkpoint(log)
        self._stop = stop
        self._records: Sequence[LogRecord] | None = None
        self._index = 0
        self.end = log.start_offset
        self._epochs: Epochs = []
        # Of each record that only this replica has: the offset, time, leader epoch, base offset of its batch, and
        # whether it belongs to a transaction.
        self._columns = [array("q") for _ in range(5)]
        # By producer id and key, the first missing record that no later record explains yet. A record of a transaction
        # waits for the marker; the others have the producer id None.
        self._missing: defaultdict[int | None, dict[bytes, int]] = defaultdict(dict)
        self._after_end: int | None = None
        self._next_batch()

    def is_between_batches(self) -> bool:
        while self._records is not None and self._index >= len(self._records):
            self._next_batch()
        return self._index == 0

    def has_same_batch(self, other: _Replica) -> bool:
        return self.batch is not None and other.batch is not None and self.batch.data == other.batch.data

    def _is_end(self, batch: Batch) -> bool:
        # Behind a stop, the log goes on.
        is_end = self._stop.excludes(batch)
        self.end = max(self.end, batch.base_offset if is_end else batch.next_offset)
        return is_end

    def _next_batch(self) -> None:
        self.batch = next(self._batches, None)
        self._records = None
        self._index = 0
        if self.batch is not None:
            epoch = self.batch.partition_leader_epoch
            if epoch >= 0 and (not self._epochs or epoch > self._epochs[-1][0]):
                self._epochs.append((epoch, self.batch.base_offset))
        elif self._stop == NO_STOP and self._log.damage is None:
            # The last segment is empty if the cleaner has emptied those before it.
            self.end = max(self.end, base_offset_of(self._log.segments[-1]))

    def _read_records(self, batch: Batch) -> Sequence[LogRecord]:
        if self._records is None:
            try:
                self._records = batch.records
            except InvalidLog:
                self._records = [LogRecord(batch.base_offset, batch.max_timestamp, None, batch.payload)]
        return self._records

    def peek(self) -> _Entry | None:
        while self.batch is not None:
            records = self._read_records(self.batch)
            if self._index < len(records):
                return records[self._index], self.batch
            self._next_batch()
        return None

    def advance(self, entry: _Entry, other: _Replica) -> None:
        self._explain(*entry)
        if entry[1].is_control:
            other.end_transaction(*entry)
        self._index += 1

    def skip_batch(self) -> None:
        if self.batch is not None and any(self._missing.values()):
            for record in self._read_records(self.batch):
                self._explain(record, self.batch)
        self._next_batch()

    def _explain(self, record: LogRecord, batch: Batch) -> None:
        if batch.is_control:
            self.end_transaction(record, batch)
        elif record.key is not None:
            for missing in self._missing.values():
                missing.pop(record.key, None)

    def end_transaction(self, marker: LogRecord, batch: Batch) -> None:
        missing = self._missing.pop(batch.producer_id, {})
        if marker.key != _ABORT_MARKER:
            self._missing[None] = missing | self._missing[None]

    def note_difference(self, entry: _Entry) -> None:
        record, batch = entry
        row = (record.offset, record.timestamp, batch.partition_leader_epoch, batch.base_offset, batch.is_transactional)
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def note_missing(self, entry: _Entry, other: _Replica) -> None:
        other.note_difference(entry)
        record, batch = entry
        if self.batch is None and record.offset >= self.end:
            self._after_end = self.end if self._after_end is None else self._after_end
        elif batch.is_control or record.key is None:
            return
        elif record.value is None:
            self._missing[None].pop(record.key, None)
        else:
            producer_id = batch.producer_id if batch.is_transactional else None
            self._missing[producer_id].setdefault(record.key, record.offset)

    def first_unexplained(self, agreed: int) -> int | None:
        last = max(self._columns[0], default=-1)
        offsets = [offset for each in self._missing.values() for offset in each.values() if agreed <= min(offset, last)]
        if self._after_end is not None:
            offsets.append(self._after_end)
        return min(offsets, default=None)

    def batch_offset_of(self, offset: int) -> int:
        offsets, _, _, batch_offsets, _ = self._columns
        index = bisect_left(offsets, offset)
        return min(offset, batch_offsets[index]) if index < len(offsets) else offset

    def branch(self, fork_offset: int) -> Branch:
        index = bisect_left(self._columns[0], fork_offset)
        offsets, times, leader_epochs, _, transactional = (column[index:] for column in self._columns)
        # A leader that has written nothing yet has its epoch at the end of the log.
        end = self.end + (self._stop == NO_STOP)
        epochs = [entry for entry in self.checkpoint or self._epochs if entry[1] < end]
        if not offsets:
            return Branch(0, None, None, None, self.end, epochs)
        known = [time for time in times if time != NO_TIMESTAMP]
        found = ((min(known), max(known)) if known else None, sum(transactional))
        return Branch(len(offsets), offsets[0], offsets[-1], leader_epochs[0], self.end, epochs, *found)


def _read_checkpoint(log: Log) -> Epochs:
    """The file has a version (0), the number of entries, and a line "epoch offset" for each entry.

    Source (4.3.1): LeaderEpochCheckpointFile.java.
    """
    lines = _read_lines(log, _CHECKPOINT)
    try:
        entries = [(int(epoch), int(offset)) for epoch, offset in (line.split() for line in lines[2:] if line.strip())]
        is_whole = int(lines[0]) == 0 and int(lines[1]) == len(entries) and entries == sorted(entries)
    except (ValueError, IndexError):
        return []
    return entries if is_whole else []


def read_topic_id(log: Log) -> str | None:
    """Return the id that a broker gave to the topic, from the file beside the segments; None if it has none.

    Source (4.3.1): PartitionMetadataFile.java.
    """
    fields = (line.partition(":") for line in _read_lines(log, _METADATA))
    return next((value.strip() for name, _, value in fields if name == "topic_id"), None)


def _read_lines(log: Log, name: str) -> list[str]:
    path = os.path.join(log.folder, log.path, name)
    try:
        check_regular(os.stat(path), path)
        with open(path, encoding="ascii") as file:
            return [] if log.content is not None else file.read(_MAX_CHECKPOINT_BYTES).split("\n")
    except (OSError, UsageError, ValueError):
        return []
