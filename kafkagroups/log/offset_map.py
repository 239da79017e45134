"""The cleaner's offset map: for every key of the dirty part of a log, the offset of its newest record.

Filled from the first dirty offset to the first uncleanable one, with records that have a key and stand neither in a
control batch nor in an aborted transaction. Keys are held as MD5 hashes of 16 bytes. With `capacity` keys it is full;
that is looked at before each put, so even a record whose key is known ends the pass, and the map's last offset may lie
in the middle of a batch.

Simpler than Kafka: a dict instead of one block of bytes, so an entry costs about 170 bytes, not 24; no probing.
Source: SkimpyOffsetMap.java, Cleaner.buildOffsetMap (4.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import md5

from kafkagroups.log.batch import Batch
from kafkagroups.log.cleaned_transactions import CleanedTransactions

DEFAULT_CAPACITY = 128 * 1024 * 1024 // 24 * 9 // 10
"""log.cleaner.dedupe.buffer.size, 24 bytes an entry, filled to log.cleaner.io.buffer.load.factor."""


class OffsetMap:
    """`last_offset` is the last that the map speaks of, -1 before the first: the pass ends behind it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.last_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def get(self, key: bytes) -> int:
        """The newest offset of a key, -1 for a key that is not here."""
        return self._offsets.get(md5(key, usedforsecurity=False).digest(), -1)

    def put(self, key: bytes, offset: int) -> bool:
        """Whether there was room: with none, nothing is put, whatever the key."""
        if len(self._offsets) >= self.capacity:
            return False
        self._offsets[md5(key, usedforsecurity=False).digest()] = self.last_offset = offset
        return True


def fill(
    offset_map: OffsetMap,
    segments: Iterable[tuple[Iterator[Batch], int]],
    first_dirty: int,
    transactions: CleanedTransactions,
) -> None:
    """Puts the keys of these segments, until the map is full.

    With each segment comes the next one's base offset, or the first uncleanable one: a gap at its end is passed.
    """
    for batches, next_base in segments:
        for batch in batches:
            if not transactions.can_discard(batch) and not batch.is_control:
                for record in batch.records:
                    if (
                        record.key is not None
                        and record.offset >= first_dirty
                        and not offset_map.put(record.key, record.offset)
                    ):
                        return
            if batch.last_offset >= first_dirty:
                offset_map.last_offset = batch.last_offset
        offset_map.last_offset = next_base - 1
