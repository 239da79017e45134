"""One partition's folder, written: batches are appended, segments rolled, a torn tail is cut off.

A segment is rolled when the next batch would make it larger than `segment_bytes`, or when an offset would lie too far
above its base. The new one is named by its first batch's offset. `recover` is what a broker does at its start after a
crash: it cuts the log where reading ends and removes the segments behind.
Source: LogSegment.shouldRoll, LogSegment.recover, LogLoader.java, UnifiedLog.roll (4.3.1).

Simpler than Kafka: no indexes and no snapshots (a broker makes them anew), no roll by time, no fsync.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Self

from kafkagroups.errors import UsageError
from kafkagroups.log.batches import batch_at
from kafkagroups.log.segment_file import MOST_OFFSETS, SEGMENT_BYTES, base_offset_of, segment_name
from kafkagroups.log.segments import Damage, has_segments, open_log


class LogWriter:
    """Appends to the log in `folder`, which is made or recovered first; `damage` is what that cut off.

    `next_offset` is where the log ends: a batch may begin there or above. Close it, or use it in a `with`.
    """

    def __init__(self, folder: str | Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = Path(folder)
        self.segment_bytes = segment_bytes
        self.next_offset = 0
        self.damage: Damage | None = None
        self._file: BinaryIO | None = None
        self._base, self._size = 0, 0
        self.folder.mkdir(parents=True, exist_ok=True)
        if has_segments(self.folder):
            self.next_offset, self.damage = recover(self.folder)
            last = open_log(self.folder).segments[-1]
            self._open(base_offset_of(last))

    def append(self, batch: bytes) -> None:
        """Appends one encoded batch. UsageError when it begins below the log's end; InvalidLog when it is none."""
        read = batch_at(batch, 0)
        if read.size != len(batch) or not read.is_valid:
            raise UsageError("one whole batch with a right checksum was expected")
        if read.base_offset < self.next_offset:
            raise UsageError(f"a batch from offset {self.next_offset} on was expected, found {read.base_offset}")
        too_large = self._size + len(batch) > self.segment_bytes and self._size > 0
        if self._file is None or too_large or read.last_offset - self._base > MOST_OFFSETS:
            self._open(read.base_offset)
        assert self._file is not None
        self._file.write(batch)
        self._size += len(batch)
        self.next_offset = read.next_offset

    def flush(self) -> None:
        """Lets a reader of the folder see all that was appended."""
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

    def _open(self, base_offset: int) -> None:
        self.close()
        self._file = open(self.folder / segment_name(base_offset), "ab")  # noqa: SIM115  # stays open till the roll
        self._base, self._size = base_offset, self._file.tell()


def recover(folder: str | Path) -> tuple[int, Damage | None]:
    """Cuts the log in `folder` where reading ends. Gives its next offset and the damage, if that was the reason."""
    log = open_log(folder)
    ends = dict.fromkeys(log.segments, 0)
    next_offset = log.start_offset
    for batch in log:
        ends[batch.file or ""] = batch.position + batch.size
        next_offset = batch.next_offset
    keep = log.segments.index(log.damage.file) + 1 if log.damage else len(log.segments)
    for segment in log.segments[keep:]:
        os.remove(segment)
    for segment in log.segments[:keep]:
        if os.path.getsize(segment) > ends[segment]:
            os.truncate(segment, ends[segment])
    return max(next_offset, base_offset_of(log.segments[keep - 1])), log.damage


def create_folder(folder: Path) -> None:
    """Makes a folder, if need be. UsageError when there is something in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            return
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    raise UsageError(f"{folder}: a new or an empty folder was expected")
