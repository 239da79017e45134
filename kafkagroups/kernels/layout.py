"""What stands where in the arrays of a fold, and its few constants.

slots     int64, open addressing: 31 bits of a key's hash above its entry, -1 free
entries   8 int64 for each key, one cache line; more: 4 more, seldom looked at
names     a key without its partition, the group and the topic: its place and its hash; name_slots: as slots
arena     uint8: names, and metadata that is not empty; a place in it is position << 20 | size
nodes     8 int64 for each pending commit, a list for each producer with an open transaction, newest first
producers id, first node, whether the place is taken: open addressing
"""

from __future__ import annotations

from typing import Any, NamedTuple

SEEN, NAME, COMMITTED, RECORD, BATCH, TIME, NOTE, EPOCH = range(8)
"""An entry: newest record with a value, name << 32 | partition, committed offset, its record (-1: none) and its batch's
first, time, metadata, leader epoch with flags."""
PLACE, HASH_OF_NAME = range(2)
"""A name's two."""
NEXT, ENTRY = range(2)
"""A node's first two, then as an entry: the next node, the key's entry (~entry: a tombstone waits)."""
HAS_EXPIRE, HAS_TOPIC = 1 << 32, 1 << 33
"""Flags above the leader epoch: `more` has an expire timestamp (0), a topic id (1, 2); its 3 is the last marker."""

COUNTS = range(12)
ENTRIES, ARENA, NODES, FREE, PRODUCERS, BATCHES, RECORDS, NEXT_OFFSET, ROWS, GARBAGE, MARK, NAMES = COUNTS
"""The counts of a fold."""
CLASSIC, OFFSET_VALUES, TYPE0_VALUES, KNOWS_TOPIC_IDS, UNTIL, UNTIL_TIME, CHECKS_CRC, NEEDS_A_MARKER = range(8)
"""Its rules."""


class Tables(NamedTuple):
    """The arrays of a fold, as kernels get them."""

    rules: Any
    counts: Any
    slots: Any
    entries: Any
    more: Any
    tombs: Any
    names: Any
    name_slots: Any
    arena: Any
    nodes: Any
    node_more: Any
    producers: Any


AHEAD = 12
"""How many records are on their way from memory at once."""
COMMIT, ABORT = 1, 0
"""Types of markers."""
SIZE = (1 << 20) - 1
PARTITION = (1 << 32) - 1
MOST = (1 << 63) - 1
NOBODY = -(1 << 62)
"""The producer of a row that is no part of a transaction."""
