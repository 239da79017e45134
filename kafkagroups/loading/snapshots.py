"""Snapshots: what a growing log has come to, saved so that the next load reads only what is new.

    snapshot = take_snapshot("logs", "classic")      reads all batches
    snapshot.groups()                                returns the same as load("logs", "classic")
    snapshot.save("state")                           writes the snapshot into the folder "state"
    Snapshot.read("state").advance("logs")           reads only the batches that were appended after the snapshot

A saved snapshot is a log itself: for each partition, a compacted segment, and in `snapshot.json` the position up to
which it holds and what a segment cannot say (`Saved`). To advance it, a load reads this segment and then the rest of
the real log, as one log. If the log before the position has changed, for example because Kafka's cleaner has compacted
it, all of it is read again, and a note says so.

The segment has, with their offsets, the records that still count:

- the record of each committed offset, in a batch without a producer, because its transaction is decided;
- the record of each pending offset, in a batch with its producer and epoch, because its transaction is not;
- the newest record of each classic group, also a tombstone: it hides offsets that a broker keeps (new coordinator), or
  lets a load fail (classic coordinator);
- all records of a consumer, share or streams group since it began, because each can depend on those before it.

A group that exists only because of an offset that is gone becomes an empty classic group, which is the same: its record
is written at the offset of one that is left out. If a tombstone of another type has deleted a group, the tombstone of a
classic group says so, because it deletes any group.

Every record stays in its batch, and the last batch stays even if it is empty, so that the copy ends where the log ends.
All of this needs offsets that rise. Of other logs, which no broker wrote, a snapshot keeps the batches that a load
reads, and the next load reads all of the log. Kafka before 0.10.1 keeps offsets in a cache apart from the groups, so
there are no snapshots for it.

A save first writes new segments, then replaces `snapshot.json`, and then deletes the segments that `snapshot.json` no
longer names.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from os.path import basename
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct

from kafkagroups.errors import InvalidLog, LoadFailed, UsageError
from kafkagroups.groups import replay
from kafkagroups.groups.offsets import NativeOffsets
from kafkagroups.helpers import MAX_INT32, MAX_INT64
from kafkagroups.loading import native
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import WholeTopic, choose_engine, combine_shards, is_folder
from kafkagroups.loading.partition_count import FoundPartitions, LogTimes
from kafkagroups.log.batch import LOG_APPEND_TIME, NO_PRODUCER_ID, NO_TIMESTAMP, TRANSACTIONAL, crc32c, encode_batch
from kafkagroups.log.batches import FoundBatch
from kafkagroups.log.cleaner import encode_replacement
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.folders import list_folder, open_logs, write_file
from kafkagroups.log.segment_file import WHOLE_FILE, ByteRange, open_segment
from kafkagroups.log.segments import Log, Stop
from kafkagroups.records import releases
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.releases import Dialect
from kafkagroups.records.serde import Record, encode

FORMAT = 11
"""The number of the format of `snapshot.json`. Up to 10, a snapshot had no segments, and up to 4 it had pickles."""
ADVICE = "delete the snapshot and take a new one"
CHECKPOINT = "checkpoint"
"""The name of the subfolder in which a Spark stream (spark/keeping.py) stores its progress."""
_MANIFEST = "snapshot.json"
_MAX_REASON_LENGTH = 300
"""A reason can quote the file's content."""
_SEGMENT_NAME = r"(log|[0-9]+)\.[0-9a-f]{32}\.log"
"""Matches the names of segments. No other file is opened, whatever `snapshot.json` contains."""
_OWN_NAMES = re.compile(rf"{_SEGMENT_NAME}|.*\.state|{_MANIFEST}(\.new)?|{CHECKPOINT}")
"""Matches what a folder with a snapshot contains. `*.state` are files of an old format."""
_CHECKED_BYTES = 1 << 24

Count = Annotated[int, Meta(ge=0, le=MAX_INT64)]


class Saved(Struct, frozen=True, forbid_unknown_fields=True):
    """One partition of a snapshot: its segment, up to which position of the log it holds, and what it cannot say.

    `file` is the name of the segment ("" if the load has failed: the partition then has no groups), and `checksum` the
    CRC-32C of its bytes. `batches` and `records` are those of the segment, while the numbers in `loaded` are those of
    the log. `seen` are the ids of groups that have records in the log, but none in the segment. `ends` has the position
    after the last batch of each segment of the log that was read. `last_batch` is the position of the last batch before
    these ends, and the CRC-32C of its bytes, which say that it is the same log; if it is None, the next load reads all
    of the log. `max_batch_bytes` is the limit with which the log was read.
    """

    partition: Annotated[int, Meta(ge=0, le=MAX_INT32)] | None
    file: Annotated[str, Meta(pattern=rf"^({_SEGMENT_NAME})?\Z")]
    size: Count
    checksum: Count
    batches: Count
    records: int
    loaded: replay.LoadedPartition
    seen: list[str]
    ends: dict[str, Count]
    last_batch: tuple[Count, Count] | None
    max_batch_bytes: Annotated[int, Meta(ge=1, le=MAX_INT32)]


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `snapshot.json`.

    `checksum` is the CRC-32C of the content without spaces and line breaks, with 0 as the checksum.
    """

    format: int
    coordinator: str
    kafka: str
    partitions: list[Saved]
    checksum: int = 0

    @property
    def dialect(self) -> Dialect:
        return releases.dialect(self.coordinator, self.kafka)

    def compute_checksum(self) -> int:
        content = msgspec.to_builtins(msgspec.structs.replace(self, checksum=0))
        # Paths that are not UTF-8 are in Python's JSON, but not in that of msgspec.
        return crc32c(json.dumps(content, separators=(",", ":")).encode())


class OldSnapshot(UsageError):
    """A snapshot of an older format."""


def has_snapshot(folder: str | Path) -> bool:
    """Raises UsageError if the folder cannot be read."""
    try:
        return Path(folder, _MANIFEST).exists()
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from None


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest, and delete the segments that it no longer names."""
    manifest = msgspec.structs.replace(manifest, checksum=manifest.compute_checksum())
    new_manifest = folder / f"{_MANIFEST}.new"
    write_file(new_manifest, [json.dumps(msgspec.to_builtins(manifest), indent=1).encode()])
    os.replace(new_manifest, folder / _MANIFEST)
    used_names = {_MANIFEST, *(saved.file for saved in manifest.partitions)}
    for entry in folder.iterdir():
        if _OWN_NAMES.fullmatch(entry.name) and entry.name not in used_names and entry.is_file():
            entry.unlink(missing_ok=True)


def read_manifest(folder: Path) -> Manifest:
    """Raises UsageError if there is no snapshot, OldSnapshot if its format is older, and InvalidLog if it is
    damaged.
    """
    path = folder / _MANIFEST
    if not has_snapshot(folder):
        raise UsageError(f"{folder}: no {_MANIFEST} in this folder")
    try:
        with open_segment(str(path)) as file:
            content = json.loads(file.read())
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
        releases.dialect(manifest.coordinator, manifest.kafka)
    except UsageError as error:
        raise describe_damage(path, error.reason) from None
    return manifest


def check_segment(folder: Path, saved: Saved) -> None:
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
    short = reason if len(reason) <= _MAX_REASON_LENGTH else f"{reason[:_MAX_REASON_LENGTH]}…"
    return InvalidLog(f"the snapshot cannot be read: {short}; {ADVICE}", file=str(path))


KeyAndValue = tuple[bytes, bytes | None]


def compact(shard: replay.Shard, batches: Iterable[FoundBatch]) -> tuple[bytes, int, int, set[str]]:
    """Return a segment with the records that still count; `batches` gave `shard`, and are read twice.

    Raises OffsetsFall, and UsageError if a batch has offsets that cannot be written again.
    """
    pending = {
        commit.record_offset: group_id
        for groups in shard.offsets.pending.values()
        for group_id, commits in groups.items()
        for commit in commits.values()
    }
    # A mapping of the native engine decodes all of its offsets for `items`, but each one again for `values`.
    commits = pending | {
        commit.record_offset: group_id
        for group_id, committed in shard.offsets.committed.items()
        for _, commit in committed.items()
    }
    records: dict[int, KeyAndValue] = {}
    kept = _keep_group_records(shard, batches)
    for of_group in kept.values():
        # If a commit still counts, it creates its group itself.
        records |= {offset: record for offset, record in of_group.items() if offset not in commits}
    offsets = sorted(commits.keys() | records.keys())
    segment = bytearray()
    copied_batches = copied_records = 0
    is_last_kept = True
    index = 0
    next_offset = None
    for found in batches:
        frame = found.frame
        if frame.last_offset < frame.base_offset or (next_offset is not None and frame.base_offset < next_offset):
            raise OffsetsFall
        next_offset = frame.next_offset
        end = bisect_left(offsets, next_offset, index)
        is_last_kept = index < end
        if is_last_kept:
            segment += _copy_batch(found, set(offsets[index:end]), records, pending)
            copied_batches += 1
            copied_records += end - index
        index = end
    if not is_last_kept:
        last_offset = frame.last_offset
        times = {"base_timestamp": NO_TIMESTAMP, "max_timestamp": NO_TIMESTAMP}
        segment += encode_batch((), base_offset=last_offset, last_offset=last_offset, **times)
        copied_batches += 1
    return bytes(segment), copied_batches, copied_records, {*commits.values(), *kept}


class OffsetsFall(Exception):
    """The offset of a record is not above that of the record before, or not in its batch."""


def _keep_group_records(shard: replay.Shard, batches: Iterable[FoundBatch]) -> dict[str, dict[int, KeyAndValue]]:
    if isinstance(shard.offsets, NativeOffsets):  # The engine hands a log over if its offsets do not rise.
        others: Iterable[native.OtherRecord] = native.other_records(shard.offsets.reading)
        newest_commits: Mapping[str, int] = shard.offsets.newest_commits
    else:
        others, newest_commits = _list_other_records(shard, batches)
    kept: dict[str, dict[int, KeyAndValue]] = {}
    replayed = replay.empty_shard(shard.partition, shard.dialect)
    for group_id, offset, record, begins in native.replay_other_records(replayed, others, newest_commits):
        if begins:
            kept[group_id] = {}
        if record is None:
            is_empty = group_id in replayed.groups
            value = GroupMetadataValue("", 0, None, None, -1, ()) if is_empty else None
            record = encode(Record(2, GroupMetadataKey(group_id), value, 3 if is_empty else None))
        kept.setdefault(group_id, {})[offset] = record
    return kept


def _list_other_records(
    shard: replay.Shard, batches: Iterable[FoundBatch]
) -> tuple[Sequence[native.OtherRecord], Mapping[str, int]]:
    rows: list[native.OtherRecord] = []
    newest_commits: dict[str, int] = {}
    newest_others: dict[str, int] = {}
    keys = replay.LogKeys(shard.dialect)
    last_offset = -1
    for found in batches:
        for group_id, key, record in replay.read_keys(found.parse(), keys):
            if not last_offset < record.offset < found.frame.next_offset:
                raise OffsetsFall
            last_offset = record.offset
            if key.partition is None:
                commit = newest_commits.get(group_id, -1)
                commit_before = commit if commit > newest_others.get(group_id, -1) else -1
                is_plain = isinstance(key.decoded.content, GroupMetadataKey)
                rows.append((record.offset, commit_before, record.key or b"", record.value, is_plain))
                newest_others[group_id] = record.offset
            elif record.value is not None:
                newest_commits[group_id] = record.offset
        last_offset = found.frame.last_offset
    return rows, newest_commits


def _copy_batch(
    found: FoundBatch, kept: set[int], changed: Mapping[int, KeyAndValue], pending: Mapping[int, str]
) -> bytes:
    """Raises OffsetsFall if the batch does not have each of the kept records once."""
    batch = found.parse()
    is_pending = not kept.isdisjoint(pending)
    records = []
    is_whole = batch.magic == 2
    for record in batch.records:
        key, value = changed.get(record.offset, (record.key, record.value))
        if record.offset in kept:
            records.append(msgspec.structs.replace(record, key=key, value=value, attributes=0))
        is_whole = is_whole and record.offset in kept and (key, value) == (record.key, record.value)
    if len(records) != len(kept):
        raise OffsetsFall
    is_of_producer = batch.producer_id != NO_PRODUCER_ID or batch.is_transactional
    if is_whole and is_pending == is_of_producer:
        return found.data
    attributes = batch.attributes & ((LOG_APPEND_TIME | TRANSACTIONAL) if batch.magic == 2 else 0)
    if not is_pending:
        attributes &= ~TRANSACTIONAL
        batch = replace(batch, producer_id=NO_PRODUCER_ID, producer_epoch=-1, base_sequence=-1)
    return encode_replacement(batch, records, attributes, None)


@dataclass
class KeptPartition:
    """One partition of a snapshot: a log, which begins with this partition's segment if it is `saved`, and the shard
    that it gives.

    `source` is the real log, from its start; None if only a saved snapshot was read. `folded` is the shard, with the
    counts of the whole log; None until it is needed.
    """

    log: Log
    source: Log | None = None
    saved: Saved | None = None
    segment: str = ""
    folded: replay.Shard | None = None

    @classmethod
    def read(cls, folder: Path, saved: Saved) -> KeptPartition:
        """Raises InvalidLog if the segment is damaged."""
        check_segment(folder, saved)
        segment = os.path.abspath(folder / saved.file)
        log = Log(segment, [segment], saved.partition).limit_batches(saved.max_batch_bytes)
        log.start_offset = saved.loaded.start_offset
        return cls(log, None, saved, segment)

    def join(self, log: Log, ranges: Mapping[str, ByteRange]) -> KeptPartition:
        joined = log.select_ranges({self.segment: WHOLE_FILE, **ranges}, self.log.start_offset)
        return KeptPartition(joined, log, self.saved, self.segment)

    def find_rest(self, log: Log) -> dict[str, ByteRange] | None:
        """Return the ranges of a log after the saved position; None if the log before it has changed, or is not known.

        The segments before the position must have the same sizes, and the last batch before it the same bytes.
        """
        saved = self.saved
        names = [basename(segment) for segment in log.segments]
        if saved is None or saved.last_batch is None or not saved.ends:
            return None
        if names[: len(saved.ends)] != list(saved.ends):
            return None
        if (log.start_offset, log.max_batch_bytes) != (saved.loaded.start_offset, saved.max_batch_bytes):
            return None
        ranges = {segment: ByteRange(saved.ends.get(basename(segment), 0)) for segment in log.segments}
        *earlier, last = log.segments[: len(saved.ends)]
        if any(log.segment_size(segment) != ranges[segment].start for segment in earlier):
            return None
        position, checksum = saved.last_batch
        if not position <= ranges[last].start <= log.segment_size(last):
            return None
        batch = log.select_ranges({last: ByteRange(position, ranges[last].start)}).read(last)
        return ranges if crc32c(batch) == checksum else None

    def take(self, shard: replay.Shard) -> replay.Shard:
        """Take the shard of `log`, with the counts of the whole log. Raises InvalidLog if the snapshot's segment is
        damaged.
        """
        saved = self.saved
        loaded = shard.loaded
        damage = loaded.damage
        if saved is not None:
            if damage is not None and damage.file == self.segment:
                raise describe_damage(self.segment, damage.reason)
            if self.source is None:
                shard.loaded = replace(saved.loaded, error=None)
            else:
                loaded.batches += saved.loaded.batches - saved.batches
                loaded.records += saved.loaded.records - saved.records
                loaded.segments = len(self.source.segments)
                loaded.damage = replay.describe_rest(self.source, damage, shard.dialect)
                start = saved.loaded.start
                loaded.start = self.source.start_failure or (start if start and start.offset is not None else None)
            shard.seen_group_ids.update(dict.fromkeys(saved.seen))
        self.folded = shard
        return shard

    def get_shard(self, dialect: Dialect) -> replay.Shard:
        if self.folded is not None:
            return self.folded
        if self.saved is not None and not self.saved.file:
            failure = LoadFailed(self.saved.loaded.error or "")
            return self.take(replace(replay.empty_shard(self.saved.partition, dialect), failure=failure))
        (shard,) = choose_engine("auto").fold_logs([self.log], dialect)
        return self.take(shard)

    def save(self, folder: Path, dialect: Dialect, max_growth: float = 0) -> Saved:
        saved = self.saved
        is_in_folder = saved is not None and self.segment == os.path.abspath(folder / saved.file)
        if saved is not None and is_in_folder and self.source is None:
            return saved
        shard = self.get_shard(dialect)
        loaded = shard.loaded
        limit = self.log.max_batch_bytes
        seen_ids = list(shard.seen_group_ids)
        if shard.failure is not None:
            loaded = replace(loaded, error=str(shard.failure))
            return Saved(shard.partition, "", 0, 0, 0, 0, loaded, seen_ids, {}, None, limit)
        counts = (loaded.batches, loaded.records)
        if saved is not None:
            new_batches = loaded.batches - saved.loaded.batches
            if new_batches <= max_growth * saved.batches and is_in_folder:
                return saved if new_batches else msgspec.structs.replace(saved, loaded=loaded)
            counts = (saved.batches + new_batches, loaded.records - saved.loaded.records + saved.records)
        file = f"{'log' if shard.partition is None else shard.partition}.{uuid4().hex}.log"
        batches = _Batches(self, counts[0], loaded.next_offset)
        chunks: Iterable[bytes]
        try:
            segment, batch_count, record_count, group_ids = compact(shard, batches)
            chunks = [segment]
            counts = (batch_count, record_count)
            seen = [group_id for group_id in seen_ids if group_id not in group_ids]
            last_batch = batches.last_batch
        except (UsageError, OffsetsFall):
            last_batch = None
            seen = [] if saved is None else saved.seen
            read = replay.FallingOffsets(self.log).skip_unread(found.parse() for found in batches)
            chunks = (batch.data for batch in read)
        size, checksum = write_file(folder / file, chunks)
        ends = batches.find_ends()
        return Saved(shard.partition, file, size, checksum, *counts, loaded, seen, ends, last_batch, limit)


class _Batches:
    def __init__(self, partition: KeptPartition, count: int, next_offset: int) -> None:
        self.last_batch = None if partition.saved is None else partition.saved.last_batch
        self._partition = partition
        self._count = count
        self._next_offset = next_offset
        self._new_ends: dict[str, int] = {}

    def __iter__(self) -> Iterator[FoundBatch]:
        log = self._partition.log
        count = 0
        found = None
        for found in islice(log.find_batches(None), self._count):
            count += 1
            self._new_ends[found.segment] = found.frame.end
            yield found
        if count < self._count or (found is not None and found.frame.next_offset != self._next_offset):
            raise InvalidLog(f"{log.path}: the files have changed while they were read: read the log again")
        if found is not None and found.segment != self._partition.segment:
            self.last_batch = (found.frame.position, crc32c(found.data))

    def find_ends(self) -> dict[str, int]:
        partition = self._partition
        ends = {} if partition.saved is None else dict(partition.saved.ends)
        for segment in [] if partition.source is None else partition.source.segments:
            name = basename(segment)
            ends[name] = self._new_ends.get(segment, ends.get(name, 0))
        while ends and list(ends.values())[-1] == 0:
            ends.popitem()
        return ends


@dataclass
class Snapshot:
    """The state of each partition of a topic, by its number, as one coordinator reads it. A snapshot never changes.
    `notes` has a line for each reason why more of a log was read than what is new.
    """

    dialect: Dialect
    partitions: dict[int | None, KeptPartition] = field(default_factory=dict, repr=False)
    notes: list[str] = field(default_factory=list)

    @property
    def shards(self) -> dict[int | None, replay.Shard]:
        return {number: partition.get_shard(self.dialect) for number, partition in self.partitions.items()}

    @property
    def next_offsets(self) -> dict[int | None, int]:
        return {number: shard.loaded.next_offset for number, shard in self.shards.items()}

    def groups(self, path: str = "", partitions: int | None = None) -> Groups:
        """Return the groups that the coordinator would have if the logs ended where this snapshot ends.

        If a group has records in several partitions, the logs are read again to decide the topic's partition count.
        `path` is for error messages, and `partitions` as in `kafkagroups.load`.
        """
        logs = [partition.source for partition in self.partitions.values() if partition.source is not None]
        topic = FoundPartitions(list(self.partitions), len(self.partitions) > 1 or is_folder(logs, path), partitions)
        ends = self.next_offsets
        read_times = LogTimes({log.partition: (log, Stop(ends[log.partition])) for log in logs}, self.dialect)
        return combine_shards(self.shards.values(), self.dialect, path, WholeTopic(topic, {}), read_times)

    def advance(self, path: str | Path, *, engine: str = "auto", max_batch_bytes: int = MAX_BATCH_BYTES) -> Snapshot:
        """Return a new snapshot that also contains the batches that were appended after this one.

        Only the saved segment of a partition and the new batches are read, unless the log has changed or its load had
        failed. Raises UsageError if there is no log, and InvalidLog if the saved segment is damaged.
        """
        return self.advance_logs([log.limit_batches(max_batch_bytes) for log in open_logs(path)], engine=engine)

    def advance_logs(self, logs: Iterable[Log], *, engine: str = "auto") -> Snapshot:
        if replay.has_separate_offset_cache(self.dialect):
            reason = f"Kafka {self.dialect.kafka} keeps offsets in a separate cache"
            raise UsageError(f"snapshots need Kafka 0.10.1 or newer: {reason}")
        changed: list[str] = []
        advanced: list[KeptPartition] = []
        for log in logs:
            old = self.partitions.get(log.partition)
            rest = None if old is None else old.find_rest(log)
            if old is None or rest is None:
                advanced.append(KeptPartition(log, log))
                if old is not None and old.saved is not None and old.saved.last_batch:
                    changed.append(log.path)
            else:
                advanced.append(old.join(log, rest))
        shards = choose_engine(engine).fold_logs([partition.log for partition in advanced], self.dialect)
        for partition, shard in zip(advanced, shards, strict=True):
            partition.take(shard)
        notes = list(self.notes)
        if changed:
            others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            notes.append(f"{changed[0]}{others}: not the log of the snapshot any longer, so all of it was read")
        partitions = self.partitions | {partition.log.partition: partition for partition in advanced}
        return Snapshot(self.dialect, dict(sorted(partitions.items(), key=lambda item: item[0] or 0)), notes)

    def save(self, folder: str | Path, *, max_growth: float = 0) -> None:
        """Save the snapshot into a new or empty folder, or replace the snapshot in an existing folder.

        `max_growth` says how many new batches for each batch of a segment in the folder are not yet worth writing the
        segment again; the next load then reads them again. Raises UsageError if the folder cannot be written, or if it
        contains files but no snapshot, and InvalidLog if a log that the snapshot has read has changed since.
        """
        directory = Path(folder)
        names = list_folder(directory)
        if _MANIFEST not in names and not all(map(_OWN_NAMES.fullmatch, names)):
            raise UsageError(f"{folder}: expected an empty folder or one with a snapshot")
        try:
            saved = {
                number: partition.save(directory, self.dialect, max_growth)
                for number, partition in self.partitions.items()
            }
            _write_manifest(
                directory, Manifest(FORMAT, self.dialect.coordinator, self.dialect.kafka, [*saved.values()])
            )
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}") from None
        for number, partition in self.partitions.items():
            if partition.saved is None or partition.saved.file != saved[number].file:
                now = KeptPartition.read(directory, saved[number])
                self.partitions[number] = replace(now, source=partition.source, folded=partition.folded)

    @classmethod
    def read(cls, folder: str | Path) -> Snapshot:
        """Raises UsageError if the folder has no snapshot, it has an older format, or a file cannot be opened, and
        InvalidLog if it is damaged.
        """
        directory = Path(folder)
        manifest = read_manifest(directory)
        partitions = {saved.partition: KeptPartition.read(directory, saved) for saved in manifest.partitions}
        return cls(manifest.dialect, partitions)

    @classmethod
    def resume(cls, folder: str | Path, dialect: Dialect) -> Snapshot:
        """The snapshot is empty if the folder has none, or if its format is older."""
        if not has_snapshot(folder):
            return cls(dialect)
        try:
            snapshot = cls.read(folder)
        except OldSnapshot as error:
            return cls(dialect, notes=[f"{error}. Now all of the log is read, and the snapshot is replaced"])
        saved = snapshot.dialect
        if (saved.coordinator, saved.kafka) != (dialect.coordinator, dialect.kafka):
            raise UsageError(
                f"{folder}: this snapshot is of the {saved.coordinator} coordinator of Kafka {saved.kafka}"
            )
        return snapshot


def take_snapshot(
    path: str | Path,
    coordinator: str | None = None,
    kafka: str | None = None,
    *,
    engine: str = "auto",
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Snapshot:
    """Return a snapshot of all batches that are now in the logs at a path.

    The parameters and the errors are those of `kafkagroups.load`.
    """
    return Snapshot(releases.dialect(coordinator, kafka)).advance(path, engine=engine, max_batch_bytes=max_batch_bytes)
