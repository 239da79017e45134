"""The progress of a load: adds up the bytes that its threads have read."""

from __future__ import annotations

from threading import Lock

from kafkagroups.log.log_to_clean import Progress


class ByteProgress:
    """Adds up the bytes that the engines read, and calls `report` with "loading", the sum, and `total`.

    An engine calls this object with the number of bytes that it has read since its last call. The sum is limited to
    `total`, the size of all logs in bytes: if the native engine hands a partition to the readable engine, both
    engines count the bytes of the partition.
    """

    def __init__(self, report: Progress, total: int) -> None:
        self._report = report
        self._total = total
        self._done = 0
        self._lock = Lock()

    def __call__(self, count: int, /) -> None:
        with self._lock:
            self._done = min(self._done + count, self._total)
            self._report("loading", self._done, self._total)
