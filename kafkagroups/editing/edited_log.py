"""A copy of a partition's log that is changed: appended to, rolled, cut and cleaned.

The copy has the segments of the original. Where the original is damaged, the copy ends, as a broker's recovery cuts a
log. Zeros at the end of a segment are not copied.

A cut removes whole batches, like a broker that truncates its log to an offset: the first batch that contains the offset
or a higher one is removed, and everything after it. Segments that begin above the offset are deleted. If all segments
begin above the offset, an empty segment with this base offset is what remains.
Source (4.3.1): UnifiedLog.truncateTo; LocalLog.truncateTo; LogSegment.truncateTo; UnifiedLog.roll;
LogCleanerManager.maybeTruncateCheckpoint.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.editing.log_facts import LogFacts
from kafkagroups.log.batch import NO_PRODUCER_ID, Batch, LogRecord, record_count
from kafkagroups.log.batches import parse_batch_at
from kafkagroups.log.cleaner import CleanerConfig, Compaction, clean, copy_segment
from kafkagroups.log.damage import Damage
from kafkagroups.log.folders import open_log
from kafkagroups.log.log_to_clean import list_segments
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.segment_file import base_offset_of, segment_name
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.log.writer import LogWriter

KeyAndValue = tuple[bytes, bytes | None]
_CLEANED = "cleaned"
"""The name of the folder to which a cleaning pass writes. It exists only during the pass."""


@dataclass(frozen=True)
class Removed:
    """What a cut removed.

    `segments` is the number of deleted files; `batches` and `records` are counts. `first_offset` and `last_offset` are
    the Kafka offsets of the first and the last removed batch; None if no batch was removed. `split` is the first
    removed batch if the offset of the cut is inside it, as a pair of its first and last offset; otherwise None.
    """

    segments: int = 0
    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    split: tuple[int, int] | None = None


class EditedLog:
    """The copy of a log in a folder. `damage` is where the original is damaged; None if it is not.

    `next_dirty` is the offset at which the next cleaning pass begins; None if no pass has run.
    """

    def __init__(self, folder: Path, source: Log) -> None:
        self.folder = folder
        self.partition = source.partition
        self.next_dirty: int | None = None
        self._writer: LogWriter | None = None
        self._facts: LogFacts | None = None
        self.damage = self._copy(source)

    def _copy(self, source: Log) -> Damage | None:
        """Copy the segments up to the last whole batch. Return the damage of the source, or None."""
        segments = list_segments(source)
        segment_of_path = {segment.path: segment for segment in segments}
        facts = LogFacts(source.start_offset)
        for batch in source:
            segment_of_path[batch.file or ""].size = batch.position + batch.size
            facts.add(batch)
        if source.damage:
            segments = segments[: source.segments.index(source.damage.file) + 1]
        for segment in segments:
            copy_segment(segment, self.folder)
        facts.add_segment(segments[-1].path)
        self._facts = facts
        return source.damage

    @property
    def facts(self) -> LogFacts:
        """What is known about the log as it is now."""
        if self._facts is None:
            log = open_log(self.folder)
            self._facts = LogFacts(log.start_offset)
            for batch in log:
                self._facts.add(batch)
            self._facts.add_segment(log.segments[-1])
        return self._facts

    def open(self) -> Log:
        """Return the log as it is now, for reading."""
        if self._writer is not None:
            self._writer.flush()
        log = open_log(self.folder)
        log.partition = self.partition
        return log

    def append(
        self,
        records: Sequence[KeyAndValue],
        timestamp_ms: int,
        *,
        attributes: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
    ) -> tuple[int, int]:
        """Append one batch at the end of the log. Return the Kafka offsets of its first and its last record.

        All records get the same timestamp. The batch gets the partition leader epoch of the batch before it. Raises
        UsageError if a number does not fit into its field.
        """
        facts = self.facts
        if self._writer is None:
            self._writer = LogWriter(self.folder)
        first_offset = self._writer.next_offset
        batch = encode_batch(
            [LogRecord(offset, timestamp_ms, key, value) for offset, (key, value) in enumerate(records, first_offset)],
            attributes=attributes,
            partition_leader_epoch=facts.leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
        self._writer.append(batch)
        facts.add(parse_batch_at(batch, 0))
        return first_offset, self._writer.next_offset - 1

    def roll(self) -> bool:
        """Begin a new segment at the end of the log. Return False if the active segment is empty: it then stays."""
        next_offset = self.facts.next_offset
        self.close()
        active = open_log(self.folder).segments[-1]
        if os.path.getsize(active) == 0:
            return False
        (self.folder / segment_name(next_offset)).touch(exist_ok=False)
        return True

    def cut(self, offset: int) -> Removed:
        """Remove all batches from the first one on that contains this Kafka offset or a higher one."""
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
        if first is not None and first.file is not None and first.file in kept_segments:
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

    def find_first_after(self, time_ms: int) -> int | None:
        """Return the offset of the first batch that contains a timestamp after a time; None if there is none."""
        stop = Stop(until_time=time_ms)
        return next((batch.base_offset for batch in self.open() if stop.excludes(batch)), None)

    def clean(self, now_ms: int, delete_retention_ms: int) -> Compaction:
        """Run one pass of the log cleaner. It begins where the pass before it ended."""
        self.close()
        log = open_log(self.folder)
        cleaned = self.folder / _CLEANED
        config = CleanerConfig(now_ms, delete_retention_ms, self.next_dirty)
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
        """Close the file to which batches are appended."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def delete_content(folder: Path) -> None:
    """Delete everything in the folder of an edit that has failed."""
    shutil.rmtree(folder / _CLEANED, ignore_errors=True)
    for file in folder.iterdir():
        file.unlink()
