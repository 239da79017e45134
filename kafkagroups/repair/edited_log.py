"""A copy of a partition's log that is changed: appended to, rolled, cut and cleaned.

Where the original is damaged, the copy ends, as a broker's recovery cuts a log. Zeros at the end of a segment are not
copied.

A cut removes whole batches, like a broker that truncates its log, and the segments that begin above the offset; if none
is left, an empty one with this base offset is created.

Batches without a producer id show by their sequence number which coordinator wrote them: the new one writes 0, the
classic one -1 for group records and tombstones, and 0 for committed offsets.
Source (4.3.1): UnifiedLog.truncateTo; LocalLog.truncateTo; LogSegment.truncateTo; UnifiedLog.roll;
LogCleanerManager.maybeTruncateCheckpoint; PartitionWriter.
Source (3.9): GroupMetadataManager. Captured logs of 1.0.1 to 4.4.0.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafkagroups.errors import BadBytes
from kafkagroups.log.batch import NO_TIMESTAMP, Batch, LogRecord, encode_batch, record_count
from kafkagroups.log.batches import Damage, parse_batch_at
from kafkagroups.log.cleaner import CleanerConfig, Compaction, clean, copy_segment, list_segments, read_marker
from kafkagroups.log.folders import open_log
from kafkagroups.log.segment_file import base_offset_of, segment_name
from kafkagroups.log.segments import Log
from kafkagroups.log.writer import LogWriter
from kafkagroups.records.releases import Coordinator, Dialect, dialect
from kafkagroups.records.serde import ControlType, decode_end_transaction_marker
from kafkagroups.records.written_versions import value_version

KeyAndValue = tuple[bytes, bytes | None]
_CLEANED = "cleaned"
_OFFSET_RECORD_TYPE = b"\x00\x01"
_GROUP_RECORD_TYPE = b"\x00\x02"
NEWEST_OFFSET_VALUE_VERSION = 4
COMMON_VALUE_VERSION = 3
"""The newest value version of an offset record that every Kafka version since 2.1 reads."""


@dataclass(frozen=True)
class Removed:
    segments: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    split: tuple[int, int] | None = None


class EditedLog:
    """The copy of a log in a folder, which ends at the `damage` of the original.

    `writer` and `kafka` are those of the coordinator that would write new records; None means that the log decides. The
    next cleaning pass begins at the offset `next_dirty`; None if no pass has run.
    """

    def __init__(self, folder: Path, source: Log, writer: Dialect | None, kafka: str | None) -> None:
        self.folder = folder
        self.partition = source.partition
        self.writer = writer
        self.kafka = kafka
        self.next_dirty: int | None = None
        self._writer: LogWriter | None = None
        self._facts: LogFacts | None = None
        self.damage = self._copy(source)

    def _copy(self, source: Log) -> Damage | None:
        segments = list_segments(source)
        segment_of_path = {segment.path: segment for segment in segments}
        for batch in source:
            segment_of_path[batch.file or ""].size = batch.position + batch.size
        if source.damage:
            segments = segments[: source.segments.index(source.damage.file) + 1]
        for segment in segments:
            copy_segment(segment, self.folder)
        return source.damage

    @property
    def facts(self) -> LogFacts:
        if self._facts is None:
            log = open_log(self.folder)
            self._facts = LogFacts(log.start_offset)
            for batch in log:
                self._facts.add(batch)
            # The log's next offset is not below the base offset of its last segment.
            self._facts.next_offset = max(self._facts.next_offset, base_offset_of(log.segments[-1]))
        return self._facts

    @property
    def dialect(self) -> Dialect:
        return self.writer or dialect(self.facts.choose_coordinator())

    @property
    def offset_value_version(self) -> int:
        return self.facts.choose_offset_value_version() if self.kafka is None else value_version(1, self.kafka)

    def open(self) -> Log:
        if self._writer is not None:
            self._writer.flush()
        log = open_log(self.folder)
        log.partition = self.partition
        return log

    def append(self, records: Sequence[KeyAndValue], timestamp_ms: int, **header: int) -> tuple[int, int]:
        """Return the offsets of its first and its last record.

        The partition leader epoch is that of the batch before. Raises UsageError if a number does not fit into its
        field.
        """
        facts = self.facts
        if self._writer is None:
            self._writer = LogWriter(self.folder)
        first_offset = self._writer.next_offset
        batch = encode_batch(
            [LogRecord(offset, timestamp_ms, key, value) for offset, (key, value) in enumerate(records, first_offset)],
            partition_leader_epoch=facts.leader_epoch,
            **header,
        )
        self._writer.append(batch)
        facts.add(parse_batch_at(batch, 0))
        return first_offset, self._writer.next_offset - 1

    def roll(self) -> bool:
        """Begin a new segment. Return False if the active segment is empty: it then stays."""
        if os.path.getsize(self.open().segments[-1]) == 0:
            return False
        self.close()
        (self.folder / segment_name(self.facts.next_offset)).touch(exist_ok=False)
        return True

    def cut(self, offset: int) -> Removed:
        self.close()
        log = open_log(self.folder)
        kept_segments = [path for path in log.segments if base_offset_of(path) <= offset]
        first: Batch | None = None
        last: Batch | None = None
        batches = 0
        records = 0
        for batch in log:
            if first is None and (batch.last_offset >= offset or batch.file not in kept_segments):
                first = batch
            if first is not None:
                last = batch
                batches += 1
                records += record_count(batch)
        if first is not None and first.file in kept_segments:
            kept_segments = kept_segments[: kept_segments.index(first.file) + 1]
            os.truncate(first.file, first.position)
        deleted_segments = [path for path in log.segments if path not in kept_segments]
        for path in deleted_segments:
            os.remove(path)
        if not kept_segments:
            (self.folder / segment_name(offset)).touch()
        self._facts = None
        if self.next_dirty is not None:
            self.next_dirty = min(self.next_dirty, self.facts.next_offset)
        if first is None or last is None:
            return Removed(len(deleted_segments))
        is_inside = first.base_offset < offset <= first.last_offset
        split = (first.base_offset, first.last_offset) if is_inside else None
        return Removed(len(deleted_segments), batches, records, first.base_offset, last.last_offset, split)

    def clean(self, now_ms: int) -> Compaction:
        self.close()
        log = open_log(self.folder)
        cleaned = self.folder / _CLEANED
        config = CleanerConfig(now_ms, first_dirty=self.next_dirty)
        try:
            result = clean(log, cleaned, config)
            for path in log.segments:
                os.remove(path)
            for file in cleaned.iterdir():
                file.replace(self.folder / file.name)
        finally:
            shutil.rmtree(cleaned, ignore_errors=True)
        if result.groups:  # Otherwise, nothing was dirty, and the result does not contain where the next pass begins.
            self.next_dirty = result.next_dirty_offset
        self._facts = None
        return result

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


@dataclass
class OpenProducer:
    """A producer with records that no marker has ended. `first_offset` is that of the first of them."""

    first_offset: int
    epoch: int


@dataclass
class LogFacts:
    """What is known about a log after reading its batches with `add`.

    `leader_epoch` is that of the last batch, at least 0. `newest_ms` is -1 if there is no timestamp. By producer id,
    `open` has the producers whose records no marker has ended, and `marker_epochs` the epoch of the transaction
    coordinator in the last marker.

    `coordinator` wrote the log's end; None if the log does not tell. `offset_value_version` is that of the newest
    offset record above version 1. `has_old_values` is about offset values of version 0 or 1, and `has_new_groups` about
    group values that only Kafka since 2.1 writes.
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
        """A batch whose records cannot be read only tells its header."""
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
        """Return the coordinator that wrote the log's end; the new one if the log does not tell.

        A log with only commits of an older value version is the classic coordinator's: of the new one, only the
        releases 4.0.x wrote such commits.
        """
        has_offsets = self.has_old_values or self.offset_value_version is not None
        return self.coordinator or ("classic" if has_offsets else "new")

    def choose_offset_value_version(self) -> int:
        """Return the value version of new offset records: that of the log's writer.

        Version 1 is no evidence on its own, because since 2.1 brokers write it for commits with a retention time.
        Without evidence, it is the newest version that every Kafka version since 2.1 reads.
        """
        if self.offset_value_version is not None:
            return self.offset_value_version
        return 1 if self.has_old_values and not self.has_new_groups else COMMON_VALUE_VERSION
