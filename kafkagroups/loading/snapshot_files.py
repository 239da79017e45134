"""A snapshot on disk: a folder with `snapshot.json` and one segment for each partition.

A segment has the records that still count (compacted.py), in the format of a log: `kafkagroups dump` reads it.
`snapshot.json` says up to which position of the log each segment holds, and what a segment cannot say (`Saved`). It
also has the size and the checksum of each segment, and a checksum of its own content.

A save first writes new segments, then replaces `snapshot.json`, and then deletes the segments that `snapshot.json` no
longer names. So a crash at any point leaves the previous snapshot intact.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.helpers import MAX_INT32, MAX_INT64
from kafkagroups.log.record_batch import crc32c
from kafkagroups.log.segment_file import open_segment, read_segment
from kafkagroups.records import dialects
from kafkagroups.records.dialects import Dialect

FORMAT = 11
"""The number of the format of `snapshot.json`. Up to 10, a snapshot had no segments, and up to 4 it had pickles."""
ADVICE = "delete the snapshot and take a new one"
CHECKPOINT = "checkpoint"
"""The name of the subfolder in which a Spark stream (spark/keeping.py) stores its progress."""
_MANIFEST = "snapshot.json"
_MAX_REASON_LENGTH = 300
"""In characters. A reason can quote the file's content."""
_SEGMENT_NAME = r"(log|[0-9]+)\.[0-9a-f]{32}\.log"
"""Matches the names that `name_segment` returns. No other file is opened, whatever `snapshot.json` contains."""
_OWN_NAMES = re.compile(rf"{_SEGMENT_NAME}|.*\.state|{_MANIFEST}(\.new)?|{CHECKPOINT}")
"""Matches what a folder with a snapshot contains. `*.state` are files of an old format."""
_CHECKED_BYTES = 1 << 24
"""A checksum is computed in pieces of this number of bytes."""

Count = Annotated[int, Meta(ge=0, le=MAX_INT64)]


class Saved(Struct, frozen=True, forbid_unknown_fields=True):
    """One partition of a snapshot: its segment, up to which position of the log it holds, and what it cannot say.

    Attributes
    ----------
    partition
        The partition number; None for a log without a number.
    file, size, checksum
        The name of the segment, its number of bytes, and their CRC-32C. The name is "" if the load has failed: the
        partition then has no groups.
    batches, records
        How many batches and records the segment has. The numbers in `loaded` are those of the log.
    loaded
        What the load has read, and how it ended.
    seen
        The ids of groups that have records in the log, but none in the segment.
    ends
        For each segment of the log that was read, in order: its name, and the position after its last batch.
    last_batch
        The position of the last batch in the last of these segments, and the CRC-32C of its bytes. With the same bytes
        there, it is the same log. None if there is no such batch; the next load then reads all of the log.
    max_batch_bytes
        The limit of a decompressed batch, in bytes, with which the log was read.
    """

    partition: Annotated[int, Meta(ge=0, le=MAX_INT32)] | None
    file: Annotated[str, Meta(pattern=rf"^({_SEGMENT_NAME})?\Z")]
    size: Count
    checksum: Count
    batches: Count
    records: int
    loaded: LoadedPartition
    seen: list[str]
    ends: dict[str, Count]
    last_batch: tuple[Count, Count] | None
    max_batch_bytes: Annotated[int, Meta(ge=1, le=MAX_INT32)]


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `snapshot.json`.

    `coordinator` and `kafka` are those that read the logs. `checksum` is the CRC-32C of the content without spaces and
    line breaks, with 0 as the checksum.
    """

    format: int
    coordinator: str
    kafka: str
    partitions: list[Saved]
    checksum: int = 0

    @property
    def dialect(self) -> Dialect:
        return dialects.dialect(self.coordinator, self.kafka)

    def compute_checksum(self) -> int:
        content = msgspec.to_builtins(msgspec.structs.replace(self, checksum=0))
        # Paths that are not UTF-8 are in Python's JSON, but not in that of msgspec.
        return crc32c(json.dumps(content, separators=(",", ":")).encode())


class OldSnapshot(UsageError):
    """A snapshot of an older format, which cannot be read any longer."""


def has_snapshot(folder: str | Path) -> bool:
    """Return whether a folder has a snapshot. Raise UsageError if the folder cannot be read."""
    try:
        return Path(folder, _MANIFEST).exists()
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None


def name_segment(partition: int | None) -> str:
    """Return a new name for the segment of a partition. Spark can run a task twice, and each run needs its own file."""
    return f"{'log' if partition is None else partition}.{uuid4().hex}.log"


def prepare_folder(folder: Path) -> None:
    """Create the folder if it does not exist.

    Raise UsageError if the folder cannot be used, or if it has other files but no snapshot. After a crash in the first
    save, it can have segments, but no snapshot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = [entry.name for entry in folder.iterdir()]
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None
    if _MANIFEST not in names and not all(map(_OWN_NAMES.fullmatch, names)):
        raise UsageError(f"{folder}: expected an empty folder or one with a snapshot")


def write_file(path: Path, chunks: Iterable[bytes]) -> tuple[int, int]:
    """Write a new file of a snapshot to the disk. Return the number of its bytes, and their CRC-32C.

    An old file of this name is removed first. So a symbolic link in the folder never leads to another file, and a named
    pipe is never waited for. Raises OSError if the file cannot be created.
    """
    size = checksum = 0
    path.unlink(missing_ok=True)
    with open(path, "xb") as file:
        for chunk in chunks:
            size += file.write(chunk)
            checksum = crc32c(chunk, checksum)
        file.flush()
        os.fsync(file.fileno())
    return size, checksum


def commit_save(folder: Path, dialect: Dialect, partitions: Iterable[Saved]) -> None:
    """Replace the snapshot of a folder, and delete the segments that are no longer used.

    The segments of the new snapshot must already be in the folder.
    """
    manifest = Manifest(FORMAT, dialect.coordinator, dialect.kafka, list(partitions))
    manifest = msgspec.structs.replace(manifest, checksum=manifest.compute_checksum())
    new_manifest = folder / f"{_MANIFEST}.new"
    write_file(new_manifest, [json.dumps(msgspec.to_builtins(manifest), indent=1).encode()])
    os.replace(new_manifest, folder / _MANIFEST)
    used_names = {_MANIFEST, *(saved.file for saved in manifest.partitions)}
    for entry in folder.iterdir():
        if _OWN_NAMES.fullmatch(entry.name) and entry.name not in used_names and entry.is_file():
            entry.unlink(missing_ok=True)


def read_manifest(folder: Path) -> Manifest:
    """Return the content of `snapshot.json`.

    Raise UsageError if there is no snapshot, OldSnapshot if it has an older format, and InvalidLog if it is damaged.
    """
    path = folder / _MANIFEST
    if not has_snapshot(folder):
        raise UsageError(f"{folder}: no {_MANIFEST} in this folder")
    try:
        content = json.loads(read_segment(str(path)))
        found_format = content.get("format") if isinstance(content, dict) else None
        if isinstance(found_format, int) and found_format != FORMAT:
            raise OldSnapshot(f"{folder}: expected a snapshot of format {FORMAT}, found format {found_format}")
        manifest = msgspec.convert(content, Manifest)
        if manifest.checksum != manifest.compute_checksum():
            raise ValueError(f"expected checksum {manifest.checksum:08x}, found {manifest.compute_checksum():08x}")
    except MemoryError:
        raise UsageError(f"{path}: not enough memory to read this file") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise describe_damage(path, str(error)) from None
    try:
        dialects.dialect(manifest.coordinator, manifest.kafka)
    except UsageError as error:
        raise describe_damage(path, error.reason) from None
    return manifest


def check_segment(folder: Path, saved: Saved) -> None:
    """Raise InvalidLog if the segment of a partition was damaged or replaced, and UsageError if it cannot be opened."""
    if not saved.file:
        return
    path = str(folder / saved.file)
    checksum = 0
    with open_segment(path) as file:
        if file.end != saved.size:
            raise describe_damage(path, f"expected {saved.size} bytes, found {file.end} bytes")
        while chunk := file.read(_CHECKED_BYTES):
            checksum = crc32c(chunk, checksum)
    if checksum != saved.checksum:
        raise describe_damage(path, f"expected checksum {saved.checksum:08x}, the bytes give {checksum:08x}")


def describe_damage(path: str | Path, reason: str) -> InvalidLog:
    """Return the error for a file of a snapshot that cannot be used."""
    short = reason if len(reason) <= _MAX_REASON_LENGTH else f"{reason[:_MAX_REASON_LENGTH]}…"
    return InvalidLog(f"the snapshot cannot be read: {short}; {ADVICE}", file=str(path))
