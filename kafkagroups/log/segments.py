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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.log import message_set, record_batch
from kafkagroups.log.batch import Batch

_framing = struct.Struct(">qi4xb")  # offset, size, (leader epoch or crc), magic
_LOG_OVERHEAD = 12
PARTITION_FOLDER = re.compile(r"__consumer_offsets-([0-9]+)")
SEGMENT_NAME = re.compile(r"([0-9]{20})\.log")
SEGMENT_BYTES = 100 * 1024 * 1024
"""offsets.topic.segment.bytes."""
MOST_OFFSETS = 2**31 - 1
"""How far a segment's offsets may lie above its base."""
BytesLike = bytes | bytearray | memoryview | mmap


@dataclass(frozen=True, slots=True)
class Damage:
    """Where a log ends because its bytes are damaged: what a broker's recovery would cut.

    `position` is the byte in `file`, `offset` the next offset that would have been expected there.
    """

    file: str
    position: int
    offset: int
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}, byte {self.position}"
        return f"{where}: the log ends here at offset {self.offset}: {self.reason}"


class Log:
    """The segments of one partition. Iterate for its batches; `damage` is known once they were read to the end.

    `partition` is the number in the folder's name (None for another folder), `start_offset` the first segment's base,
    as its name says (0 for another name). `segments` are paths that begin as the given one, or the names in `content`;
    relative ones begin in `folder`.
    """

    def __init__(
        self,
        path: str,
        segments: list[str],
        partition: int | None,
        content: Mapping[str, BytesLike] | None = None,
        folder: str = "",
    ) -> None:
        self.path = path
        self.segments = segments
        self.partition = partition
        self.damage: Damage | None = None
        self.content, self.folder = content, folder
        self.start_offset = base_offset_of(segments[0])

    def __iter__(self) -> Iterator[Batch]:
        self.damage = None
        next_offset = self.start_offset
        for number, segment in enumerate(self.segments, 1):
            try:
                data = bytes(self.content[segment]) if self.content else read_segment(segment, self.folder)
                for batch in read_batches(data, segment):
                    yield batch
                    next_offset = batch.next_offset
            except InvalidLog as error:
                behind = len(self.segments) - number
                unread = f"; {behind} later segment{'s' * (behind > 1)} not read" if behind else ""
                self.damage = Damage(segment, error.position or 0, next_offset, error.reason + unread)
                return


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020}.log"


def base_offset_of(segment: str) -> int:
    """The base offset in the name of a segment's file, 0 for another name."""
    name = SEGMENT_NAME.fullmatch(os.path.basename(segment))
    return int(name[1]) if name else 0


def read_segment(segment: str, folder: str = "") -> bytes:
    """The bytes of a segment's file; a relative name begins in `folder`. UsageError when it cannot be read."""
    try:
        return Path(folder, segment).read_bytes()
    except OSError as error:
        raise UsageError(f"{segment}: {error.strerror}") from None


def read_batches(data: bytes, file: str | None = None) -> Iterator[Batch]:
    """The batches of a segment's bytes. InvalidLog with its position at the first damaged one; zeros end it quietly."""
    position, end = 0, len(data)
    while position < end:
        try:
            batch = batch_at(data, position, file)
            if not batch.is_valid:
                raise InvalidLog(f"checksum {batch.crc:08x} was expected, the bytes give {batch.computed_crc:08x}")
        except InvalidLog as error:
            if not data[position:].strip(b"\x00"):
                return
            error.file, error.position = file, position
            raise
        yield batch
        position += batch.size


def batch_at(data: bytes, position: int, file: str | None = None) -> Batch:
    """The batch at a position, its checksum not judged. InvalidLog when the bytes are no batch, or not a whole one."""
    end = len(data)
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
    return parse(data, position, size, file)


Buffers = Iterable[tuple[str, BytesLike]] | Mapping[str, BytesLike]
"""Segments in order, (name, bytes), where bytes may be a memory map; a mapping is asked for one segment at a time."""


def log_of_buffers(buffers: Buffers, partition: int | None) -> Log:
    """The log of these segments. UsageError when there is none."""
    content = buffers if isinstance(buffers, Mapping) else dict(buffers)
    if not content:
        raise UsageError("a log has at least one segment")
    return Log("", list(content), partition, content)


def open_log(path: str | Path) -> Log:
    """The log of a partition directory or of one `.log` file. UsageError when there is none.

    >>> log = open_log("data/harbour/1.0.1/__consumer_offsets-9")
    >>> next(iter(log)).base_offset
    0
    """
    place = Path(path)
    try:
        if place.is_file():
            if place.suffix != ".log":
                raise UsageError(f"{path}: a .log file or a folder was expected")
            return Log(str(path), [str(path)], _partition_of(place.absolute().parent))
        if not place.is_dir():
            raise UsageError(f"{path}: no such file or folder")
        names = _segments(place)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not names:
        raise UsageError(f"{path}: no segment (20 digits and .log) in this folder")
    return Log(str(path), [os.path.join(path, name) for name in names], _partition_of(place))


def open_logs(path: str | Path) -> list[Log]:
    """All logs at a path, in ascending partition: of one partition, or of a folder of partition directories."""
    place = Path(path)
    try:
        if place.is_dir():
            folders = [f for f in place.iterdir() if PARTITION_FOLDER.fullmatch(f.name) and f.is_dir()]
            logs = [open_log(os.path.join(path, f.name)) for f in folders if _segments(f)]
            if logs:
                return sorted(logs, key=lambda log: log.partition or 0)
            if not _segments(place):
                raise UsageError(f"{path}: neither a segment nor a folder __consumer_offsets-N with one")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return [open_log(path)]


def has_segments(folder: Path) -> bool:
    return bool(_segments(folder))


def _segments(folder: Path) -> list[str]:
    """The names of a folder's segments in order; other files, hidden copies too, are none."""
    return sorted(entry.name for entry in folder.iterdir() if SEGMENT_NAME.fullmatch(entry.name))


def _partition_of(folder: Path) -> int | None:
    name = PARTITION_FOLDER.fullmatch(folder.name) or PARTITION_FOLDER.fullmatch(folder.resolve().name)
    return int(name[1]) if name else None
