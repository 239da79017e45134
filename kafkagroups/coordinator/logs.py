"""The log that a coordinator appends to (interface), and logs that delay their answers.

An append is answered later: in a broker, when the replicas have the batch (acks=all). It therefore takes a callback and
may fail. disk_logs.py has the logs that write files.
Source: ReplicaManager.appendRecords (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch

AppendCallback = Callable[[Errors, int], None]
"""Receives the answer to an append: its error, and the offset of the batch's first record (-1 with an error)."""


@dataclass(frozen=True)
class NewBatch:
    """A batch to append.

    Parameters
    ----------
    records
        Keys and values. A value of None is a tombstone.
    timestamp
        The time of all records, in ms since the epoch.
    base_sequence, producer_id, producer_epoch, attributes
        The fields of Kafka's batch header.
    """

    records: Sequence[tuple[bytes, bytes | None]]
    timestamp: int
    base_sequence: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    attributes: int = 0


class OffsetsLogs(Protocol):
    """The partitions of the offsets topic on one broker."""

    def magic(self, partition: int) -> int | None:
        """Return the message format that is written, or None if the partition is not on this broker."""

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        """Append a batch and call `callback` with the answer, now or later."""

    def read(self, partition: int) -> Iterable[Batch]:
        """Return all batches from the log's start to its end."""


class HeldAppend(NamedTuple):
    """An append whose answer is delayed: the answer that the log gave, and the callback that waits for it."""

    error: Errors
    offset: int
    callback: AppendCallback


@dataclass
class HeldLogs:
    """Logs that delay the answers to appends until `release`.

    A batch reaches the log immediately, and only its answer is delayed. `release` may give an error although the record
    is in the log, as a broker does when its replicas are late.

    Parameters
    ----------
    logs
        The logs that receive the batches.
    holds_answers
        Whether answers are delayed. If False, each append is answered immediately.
    append_error
        If not NONE, appends are answered with this error and do not reach the log.
    held_appends
        The appends without an answer, the oldest first.
    """

    logs: OffsetsLogs
    holds_answers: bool = True
    append_error: Errors = Errors.NONE
    held_appends: list[HeldAppend] = field(default_factory=list)

    def magic(self, partition: int) -> int | None:
        """Return the message format of the log."""
        return self.logs.magic(partition)

    def read(self, partition: int) -> Iterable[Batch]:
        """Return all batches of the log, also those whose answer is delayed."""
        return self.logs.read(partition)

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        """Append a batch, and keep its answer until `release`."""

        def hold(error: Errors, offset: int) -> None:
            self.held_appends.append(HeldAppend(error, offset, callback))

        if self.append_error is not Errors.NONE:
            hold(self.append_error, -1)
        else:
            self.logs.append(partition, batch, hold)
        if not self.holds_answers:
            self.release(-1)

    def release(self, number: int = 0, error: Errors = Errors.NONE) -> None:
        """Answer one of the held appends, with this error if it is not NONE."""
        held = self.held_appends.pop(number)
        held.callback(error or held.error, -1 if error else held.offset)
