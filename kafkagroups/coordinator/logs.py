"""The log that a coordinator appends to: its interface, on disk, and with answers that are held back.

A broker answers an append when all replicas have the batch (acks=all), or when the append has failed, so a callback
gets the answer, now or later.

A commit contains the leader epoch of the last consumed record (KIP-320), because the next leader may have a shorter
log, or other records at a committed offset. A consumer that starts there asks the leader of the consumed partition
where this epoch ends (`offset_for_leader_epoch`); if that is below the committed offset, the log was truncated.
Source: ReplicaManager.appendRecords, ProducerAppendInfo.checkProducerEpoch, LeaderEpochFileCache.endOffsetFor (3.9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Protocol

from kafkagroups.coordinator.messages import Errors
from kafkagroups.log.batch import CONTROL, NO_PRODUCER_ID, TRANSACTIONAL, Batch, LogRecord, encode_batch
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.folders import has_segments, open_log
from kafkagroups.log.segment_file import SEGMENT_BYTES
from kafkagroups.log.writer import LogWriter
from kafkagroups.records.serde import ControlType, encode_control_key, encode_end_transaction_marker

AppendCallback = Callable[[Errors, int], None]
"""A function that receives the answer to an append: an error, and the offset of the batch's first record.

If the append failed, the offset is -1.
"""


@dataclass(frozen=True)
class NewBatch:
    """A batch to append: the key and the value of each record (None makes a tombstone), and fields of its header.

    `timestamp` is the time of all records, in ms since 1970. The defaults are those of a batch without a producer.
    """

    records: Sequence[tuple[bytes, bytes | None]]
    timestamp: int
    base_sequence: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    attributes: int = 0

    @classmethod
    def of_coordinator(
        cls, records: Sequence[tuple[bytes, bytes | None]], timestamp: int, producer_id: int, producer_epoch: int
    ) -> NewBatch:
        """Return a batch that a coordinator appends, in the producer's transaction, unless `producer_id` is -1."""
        attributes = 0 if producer_id == NO_PRODUCER_ID else TRANSACTIONAL
        return cls(records, timestamp, 0, producer_id, producer_epoch, attributes)

    def encode(self, offset: int, codec: CompressionType = CompressionType.NONE) -> bytes:
        """Return the batch as it stands in a log. A transaction marker is never compressed."""
        return encode_batch(
            [
                LogRecord(record_offset, self.timestamp, key, value)
                for record_offset, (key, value) in enumerate(self.records, offset)
            ],
            attributes=self.attributes if self.attributes & CONTROL else self.attributes | codec,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
        )


def build_marker(producer_id: int, producer_epoch: int, *, commits: bool, timestamp: int) -> NewBatch:
    """`timestamp` is in ms since 1970. The epoch of the transaction coordinator is 0."""
    key = encode_control_key(ControlType.COMMIT if commits else ControlType.ABORT)
    return NewBatch(
        [(key, encode_end_transaction_marker(0))],
        timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


class OffsetsLogs(Protocol):
    def magic(self, partition: int) -> int | None:
        """Return the format of new batches: 0, 1 or 2; None if the partition is not on this broker."""

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        """Append a batch and call `callback` with the answer, now or later."""

    def read(self, partition: int) -> Iterable[Batch]:
        """Return all batches from the log's start to its end."""


@dataclass
class HeldLogs:
    """Logs that hold back the answers to appends until `release`, also with an error, as if replicas were late.

    Batches are appended to `logs` at once; `held_appends` are those without an answer, the oldest first. With an
    `append_error`, each append is answered with it at once, and its batch is not written.
    """

    logs: OffsetsLogs
    holds_answers: bool = True
    append_error: Errors = Errors.NONE
    held_appends: list[Callable[[Errors], None]] = field(default_factory=list)

    def magic(self, partition: int) -> int | None:
        return self.logs.magic(partition)

    def read(self, partition: int) -> Iterable[Batch]:
        return self.logs.read(partition)

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        def hold(error: Errors, offset: int) -> None:
            self.held_appends.append(lambda other_error: callback(other_error or error, offset))

        if self.append_error is not Errors.NONE:
            callback(self.append_error, -1)
            return
        self.logs.append(partition, batch, hold if self.holds_answers else callback)

    def release(self, number: int = 0, error: Errors = Errors.NONE) -> None:
        """Answer the append with this index in `held_appends`, with `error` or with the log's answer."""
        self.held_appends.pop(number)(error)


AppendListener = Callable[[int, int, int], None]
"""A function that is called after each append, with the partition and the first and last offset of the batch."""


def ignore_append(partition: int, first_offset: int, last_offset: int) -> None:
    """Ignore the append, for callers that need no listener."""


@dataclass(eq=False)
class DiskLogs:
    """The partition folders `__consumer_offsets-N` in `folder`, in Kafka's batch format 2. Appends are answered at
    once.

    The first append creates the folder. A batch above `max_message_bytes` is refused with MESSAGE_TOO_LARGE, and with
    `fences_producers` one whose producer epoch is older than the producer's newest in the partition, with
    INVALID_PRODUCER_EPOCH. A transaction marker is never refused or compressed. `segment_bytes` is the largest size of
    a segment file, and `on_append` is called after each successful append, as `AppendListener` describes.
    """

    folder: str | Path
    compression: CompressionType = CompressionType.NONE
    _: KW_ONLY
    fences_producers: bool = True
    max_message_bytes: int = 1_048_588
    segment_bytes: int = SEGMENT_BYTES
    on_append: AppendListener = ignore_append
    _writers: dict[int, LogWriter] = field(default_factory=dict)
    # The keys are (partition, producer id).
    _newest_producer_epochs: dict[tuple[int, int], int] = field(default_factory=dict)

    def magic(self, partition: int) -> int | None:
        return 2

    def read(self, partition: int) -> Iterable[Batch]:
        folder = self._partition_folder(partition)
        if partition in self._writers:
            self._writers[partition].flush()
        return open_log(folder) if folder.is_dir() and has_segments(folder) else ()

    def append(self, partition: int, batch: NewBatch, callback: AppendCallback) -> None:
        callback(*self._append(partition, batch))

    def append_marker(
        self, partition: int, producer_id: int, producer_epoch: int, *, commits: bool, timestamp: int
    ) -> int:
        batch = build_marker(producer_id, producer_epoch, commits=commits, timestamp=timestamp)
        _, offset = self._append(partition, batch)
        return offset

    def close(self) -> None:
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
        data = batch.encode(first_offset, self.compression)
        if len(data) > self.max_message_bytes:
            return Errors.MESSAGE_TOO_LARGE, -1
        writer.append(data)
        if batch.producer_id != NO_PRODUCER_ID:
            self._newest_producer_epochs[producer] = batch.producer_epoch
        self.on_append(partition, first_offset, writer.next_offset - 1)
        return Errors.NONE, first_offset

    def _partition_folder(self, partition: int) -> Path:
        return Path(self.folder, f"__consumer_offsets-{partition}")

    def _open_writer(self, partition: int) -> LogWriter:
        if partition not in self._writers:
            for batch in self.read(partition):
                if batch.producer_id != NO_PRODUCER_ID:
                    self._newest_producer_epochs[partition, batch.producer_id] = batch.producer_epoch
            self._writers[partition] = LogWriter(self._partition_folder(partition), self.segment_bytes)
        return self._writers[partition]


UNDEFINED = -1
"""Kafka's value for an unknown leader epoch or offset."""


def offset_for_leader_epoch(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> tuple[int, int]:
    """Return the largest leader epoch in the log that is not above `epoch`, and the offset at which this epoch ends.

    `epochs` are pairs of a leader epoch and the offset of its first record, in ascending order; `log_end` is the end of
    the last one. The answer is (-1, -1) if `epoch` is -1, because the commit has none, or above the log's epochs. If
    all epochs in the log are above `epoch`, it is `epoch` and the first offset of the first epoch.

    Examples
    --------
    >>> offset_for_leader_epoch([(0, 0), (2, 40)], 60, 1), offset_for_leader_epoch([(0, 0), (2, 40)], 60, 2)
    ((0, 40), (2, 60))
    """
    if epoch == UNDEFINED or not epochs or epoch > epochs[-1][0]:
        return UNDEFINED, UNDEFINED
    end_offset = next((start_offset for log_epoch, start_offset in epochs if log_epoch > epoch), log_end)
    return max((log_epoch for log_epoch, _ in epochs if log_epoch <= epoch), default=epoch), end_offset


def find_truncation_offset(
    follower: Sequence[tuple[int, int]], follower_end: int, leader: Sequence[tuple[int, int]], leader_end: int
) -> int | None:
    """Return the offset to which a follower truncates its log before it fetches from a leader.

    The arguments are the leader epochs and the end of each log, as in `offset_for_leader_epoch`. The answer is
    `follower_end` if nothing is truncated. It is None if the epochs do not tell, because one of the logs has none, or
    the follower has a newer epoch than the leader: then the follower truncates to its high watermark, which is not in
    the log.

    Source: AbstractFetcherThread.getOffsetTruncationState (4.3.1), which the follower repeats until the leader's answer
    to its fetch has no diverging epoch.

    Examples
    --------
    >>> find_truncation_offset([(0, 0)], 15, [(0, 0), (1, 12)], 20)
    12
    """
    epochs = list(follower)
    end = follower_end
    while epochs:
        newest_epoch, _ = epochs[-1]
        leader_epoch, leader_offset = offset_for_leader_epoch(leader, leader_end, newest_epoch)
        if leader_epoch == UNDEFINED:
            return None
        if leader_epoch == newest_epoch and leader_offset >= end:
            return end
        own_epoch, own_end = offset_for_leader_epoch(epochs, end, leader_epoch)
        # If the follower does not know the leader's epoch, it truncates to the end of its epoch before, and asks again.
        end = min(end, own_end) if own_epoch != leader_epoch else min(end, own_end, leader_offset)
        epochs = [entry for entry in epochs if entry[1] < end]
    return end if follower else None
