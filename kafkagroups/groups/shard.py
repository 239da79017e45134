"""A shard: what one partition of the log says under one coordinator. Both engines return it.

The subclasses hold the rules: classic_shard.py and new_shard.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.group import GroupRecord
from kafkagroups.groups.log_records import find_group_id
from kafkagroups.groups.modern_group import AnyGroup, copy_group
from kafkagroups.groups.observer import NO_OBSERVER, Observer
from kafkagroups.groups.offsets import Offsets, ShardOffsets
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.segments import Damage
from kafkagroups.records.serde import Record, decode
from kafkagroups.records.versions import Dialect


@dataclass
class LoadedPartition:
    """What was read of one partition of the topic, and how its load ended.

    `next_offset` is the first offset after the last batch that was read. `error` is why the load fails on that broker.
    `damage` is where the log ends because its bytes are damaged.
    """

    segments: int = 0
    batches: int = 0
    records: int = 0
    start_offset: int = 0
    next_offset: int = 0
    error: str | None = None
    damage: Damage | None = None


class CountBytes(Protocol):
    """Progress callback of an engine: called with the number of bytes that were read since the last call."""

    def __call__(self, count: int, /) -> None: ...


def ignore_bytes(count: int, /) -> None:
    """Do nothing with the progress."""


@dataclass
class Shard(ABC):
    """What one partition of the log says under one coordinator, before the last step of its load.

    `offsets` are the offsets of all groups, known or not. `groups` are the groups that records made; of a group record
    that is not decoded yet it has the bytes. `names` are the ids of all groups with records here, in the order of the
    log. `failure` is why the load fails; what was replayed before stays.
    """

    partition: int | None
    dialect: Dialect
    loaded: LoadedPartition = field(default_factory=LoadedPartition)
    offsets: ShardOffsets = field(default_factory=Offsets)
    groups: dict[str, AnyGroup | GroupRecord] = field(default_factory=dict)
    names: dict[str, None] = field(default_factory=dict)
    failure: LoadFailed | BadBytes | None = None

    @abstractmethod
    def replay(self, batches: Iterable[Batch], observer: Observer = NO_OBSERVER) -> None:
        """Replay batches onto what was replayed before. Raise LoadFailed or BadBytes where that broker fails."""

    @abstractmethod
    def replay_group(self, offset: int, record: Record, group_id: str) -> None:
        """Replay a record that is not an offset's. `offset` is its offset in the log."""

    def decode(self, log_record: LogRecord, file: str | None = None) -> tuple[Record, str]:
        """Return a record and its group ("" for an unknown record type). The group is added to `names`."""
        try:
            record = decode(log_record.key, log_record.value, self.dialect)
        except BadBytes as error:
            error.file = file
            error.offset = log_record.offset
            raise
        group_id = find_group_id(record)
        if group_id is None:
            return record, ""
        self.names[group_id] = None
        return record, group_id

    def copy_with_offsets(self, offsets: ShardOffsets) -> Self:
        """Return a copy that can be replayed onto, with these offsets."""
        groups: dict[str, AnyGroup | GroupRecord] = {
            group_id: group if isinstance(group, GroupRecord) else copy_group(group)
            for group_id, group in self.groups.items()
        }
        return replace(self, loaded=replace(self.loaded), offsets=offsets, groups=groups, names=dict(self.names))
