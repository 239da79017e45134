"""A shard: what one partition's log contains, as one coordinator (classic or new) reads it.

Both engines return shards: the readable engine (fold.py) and the native engine (loading/native.py). The subclasses
contain the rules of the two coordinators: classic_shard.py, new_shard.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkagroups.errors import BadBytes, LoadFailed
from kafkagroups.groups.group import GroupRecord
from kafkagroups.groups.log_records import LogKeys, find_group_id
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.observer import NO_OBSERVER, Observer
from kafkagroups.groups.offsets import Offsets, ShardOffsets, TopicPartition
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.batch_frames import Zeros
from kafkagroups.log.damage import Damage, Gap
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.fields import Message, list_fields
from kafkagroups.records.serde import VERSION_BYTES, Record, decode, decode_with_key


@dataclass
class LoadedPartition:
    """How much was read from one partition of the topic, and how its load ended.

    `segments`, `batches` and `records` are counts. `start_offset` is the first offset of the log. `next_offset` is the
    first offset after the last batch that was read. `error` says why the load fails on a broker of the chosen version;
    None if the load succeeds. `damage` is where reading ended because of wrong bytes; None if all bytes were read.
    `zeros` are the zeros at the end of the first segment that ends with zeros; None if no segment does. `gaps` are the
    damaged bytes between two batches, if `Log.skips_damage` is true; otherwise None. `record_offset` is the Kafka
    offset of the record at which the load fails; None if it fails after the last record, or does not fail.
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

    def describe_damage(self) -> list[str]:
        """Return a line of text for each place with damaged bytes."""
        places = [*(self.gaps or []), self.damage]
        return [str(place) for place in places if place is not None]


class CountBytes(Protocol):
    """A progress callback of an engine. Its argument is the number of bytes that were read since the last call."""

    def __call__(self, count: int, /) -> None: ...


def ignore_bytes(count: int, /) -> None:
    """Ignore the progress, for callers that do not show it."""


DecodedRecord = tuple[int, str, TopicPartition | None, Any]
"""The parts of a record that a load needs: its offset in the log, its group id, its topic partition and its content.

If no group id was found, it is "". For an offset record, the content is the list of the fields of its value; None for a
tombstone. For all other records, the topic partition is None, and the content is the decoded Record.
"""


@dataclass
class Shard(ABC):
    """What one partition's log contains, as one coordinator reads it.

    After the shards are read, loading/caches.py builds the coordinator's groups from them.

    `partition` is None if the log's folder has no partition number. `dialect` contains the reading rules of the
    coordinator's version. `offsets` are the offsets of all groups, also of groups that the coordinator does not have.
    `groups` are the groups that records created, by group id. A GroupRecord stands for a group whose record is not
    decoded yet. `seen_group_ids` are the ids of all groups that have records in this log, in the order of the log.
    `failure` is the error that ended the load; None if there was no error. The effects of the records before the
    failure stay.
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
            value = log_record.value
            content: Any = None
            try:
                key, group_id, partition, read_offset_fields = keys[log_record.key]
                if partition is None:
                    content = decode_with_key(key, value)
                elif value is not None:
                    read_fields = read_offset_fields.get(value[:VERSION_BYTES])
                    if read_fields is not None:
                        content, _ = read_fields(value, VERSION_BYTES)
                    if content is None:
                        message = decode_with_key(key, value).value
                        assert isinstance(message, Message)
                        content = list_fields(message)
            except BadBytes as error:
                error.file = batch.file
                error.offset = log_record.offset
                raise
            if group_id is None:
                group_id = ""
            else:
                seen_group_ids[group_id] = None
            yield log_record.offset, group_id, partition, content
