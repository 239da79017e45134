"""The segments of a pulled partition. Even after an error, they contain only whole batches."""

from __future__ import annotations

import os
from pathlib import Path

from kafkagroups.log.batch import Batch
from kafkagroups.log.segment_file import MAX_RELATIVE_OFFSET, segment_name


class SegmentWriter:
    """Writes the segments of one partition."""

    def __init__(self, folder: Path, start_offset: int, segment_bytes: int) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.bytes = 0
        """The number of bytes in all segments together."""
        self._base_offset = start_offset
        self._size = 0
        """The number of bytes in the current segment."""
        folder.mkdir()
        self._path = folder / segment_name(start_offset)
        self._path.touch()

    def append(self, batches: list[Batch], data: bytes) -> None:
        """Append batches to the current segment and to new segments. `batch.position` is a position in `data`."""
        while batches:
            batches = self._append_to_segment(batches, data)

    def _append_to_segment(self, batches: list[Batch], data: bytes) -> list[Batch]:
        """Append the batches that fit into the current segment. Return the other batches, which need a new segment."""
        first = batches[0]
        count = 0
        size = self._size
        if not self.bytes and first.base_offset < self._base_offset:
            # The first records of this batch were deleted, so the log start offset is in the middle of the batch.
            self._path = self._path.rename(self.folder / segment_name(first.base_offset))
            self._base_offset = first.base_offset
        for batch in batches:
            is_full = size + batch.size > self.segment_bytes
            is_too_far = batch.last_offset - self._base_offset > MAX_RELATIVE_OFFSET
            if (is_full or is_too_far) and size > 0:
                break
            size += batch.size
            count += 1
        content = b"".join(data[batch.position : batch.position + batch.size] for batch in batches[:count])
        try:
            with open(self._path, "ab") as file:
                file.write(content)
        except BaseException:
            # A part of the content may have been written.
            os.truncate(self._path, self._size)
            raise
        self.bytes += len(content)
        self._size = size
        if count < len(batches):
            self._base_offset = batches[count].base_offset
            self._size = 0
            self._path = self.folder / segment_name(self._base_offset)
        return batches[count:]
