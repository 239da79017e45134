"""The offsets of a shard in the columns of the native engine. They are decoded when they are read.

A shard is what one partition's log contains (shard.py). `reading` is the object that the engine returned
(loading/native.py), which owns the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition
from kafkagroups.records.text import decode_utf8, uuid_text


class NativeOffsets:
    """The offsets of a shard (ShardOffsets)."""

    def __init__(self, reading: Any) -> None:
        self.reading = reading
        self.committed: dict[str, GroupOffsets] = {}
        """The committed offsets of each group."""
        self.newest_commits: dict[str, int] = {}
        """By group id: the Kafka offset of the newest commit; -1 if the group has only tombstones."""
        for number, group_id, newest_commit, count in reading.groups():
            self.newest_commits[group_id] = newest_commit
            if count:
                self.committed[group_id] = GroupOffsets(reading, number, count)

    @cached_property
    def pending(self) -> dict[int, dict[str, PartitionOffsets]]:
        """The pending commits of open transactions, by producer id and then by group."""
        pending: dict[int, dict[str, PartitionOffsets]] = {}
        for producer_id, group_id, row in self.reading.pending():
            partition, offset = _decode_commit(row)
            pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = offset
        return pending


class GroupOffsets(Mapping[TopicPartition, OffsetAndMetadata]):
    """The committed offsets of one group, which has this number in `reading`.

    Every operation except `len` decodes all of them. A copy or a pickle is a dict.
    """

    def __init__(self, reading: Any, number: int, count: int) -> None:
        self.reading = reading
        self.number = number
        self._count = count

    def decode(self) -> PartitionOffsets:
        """Return the offsets as a dict."""
        return dict(map(_decode_commit, self.reading.offsets(self.number)))

    def __getitem__(self, partition: TopicPartition) -> OffsetAndMetadata:
        return self.decode()[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.decode())

    def __len__(self) -> int:
        return self._count

    def items(self) -> Any:
        """Return the decoded items. Without this method, `dict()` and comparisons would decode once per item."""
        return self.decode().items()

    def keys(self) -> Any:
        return self.decode().keys()

    def __repr__(self) -> str:
        return repr(self.decode())

    def __reduce__(self) -> tuple[type, tuple[PartitionOffsets]]:
        return dict, (self.decode(),)


def _decode_commit(row: Any) -> tuple[TopicPartition, OffsetAndMetadata]:
    topic, partition, offset, metadata, time, epoch, expire_time, topic_id, record_offset, batch_offset = row
    return TopicPartition(topic, partition), OffsetAndMetadata(
        offset,
        metadata if isinstance(metadata, str) else decode_utf8(metadata),
        time,
        epoch,
        expire_time,
        None if topic_id is None else uuid_text(topic_id),
        record_offset,
        batch_offset,
    )
