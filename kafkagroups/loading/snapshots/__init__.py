"""Snapshots: what a coordinator knows of a log up to an offset, saved, and later gone on from there.

snapshot = take("logs", "classic")               reads all
snapshot.groups()                                what load("logs", "classic") gives
snapshot.save("state"); Snapshot.read("state")
snapshot.advance("logs")                         reads only what the logs have got since
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from kafkagroups.errors import LoadFailed, UsageError
from kafkagroups.loading.engines import engine_of
from kafkagroups.loading.groups import Groups, empty_cache, known_groups
from kafkagroups.loading.snapshots import files
from kafkagroups.loading.snapshots.states import PartitionState, advanced, whole_shard
from kafkagroups.log.segments import Log, open_logs
from kafkagroups.records.versions import Dialect, dialect

__all__ = ["PartitionState", "Snapshot", "advanced", "take"]


@dataclass
class Snapshot:
    """The states of a topic's partitions under one coordinator. It does not change."""

    rules: Dialect
    states: dict[int | None, PartitionState]

    @property
    def next_offsets(self) -> dict[int | None, int]:
        """Where each partition's reading goes on."""
        return {partition: state.loaded.next_offset for partition, state in self.states.items()}

    def groups(self, path: str = "", partitions: int | None = None) -> Groups:
        """What that coordinator would answer if the logs ended there; `partitions` as in `load`."""
        cache = empty_cache(self.rules, partitions=partitions)
        read = {}
        for partition, state in self.states.items():
            loaded = read[partition] = replace(state.loaded)
            cache.name_groups(partition, state.names)
            try:
                if state.shard is not None:
                    cache.add(whole_shard(state))
            except LoadFailed as error:
                loaded.error = str(error)
        return known_groups(cache, read, path, partitions)

    def advance(self, path: str | Path, *, engine: str = "auto") -> Snapshot:
        """The snapshot after what the logs at `path` hold behind this one.

        UsageError: no log there, or it ends before the snapshot does, so it is another one.
        """
        return self.advance_logs(open_logs(path), engine=engine)

    def advance_logs(self, logs: Iterable[Log], *, engine: str = "auto") -> Snapshot:
        """The same of logs that are open."""
        logs = list(logs)
        compiled = engine_of(engine, sum(log.size for log in logs) if engine == "auto" else 0) is not None
        before = [self.states.get(log.partition) for log in logs]
        with ThreadPoolExecutor(os.cpu_count() if compiled else 1) as pool:
            after = list(pool.map(lambda state, log: advanced(state, log, self.rules, compiled), before, logs))
        states = self.states | {log.partition: state for log, state in zip(logs, after, strict=True)}
        return Snapshot(self.rules, dict(sorted(states.items(), key=lambda state: state[0] or 0)))

    def save(self, folder: str | Path) -> None:
        """Saves it into a new folder, or in the place of the snapshot there. UsageError: it cannot be written."""
        place = Path(folder)
        try:
            number = files.prepare(place)
            named = {partition: (files.name(partition, number), n) for partition, n in self.next_offsets.items()}
            for partition, state in self.states.items():
                files.write_state(place / named[partition][0], state)
            files.commit(place, number, self.rules, named)
        except OSError as error:
            raise UsageError(f"{folder}: {error.strerror}") from None

    @classmethod
    def read(cls, folder: str | Path) -> Snapshot:
        """The snapshot of a folder. UsageError: there is none. InvalidLog: its bytes are damaged."""
        said = files.read(Path(folder))
        rules = dialect(said.coordinator, said.kafka)
        states = {
            partition: files.read_state(Path(folder, file), rules) for partition, (file, _) in said.partitions.items()
        }
        return cls(rules, states)


def take(path: str | Path, coordinator: str = "new", kafka: str | None = None, *, engine: str = "auto") -> Snapshot:
    """A snapshot of all that the logs at `path` hold now; arguments and errors as those of `load`."""
    return Snapshot(dialect(coordinator, kafka), {}).advance(path, engine=engine)
