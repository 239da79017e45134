"""Snapshots: what a coordinator knows of a growing log up to an offset. Save one, and later read only what is new.

snapshot = take("logs", "classic")               reads everything
snapshot.groups()                                what load("logs", "classic") returns
snapshot.save("state")
Snapshot.read("state").advance("logs")           reads only what the logs have got since
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kafkagroups.errors import UsageError
from kafkagroups.groups.shard import Shard
from kafkagroups.loading.caches import empty_cache
from kafkagroups.loading.engines import choose_engine_for
from kafkagroups.loading.groups import Groups, known_groups
from kafkagroups.loading.load import add_shard
from kafkagroups.loading.snapshots import files
from kafkagroups.loading.snapshots.states import advance_shard
from kafkagroups.log.segments import Log, open_logs
from kafkagroups.records import versions
from kafkagroups.records.versions import Dialect

__all__ = ["Snapshot", "advance_shard", "take"]


@dataclass
class Snapshot:
    """The shards of a topic's partitions under one coordinator. A snapshot never changes.

    Attributes
    ----------
    rules
        The coordinator and the Kafka version that read the logs.
    shards
        The state of each partition, by number. None is a log whose folder does not tell its number.
    """

    dialect: Dialect
    shards: dict[int | None, Shard]

    @property
    def next_offsets(self) -> dict[int | None, int]:
        """The offset at which each partition's reading continues."""
        return {partition: shard.loaded.next_offset for partition, shard in self.shards.items()}

    def groups(self, path: str = "", partitions: int | None = None) -> Groups:
        """Return what the coordinator would answer if the logs ended here.

        Parameters
        ----------
        path
            The path to name in messages.
        partitions
            The topic's partition count, as in `kafkagroups.load`.
        """
        cache = empty_cache(self.dialect, partitions)
        loaded = {partition: add_shard(cache, shard) for partition, shard in self.shards.items()}
        return known_groups(cache, loaded, path, partitions)

    def advance(self, path: str | Path, *, engine: str = "auto") -> Snapshot:
        """Return the snapshot after what the logs at a path hold behind this one.

        Parameters
        ----------
        path
            As in `kafkagroups.load`.
        engine
            The engine for partitions that this snapshot does not have: "auto", "python" or "compiled".

        Raises
        ------
        UsageError
            There is no log, or a log ends before the snapshot does, so it is another log.
        """
        return self.advance_logs(open_logs(path), engine=engine)

    def advance_logs(self, logs: Iterable[Log], *, engine: str = "auto") -> Snapshot:
        """Return the snapshot after what these logs hold behind this one. The rest is as in `advance`."""
        logs = list(logs)
        compiled = choose_engine_for(engine, logs).name == "compiled"
        before = [self.shards.get(log.partition) for log in logs]
        with ThreadPoolExecutor(os.cpu_count() if compiled else 1) as pool:
            after = list(pool.map(lambda shard, log: advance_shard(shard, log, self.dialect, compiled), before, logs))
        shards = self.shards | {log.partition: shard for log, shard in zip(logs, after, strict=True)}
        return Snapshot(self.dialect, dict(sorted(shards.items(), key=lambda shard: shard[0] or 0)))

    def save(self, folder: str | Path) -> None:
        """Save the snapshot into a new folder, or replace the snapshot in it.

        A crash at any point leaves the previous snapshot intact.

        Raises
        ------
        UsageError
            The folder cannot be written, or it holds something else.
        """
        place = Path(folder)
        try:
            number = files.prepare(place)
            saved = {partition: (files.name(partition, number), n) for partition, n in self.next_offsets.items()}
            for partition, shard in self.shards.items():
                files.write_shard(place / saved[partition][0], shard)
            files.commit(place, number, self.dialect, saved)
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}") from None

    @classmethod
    def read(cls, folder: str | Path) -> Snapshot:
        """Return the snapshot that was saved in a folder.

        Raises
        ------
        UsageError
            There is no snapshot, or it cannot be read.
        InvalidLog
            Its bytes are damaged.
        """
        manifest = files.read(Path(folder))
        dialect = versions.dialect(manifest.coordinator, manifest.kafka)
        shards = {
            partition: files.read_shard(Path(folder, file), partition, dialect)
            for partition, (file, _) in manifest.partitions.items()
        }
        return cls(dialect, shards)


def take(path: str | Path, coordinator: str = "new", kafka: str | None = None, *, engine: str = "auto") -> Snapshot:
    """Return a snapshot of everything that the logs at a path hold now.

    The parameters and the errors are those of `kafkagroups.load`.
    """
    return Snapshot(versions.dialect(coordinator, kafka), {}).advance(path, engine=engine)
