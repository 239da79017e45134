"""Which part of a log is read: up to an offset or a time (`Stop`), and from one on (`RecordRange`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.segments import Log, Notes


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a reader stops: at an offset or at a time, whichever comes first. None means no limit.

    A batch is read as a whole or not at all, so the last batch that is read can contain offsets above `until_offset`.

    Parameters
    ----------
    until_offset
        Stop before the first batch whose base offset is this Kafka offset or higher.
    until_time
        Stop before the first batch that contains a timestamp after this time (ms since 1970).
    """

    until_offset: int | None = None
    until_time: int | None = None

    def excludes(self, batch: Batch) -> bool:
        """Return whether reading stops before this batch."""
        if self.until_offset is not None and batch.base_offset >= self.until_offset:
            return True
        return self.until_time is not None and batch.max_timestamp > self.until_time


NO_STOP = Stop()
"""The reader stops only at the end of the log."""


def batches_until(log: Log, stop: Stop = NO_STOP, notes: Notes | None = None) -> Iterator[Batch]:
    """Yield the batches of a log until the first batch that `stop` excludes. `notes` says what else was found."""
    return log.read_until(stop.excludes, notes)


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Which records of a log are selected: the beginning selects records, the end selects whole batches.

    `first_offset` is the Kafka offset of the first record, and `since_time` the earliest timestamp (ms since 1970);
    None means no limit. `stop` says where reading ends.
    """

    first_offset: int | None = None
    since_time: int | None = None
    stop: Stop = NO_STOP

    @property
    def has_start(self) -> bool:
        """Whether the range can leave out records of a batch that is read."""
        return self.first_offset is not None or self.since_time is not None

    def read_batches(self, log: Log, notes: Notes | None = None) -> Iterator[Batch]:
        """Yield the batches of a log before the end of the range. Some can be before the first offset."""
        return batches_until(log, self.stop, notes)

    def is_before(self, batch: Batch) -> bool:
        """Return whether all offsets of a batch are below the first offset of the range."""
        return self.first_offset is not None and batch.last_offset < self.first_offset

    def includes(self, log_record: LogRecord) -> bool:
        """Return whether a record of a batch that was read is in the range."""
        if self.first_offset is not None and log_record.offset < self.first_offset:
            return False
        return self.since_time is None or log_record.timestamp >= self.since_time

    def select_records(self, batch: Batch) -> list[LogRecord]:
        """Return the records of a batch that are in the range. Raises InvalidLog if they cannot be read."""
        if self.is_before(batch):
            return []
        return [log_record for log_record in batch.records if self.includes(log_record)]


WHOLE_LOG = RecordRange()
"""All records of a log."""
