"""Kernels of pending commits: a list for each producer, which a marker commits or aborts.

A pending commit is an offset record of an open transaction. A node stores one pending commit. layout.py describes the
arrays, and groups/offsets.py has the rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.layout import (
    ARENA_BYTES,
    BATCH_OFFSET,
    COMMITTED_OFFSET,
    ENTRY,
    EPOCH_AND_FLAGS,
    FREE_NODE,
    IS_CLASSIC,
    MARKERS,
    METADATA,
    NEXT_NODE,
    NODES,
    PRODUCERS,
    RECORD_OFFSET,
    SIZE_MASK,
    UNUSED_BYTES,
)
from kafkagroups.kernels.table import copy_text


@kernel
def add_node(producer_id: int, is_tombstone: bool, tables: Any) -> int:
    """Add a node at the start of the producer's list, and return the node's number.

    Return -1 for a tombstone if the producer has no pending commits, because the tombstone then changes nothing.
    """
    counts = tables.counts
    nodes = tables.nodes
    producers = tables.producers
    row = find_or_add_producer(producer_id, counts, producers)
    if is_tombstone and producers[row, 1] < 0:
        return -1
    node = counts[FREE_NODE]
    if node >= 0:
        counts[FREE_NODE] = nodes[node, NEXT_NODE]
    else:
        node = counts[NODES]
        counts[NODES] += 1
    nodes[node, NEXT_NODE] = producers[row, 1]
    producers[row, 1] = node
    return node


@kernel
def find_or_add_producer(producer_id: int, counts: Any, producers: Any) -> int:
    """Return the row of a producer in the hash table; add the producer if it is new."""
    mask = len(producers) - 1
    hashed = (np.uint64(producer_id) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(33)) & np.uint64(mask)
    row = np.int64(hashed)
    while producers[row, 2]:
        if producers[row, 0] == producer_id:
            return row
        row = row + 1 & mask
    producers[row, 0] = producer_id
    producers[row, 1] = -1
    producers[row, 2] = 1
    counts[PRODUCERS] += 1
    return row


@kernel
def end_transaction(producer_id: int, commits: bool, tables: Any) -> None:
    """Commit or abort the producer's pending commits, as a marker demands, and free their nodes.

    `commits` is true for a commit marker. Only the newest pending commit of each key is applied.
    """
    counts = tables.counts
    entries = tables.entries
    extras = tables.extras
    nodes = tables.nodes
    producers = tables.producers
    row = find_or_add_producer(producer_id, counts, producers)
    node = producers[row, 1]
    producers[row, 1] = -1
    counts[MARKERS] += 1
    while node >= 0:
        node_entry = nodes[node, ENTRY]
        entry = node_entry if node_entry >= 0 else ~node_entry
        # The list begins with the newest commit. Column 3 shows that a newer commit of the key was already applied.
        if extras[entry, 3] != counts[MARKERS]:
            extras[entry, 3] = counts[MARKERS]
            committed_record = entries[entry, RECORD_OFFSET]
            if tables.rules[IS_CLASSIC]:
                is_newer = committed_record < 0 or entries[entry, BATCH_OFFSET] < nodes[node, BATCH_OFFSET]
            else:
                is_newer = (
                    nodes[node, RECORD_OFFSET] > tables.tombstones[entry]
                    and committed_record < nodes[node, RECORD_OFFSET]
                )
            if node_entry >= 0 and commits and is_newer:
                counts[UNUSED_BYTES] += entries[entry, METADATA] & SIZE_MASK
                for column in range(COMMITTED_OFFSET, EPOCH_AND_FLAGS + 1):
                    entries[entry, column] = nodes[node, column]
                for column in range(3):
                    extras[entry, column] = tables.node_extras[node, column]
                # The bytes of the metadata now belong to the entry.
                nodes[node, METADATA] = 0
        counts[UNUSED_BYTES] += nodes[node, METADATA] & SIZE_MASK
        next_node = nodes[node, NEXT_NODE]
        nodes[node, NEXT_NODE] = counts[FREE_NODE]
        counts[FREE_NODE] = node
        node = next_node


@kernel
def keep_pending_keys(nodes: Any, producers: Any, is_kept: Any) -> None:
    """Mark the entries of all pending commits as kept in `is_kept`, which has an element for each entry."""
    for row in range(len(producers)):
        node = producers[row, 1] if producers[row, 2] else -1
        while node >= 0:
            entry = nodes[node, ENTRY]
            is_kept[entry if entry >= 0 else ~entry] = True
            node = nodes[node, NEXT_NODE]


@kernel
def move_pending_commits(nodes: Any, producers: Any, new_entries: Any, arena: Any, new_arena: Any, counts: Any) -> None:
    """Write the new entry numbers into all pending commits, and copy their metadata to a new arena.

    `new_entries` contains the new number of each entry.
    """
    end = counts[ARENA_BYTES]
    for row in range(len(producers)):
        node = producers[row, 1] if producers[row, 2] else -1
        while node >= 0:
            entry = nodes[node, ENTRY]
            nodes[node, ENTRY] = new_entries[entry] if entry >= 0 else ~new_entries[~entry]
            nodes[node, METADATA], end = copy_text(nodes[node, METADATA], arena, new_arena, end)
            node = nodes[node, NEXT_NODE]
    counts[ARENA_BYTES] = end
