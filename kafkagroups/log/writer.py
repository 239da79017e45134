"""The writer of one partition's log: appends batches, rolls segments, recovers a log.

To roll means to close the current segment and to begin a new one. The writer rolls if the next batch would make the
segment larger than `segment_bytes`, or if an offset would be too far above the segment's base offset. The name of the
new segment is the base offset of its first batch. `recover` does what a broker does when it starts after a crash. It
cuts the log at the first damaged or incomplete batch, and it removes the later segments.
Source: LogSegment.shouldRoll, LogSegment.recover, LogLoader.java, UnifiedLog.roll (4.3.1).

Simpler than Kafka: there are no indexes and no producer snapshots, because a broker rebuilds them. Segments are not
rolled by time, and there is no fsync.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Self

from kafkagroups.errors import UsageError
from kafkagroups.log.batches import batch_at
from kafkagroups.log.segment_file import MAX_RELATIVE_OFFSET, SEGMENT_BYTES, base_offset_of, segment_name
from kafkagroups.log.segments import Damage, has_segments, open_log


class LogWriter:
    """A log that is open for appending. The folder is created if needed, and an existing log is recovered first.

    `damage` is where recovery cut the log; None if it cut nothing. `next_offset` is the end of the log: the next batch
    has this base offset or a higher one. Close the writer, or use it in a `with` statement.
    """

    def __init__(self, folder: str | Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = Path(folder)
        self.segment_bytes = segment_bytes
        self.next_offset = 0
        self.damage: Damage | None = None
        self._file: BinaryIO | None = None
        self._base = 0
        self._size = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        if has_segments(self.folder):
            self.next_offset, self.damage = recover(self.folder)
            last = open_log(self.folder).segments[-1]
            self._open(base_offset_of(last))

    def append(self, batch: bytes) -> None:
        """Append one encoded batch.

        Raises UsageError if the batch begins below the log's end, if its checksum is wrong, or if other bytes follow.
        Raises InvalidLog if the bytes do not begin with a whole batch.
        """
        parsed = batch_at(batch, 0)
        if parsed.size != len(batch) or not parsed.is_valid:
            raise UsageError("expected one whole batch with a correct checksum")
        if parsed.base_offset < self.next_offset:
            raise UsageError(f"expected a batch from offset {self.next_offset} on, found offset {parsed.base_offset}")
        is_full = self._size + len(batch) > self.segment_bytes and self._size > 0
        if self._file is None or is_full or parsed.last_offset - self._base > MAX_RELATIVE_OFFSET:
            self._open(parsed.base_offset)
        assert self._file is not None
        self._file.write(batch)
        self._size += len(batch)
        self.next_offset = parsed.next_offset

    def flush(self) -> None:
        """Write all appended batches to the file, so that a reader of the folder finds them."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the segment's file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, base_offset: int) -> None:
        self.close()
        self._file = open(self.folder / segment_name(base_offset), "ab")  # noqa: SIM115  # The file stays open until the roll.
        self._base = base_offset
        self._size = self._file.tell()


def recover(folder: str | Path) -> tuple[int, Damage | None]:
    """Cut the log in `folder` at the first damaged or incomplete batch.

    Return the log's next offset and the damage. The damage is None if nothing was cut because of it.
    """
    log = open_log(folder)
    ends = dict.fromkeys(log.segments, 0)
    next_offset = log.start_offset
    for batch in log:
        ends[batch.file or ""] = batch.position + batch.size
        next_offset = batch.next_offset
    kept_count = log.segments.index(log.damage.file) + 1 if log.damage else len(log.segments)
    for segment in log.segments[kept_count:]:
        os.remove(segment)
    for segment in log.segments[:kept_count]:
        if os.path.getsize(segment) > ends[segment]:
            os.truncate(segment, ends[segment])
    return max(next_offset, base_offset_of(log.segments[kept_count - 1])), log.damage


def create_folder(folder: Path) -> None:
    """Create a folder if it does not exist. Raises UsageError if it exists and is not empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            return
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    raise UsageError(f"{folder}: expected a new or empty folder, found files in it")
