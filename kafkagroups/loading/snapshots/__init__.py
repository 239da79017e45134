"""Snapshots: the state of a coordinator after it has read a growing log up to an offset.

    snapshot = take_snapshot("logs", "classic")      reads all batches
    snapshot.groups()                                returns the same as load("logs", "classic")
    snapshot.save("state")                           writes the snapshot into the folder "state"
    Snapshot.read("state").advance("logs")           reads only the batches that were appended after the snapshot

The state of one partition is called a shard (groups/shard.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from kafkagroups.errors import UsageError
from kafkagroups.groups.shard import Shard
from kafkagroups.loading.caches import create_cache
from kafkagroups.loading.engines import PYTHON, choose_engine
from kafkagroups.loading.groups import Groups, collect_groups
from kafkagroups.loading.load import WholeTopic, add_shard, settle
from kafkagroups.loading.record_times import LogTimes
from kafkagroups.loading.snapshots import files
from kafkagroups.loading.snapshots.state_files import read_state, write_state
from kafkagroups.loading.snapshots.states import advance_shard
from kafkagroups.loading.topic_partitions import FoundPartitions, is_folder
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.folders import open_logs
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.records import dialects
from kafkagroups.records.dialects import Dialect

__all__ = ["Snapshot", "advance_shard", "take_snapshot"]


@dataclass
class Snapshot:
    """The state of each partition of a topic, as one coordinator reads it. A snapshot never changes.

    Attributes
    ----------
    dialect
        The coordinator and the Kafka version that read the logs.
    shards
        The state of each partition, by partition number. The number is None if the name of the log's folder has no
        number.
    logs
        The logs that were read last. If a group has records in several partitions, they are read again to decide the
        topic's partition count (`FoundPartitions.decide`). Empty if the snapshot was only read from its folder. The
        partition count is then unknown for these groups.
    """

    dialect: Dialect
    shards: dict[int | None, Shard]
    logs: list[Log] = field(default_factory=list, repr=False, compare=False)

    @property
    def next_offsets(self) -> dict[int | None, int]:
        """By partition number: the Kafka offset after the last batch that was read."""
        return {partition: shard.loaded.next_offset for partition, shard in self.shards.items()}

    def groups(self, path: str = "", partitions: int | None = None) -> Groups:
        """Return the groups that the coordinator would have if the logs ended where this snapshot ends.

        Parameters
        ----------
        path
            The path that error messages show.
        partitions
            The topic's partition count, as in `kafkagroups.load`.
        """
        cache = create_cache(self.dialect, partitions)
        loaded = {partition: add_shard(cache, shard) for partition, shard in self.shards.items()}
        topic = FoundPartitions(list(self.shards), len(self.shards) > 1 or is_folder(self.logs, path), partitions)
        stops = {partition: Stop(until_offset=offset) for partition, offset in self.next_offsets.items()}
        read_times = LogTimes(self.logs, self.dialect, stops)
        topic_partitions = settle(cache, WholeTopic(topic, cache.partitions_of), read_times)
        return collect_groups(cache, loaded, path, topic, topic_partitions)

    def advance(self, path: str | Path, *, engine: str = "auto", max_batch_bytes: int = MAX_BATCH_BYTES) -> Snapshot:
        """Return a new snapshot that also contains the batches that were appended after this snapshot.

        Parameters
        ----------
        path
            The path of the logs, as in `kafkagroups.load`.
        engine
            "auto", "python" or "compiled": the engine for new partitions and for partitions whose load has failed. The
            readable engine reads the new batches of all other partitions.
        max_batch_bytes
            The limit of a decompressed batch, as in `kafkagroups.load`.

        Raises
        ------
        UsageError
            There is no log, or a log ends before the snapshot's next offset (the snapshot is of another log).
        """
        logs = [log.limit_batches(max_batch_bytes) for log in open_logs(path)]
        return self.advance_logs(logs, engine=engine)

    def advance_logs(self, logs: Iterable[Log], *, engine: str = "auto") -> Snapshot:
        """Return the same snapshot as `advance`, from logs that are already open."""
        logs = list(logs)
        chosen_engine = choose_engine(engine)
        old_shards = [self.shards.get(log.partition) for log in logs]
        with ThreadPoolExecutor(1 if chosen_engine is PYTHON else os.cpu_count()) as pool:
            new_shards = list(
                pool.map(lambda shard, log: advance_shard(shard, log, self.dialect, chosen_engine), old_shards, logs)
            )
        shards = self.shards | {log.partition: shard for log, shard in zip(logs, new_shards, strict=True)}
        return Snapshot(self.dialect, dict(sorted(shards.items(), key=lambda item: item[0] or 0)), logs)

    def save(self, folder: str | Path) -> None:
        """Save the snapshot into a new or empty folder, or replace the snapshot in an existing folder.

        A crash at any point leaves the previous snapshot intact.

        Raises
        ------
        UsageError
            The folder cannot be written, or it contains files but no snapshot.
        """
        directory = Path(folder)
        try:
            save_number = files.prepare_folder(directory)
            states = {}
            for partition, shard in self.shards.items():
                file_name = files.state_file_name(partition, save_number)
                states[partition] = write_state(directory, file_name, shard)
            files.commit_save(directory, save_number, self.dialect, states)
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}") from None

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
        shards = {
            partition: read_state(directory, saved, partition, manifest.dialect)
            for partition, saved in manifest.states.items()
        }
        return cls(manifest.dialect, shards)


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
    nothing_read = Snapshot(dialects.dialect(coordinator, kafka), {})
    return nothing_read.advance(path, engine=engine, max_batch_bytes=max_batch_bytes)
