"""The cleaner's offset map: the newest offset of every key in the dirty part of a log.

The dirty part of a log ends before the first uncleanable offset. The map contains the keys of all
records in the dirty part, except those in control batches and in aborted transactions. It stores each key as an MD5
hash of 16 bytes.

The map is full when it contains `capacity` keys. A full map does not cover the rest of the dirty part. As in Kafka, a
full map also refuses records whose key is already in the map. The last offset of a full map can be in the middle of a
batch.

Simpler than Kafka: Kafka's map is a hash table in one byte buffer, and an entry takes 24 bytes. Here, the map is a
dict, and an entry takes about 170 bytes. Both maps contain the same offsets.
Source: SkimpyOffsetMap.java (4.3.1); Cleaner.buildOffsetMap (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import md5

from kafkagroups.log.batch import Batch
from kafkagroups.log.producer_state import CleanedTransactions

DEFAULT_CAPACITY = 128 * 1024 * 1024 // 24 * 9 // 10
"""The number of keys that fit into the map, with Kafka's default settings.

128 MiB (log.cleaner.dedupe.buffer.size) / 24 bytes per entry * 0.9 (log.cleaner.io.buffer.load.factor)."""


class OffsetMap:
    """The newest Kafka offset of each key.

    `capacity` is the largest number of keys. `last_offset` is the last offset that the map covers; -1 if the map covers
    no offset.
    """

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
        """Set the offset of a key, and return True. If the map is full, change nothing and return False."""
        if len(self._offsets) >= self.capacity:
            return False
        self._offsets[md5(key, usedforsecurity=False).digest()] = offset
        self.last_offset = offset
        return True


def fill_map(
    offset_map: OffsetMap,
    batches_and_next_bases: Iterable[tuple[Iterator[Batch], int]],
    first_dirty: int,
    transactions: CleanedTransactions,
) -> None:
    """Add the keys of segments to the map until it is full. Records below the offset `first_dirty` are not added.

    `batches_and_next_bases` contains, for each segment, its batches and the base offset of the next segment (after the
    last segment: the first uncleanable offset). `transactions` follows the log batch by batch, and says whether a batch
    is in an aborted transaction. The map also covers the offsets between a segment's last batch and the next segment.
    """
    for batches, next_base in batches_and_next_bases:
        for batch in batches:
            is_discardable = transactions.check_next_batch(batch)
            has_keys = not is_discardable and not batch.is_control
            if has_keys and not _add_keys(offset_map, batch, first_dirty):
                return
            if batch.last_offset >= first_dirty:
                offset_map.last_offset = batch.last_offset
        offset_map.last_offset = next_base - 1


def _add_keys(offset_map: OffsetMap, batch: Batch, first_dirty: int) -> bool:
    for record in batch.records:
        if record.key is None or record.offset < first_dirty:
            continue
        if not offset_map.put(record.key, record.offset):
            return False
    return True
