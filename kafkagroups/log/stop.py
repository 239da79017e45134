"""Where a reader stops before the end of a log: at an offset, or at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkagroups.log.batch import Batch
from kafkagroups.log.segments import Log


@dataclass(frozen=True, slots=True)
class Stop:
    """The first batch that is no longer read. None means no limit.

    A batch is read as a whole or not at all, so offsets above `until` can be read.

    Parameters
    ----------
    until
        Stop at the first batch whose base offset is not below this offset.
    until_time
        Stop at the first batch that holds a timestamp after this one (ms since the epoch).
    """

    until: int | None = None
    until_time: int | None = None

    def ends_before(self, batch: Batch) -> bool:
        """Return whether a batch is no longer read."""
        if self.until is not None and batch.base_offset >= self.until:
            return True
        return self.until_time is not None and batch.max_timestamp > self.until_time


NO_STOP = Stop()


def batches_until(log: Log, stop: Stop = NO_STOP) -> Iterator[Batch]:
    """Yield the batches of a log up to the stop."""
    for batch in log:
        if stop.ends_before(batch):
            return
        yield batch
