"""The new batches of a growing log: the complete batches after a position, up to a Kafka offset.

A Position (log/batches.py) says how far a log was read. The log is read only up to a batch that is incomplete or has a
wrong checksum. A broker may still be writing this batch, and then a later call reads it. It is damage if it cannot get
better: a batch or a segment follows, which a broker writes later, or nobody has written the file for a minute.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.log.batch import Batch
from kafkagroups.log.batches import Position
from kafkagroups.log.damage import Damage
from kafkagroups.log.segment_file import ByteRange, MissingSegment
from kafkagroups.log.segments import Log

SECONDS_OF_WRITING = 60
"""A broker writes a batch in much less time than this number of seconds."""


def limit_sizes(log: Log, file_sizes: Mapping[str, int]) -> Log:
    """Return a log with only the first bytes of each file. `file_sizes` maps the path of a file to their number."""
    return log.select_ranges(
        {segment: ByteRange(0, file_sizes.get(file_path(log, segment), 0)) for segment in log.segments}
    )


def find_end(log: Log, position: Position) -> tuple[Position, Damage | None, bool]:
    """Return the position after the last complete batch that follows `position`, and what is wrong there, if anything.

    The last value says whether it is damage. It is not if a broker may still be writing the batch.
    """
    end, damage, is_certain = _read_on(log, position)
    if damage is None or is_certain:
        return end, damage, is_certain
    path = file_path(log, damage.file)
    later_segments = log.segments[log.segments.index(damage.file) + 1 :]
    has_successor = any(map(log.segment_size, later_segments)) or log.select_after(damage) is not None
    has_grown = file_size(path) > log.segment_size(damage.file)
    is_old = not has_grown and time.time() - os.path.getmtime(path) > SECONDS_OF_WRITING
    # A broker may have completed the batch, and written the next one, since it was read.
    return end, damage, (has_successor or is_old) and _read_on(log, end)[1] == damage


def _read_on(log: Log, start: Position) -> tuple[Position, Damage | None, bool]:
    """Return what `find_end` returns, but damage is only certain if the offsets fall.

    A reader of new batches would take batches for old ones after such a place, so the position is before it.
    """
    end = before = previous = start
    try:
        for found in log.find_batches(start):
            frame = found.frame
            is_next = (found.segment, frame.position, found.inode) == previous[1:]
            is_in_later_segment = previous is not start and found.segment != previous.segment
            if frame.base_offset < previous.next_offset and (is_next or is_in_later_segment):
                return before, _falling_offsets(previous, frame.base_offset, before.next_offset), True
            if frame.next_offset > start.next_offset:
                found.parse()
                before, end = end, found.end
            previous = found.end
    except MissingSegment:
        return end, None, False  # The cleaner has deleted the file after the folder was listed.
    except InvalidLog as error:
        return end, log.describe_damage(error, max(end.next_offset, log.start_offset)), False
    if previous.next_offset < start.next_offset:
        place = previous._replace(next_offset=start.next_offset)
        return start, _falling_offsets(place, previous.next_offset, previous.next_offset), True
    return end, None, False


def _falling_offsets(previous: Position, next_offset: int, offset: int) -> Damage:
    reason = f"the offsets fall from {previous.next_offset} to {next_offset}"
    return Damage(previous.segment, previous.byte, offset, reason)


def read_until(log: Log, position: Position, end_offset: int) -> Iterator[tuple[Batch, bytes]]:
    """Yield in order the batches after a position whose base offset is below `end_offset`, with their bytes in the log.

    Raises InvalidLog if a batch is damaged: the file has changed since `find_end` read the batch. Raises UsageError if
    a file was deleted.
    """
    if position.next_offset >= end_offset:
        return  # The next batch may be damaged.
    try:
        for found in log.read_new_batches(position):
            if found.frame.base_offset >= end_offset:
                return
            yield found.parse(), found.data
            if found.frame.next_offset >= end_offset:
                return  # The next batch may be incomplete.
    except MissingSegment as error:
        raise UsageError(f"{error.reason}: the file was deleted before it was read; start the stream again") from None


def file_path(log: Log, segment: str) -> str:
    """Return the path of the file of a segment."""
    return os.path.join(log.folder, segment)


def file_paths(log: Log) -> list[str]:
    """Return the paths of the files of all segments, in the order of the log."""
    return [file_path(log, segment) for segment in log.segments]


def file_size(path: str) -> int:
    """Return the size of a file in bytes; 0 if the file was deleted."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
