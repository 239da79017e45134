"""A position in a log, up to which the log was read, and a batch found at a position."""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import valid_batch
from kafkagroups.log.frames import Frame


class Position(NamedTuple):
    """How far a log was read: `next_offset` is the offset after the last batch that was read.

    `byte` is the position after this batch in the file `segment`. A position may contain only `next_offset`. A reader
    then searches the batches' headers for this offset. The reader does the same if the file has another inode than
    `inode`, because the cleaner has then replaced the file.
    """

    next_offset: int
    segment: str = ""
    byte: int = 0
    inode: int = -1


class FoundBatch(NamedTuple):
    """A whole batch in a segment: its frame and its bytes. `inode` identifies the file; -1 means bytes in memory."""

    frame: Frame
    data: bytes
    segment: str
    inode: int

    def parse(self) -> Batch:
        """Parse the batch. Raises InvalidLog if its checksum is wrong."""
        return valid_batch(self.frame, self.data, self.segment)

    @property
    def end(self) -> Position:
        """The position after this batch."""
        return Position(self.frame.next_offset, self.segment, self.frame.end, self.inode)
