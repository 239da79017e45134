"""A shard: what one partition's log contains, as one coordinator (classic or new) reads it.

Both engines return shards: the readable engine (fold.py) and the native engine (loading/native.py). The subclasses
contain the rules of the two coordinators: classic_shard.py, new_shard.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.group import GroupRecord
from kafkagroups.groups.log_records import LogKeys, find_group_id
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.observer import NO_OBSERVER, Observer
from kafkagroups.groups.offsets import Offsets, ShardOffsets, TopicPartition
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.batch_frames import Zeros
from kafkagroups.log.damage import Damage, Gap
from kafkagroups.log.recovery import StartFailure
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.serde import Record, decode, decode_with_key


@dataclass
class LoadedPartition:
    """How much was read from one partition of the topic, and how its load ended.

    `segments`, `batches` and `records` are counts. `start_offset` is the first offset of the log, and `next_offset` the
    first one after the last batch that was read. `error` says why the load fails on a broker of the chosen version, and
    `record_offset` is the record at which it does; None if it does not fail, or after the last record. `damage` is
    where reading ended because of wrong bytes. `zeros` are those at the end of the first segment that ends with zeros.
    `gaps` are the damaged bytes between two batches; None if `Log.skips_damage` is false.
    `start` says why a broker does not start with the log; None if it does.
    """

    segments: int = 0
    batches: int = 0
    records: int = 0
    start_offset: int = 0
    next_offset: int = 0
    error: str | None = None
    damage: Damage | None = None
    zeros: Zeros | None = None
    gaps: list[Gap] | None = None
    record_offset: int | None = None
    start: StartFailure | None = None

    def describe_damage(self) -> list[str]:
        """Return a line of text for each place with damaged bytes."""
        places = [*(self.gaps or []), self.damage]
        return [str(place) for place in places if place is not None]


class CountBytes(Protocol):
    """A progress callback of an engine. Its argument is the number of bytes that were read since the last call."""

    def __call__(self, count: int, /) -> None: ...


def ignore_bytes(count: int, /) -> None:
    """Ignore the progress, for callers that do not show it."""


DecodedRecord = tuple[int, str, TopicPartition | None, Record]
"""A record's offset in the log, its group id ("" if none was found), its topic partition, and the record.

The topic partition is None if the record is not an offset record.
"""


@dataclass
class Shard(ABC):
    """What one partition's log contains, as one coordinator reads it.

    After the shards are read, loading/caches.py builds the coordinator's groups from them. `partition` is None if the
    log's folder has no partition number. `offsets` are those of all groups, also of groups that the coordinator does
    not have. `groups` are the groups that records created; a GroupRecord is one whose record is not decoded yet.
    `seen_group_ids` are the ids of all groups with records in this log, in the order of the log. `failure` is the error
    that ended the load; the effects of the records before it stay.
    """

    partition: int | None
    dialect: Dialect
    loaded: LoadedPartition = field(default_factory=LoadedPartition)
    offsets: ShardOffsets = field(default_factory=Offsets)
    groups: dict[str, AnyGroup | GroupRecord] = field(default_factory=dict)
    seen_group_ids: dict[str, None] = field(default_factory=dict)
    failure: LoadFailed | BadBytes | None = None

    @abstractmethod
    def replay(self, batches: Iterable[Batch], observer: Observer = NO_OBSERVER) -> None:
        """Apply the next batches to this shard. Raises LoadFailed or BadBytes if a broker's load would fail."""

    @abstractmethod
    def replay_group(self, offset: int, record: Record, group_id: str) -> None:
        """Apply a record that is not an offset record. `offset` is the record's offset in the log."""

    def decode_record(self, log_record: LogRecord) -> tuple[Record, str]:
        """Return the decoded record and its group id, or "" if no group id was found.

        The group id is added to `seen_group_ids`.
        """
        try:
            record = decode(log_record.key, log_record.value, self.dialect)
        except BadBytes as error:
            error.offset = log_record.offset
            raise
        group_id = find_group_id(record)
        if group_id is None:
            return record, ""
        self.seen_group_ids[group_id] = None
        return record, group_id

    def decode_records(self, batch: Batch, keys: LogKeys, observer: Observer) -> Iterator[DecodedRecord]:
        """Decode the records of a batch, and yield the parts of each record that a load needs.

        Each record is decoded after the previous record was applied. Its group id is added to `seen_group_ids`. `keys`
        are the keys of the log.
        """
        is_observed = observer is not NO_OBSERVER
        seen_group_ids = self.seen_group_ids
        for index, log_record in enumerate(batch.records):
            if is_observed:
                observer.start_record(index)
            try:
                key, group_id, partition = keys[log_record.key]
                record = decode_with_key(key, log_record.value)
            except BadBytes as error:
                error.file = batch.file
                error.offset = log_record.offset
                raise
            if group_id is not None:
                seen_group_ids[group_id] = None
            yield log_record.offset, group_id or "", partition, record
