"""What a broker does at each kind of start with a partition whose segment ends with zeros.

Zeros follow the last batch if a broker has reserved the file's space (log.preallocate=true) and then died, or if the
file system lost the end of the file. A batch that begins with zeros has a length of 0. Kafka's readers refuse a length
below 14, but they ignore a few bytes at the end:

    reader                         reads                                        ignores at most
    FileLogInputStream             a file: for the next offset of the log when  _IGNORED_IN_FILE bytes
                                   a broker starts, and to find an offset
    ByteBufferLogInputStream       a piece of a file in memory: for a load      _IGNORED_IN_MEMORY bytes

A broker that finds no mark of a clean shutdown repairs the log: it cuts a segment after its last valid batch. It also
repairs every segment that has no index files. A failover loads from the segment that the new leader has written as a
follower, with the space that is reserved in it.

Source: FileLogInputStream.nextBatch, ByteBufferLogInputStream.nextBatchSize, LogLoader.load, LogSegment.recover,
CoordinatorLoaderImpl.load (4.3.1); captured starts of 3.9.2, 4.3.1 and 4.4.0 (tests/captured, releases/zero).

Simpler than Kafka: a load reads a file in pieces of offsets.load.buffer.size (5 MiB). If the last batch ends exactly at
the end of a piece, Kafka does not reach the zeros, and the load succeeds.
"""

from __future__ import annotations

from enum import Enum

from kafkagroups.log.batch_frames import Zeros

_IGNORED_IN_FILE = 17
"""The bytes of a batch's header up to its magic. The reader of files ignores this number of bytes at the end."""
_IGNORED_IN_MEMORY = 11
"""The reader of bytes in memory needs 12 bytes to read the length of a batch."""


class Start(Enum):
    """A kind of start. A failover is the start of a partition's new leader in a running broker."""

    UNCLEAN = "after an unclean shutdown"
    WITHOUT_INDEXES = "without index files"
    CLEAN = "after a clean shutdown"
    FAILOVER = "at a failover"


class Outcome(Enum):
    """What a broker does with the partition."""

    CUTS_ZEROS = "cuts the zeros off, and loads all batches"
    CUTS_LATER_SEGMENTS = "cuts the zeros off, deletes all later segments, and loads the batches before the zeros"
    IGNORES_ZEROS = "ignores the zeros, and loads all batches"
    LOAD_FAILS = "fails to load this partition: Record size 0 is less than the minimum record overhead (14)"
    LOADS_NOTHING = (
        "fails to load this partition, but answers as if its groups had never existed; the error is only in its log"
    )
    DOES_NOT_START = "does not start: Found record size 0 smaller than minimum record overhead (14)"

    @property
    def is_loaded(self) -> bool:
        """Whether the broker then answers for the groups in the batches before the zeros."""
        return self in (Outcome.CUTS_ZEROS, Outcome.CUTS_LATER_SEGMENTS, Outcome.IGNORES_ZEROS)


def judge_start(start: Start, zeros: Zeros, coordinator: str) -> Outcome:
    """Return what a broker with this coordinator ("classic" or "new") does at a start."""
    is_last_segment = zeros.later_segments == 0
    has_batches = zeros.position > 0  # If zeros are not at the start of a segment, they follow a batch.
    if start is Start.UNCLEAN:
        return Outcome.CUTS_ZEROS if is_last_segment else Outcome.CUTS_LATER_SEGMENTS
    if start is Start.WITHOUT_INDEXES:
        return Outcome.CUTS_ZEROS
    if start is Start.CLEAN and is_last_segment and zeros.bytes > _IGNORED_IN_FILE:
        return Outcome.DOES_NOT_START
    if is_last_segment and not has_batches:
        return Outcome.IGNORES_ZEROS  # The load ends before this segment, at the next offset of the log.
    # In a segment without batches, the load searches for its next offset before it reads a piece into memory.
    ignored_bytes = _IGNORED_IN_MEMORY if has_batches else _IGNORED_IN_FILE
    if zeros.bytes <= ignored_bytes:
        return Outcome.IGNORES_ZEROS
    return Outcome.LOADS_NOTHING if coordinator == "classic" else Outcome.LOAD_FAILS
