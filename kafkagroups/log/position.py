"""How far a log was read (`Position`), and a batch that was found in the log (`FoundBatch`).

A reader of a growing log stores its position, and continues later at this position.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import parse_valid_batch
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.frames import Frame


class Position(NamedTuple):
    """How far a log was read.

    `next_offset` is the Kafka offset after the last batch that was read. `segment` is the path of the file that
    contains this batch. `byte` is where the batch ends, in bytes from the start of the file. `inode` identifies the
    file.

    A reader searches the headers of the batches for `next_offset` if the position contains only `next_offset`, or if
    the file has another inode now because the cleaner has replaced the file.
    """

    next_offset: int
    segment: str = ""
    byte: int = 0
    inode: int = -1


class FoundBatch(NamedTuple):
    """A whole batch in a segment: its frame (frames.py) and its bytes, `data`.

    `segment` is the path of the segment's file. `inode` identifies the file; -1 means that the segment is in memory.
    `max_batch_bytes` is the limit of the decompressed batch, in bytes.
    """

    frame: Frame
    data: bytes
    segment: str
    inode: int
    max_batch_bytes: int = MAX_BATCH_BYTES

    def parse(self) -> Batch:
        """Return the parsed batch. Raises InvalidLog if its checksum is wrong."""
        return parse_valid_batch(self.frame, self.data, self.segment, self.max_batch_bytes)

    @property
    def end(self) -> Position:
        """The position after this batch."""
        return Position(self.frame.next_offset, self.segment, self.frame.end, self.inode)
