"""The interface of the log that a coordinator appends to, and a log that delays its answers.

A broker answers an append when all replicas have the batch (acks=all), or when the append has failed. The answer is
therefore passed to a callback, now or later. `DiskLogs` (disk_logs.py) writes the batches to files.
Source: ReplicaManager.appendRecords (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.log.batch import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL, Batch, LogRecord
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker

AppendCallback = Callable[[Errors, int], None]
"""A function that receives the answer to an append: an error, and the offset of the batch's first record.

If the append failed, the offset is -1.
"""


@dataclass(frozen=True)
class NewBatch:
    """A batch to append.

    Parameters
    ----------
    records
        The key and the value of each record. The value None makes a tombstone.
    timestamp
        The time of all records, in ms since 1970.
    base_sequence, producer_id, producer_epoch, attributes
        The fields with these names in Kafka's batch header. The defaults are those of a batch without a producer.
    """

    records: Sequence[tuple[bytes, bytes | None]]
    timestamp: int
    base_sequence: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    attributes: int = 0

    def at(self, offset: int) -> Batch:
        """Return the batch as it is read when its first record has this offset."""
        records = tuple(
            LogRecord(record_offset, self.timestamp, key, value)
            for record_offset, (key, value) in enumerate(self.records, offset)
        )
        return Batch(
            magic=2,
            base_offset=offset,
            last_offset=offset + len(records) - 1,
            attributes=self.attributes,
            crc=0,
            computed_crc=0,
            position=0,
            size=0,
            payload=b"",
            decompress_content=lambda batch: b"",
            parse_records=lambda batch: records,
            max_timestamp=self.timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            count=len(records),
        )


def build_marker(producer_id: int, producer_epoch: int, *, commits: bool, timestamp: int, epoch: int = 0) -> NewBatch:
    """Return a marker, the control batch that ends a transaction.

    `commits` says whether the marker commits or aborts the transaction. `timestamp` is in ms since 1970. `epoch` is the
    transaction coordinator's epoch, not the producer's epoch.
    """
    key = encode_control_key(ControlType.COMMIT if commits else ControlType.ABORT)
    return NewBatch(
        [(key, encode_end_transaction_marker(epoch))],
        timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


class OffsetsLogs(Protocol):
    """The logs of the offsets topic's partitions on one broker."""

    def magic(self, partition: int) -> int | None:
        """Return the format of new batches: 0, 1 or 2. Return None if the partition is not on this broker."""

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        """Append a batch and call `callback` with the answer, now or later."""

    def read(self, partition: int) -> Iterable[Batch]:
        """Return all batches from the log's start to its end."""


class HeldAppend(NamedTuple):
    """An append whose answer is held back. The answer consists of `error` and `offset`."""

    error: Errors
    offset: int
    callback: AppendCallback


@dataclass
class HeldLogs:
    """Logs that hold back the answers to appends until `release`.

    A batch is written immediately. Even so, `release` may answer with an error, as a broker does if replicas are late.

    Parameters
    ----------
    logs
        The logs to which the batches are appended.
    holds_answers
        Whether answers are held back. If False, each append is answered immediately.
    append_error
        If not NONE, each append is answered with this error, and its batch is not written.
    held_appends
        The appends without an answer, the oldest first.
    """

    logs: OffsetsLogs
    holds_answers: bool = True
    append_error: Errors = Errors.NONE
    held_appends: list[HeldAppend] = field(default_factory=list)

    def magic(self, partition: int) -> int | None:
        """Return the format of new batches, as `OffsetsLogs.magic` describes."""
        return self.logs.magic(partition)

    def read(self, partition: int) -> Iterable[Batch]:
        """Return all batches of the log, also batches whose answer is held back."""
        return self.logs.read(partition)

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        """Append a batch. If `holds_answers` is True, hold back the answer until `release`."""

        def hold(error: Errors, offset: int) -> None:
            self.held_appends.append(HeldAppend(error, offset, callback))

        if self.append_error is not Errors.NONE:
            hold(self.append_error, -1)
        else:
            self.logs.append(partition, batch, hold)
        if not self.holds_answers:
            newest_append = -1
            self.release(newest_append)

    def release(self, number: int = 0, error: Errors = Errors.NONE) -> None:
        """Answer an append. `number` is the index of the append in `held_appends`.

        If `error` is not NONE, the append is answered with this error instead of the log's answer.
        """
        append = self.held_appends.pop(number)
        if error is Errors.NONE:
            append.callback(append.error, append.offset)
        else:
            append.callback(error, -1)
