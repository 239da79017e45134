"""A batch of any format (magic 0, 1 or 2), its records, and its position in the log.

The magic is the number of the format: 0 before Kafka 0.10, 1 in 0.10, and 2 since 0.11. In magic 2, Kafka compresses
the records of a batch together. In magic 0 and 1, a record is a message, and several messages can be compressed inside
another message, the wrapper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from kafkagroups.errors import BatchTooLarge, InvalidLog
from kafkagroups.log.batch_frames import to_int64
from kafkagroups.log.compression import MAX_BATCH_BYTES, CompressionType, compression_type

# The bits of a batch's attributes. The three bits of CODEC contain the number of the compression codec.
CODEC = 0x07
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
LOG_APPEND_TIME = 0x08

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1

MIN_RECORD_LIMIT = 2**20
MEMORY_BYTES_PER_RECORD = 256
"""The limit of the records in a compressed batch is `max_batch_bytes` / MEMORY_BYTES_PER_RECORD, but at least
MIN_RECORD_LIMIT. Even a short record needs about this much memory."""


class LogRecord(NamedTuple):
    """One record of the log.

    `offset` is the Kafka offset. `timestamp` is in ms since 1970; -1 in magic 0. `headers` are (key, value) pairs.
    `sequence` is the producer's sequence number; -1 without one. `size` is in bytes after decompression. `attributes`
    are the bits of the record itself, not of its batch. Only a message of magic 0 or 1 has a checksum of its own:
    `crc`, and whether it is correct, `is_valid`.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    sequence: int = -1
    size: int = 0
    crc: int | None = None
    is_valid: bool = True
    magic: int = 2
    attributes: int = 0


@dataclass
class Batch:
    """A batch of magic 2, a single message of magic 0 or 1, or a wrapper of magic 0 or 1.

    `base_offset` and `last_offset` are the Kafka offsets of the first and the last record. `crc` is the checksum in the
    header, and `computed_crc` that of the bytes. `position` is where the batch begins in `file`, the path of the
    segment, if it is known. `size` is in bytes. `count` is the number of records that the header states; 1 in magic 0
    and 1. Timestamps are in ms since 1970. `max_batch_bytes` is the limit of the decompressed content, in bytes.

    In magic 2, `payload` are the bytes of the records, compressed with the codec in `attributes`. In magic 0 and 1, it
    is the whole message, and the fields of a producer, `base_timestamp` and `partition_leader_epoch` are -1.
    """

    magic: int
    base_offset: int
    last_offset: int
    attributes: int
    crc: int
    computed_crc: int
    position: int
    size: int
    payload: bytes = field(repr=False)
    decompress_content: Callable[[Batch], bytes] = field(repr=False, compare=False)
    parse_records: Callable[[Batch], tuple[LogRecord, ...]] = field(repr=False, compare=False)
    max_timestamp: int
    base_timestamp: int = NO_TIMESTAMP
    partition_leader_epoch: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = -1
    count: int = 1
    file: str | None = None
    max_batch_bytes: int = field(default=MAX_BATCH_BYTES, repr=False, compare=False)

    @property
    def is_valid(self) -> bool:
        return self.crc == self.computed_crc

    @property
    def compression(self) -> CompressionType:
        return compression_type(self.attributes)

    @property
    def is_transactional(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & CONTROL)

    @property
    def timestamp_type(self) -> str:
        """Kafka's name of the timestamp type: CreateTime, LogAppendTime, or NoTimestampType in magic 0."""
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.attributes & LOG_APPEND_TIME else "CreateTime"

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may remove the tombstones or the marker of this batch (ms since 1970); None if not set."""
        return self.base_timestamp if self.magic >= 2 and self.attributes & DELETE_HORIZON else None

    @property
    def next_offset(self) -> int:
        return to_int64(self.last_offset + 1)

    @property
    def max_records(self) -> int:
        """The largest number of records that this batch may have if it is compressed."""
        return max(MIN_RECORD_LIMIT, self.max_batch_bytes // MEMORY_BYTES_PER_RECORD)

    @cached_property
    def content(self) -> bytes:
        """The bytes of the records, decompressed. Raises InvalidLog if they cannot be decompressed."""
        try:
            return self.decompress_content(self)
        except InvalidLog as error:
            raise self._add_location(error) from None

    @cached_property
    def records(self) -> tuple[LogRecord, ...]:
        """The records, decompressed and parsed. Raises InvalidLog if they cannot be read."""
        try:
            return self.parse_records(self)
        except InvalidLog as error:
            raise self._add_location(error) from None

    def check_size(self) -> None:
        """Raise BatchTooLarge if the records need more memory than `max_batch_bytes` allows.

        If the records cannot be read for another reason, raise nothing: `records` raises this error later.
        """
        if not self.attributes & CODEC or self.count <= 0:
            return
        try:
            # In magic 0 and 1, the header does not state the number of messages, so the messages must be parsed.
            _ = self.content if self.magic >= 2 else self.records
        except BatchTooLarge:
            raise
        except InvalidLog:
            pass

    def make_record_count_error(self, count: int) -> BatchTooLarge:
        """Return the error of a compressed batch that has `count` records, more than `max_records`."""
        return BatchTooLarge(
            f"this compressed batch has {count} records, more than {self.max_records}; to read it, raise "
            "--max-batch-bytes (max_batch_bytes in Python and Spark)"
        )

    def _add_location(self, error: InvalidLog) -> InvalidLog:
        error.file = self.file
        error.position = self.position
        error.offset = self.base_offset
        return error


def record_count(batch: Batch) -> int:
    """Return the number of records in a batch of any magic. A wrapper that cannot be read counts as one record."""
    if batch.magic >= 2:
        return batch.count
    try:
        return len(batch.records)
    except InvalidLog:
        return 1
