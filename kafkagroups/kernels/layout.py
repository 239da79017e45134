"""The columns of the arrays of a fold, and the constants that all kernels share.

A fold is the state after some batches of one partition's log: the newest commit of each key, and the pending commits
of open transactions. A key is a group, a topic and a partition, as in the key of an offset record. To fold a batch
means to apply its records to this state. A fold has these arrays:

slots       hash table of the keys, open addressing. A slot is an int64: 31 bits of the key's hash, then the number of
            the key's entry; -1 is a free slot
entries     8 int64 for each key, in one cache line. An entry is a row of this array
extras      4 more int64 for each key. They are seldom read, so they are not in the cache line of the entry
tombstones  int64 for each key: the offset of its newest tombstone, -1 if it has none
names       2 int64 for each name. A name is a key without its partition: the group and the topic, each after its size
name_slots  hash table of the names, with the same layout as `slots`
arena       uint8: the bytes of the names, and the metadata of commits
nodes       8 int64 for each pending commit. The nodes of a producer are a linked list, the newest commit first
node_extras 4 more int64 for each node, as `extras` for entries
producers   hash table of the producers with open transactions. Columns: producer id, first node (-1: the producer has
            no pending commit), and 1 if the row is used

A text is a number that refers to bytes in the arena. It is `position << 20 | size`.
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
"""The columns of an entry (the array `entries`).

NEWEST_VALUE: the offset of the key's newest record that has a value. NAME_AND_PARTITION: the number of the name << 32 |
the partition. RECORD_OFFSET: the offset of the record that committed the offset (-1: nothing is committed).
BATCH_OFFSET: the offset of the first record in the batch of that record. METADATA: a text. EPOCH_AND_FLAGS: the leader
epoch in the lower 32 bits, and flags above it.
"""
NAME_TEXT, NAME_HASH = range(2)
"""The columns of a name: the text of its bytes, and their hash."""
NEXT_NODE, ENTRY = range(2)
"""The first columns of a node: the next node of the list (-1: the last one), and the key's entry.

ENTRY is `~entry` for a tombstone that waits for its marker. The other columns of a node are those of an entry.
"""
HAS_EXPIRE = 1 << 32
HAS_TOPIC_ID = 1 << 33
"""Flags in EPOCH_AND_FLAGS: column 0 of `extras` has an expire timestamp, columns 1 and 2 have a topic id.

Column 3 of `extras` is the number of the last transaction marker that committed or aborted a commit of the key.
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

ENTRIES, ARENA_BYTES, NODES, PRODUCERS and NAMES: the used rows of these arrays. FREE_NODE: the first node in the list
of free nodes (-1: the list is empty). BATCHES and RECORDS: how many were folded. NEXT_OFFSET: the offset after the last
batch. OTHER_RECORDS: how many records of the current piece of a segment are not offset records. UNUSED_BYTES: how many
bytes in the arena no text refers to. MARKERS: how many transaction markers were applied.
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
"""The elements of `rules`: how the coordinator of a Kafka version reads, and where reading stops (log/stop.py).

MAX_OFFSET_VERSION and MAX_TYPE0_VERSION: the newest value version that the coordinator reads, for offset records of
type 1 and of type 0. HAS_TOPIC_IDS: the coordinator keeps the topic id of a commit. UNTIL_OFFSET and UNTIL_TIME (ms):
the limits of the stop. CHECKS_CRC: checksums are compared. NEEDS_MARKER: the load fails if a control batch has no
record.
"""

GROUP_START, GROUP_SIZE, GROUP_NEWEST_VALUE, LIVE_KEYS = range(4)
"""The columns of a row of `groups`, an array that is made when a fold is read. Each row is one group.

GROUP_START and GROUP_SIZE: the bytes of the group's id in the arena. GROUP_NEWEST_VALUE: the offset of the newest
offset record of the group that has a value (-1: the group has only tombstones). LIVE_KEYS: how many keys of the group
have a committed offset.
"""

OK, NO_SPACE, HAND_OVER, STOPPED, COMPRESSED, PAUSED, NEEDS_MORE = range(7)
"""The status that a kernel returns.

OK: everything was read. NO_SPACE: an array must grow first. HAND_OVER: the readable engine must load this log.
STOPPED: the next batch is at or after the stop (log/stop.py). COMPRESSED: the next batch is compressed, and its
checksum is correct. PAUSED: as many bytes were read as the caller asked for. NEEDS_MORE: the given bytes end inside a
batch.
"""

KEY_HASH, NAME_START, NAME_SIZE, VALUE_START, VALUE_SIZE, OFFSET, FIRST_OFFSET, PRODUCER_ID = range(8)
"""The columns of a block. A block is an array of offset records that were read but not folded; each row is one record.

NAME_START and VALUE_START are positions in the segment's bytes. NAME_SIZE is negative if the previous row has the same
name. VALUE_SIZE is -1 for a tombstone. FIRST_OFFSET: the offset of the first record in the batch.
"""
BLOCK_ROWS = 512
"""The number of rows in a block. All rows are folded together, so that the CPU can load memory for several rows at the
same time."""

PREFETCH_DISTANCE = 12
"""How many rows before its use the CPU starts to load the memory that a row needs."""
COMMIT = 1
ABORT = 0
"""The types of a transaction marker, as in the key of its record."""
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
    """The arrays of a fold (described at the top of this file), as one argument of the kernels."""

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
