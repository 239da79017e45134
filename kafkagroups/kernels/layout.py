"""The columns of the arrays of a fold, and the constants that all kernels share.

A fold is the state after some batches of one partition's log: the newest commit of each key, and the pending commits.
These are its arrays:

slots       hash table of the keys, open addressing, int64: 31 bits of the key's hash, then its entry; -1 is free
entries     8 int64 for each key, in one cache line
extras      4 more int64 for each key, which are seldom read
tombstones  int64 for each key: the offset of its newest tombstone, -1 if it has none
names       2 int64 for each name; a name is a key without its partition, so it has the group and the topic
name_slots  hash table of the names, as `slots`
arena       uint8: the bytes of the names, and the metadata of commits
nodes       8 int64 for each pending commit: a linked list for each producer, the newest commit first
node_extras as `extras`, for nodes
producers   hash table of the producers with open transactions: producer id, first node, whether the row is used

A number that refers to bytes in the arena is called a text. It is `position << 20 | size`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

(
    NEWEST_VALUE,
    NAME_AND_PARTITION,
    COMMITTED_OFFSET,
    RECORD_OFFSET,
    BATCH_OFFSET,
    COMMIT_TIME,
    METADATA,
    EPOCH_AND_FLAGS,
) = range(8)
"""The columns of an entry.

NEWEST_VALUE: the offset of the key's newest record that has a value. NAME_AND_PARTITION: the number of the name << 32 |
the partition. RECORD_OFFSET: the offset of the record that committed the offset (-1: nothing is committed).
BATCH_OFFSET: the offset of the first record in the batch of that record. METADATA: a text. EPOCH_AND_FLAGS: the leader
epoch in the lower 32 bits, and flags above it.
"""
NAME_TEXT, NAME_HASH = range(2)
"""The columns of a name."""
NEXT_NODE, ENTRY = range(2)
"""The first columns of a node: the next node of the list, and the entry of the key (~entry for a pending tombstone).

The other columns are those of an entry.
"""
HAS_EXPIRE = 1 << 32
HAS_TOPIC_ID = 1 << 33
"""Flags in EPOCH_AND_FLAGS: column 0 of `extras` has an expire timestamp, columns 1 and 2 have a topic id.

Column 3 of `extras` is the number of the last marker that committed or aborted a commit of the key.
"""

COUNTS = range(12)
(
    ENTRIES,
    ARENA_BYTES,
    NODES,
    FREE_NODE,
    PRODUCERS,
    BATCHES,
    RECORDS,
    NEXT_OFFSET,
    OTHER_RECORDS,
    UNUSED_BYTES,
    MARKERS,
    NAMES,
) = COUNTS
"""The columns of `counts`.

Most are the number of used rows in an array. FREE_NODE: the first node in the list of free nodes. OTHER_RECORDS: the
records of the current piece that are not offset records. UNUSED_BYTES: bytes in the arena that no text refers to.
"""
(
    IS_CLASSIC,
    MAX_OFFSET_VERSION,
    MAX_TYPE0_VERSION,
    HAS_TOPIC_IDS,
    UNTIL_OFFSET,
    UNTIL_TIME,
    CHECKS_CRC,
    NEEDS_MARKER,
) = range(8)
"""The columns of `rules`: how the coordinator of a Kafka version reads, and where reading stops.

NEEDS_MARKER: the load fails if a control batch has no record.
"""

GROUP_START, GROUP_SIZE, GROUP_NEWEST_VALUE, LIVE_KEYS = range(4)
"""The columns of a group.

GROUP_START and GROUP_SIZE: the bytes of its id in the arena. GROUP_NEWEST_VALUE: the offset of the newest record of its
keys that has a value (-1: they have only tombstones). LIVE_KEYS: how many of its keys have a committed offset.
"""

OK, NO_SPACE, HAND_OVER, STOPPED, COMPRESSED, PAUSED, NEEDS_MORE = range(7)
"""What the kernels return.

OK: everything was read. NO_SPACE: an array must grow first. HAND_OVER: the readable engine must load this log.
STOPPED: the batch is at or after the stop. COMPRESSED: the next batch is compressed, and its checksum is correct.
PAUSED: the number of bytes that the caller asked for was read. NEEDS_MORE: these bytes end inside a batch.
"""

KEY_HASH, NAME_START, NAME_SIZE, VALUE_START, VALUE_SIZE, OFFSET, FIRST_OFFSET, PRODUCER_ID = range(8)
"""The columns of a row in a block, which is one offset record.

NAME_SIZE is negative if the previous row has the same name. FIRST_OFFSET: the offset of the first record in the batch.
"""
BLOCK_ROWS = 512
"""The number of rows in a block. A block is folded as a whole, so that its memory accesses can overlap."""

PREFETCH_DISTANCE = 12
"""How many rows before its use the memory of a row is prefetched."""
COMMIT = 1
ABORT = 0
"""The types of a transaction marker."""
SIZE_MASK = (1 << 20) - 1
"""The bits of a text that are its size."""
ENTRY_MASK = (1 << 31) - 1
"""The bits of a slot that are the number of an entry or of a name."""
PARTITION_MASK = (1 << 32) - 1
"""The bits of NAME_AND_PARTITION that are the partition."""
MAX_INT64 = (1 << 63) - 1
NO_TRANSACTION = -(1 << 62)
"""The producer id of a row that belongs to no transaction."""


class Tables(NamedTuple):
    """The arrays of a fold, as one argument of the kernels."""

    rules: Any
    counts: Any
    slots: Any
    entries: Any
    extras: Any
    tombstones: Any
    names: Any
    name_slots: Any
    arena: Any
    nodes: Any
    node_extras: Any
    producers: Any
