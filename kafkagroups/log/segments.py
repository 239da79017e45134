"""One partition of the topic on disk: a folder of segments, read in order.

A segment is a file `<base offset>.log` of batches, one behind the other, of any magic. Reading ends where a broker's
recovery would cut the log: at a batch whose CRC is wrong, whose framing is impossible, or that is not whole. A tail
of zeros (a preallocated file) is the end, not damage. Offsets may have gaps, and a segment's first offset may lie far
above its name: the cleaner leaves both.
Source: FileLogInputStream.java, ByteBufferLogInputStream.java, LogSegment.recover, LogLoader (4.3.1).
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.log import message_set, record_batch
from kafkagroups.log.batch import Batch

_framing = struct.Struct(">qi4xb")  # offset, size, (leader epoch or crc), magic
_LOG_OVERHEAD = 12
_partition_folder = re.compile(r"__consumer_offsets-(\d+)")
_segment_name = re.compile(r"(\d{20})\.log")


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a log ends because its bytes are damaged: what a broker's recovery would cut.

    `position` is the byte in `file`, `offset` the next offset that would have been expected there.
    """

    file: str
    position: int
    offset: int
    reason: str


class Log:
    """The segments of one partition. Iterate for its batches; `damage` is known once they were read to the end.

    `partition` is the number in the folder's name (None for another folder), `start_offset` the first segment's base,
    as its name says (0 for another name). `segments` are paths that begin as the given one.
    """

    def __init__(self, path: str, segments: list[str], partition: int | None) -> None:
        self.path = path
        self.segments = segments
        self.partition = partition
        self.damage: Damage | None = None
        name = _segment_name.fullmatch(os.path.basename(segments[0]))
        self.start_offset = int(name[1]) if name else 0

    def __iter__(self) -> Iterator[Batch]:
        self.damage = None
        next_offset = self.start_offset
        for segment in self.segments:
            try:
                for batch in read_batches(_read(segment), segment):
                    yield batch
                    next_offset = batch.next_offset
            except InvalidLog as error:
                self.damage = Damage(segment, error.position or 0, next_offset, error.reason)
                return


def _read(segment: str) -> bytes:
    try:
        return Path(segment).read_bytes()
    except OSError as error:
        raise UsageError(f"{segment}: {error.strerror}") from None


def read_batches(data: bytes, file: str | None = None) -> Iterator[Batch]:
    """The batches of a segment's bytes. InvalidLog with its position at the first damaged one; zeros end it quietly."""
    position, end = 0, len(data)
    while position < end:
        try:
            batch, size = _batch_at(data, position, end, file)
        except InvalidLog as error:
            if not data[position:].strip(b"\x00"):
                return
            error.file, error.position = file, position
            raise
        yield batch
        position += size


def _batch_at(data: bytes, position: int, end: int, file: str | None) -> tuple[Batch, int]:
    left = end - position
    if left < _framing.size:
        raise InvalidLog(f"a batch was expected, {left} bytes are left")
    _, length, magic = _framing.unpack_from(data, position)
    if length < message_set.OVERHEAD:
        raise InvalidLog(f"a batch size of at least {message_set.OVERHEAD} was expected, found {length}")
    size = length + _LOG_OVERHEAD
    if size > left:
        raise InvalidLog(f"a batch of {size} bytes is announced, {left} are left")
    if not 0 <= magic <= 2:
        raise InvalidLog(f"a magic of 0, 1 or 2 was expected, found {magic}")
    parse = record_batch.parse_batch if magic == 2 else message_set.parse_batch
    return parse(data, position, size, file), size


def open_log(path: str | Path) -> Log:
    """The log of a partition directory or of one `.log` file. UsageError when there is none.

    >>> log = open_log("data/harbour/1.0.1/__consumer_offsets-9")
    >>> next(iter(log)).base_offset
    0
    """
    place = Path(path)
    if place.is_file():
        if place.suffix != ".log":
            raise UsageError(f"{path}: a .log file or a folder was expected")
        return Log(str(path), [str(path)], _partition_of(place.parent))
    if not place.is_dir():
        raise UsageError(f"{path}: no such file or folder")
    names = sorted(file.name for file in place.glob("*.log"))
    if not names:
        raise UsageError(f"{path}: no .log file in this folder")
    return Log(str(path), [os.path.join(path, name) for name in names], _partition_of(place))


def open_logs(path: str | Path) -> list[Log]:
    """All logs at a path, in ascending partition: of one partition, or of a folder of partition directories."""
    place = Path(path)
    if place.is_dir():
        folders = [f for f in place.iterdir() if f.is_dir() and _partition_folder.fullmatch(f.name)]
        logs = [open_log(os.path.join(path, f.name)) for f in folders if any(f.glob("*.log"))]
        if logs:
            return sorted(logs, key=lambda log: log.partition or 0)
        if not any(place.glob("*.log")):
            raise UsageError(f"{path}: neither a .log file nor a folder __consumer_offsets-N with one")
    return [open_log(path)]


def _partition_of(folder: Path) -> int | None:
    name = _partition_folder.fullmatch(folder.resolve().name)
    return int(name[1]) if name else None
