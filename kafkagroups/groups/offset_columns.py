"""The offsets of a shard in the columns of the native engine. They are decoded when they are read.

`reading` is the object that the engine returned (loading/native.py), which owns the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

from kafkagroups.groups.offsets import OffsetAndMetadata, PartitionOffsets, TopicPartition
from kafkagroups.records.wire import decode_utf8

_PART_ROWS = 1 << 16
_PART_BYTES = 1 << 26
"""The engine gives columns in parts of at most this size."""


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
        for part in self.reading.pending_columns(_PART_ROWS, _PART_BYTES):
            for producer_id, group_id, partition, offset in _decode_commits(part):
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
        parts = self.reading.offset_columns([self.number], _PART_ROWS, _PART_BYTES)
        return {partition: offset for part in parts for _, _, partition, offset in _decode_commits(part)}

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


def _decode_commits(part: dict[str, Any]) -> Iterator[tuple[int, str, TopicPartition, OffsetAndMetadata]]:
    offsets = zip(*(_decode_column(part, name) for name in _OFFSET_COLUMNS), strict=True)
    keys = zip(*(_decode_column(part, name) for name in _KEY_COLUMNS), strict=True)
    for (producer_id, group_id, topic, number), offset in zip(keys, offsets, strict=True):
        yield producer_id, group_id, TopicPartition(topic, number), OffsetAndMetadata(*offset)


_KEY_COLUMNS = ("producer_id", "group", "topic", "topic_partition")
_OFFSET_COLUMNS = (
    "committed_offset",
    "metadata",
    "commit_timestamp_ms",
    "leader_epoch",
    "expire_timestamp_ms",
    "topic_id",
    "record_offset",
    "batch_offset",
)
"""The columns in the order of the fields of OffsetAndMetadata."""
_INT32_COLUMNS = ("topic_partition", "leader_epoch")


def _decode_column(part: dict[str, Any], name: str) -> list[Any]:
    """Return the values of a column: its bits of validity, the ends of its texts (None for numbers), and its data."""
    valid, ends, data = part.get(name, (None, None, b""))
    values: list[Any]
    if ends is None:
        values = memoryview(data).cast("i" if name in _INT32_COLUMNS else "q").tolist()
    else:
        texts: dict[bytes, str] = {}
        slices = [data[start:end] for start, end in pairwise(memoryview(ends).cast("i").tolist())]
        values = [texts.get(text) or texts.setdefault(text, decode_utf8(text)) for text in slices]
    if valid is None:
        return values
    return [value if valid[row >> 3] >> (row & 7) & 1 else None for row, value in enumerate(values)]
