"""The offsets topic's partitions as folders of segment files, as a broker writes them.

Source: ReplicaManager.appendRecords, ProducerAppendInfo.checkProducerEpoch (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.logs import AppendCallback, NewBatch
from kafkagroups.log.batch import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL, Batch, LogRecord
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.segment_file import SEGMENT_BYTES
from kafkagroups.log.segments import has_segments, open_log
from kafkagroups.log.writer import LogWriter
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker

AppendListener = Callable[[int, int, int], None]
"""Called after each append with the partition and the batch's first and last offset."""


def ignore_append(partition: int, first: int, last: int) -> None:
    """Do nothing."""


class DiskLogs:
    """The folders `__consumer_offsets-N` in `folder`, written in Kafka's format (magic 2).

    An append is answered immediately.

    Parameters
    ----------
    folder
        The folder of the partition folders. It need not exist.
    compression
        The codec of appended batches. Markers are never compressed.
    fences
        Whether an append with an older producer epoch than the partition's newest one is refused. `open_logs` sets it
        by `Settings.fences_producers`.
    max_message_bytes
        The largest batch. A larger one is refused with MESSAGE_TOO_LARGE.
    segment_bytes
        The size at which a new segment begins.
    on_append
        Called after each append with partition, first and last offset.
    """

    def __init__(
        self,
        folder: str | Path,
        compression: CompressionType = CompressionType.NONE,
        *,
        fences: bool = True,
        max_message_bytes: int = 1_048_588,
        segment_bytes: int = SEGMENT_BYTES,
        on_append: AppendListener = ignore_append,
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
        """Return 2, the message format of every partition."""
        return 2

    def read(self, partition: int) -> Iterable[Batch]:
        """Return all batches of the partition."""
        folder = self._folder(partition)
        if partition in self._writers:
            self._writers[partition].flush()
        return open_log(folder) if folder.is_dir() and has_segments(folder) else ()

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        """Append a batch and call `callback` immediately.

        The error is INVALID_PRODUCER_EPOCH or MESSAGE_TOO_LARGE if the batch is refused.
        """
        error, offset = self._append(partition, batch)
        callback(error, offset)

    def append_marker(
        self, partition: int, producer_id: int, producer_epoch: int, *, commits: bool, timestamp: int, epoch: int = 0
    ) -> int:
        """Append the marker that ends a transaction; return its offset. `epoch` is the transaction coordinator's."""
        key = encode_control_key(ControlType.COMMIT if commits else ControlType.ABORT)
        record = (key, encode_end_transaction_marker(epoch))
        marker = NewBatch([record], timestamp, -1, producer_id, producer_epoch, TRANSACTIONAL | CONTROL)
        _, offset = self._append(partition, marker)
        return offset

    def close(self) -> None:
        """Close all files."""
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
