"""Where a coordinator appends: the partitions of the offsets topic, each a log.

An append is answered later, in a broker when the replicas have it (acks=all): so it takes a callback, and may fail. Two
logs are here: `DiskLogs`, folders of segments as a broker has them, which answer at once, and `HeldLogs`, which holds
the answers back until somebody lets them go, or fail.
Source: ReplicaManager.appendRecords, ProducerAppendInfo.checkProducerEpoch (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.log.batch import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL, Batch, LogRecord
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.segment_file import SEGMENT_BYTES
from kafkagroups.log.segments import has_segments, open_log
from kafkagroups.log.writer import LogWriter
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker

Appended = Callable[[Errors, int], None]
"""The answer to an append: its error, and the offset of the batch's first record (-1 with an error)."""


@dataclass(frozen=True)
class NewBatch:
    """What is appended as one batch: keys and values, all of one time (ms since the epoch)."""

    records: Sequence[tuple[bytes, bytes | None]]
    timestamp: int
    base_sequence: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    attributes: int = 0


class OffsetsLogs(Protocol):
    """The partitions of the offsets topic on one broker."""

    def magic(self, partition: int) -> int | None:
        """The message format that is written; None when the partition is not here."""

    def append(self, partition: int, batch: NewBatch, appended: Appended) -> None: ...

    def read(self, partition: int) -> Iterable[Batch]:
        """All batches from the log's start to its end."""


class DiskLogs:
    """Folders `__consumer_offsets-N` in `folder`, in Kafka's format (magic 2).

    `fences`: an append with a producer epoch older than the partition knows is refused, as since Kafka 2.5.
    `on_append(partition, first offset, last offset)` hears of every batch.
    """

    def __init__(
        self,
        folder: str | Path,
        compression: CompressionType = CompressionType.NONE,
        *,
        fences: bool = True,
        max_message_bytes: int = 1_048_588,
        segment_bytes: int = SEGMENT_BYTES,
        on_append: Callable[[int, int, int], None] = lambda partition, first, last: None,
    ) -> None:
        self.folder = Path(folder)
        self.compression = compression
        self.fences = fences
        self.max_message_bytes = max_message_bytes
        self.segment_bytes = segment_bytes
        self.on_append = on_append
        self._writers: dict[int, LogWriter] = {}
        self._epochs: dict[tuple[int, int], int] = {}

    def magic(self, partition: int) -> int | None:
        return 2

    def read(self, partition: int) -> Iterable[Batch]:
        folder = self._folder(partition)
        if partition in self._writers:
            self._writers[partition].flush()
        return open_log(folder) if folder.is_dir() and has_segments(folder) else ()

    def append(self, partition: int, batch: NewBatch, appended: Appended) -> None:
        error, offset = self._append(partition, batch)
        appended(error, offset)

    def append_marker(
        self, partition: int, producer_id: int, producer_epoch: int, *, commits: bool, timestamp: int, epoch: int = 0
    ) -> int:
        """Appends what a transaction coordinator (of that `epoch`) writes at a transaction's end; gives its offset."""
        key = encode_control_key(ControlType.COMMIT if commits else ControlType.ABORT)
        record = (key, encode_end_transaction_marker(epoch))
        attributes = TRANSACTIONAL | CONTROL
        return self._append(partition, NewBatch([record], timestamp, -1, producer_id, producer_epoch, attributes))[1]

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _append(self, partition: int, batch: NewBatch) -> tuple[Errors, int]:
        writer = self._writer(partition)
        producer = (partition, batch.producer_id)
        is_control = bool(batch.attributes & CONTROL)
        if self.fences and batch.producer_epoch < self._epochs.get(producer, -1) and not is_control:
            return Errors.INVALID_PRODUCER_EPOCH, -1
        first = writer.next_offset
        data = encode_batch(
            [LogRecord(first + at, batch.timestamp, key, value) for at, (key, value) in enumerate(batch.records)],
            attributes=batch.attributes | (CompressionType.NONE if is_control else self.compression),
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
        if len(data) > self.max_message_bytes:
            return Errors.MESSAGE_TOO_LARGE, -1
        writer.append(data)
        if batch.producer_id != NO_PRODUCER_ID:
            self._epochs[producer] = batch.producer_epoch
        self.on_append(partition, first, writer.next_offset - 1)
        return Errors.NONE, first

    def _folder(self, partition: int) -> Path:
        return self.folder / f"__consumer_offsets-{partition}"

    def _writer(self, partition: int) -> LogWriter:
        if partition not in self._writers:
            for batch in self.read(partition):
                if batch.producer_id != NO_PRODUCER_ID:
                    self._epochs[partition, batch.producer_id] = batch.producer_epoch
            self._writers[partition] = LogWriter(self._folder(partition), self.segment_bytes)
        return self._writers[partition]


@dataclass
class HeldLogs:
    """Logs whose answers wait: `held` are the appends in flight, oldest first; nothing is held with `holds` off.

    A batch reaches the log at once and only its answer waits, unless the log refuses it (`refuses`). `release` answers
    one, in any order; an error given there reaches the coordinator although the record is in the log, as when the
    replicas are late.
    """

    logs: OffsetsLogs
    holds: bool = True
    refuses: Errors = Errors.NONE
    held: list[tuple[Errors, int, Appended]] = field(default_factory=list)

    def magic(self, partition: int) -> int | None:
        return self.logs.magic(partition)

    def read(self, partition: int) -> Iterable[Batch]:
        return self.logs.read(partition)

    def append(self, partition: int, batch: NewBatch, appended: Appended) -> None:
        def answered(error: Errors, offset: int) -> None:
            self.held.append((error, offset, appended))

        if self.refuses is not Errors.NONE:
            answered(self.refuses, -1)
        else:
            self.logs.append(partition, batch, answered)
        if not self.holds:
            self.release(-1)

    def release(self, number: int = 0, error: Errors = Errors.NONE) -> None:
        """Answers one of the held appends, with that error if one is given."""
        was, offset, appended = self.held.pop(number)
        appended(error or was, -1 if error else offset)
