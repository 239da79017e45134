"""Where a reader stops before the end of a log: at an offset, or at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkagroups.log.batch import Batch
from kafkagroups.log.segments import Log, Notes


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a reader stops: at an offset or at a time. If both are given, the reader stops at whichever comes first.

    A batch is read as a whole or not at all. So the last batch that is read can contain offsets above `until_offset`.

    Parameters
    ----------
    until_offset
        Stop before the first batch whose base offset is this Kafka offset or higher. None means no limit.
    until_time
        Stop before the first batch that contains a timestamp after this time (ms since 1970). None means no limit.
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
