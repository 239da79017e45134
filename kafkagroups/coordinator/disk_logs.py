"""The partitions of the offsets topic as folders with segment files, in a broker's format.

Source: ReplicaManager.appendRecords, ProducerAppendInfo.checkProducerEpoch (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.logs import AppendCallback, NewBatch, build_marker
from kafkagroups.log.batch import CONTROL, NO_PRODUCER_ID, Batch, LogRecord
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.folders import has_segments, open_log
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.segment_file import SEGMENT_BYTES
from kafkagroups.log.writer import LogWriter

AppendListener = Callable[[int, int, int], None]
"""A function that is called after each append, with the partition and the first and last offset of the batch."""


def ignore_append(partition: int, first_offset: int, last_offset: int) -> None:
    """Ignore the append, for callers that need no listener."""


class DiskLogs:
    """The partition folders `__consumer_offsets-N` in `folder`, in Kafka's batch format 2.

    Each append is answered immediately.

    Parameters
    ----------
    folder
        The folder that contains the partition folders. If it does not exist, the first append creates it.
    compression
        The codec of appended batches. Transaction markers are never compressed.
    fences_producers
        Whether to refuse an append with an older producer epoch than the producer's newest epoch in the partition. A
        transaction marker is never refused. `open_logs` (start.py) passes `Settings.fences_producers`.
    max_message_bytes
        The size of the largest accepted batch, in bytes. A larger batch is refused with MESSAGE_TOO_LARGE.
    segment_bytes
        The largest size of a segment file, in bytes. If a batch does not fit, the log begins the next segment file.
    on_append
        A function that is called after each successful append, as `AppendListener` describes.
    """

    def __init__(
        self,
        folder: str | Path,
        compression: CompressionType = CompressionType.NONE,
        *,
        fences_producers: bool = True,
        max_message_bytes: int = 1_048_588,
        segment_bytes: int = SEGMENT_BYTES,
        on_append: AppendListener = ignore_append,
    ) -> None:
        self.folder = Path(folder)
        self.compression = compression
        self.fences_producers = fences_producers
        self.max_message_bytes = max_message_bytes
        self.segment_bytes = segment_bytes
        self.on_append = on_append
        self._writers: dict[int, LogWriter] = {}
        # The keys are (partition, producer id).
        self._newest_producer_epochs: dict[tuple[int, int], int] = {}

    def magic(self, partition: int) -> int | None:
        """Return 2, the batch format of every partition. Kafka's name for this number is magic."""
        return 2

    def read(self, partition: int) -> Iterable[Batch]:
        """Return all batches of the partition."""
        folder = self._partition_folder(partition)
        if partition in self._writers:
            self._writers[partition].flush()
        return open_log(folder) if folder.is_dir() and has_segments(folder) else ()

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        """Append a batch and call `callback` immediately.

        The callback receives the error and the offset of the batch's first record. If the batch is refused, the error
        is INVALID_PRODUCER_EPOCH or MESSAGE_TOO_LARGE.
        """
        error, offset = self._append(partition, batch)
        callback(error, offset)

    def append_marker(
        self, partition: int, producer_id: int, producer_epoch: int, *, commits: bool, timestamp: int, epoch: int = 0
    ) -> int:
        """Append a marker (the record that ends a transaction). Return the marker's offset.

        `commits` says whether the marker commits or aborts the transaction. `timestamp` is in ms since 1970. `epoch` is
        the transaction coordinator's epoch, not the producer's epoch.
        """
        batch = build_marker(producer_id, producer_epoch, commits=commits, timestamp=timestamp, epoch=epoch)
        _, offset = self._append(partition, batch)
        return offset

    def close(self) -> None:
        """Close all files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _append(self, partition: int, batch: NewBatch) -> tuple[Errors, int]:
        writer = self._open_writer(partition)
        producer = (partition, batch.producer_id)
        is_control = bool(batch.attributes & CONTROL)
        has_old_epoch = batch.producer_epoch < self._newest_producer_epochs.get(producer, -1)
        if self.fences_producers and has_old_epoch and not is_control:
            return Errors.INVALID_PRODUCER_EPOCH, -1
        first_offset = writer.next_offset
        data = encode_batch(
            [
                LogRecord(offset, batch.timestamp, key, value)
                for offset, (key, value) in enumerate(batch.records, first_offset)
            ],
            attributes=batch.attributes | (CompressionType.NONE if is_control else self.compression),
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
        if len(data) > self.max_message_bytes:
            return Errors.MESSAGE_TOO_LARGE, -1
        writer.append(data)
        if batch.producer_id != NO_PRODUCER_ID:
            self._newest_producer_epochs[producer] = batch.producer_epoch
        self.on_append(partition, first_offset, writer.next_offset - 1)
        return Errors.NONE, first_offset

    def _partition_folder(self, partition: int) -> Path:
        return self.folder / f"__consumer_offsets-{partition}"

    def _open_writer(self, partition: int) -> LogWriter:
        if partition not in self._writers:
            for batch in self.read(partition):
                if batch.producer_id != NO_PRODUCER_ID:
                    self._newest_producer_epochs[partition, batch.producer_id] = batch.producer_epoch
            self._writers[partition] = LogWriter(self._partition_folder(partition), self.segment_bytes)
        return self._writers[partition]
