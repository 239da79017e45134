"""A range of a log's records: from an offset and a time on, up to a `Stop`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.segments import Log, Notes
from kafkagroups.log.stop import NO_STOP, Stop, batches_until


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Which records of a log are selected by their offsets and timestamps.

    The beginning of the range selects records, and the end selects whole batches.

    Parameters
    ----------
    first_offset
        The Kafka offset of the first record. None means no limit.
    since_time
        Only records with this timestamp or a later one (ms since 1970). None means no limit.
    stop
        Where reading ends.
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
