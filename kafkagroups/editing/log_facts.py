"""What new records need to know about the log before them: its end, its producers, and the broker that wrote it.

The coordinator that wrote a log shows in the sequence number of batches without a producer id. The new
coordinator gives every batch the sequence number 0. The classic coordinator gives batches with group records or
tombstones the sequence number -1, and batches with committed offsets the sequence number 0.
Source: captured logs of 1.0.1 to 4.4.0; PartitionWriter.java (4.3.1); GroupMetadataManager.scala (3.9).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkagroups.errors import BadBytes
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, LogRecord
from kafkagroups.log.producer_state import read_marker
from kafkagroups.log.segment_file import base_offset_of
from kafkagroups.records.control import ControlType, decode_end_transaction_marker
from kafkagroups.records.dialects import Coordinator
from kafkagroups.records.offset_commit import OffsetCommitValue
from kafkagroups.records.serde import decode
from kafkagroups.records.text import encode_utf8
from kafkagroups.records.wire import UUID

_OFFSET_RECORD_TYPE = b"\x00\x01"
_GROUP_RECORD_TYPE = b"\x00\x02"
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""The bytes before a topic id at the end of an offset value: one tagged field, tag 0, 16 bytes."""
_TOPIC_ID_SIZE = 16
NEWEST_OFFSET_VALUE_VERSION = 4
COMMON_VALUE_VERSION = 3
"""The newest value version of an offset record that every Kafka version since 2.1 reads."""


@dataclass
class OpenProducer:
    """A producer with records that no marker has ended. `first_offset` is the Kafka offset of the first of them."""

    first_offset: int
    epoch: int


@dataclass
class LogFacts:
    """What is known about a log after reading its batches with `add`.

    `next_offset` is the Kafka offset after the last batch. `leader_epoch` is the partition leader epoch of the last
    batch, at least 0. `newest_ms` is the newest timestamp, in ms since 1970; -1 if the log has no timestamp. `open` has
    the producers, by producer id, whose records no marker has ended. `marker_epochs` has, by producer id, the epoch of
    the transaction coordinator in the producer's last marker.

    `coordinator` is the coordinator that wrote the log's end; None if the log does not tell. `offset_value_version` is
    the value version of the newest offset record with a version above 1; None if there is none. `has_old_values` says
    whether there is an offset value of version 0 or 1, and `has_new_groups` whether there is a group value that only
    Kafka since 2.1 writes.
    """

    next_offset: int = 0
    leader_epoch: int = 0
    newest_ms: int = NO_TIMESTAMP
    open: dict[int, OpenProducer] = field(default_factory=dict)
    marker_epochs: dict[int, int] = field(default_factory=dict)
    coordinator: Coordinator | None = None
    offset_value_version: int | None = None
    has_old_values: bool = False
    has_new_groups: bool = False

    def add(self, batch: Batch) -> None:
        """Add the next batch of the log. A batch whose records cannot be read only tells its header."""
        self.next_offset = batch.next_offset
        self.leader_epoch = max(0, batch.partition_leader_epoch)
        self.newest_ms = max(self.newest_ms, batch.max_timestamp)
        try:
            if batch.is_control:
                self._add_marker(batch)
            else:
                self._add_data(batch)
        except BadBytes:
            return

    def add_segment(self, path: str) -> None:
        """Add a segment whose batches have been added. The log's next offset is not below its base offset."""
        self.next_offset = max(self.next_offset, base_offset_of(path))

    def _add_marker(self, batch: Batch) -> None:
        if read_marker(batch) not in (ControlType.COMMIT, ControlType.ABORT):
            return
        self.open.pop(batch.producer_id, None)
        self.marker_epochs[batch.producer_id] = decode_end_transaction_marker(batch.records[0].value)

    def _add_data(self, batch: Batch) -> None:
        if batch.producer_id >= 0:
            producer = self.open.setdefault(batch.producer_id, OpenProducer(batch.base_offset, batch.producer_epoch))
            producer.epoch = batch.producer_epoch
        for record in batch.records:
            if record.key is None:
                continue
            record_type = record.key[:2]
            is_offset = record_type == _OFFSET_RECORD_TYPE
            if record.value is not None:
                version = int.from_bytes(record.value[:2], "big", signed=True)
                if is_offset and 2 <= version <= NEWEST_OFFSET_VALUE_VERSION:
                    self.offset_value_version = version
                elif is_offset and version not in (0, 1):
                    continue  # No broker has written this value.
                elif is_offset or record_type == b"\0\0":
                    self.has_old_values = True
                elif record_type != _GROUP_RECORD_TYPE or version >= 2:
                    self.has_new_groups = True
            if batch.magic < 2:
                self.coordinator = "classic"
            elif batch.producer_id < 0 and (record.value is None or not is_offset):
                self.coordinator = "new" if batch.base_sequence == 0 else "classic"
            elif is_offset and record.value is not None and version >= 4:
                self.coordinator = "new"

    def choose_coordinator(self) -> Coordinator:
        """Return the coordinator that wrote the log's end.

        If the log has only commits of an older value version, this is the classic coordinator: of the new one, only the
        releases 4.0.x wrote such commits. If nothing is known about the writer, it is the new coordinator.
        """
        has_offsets = self.has_old_values or self.offset_value_version is not None
        return self.coordinator or ("classic" if has_offsets else "new")

    def choose_offset_value_version(self) -> int:
        """Return the value version of a new offset record: the version that the log's writer uses.

        Version 1 is no evidence on its own: since 2.1, brokers write it for commits with a retention time. If nothing
        is known about the writer, return the newest version that every Kafka version since 2.1 reads.
        """
        if self.offset_value_version is not None:
            return self.offset_value_version
        return 1 if self.has_old_values and not self.has_new_groups else COMMON_VALUE_VERSION


def find_topic_id(batches: Iterable[Batch], topic: str) -> str:
    """Return the id of a topic in the newest offset record that has one; the zero id if no record has one."""
    name = encode_utf8(topic)
    key_end = len(name).to_bytes(2, "big") + name
    newest: tuple[bytes, bytes] | None = None
    for batch in batches:
        for record in read_data_records(batch):
            key = record.key
            value = record.value
            if key is None or value is None or key[:2] != _OFFSET_RECORD_TYPE or not key[:-4].endswith(key_end):
                continue
            if value[-_TOPIC_ID_SIZE - len(_TOPIC_ID_TAG) : -_TOPIC_ID_SIZE] == _TOPIC_ID_TAG:
                newest = (key, value)
    if newest is None:
        return str(UUID.default)
    try:
        value_of_newest = decode(*newest).value
    except BadBytes:
        return str(UUID.default)
    return value_of_newest.topic_id if isinstance(value_of_newest, OffsetCommitValue) else str(UUID.default)


def read_data_records(batch: Batch) -> tuple[LogRecord, ...]:
    """Return the records of a batch; none for a control batch, or if the records cannot be read."""
    if batch.is_control:
        return ()
    try:
        return batch.records
    except BadBytes:
        return ()
