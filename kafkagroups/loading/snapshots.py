"""Snapshots: what a growing log has come to, saved so that the next load reads only what is new.

    snapshot = take_snapshot("logs", "classic")      reads all batches
    snapshot.groups()                                returns the same as load("logs", "classic")
    snapshot.save("state")                           writes the snapshot into the folder "state"
    Snapshot.read("state").advance("logs")           reads only the batches that were appended after the snapshot

A saved snapshot is a log itself: for each partition, a compacted segment (compacted.py) and the position up to which it
holds (snapshot_files.py). To advance it, a load reads this segment and then the rest of the real log, as one log, with
either engine. If the log before the position is not the same any longer, for example because Kafka's cleaner has
compacted it, all of the log is read again, and a note says so.

The state of one partition is called a shard (groups/shard.py). A saved segment gives the shard before the last step of
the load, which decides which groups exist (loading/caches.py), so transactions can still be open in it.

Snapshots need the rules of Kafka 0.10.1 or newer, because older versions keep offsets in a separate cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import msgspec

from kafkagroups.errors import InvalidLog, LoadFailed, UsageError
from kafkagroups.groups.classic_shard import has_separate_offset_cache
from kafkagroups.groups.fold import fold_batches
from kafkagroups.groups.log_records import describe_rest
from kafkagroups.groups.shard import Shard
from kafkagroups.loading import snapshot_files as files
from kafkagroups.loading.caches import create_cache
from kafkagroups.loading.compacted import compact
from kafkagroups.loading.engines import choose_engine
from kafkagroups.loading.groups import Groups, collect_groups
from kafkagroups.loading.load import WholeTopic, add_shard, settle
from kafkagroups.loading.snapshot_files import Saved
from kafkagroups.loading.topic_partitions import FoundPartitions, LogTimes, is_folder
from kafkagroups.log.batches import FoundBatch
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.folders import open_logs
from kafkagroups.log.record_batch import crc32c
from kafkagroups.log.segment_file import WHOLE_FILE, ByteRange
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.records import dialects
from kafkagroups.records.dialects import Dialect

__all__ = ["KeptPartition", "Snapshot", "take_snapshot"]


@dataclass
class KeptPartition:
    """One partition of a snapshot: a log, and the shard that it gives.

    Attributes
    ----------
    log
        The log that gives the shard. If `saved` is not None, it begins with the segment of a saved snapshot.
    source
        The real log, from its start; None if only a saved snapshot was read.
    saved, segment
        The saved partition with whose segment `log` begins, and the path of this segment; None and "" if it does not.
    folded
        The shard, with the counts of the whole log; None until it is needed.
    """

    log: Log
    source: Log | None = None
    saved: Saved | None = None
    segment: str = ""
    folded: Shard | None = None

    @classmethod
    def read(cls, folder: Path, saved: Saved) -> KeptPartition:
        """Return a partition of the snapshot in a folder. Raises InvalidLog if its segment is damaged."""
        files.check_segment(folder, saved)
        segment = os.path.abspath(folder / saved.file)
        log = Log(segment, [segment], saved.partition).limit_batches(saved.max_batch_bytes)
        log.start_offset = saved.loaded.start_offset
        return cls(log, None, saved, segment)

    def join(self, log: Log, ranges: Mapping[str, ByteRange]) -> KeptPartition:
        """Return this saved partition with its segment, and these ranges of `log` after it."""
        joined = log.select_ranges({self.segment: WHOLE_FILE, **ranges}, self.log.start_offset)
        if log.content is not None:
            joined.content = {self.segment: self.log.read(self.segment), **{name: log.content[name] for name in ranges}}
        return KeptPartition(joined, log, self.saved, self.segment)

    def find_rest(self, log: Log) -> dict[str, ByteRange] | None:
        """Return the ranges of a log after the saved position; None if the log before it has changed, or is not known.

        The segments before the position must have the same sizes, and the last batch before it the same bytes.
        """
        saved = self.saved
        names = [_name_of(segment) for segment in log.segments]
        if saved is None or saved.last_batch is None or not saved.ends:
            return None
        if names[: len(saved.ends)] != list(saved.ends):
            return None
        if (log.start_offset, log.max_batch_bytes) != (saved.loaded.start_offset, saved.max_batch_bytes):
            return None
        ranges = {segment: ByteRange(saved.ends.get(_name_of(segment), 0)) for segment in log.segments}
        *earlier, last = log.segments[: len(saved.ends)]
        if any(log.segment_size(segment) != ranges[segment].start for segment in earlier):
            return None
        if log.segment_size(last) < ranges[last].start:
            return None
        position, checksum = saved.last_batch
        batch = log.select_ranges({last: ByteRange(position, ranges[last].start)}).read(last)
        return ranges if crc32c(batch) == checksum else None

    def take(self, shard: Shard) -> Shard:
        """Take the shard that a fold of `log` has returned. Return it with the counts of the whole log.

        Raises InvalidLog if the segment of the snapshot is damaged.
        """
        saved = self.saved
        loaded = shard.loaded
        damage = loaded.damage
        if saved is not None:
            if damage is not None and damage.file == self.segment:
                raise files.describe_damage(self.segment, damage.reason)
            if self.source is None:
                shard.loaded = replace(saved.loaded, error=None)
            else:
                loaded.batches += saved.loaded.batches - saved.batches
                loaded.records += saved.loaded.records - saved.records
                loaded.segments = len(self.source.segments)
                loaded.damage = describe_rest(self.source, damage, shard.dialect)
                start = saved.loaded.start
                loaded.start = self.source.start_failure or (start if start and start.offset is not None else None)
            shard.seen_group_ids.update(dict.fromkeys(saved.seen))
        self.folded = shard
        return shard

    def get_shard(self, dialect: Dialect) -> Shard:
        """Return the shard. If only a saved snapshot was read, its segment is folded now."""
        if self.folded is not None:
            return self.folded
        if self.saved is not None and not self.saved.file:
            failure = LoadFailed(self.saved.loaded.error or "")
            return self.take(replace(fold_batches(self.saved.partition, (), dialect), failure=failure))
        return self.take(_fold(self.log, dialect))

    def save(self, folder: Path, dialect: Dialect, max_growth: float = 0) -> Saved:
        """Write a segment that gives the shard into a folder. Return what a snapshot says of the partition.

        Nothing is written if the segment is already there, and few batches came after it (`Snapshot.save`). If the
        offsets in the log fall, the segment has all batches.
        """
        saved = self.saved
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
            if new_batches <= max_growth * saved.batches and self.segment == os.path.abspath(folder / saved.file):
                return saved if new_batches else msgspec.structs.replace(saved, loaded=loaded)
            counts = (saved.batches + new_batches, loaded.records - saved.loaded.records + saved.records)
        file = files.name_segment(shard.partition)
        batches = _Batches(self, counts[0], loaded.next_offset)
        chunks: Iterable[bytes] = (found.data for found in batches)
        seen = [] if saved is None else saved.seen
        compacted = None
        with suppress(UsageError):
            compacted = compact(shard, batches)
        if compacted is not None:
            chunks = [compacted.segment]
            counts = (compacted.batches, compacted.records)
            seen = [group_id for group_id in seen_ids if group_id not in compacted.group_ids]
        size, checksum = files.write_file(folder / file, chunks)
        position = (batches.find_ends(), batches.last_batch)
        return Saved(shard.partition, file, size, checksum, *counts, loaded, seen, *position, limit)


class _Batches:
    """The batches of a partition's log that its shard contains. They can be read several times.

    After a reading, `last_batch` and `find_ends` are those of `Saved`. A reading raises InvalidLog if the log has
    changed since it was folded.
    """

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
        """Return the end of each segment of the real log, up to the last one with a batch."""
        partition = self._partition
        ends = {} if partition.saved is None else dict(partition.saved.ends)
        for segment in [] if partition.source is None else partition.source.segments:
            name = _name_of(segment)
            ends[name] = self._new_ends.get(segment, ends.get(name, 0))
        while ends and list(ends.values())[-1] == 0:
            ends.popitem()
        return ends


def _fold(log: Log, dialect: Dialect) -> Shard:
    (shard,) = choose_engine("auto").fold_logs([log], dialect)
    return shard


def _name_of(segment: str) -> str:
    return os.path.basename(segment)


@dataclass
class Snapshot:
    """The state of each partition of a topic, as one coordinator reads it. A snapshot never changes.

    Attributes
    ----------
    dialect
        The coordinator and the Kafka version that read the logs.
    partitions
        By partition number: a partition. The number is None if the name of the log's folder has no number.
    notes
        A line for each reason why more of a log was read than what is new.
    """

    dialect: Dialect
    partitions: dict[int | None, KeptPartition] = field(default_factory=dict, repr=False)
    notes: list[str] = field(default_factory=list)

    @property
    def shards(self) -> dict[int | None, Shard]:
        """The state of each partition, by partition number."""
        return {number: partition.get_shard(self.dialect) for number, partition in self.partitions.items()}

    @property
    def next_offsets(self) -> dict[int | None, int]:
        """By partition number: the Kafka offset after the last batch that was read."""
        return {number: shard.loaded.next_offset for number, shard in self.shards.items()}

    def groups(self, path: str = "", partitions: int | None = None) -> Groups:
        """Return the groups that the coordinator would have if the logs ended where this snapshot ends.

        If a group has records in several partitions, the logs are read again to decide the topic's partition count
        (`FoundPartitions.decide`). If the snapshot was only read from its folder, the count is unknown for such groups.

        Parameters
        ----------
        path
            The path that error messages show.
        partitions
            The topic's partition count, as in `kafkagroups.load`.
        """
        logs = [partition.source for partition in self.partitions.values() if partition.source is not None]
        cache = create_cache(self.dialect, partitions)
        loaded = {number: add_shard(cache, shard) for number, shard in self.shards.items()}
        topic = FoundPartitions(list(loaded), len(loaded) > 1 or is_folder(logs, path), partitions)
        stops = {number: Stop(until_offset=offset) for number, offset in self.next_offsets.items()}
        read_times = LogTimes(logs, self.dialect, stops)
        topic_partitions = settle(cache, WholeTopic(topic, cache.partitions_of), read_times)
        return collect_groups(cache, loaded, path, topic, topic_partitions)

    def advance(self, path: str | Path, *, engine: str = "auto", max_batch_bytes: int = MAX_BATCH_BYTES) -> Snapshot:
        """Return a new snapshot that also contains the batches that were appended after this snapshot.

        Of a partition that was saved, or read from a folder, the saved segment and the new batches are read. All of the
        log is read if it is not the same any longer, if its load had failed, or if the partition was not saved.

        Parameters
        ----------
        path, engine, max_batch_bytes
            As in `kafkagroups.load`.

        Raises
        ------
        UsageError
            There is no log.
        InvalidLog
            The bytes of the saved segment are damaged.
        """
        return self.advance_logs([log.limit_batches(max_batch_bytes) for log in open_logs(path)], engine=engine)

    def advance_logs(self, logs: Iterable[Log], *, engine: str = "auto") -> Snapshot:
        """Return the same snapshot as `advance`, from logs that are already open."""
        if has_separate_offset_cache(self.dialect):
            reason = f"Kafka {self.dialect.kafka} keeps offsets in a separate cache"
            raise UsageError(f"snapshots need Kafka 0.10.1 or newer: {reason}")
        changed: list[str] = []
        advanced: list[KeptPartition] = []
        for log in logs:
            old = self.partitions.get(log.partition)
            rest = None if old is None else old.find_rest(log)
            if old is None or rest is None:
                advanced.append(KeptPartition(log, log))
                if old is not None and old.saved is not None and old.saved.batches:
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

        A crash at any point leaves the previous snapshot intact.

        Parameters
        ----------
        max_growth
            How many new batches for each batch of a segment in the folder are not yet worth writing the segment again.
            With 0, the folder has this snapshot. With more, it can have an earlier one, and the next load reads the new
            batches again.

        Raises
        ------
        UsageError
            The folder cannot be written, or it contains files but no snapshot.
        InvalidLog
            A log that the snapshot has read has changed since.
        """
        directory = Path(folder)
        try:
            files.prepare_folder(directory)
            saved = {
                number: partition.save(directory, self.dialect, max_growth)
                for number, partition in self.partitions.items()
            }
            files.commit_save(directory, self.dialect, saved.values())
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}") from None
        for number, partition in self.partitions.items():
            if partition.saved is None or partition.saved.file != saved[number].file:
                now = KeptPartition.read(directory, saved[number])
                self.partitions[number] = replace(now, source=partition.source, folded=partition.folded)

    @classmethod
    def read(cls, folder: str | Path) -> Snapshot:
        """Return the snapshot that was saved in a folder.

        Raises
        ------
        UsageError
            There is no snapshot in the folder, it has an older format, or a file cannot be opened.
        InvalidLog
            The bytes of the snapshot are damaged.
        """
        directory = Path(folder)
        manifest = files.read_manifest(directory)
        partitions = {saved.partition: KeptPartition.read(directory, saved) for saved in manifest.partitions}
        return cls(manifest.dialect, partitions)

    @classmethod
    def resume(cls, folder: str | Path, dialect: Dialect) -> Snapshot:
        """Return the snapshot in a folder to go on with. It is empty if there is none, or if its format is older.

        Raises UsageError if the snapshot is of another coordinator or Kafka version, and the errors of `read`.
        """
        if not files.has_snapshot(folder):
            return cls(dialect)
        try:
            snapshot = cls.read(folder)
        except files.OldSnapshot as error:
            return cls(dialect, notes=[f"{error}. Now all of the log is read, and the snapshot is replaced"])
        saved = snapshot.dialect
        if (saved.coordinator, saved.kafka) != (dialect.coordinator, dialect.kafka):
            raise UsageError(
                f"{folder}: this snapshot is of the {saved.coordinator} coordinator of Kafka {saved.kafka}"
            )
        return snapshot


def take_snapshot(
    path: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    engine: str = "auto",
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Snapshot:
    """Return a snapshot of all batches that are now in the logs at a path.

    The parameters and the errors are those of `kafkagroups.load`.
    """
    return Snapshot(dialects.dialect(coordinator, kafka)).advance(path, engine=engine, max_batch_bytes=max_batch_bytes)
