"""The arrays of a fold, column by column, and the constants that all kernels share.

slots      int64, open addressing: 31 bits of a key's hash, then its entry; -1 is free
entries    8 int64 for each key, one cache line; extras: 4 more columns that are seldom read
tombstones int64 for each key: the offset of its newest tombstone, -1 for none
names      a name is a key without its partition (the group and the topic): its place and its hash
name_slots as slots, for names
arena      uint8: names, and metadata that is not empty. A place in it is position << 20 | size
nodes      8 int64 for each pending commit: a list for each producer with an open transaction, newest first
producers  id, first node, whether the place is taken: open addressing
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkagroups.log.record_batch import HEADER_SIZE

SEEN, NAME, COMMITTED, RECORD, BATCH, TIME, NOTE, EPOCH = range(8)
"""The columns of an entry.

The newest record with a value; name << 32 | partition; the committed offset, its record (-1: none) and the first record
of its batch; the commit time; the place of the metadata; the leader epoch with flags.
"""
PLACE, HASH_OF_NAME = range(2)
"""The columns of a name."""
NEXT, ENTRY = range(2)
"""The first columns of a node: the next node, and the key's entry (~entry: a tombstone is pending).

The others are those of an entry.
"""
HAS_EXPIRE = 1 << 32
HAS_TOPIC = 1 << 33
"""Flags above the leader epoch: `extras` has an expire timestamp (column 0), a topic id (columns 1 and 2).

Column 3 of `extras` is the number of the last marker that decided the key.
"""

COUNTS = range(12)
ENTRIES, ARENA, NODES, FREE, PRODUCERS, BATCHES, RECORDS, NEXT_OFFSET, ROWS, GARBAGE, MARK, NAMES = COUNTS
"""The counts of a fold."""
CLASSIC, OFFSET_VALUES, TYPE0_VALUES, KNOWS_TOPIC_IDS, UNTIL, UNTIL_TIME, CHECKS_CRC, NEEDS_A_MARKER = range(8)
"""The rules of a fold."""

GROUP_PLACE, GROUP_SIZE, NEWEST, LIVE = range(4)
"""The columns of a group.

Its name's bytes in the arena; its newest record with a value (-1: none); how many of its keys have an offset.
"""

OK, NO_SPACE, HAND_OVER, STOPPED, COMPRESSED, PAUSED, NEEDS_MORE = range(7)
"""What the kernels return.

OK: everything was read. NO_SPACE: an array has to grow first. HAND_OVER: the readable engine must load this log.
STOPPED: the stop was reached. COMPRESSED: a compressed batch with a right checksum follows. PAUSED: the caller's number
of bytes was read. NEEDS_MORE: a batch begins that does not end in these bytes.
"""

HASH, NAME_AT, NAME_SIZE, VALUE, VALUE_SIZE, OFFSET, FIRST, PRODUCER = range(8)
"""The columns of a row in a block. The size of a name is negative if the row before has the same name."""
BLOCK = 512
"""The number of rows in a block."""
HEADER = HEADER_SIZE
"""The size of a batch's header."""

AHEAD = 12
"""How many records are loaded from memory at the same time."""
COMMIT = 1
ABORT = 0
"""The types of a transaction marker."""
SIZE = (1 << 20) - 1
PARTITION = (1 << 32) - 1
MOST = (1 << 63) - 1
NO_TRANSACTION = -(1 << 62)
"""The producer of a row that belongs to no transaction."""


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
