"""The writer of one partition's log: appends batches, rolls segments, recovers a log.

The writer rolls before a batch that would make the segment larger than `segment_bytes`, and before a batch with an
offset too far above the segment's base offset.

Source (4.3.1): LogSegment.shouldRoll; LogSegment.recover; LogLoader.java; UnifiedLog.roll.

Simpler than Kafka: there are no index files and no producer snapshots, segments are not rolled by time, and files are
not synchronized with the disk (fsync).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Self

from kafkagroups.errors import UsageError
from kafkagroups.log.batches import parse_batch_at
from kafkagroups.log.folders import has_segments, open_log
from kafkagroups.log.segment_file import MAX_RELATIVE_OFFSET, SEGMENT_BYTES, base_offset_of, segment_name


class LogWriter:
    """A log that is open for appending. The folder is created if needed, and an existing log is recovered first.

    A segment has at most `segment_bytes`, unless it is a single batch. The next batch begins at `next_offset` or above.
    """

    def __init__(self, folder: str | Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = Path(folder)
        self.segment_bytes = segment_bytes
        self.next_offset = 0
        self._file: BinaryIO | None = None
        self._base_offset = 0
        self._segment_size = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        if has_segments(self.folder):
            self.next_offset = recover(self.folder)
            last_segment = open_log(self.folder).segments[-1]
            self._open_segment(base_offset_of(last_segment))

    def append(self, batch: bytes) -> None:
        """Raises UsageError if the batch begins below `next_offset`, if its checksum is wrong, or if other bytes
        follow, and InvalidLog if it is not whole.
        """
        parsed = parse_batch_at(batch, 0)
        if parsed.size != len(batch) or not parsed.is_valid:
            raise UsageError("expected one whole batch with a correct checksum")
        if parsed.base_offset < self.next_offset:
            raise UsageError(f"expected a batch from offset {self.next_offset} on, found offset {parsed.base_offset}")
        is_full = self._segment_size > 0 and self._segment_size + len(batch) > self.segment_bytes
        is_offset_too_far = parsed.last_offset - self._base_offset > MAX_RELATIVE_OFFSET
        if self._file is None or is_full or is_offset_too_far:
            self._open_segment(parsed.base_offset)
        assert self._file is not None
        self._file.write(batch)
        self._segment_size += len(batch)
        self.next_offset = parsed.next_offset

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_segment(self, base_offset: int) -> None:
        self.close()
        path = self.folder / segment_name(base_offset)
        self._file = open(path, "ab")  # noqa: SIM115  # The file stays open until the writer rolls or closes.
        self._base_offset = base_offset
        self._segment_size = self._file.tell()


def recover(folder: str | Path) -> int:
    """Cut the log at the first damaged batch, and return its next Kafka offset."""
    log = open_log(folder)
    end_by_segment = dict.fromkeys(log.segments, 0)  # The position after the last whole batch.
    next_offset = log.start_offset
    for batch in log:
        end_by_segment[batch.file or ""] = batch.position + batch.size
        next_offset = batch.next_offset
    kept_count = log.segments.index(log.damage.file) + 1 if log.damage else len(log.segments)
    for segment in log.segments[kept_count:]:
        os.remove(segment)
    for segment in log.segments[:kept_count]:
        if os.path.getsize(segment) > end_by_segment[segment]:
            os.truncate(segment, end_by_segment[segment])
    last_base_offset = base_offset_of(log.segments[kept_count - 1])  # The last segment can be empty.
    return max(next_offset, last_base_offset)
