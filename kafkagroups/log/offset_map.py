"""The cleaner's offset map: the newest offset of every key in the dirty part of a log.

The map covers the log from the first dirty offset up to, not including, the first uncleanable offset. It contains the
keys of all records, except the records in control batches and in aborted transactions. It stores each key as an MD5
hash of 16 bytes.

The map is full when it contains `capacity` keys. This is checked before each record is added, even if the record's key
is already in the map. So the last offset of a full map may be in the middle of a batch.

Simpler than Kafka: the map is a dict instead of a hash table in one byte buffer. An entry takes about 170 bytes; in
Kafka it takes 24.
Source: SkimpyOffsetMap.java, Cleaner.buildOffsetMap (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import md5

from kafkagroups.log.batch import Batch
from kafkagroups.log.cleaned_transactions import CleanedTransactions

DEFAULT_CAPACITY = 128 * 1024 * 1024 // 24 * 9 // 10
"""Kafka's default: log.cleaner.dedupe.buffer.size / 24 bytes per entry * log.cleaner.io.buffer.load.factor."""


class OffsetMap:
    """The newest offset of each key. `last_offset` is the last offset that the map covers; -1 if the map is empty."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.last_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def get(self, key: bytes) -> int:
        """Return the newest offset of a key; -1 if the key is not in the map."""
        return self._offsets.get(md5(key, usedforsecurity=False).digest(), -1)

    def put(self, key: bytes, offset: int) -> bool:
        """Set the offset of a key. If the map is full, change nothing and return False."""
        if len(self._offsets) >= self.capacity:
            return False
        self._offsets[md5(key, usedforsecurity=False).digest()] = offset
        self.last_offset = offset
        return True


def fill_map(
    offset_map: OffsetMap,
    segments: Iterable[tuple[Iterator[Batch], int]],
    first_dirty: int,
    transactions: CleanedTransactions,
) -> None:
    """Add the keys of segments until the map is full. Records below the offset `first_dirty` are not added.

    For each segment, `segments` contains its batches and the base offset of the next segment. For the last segment, it
    is the first uncleanable offset instead. `transactions` are the transactions that are open at the current batch. The
    map also covers the offsets between a segment's last batch and the next segment.
    """
    for batches, next_base in segments:
        for batch in batches:
            is_mapped = not transactions.can_discard(batch) and not batch.is_control
            if is_mapped and not _add_batch(offset_map, batch, first_dirty):
                return
            if batch.last_offset >= first_dirty:
                offset_map.last_offset = batch.last_offset
        offset_map.last_offset = next_base - 1


def _add_batch(offset_map: OffsetMap, batch: Batch, first_dirty: int) -> bool:
    """Add a batch's keys. Return False if the map is full."""
    for record in batch.records:
        if record.key is None or record.offset < first_dirty:
            continue
        if not offset_map.put(record.key, record.offset):
            return False
    return True
