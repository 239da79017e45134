"""Positions in a log: how far it was read, and the batches that are found from there on."""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import valid_batch
from kafkagroups.log.frames import Frame


class Position(NamedTuple):
    """How far a log was read: the next Kafka offset, and the byte after the last batch in a segment's file.

    A position may contain only the Kafka offset. Then the batches' headers are searched for this offset. They are also
    searched if the file has another inode, because then the cleaner has replaced it.
    """

    next_offset: int
    segment: str = ""
    byte: int = 0
    inode: int = -1


class FoundBatch(NamedTuple):
    """A whole batch in a segment: its frame and its bytes. `inode` identifies the file; -1 means memory."""

    frame: Frame
    data: bytes
    segment: str
    inode: int

    def parse(self) -> Batch:
        """Return the batch. InvalidLog if its checksum is wrong."""
        return valid_batch(self.frame, self.data, self.segment)

    @property
    def end(self) -> Position:
        """The position after this batch."""
        return Position(self.frame.next_offset, self.segment, self.frame.end, self.inode)
