"""Kernels of pending commits: each producer has a list of pending commits, which a marker commits or aborts.

A pending commit is an offset record of an open transaction. An entry is the row of a key (group, topic and partition)
in the array `entries`. A node is a row of the array `nodes`. It stores one pending commit, or one tombstone in a
transaction. ENTRY is the number of the key's entry: n for a pending commit, `~n` (negative) for a tombstone. layout.py
describes the arrays, and groups/offsets.py has the rules.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.fates import end_node, supersede_pending
from kafkagroups.kernels.layout import (
    ARENA_BYTES,
    BATCH_OFFSET,
    COMMITTED_OFFSET,
    ENTRY,
    EPOCH_AND_FLAGS,
    EXPIRE_TIME,
    FIRST_NODE,
    FOLLOWS_FATES,
    FREE_NODE,
    IS_CLASSIC,
    IS_USED,
    LAST_MARKER,
    MARKERS,
    METADATA,
    NEXT_NODE,
    NODES,
    RECORD_OFFSET,
    SIZE_MASK,
    TOPIC_ID_LAST_HALF,
    UNUSED_BYTES,
)
from kafkagroups.kernels.producers import find_or_add_producer
from kafkagroups.kernels.table import copy_text


@kernel
def add_node(producer_id: int, is_tombstone: bool, tables: Any) -> int:
    """Add a node at the start of the producer's list, and return the node's number.

    Return -1 for a tombstone if the producer has no pending commits, because the tombstone then changes nothing.
    """
    counts = tables.counts
    nodes = tables.nodes
    producers = tables.producers
    row = find_or_add_producer(producer_id, counts, producers, tables.secret)
    if is_tombstone and producers[row, FIRST_NODE] < 0:
        return -1
    node = counts[FREE_NODE]
    if node >= 0:
        counts[FREE_NODE] = nodes[node, NEXT_NODE]
    else:
        node = counts[NODES]
        counts[NODES] += 1
    nodes[node, NEXT_NODE] = producers[row, FIRST_NODE]
    producers[row, FIRST_NODE] = node
    return node


@kernel
def end_transaction(producer_id: int, is_commit: bool, marker_offset: int, tables: Any) -> None:
    """Apply a marker: commit or abort the pending commits of a producer, and free their nodes.

    `is_commit` is true for a commit marker, and false for an abort marker. `marker_offset` is the marker's offset.
    """
    counts = tables.counts
    entries = tables.entries
    extras = tables.extras
    nodes = tables.nodes
    producers = tables.producers
    row = find_or_add_producer(producer_id, counts, producers, tables.secret)
    node = producers[row, FIRST_NODE]
    producers[row, FIRST_NODE] = -1
    counts[MARKERS] += 1
    if tables.rules[FOLLOWS_FATES]:
        supersede_pending(node, tables)
    while node >= 0:
        node_entry = nodes[node, ENTRY]
        is_tombstone = node_entry < 0
        entry = ~node_entry if is_tombstone else node_entry
        # Only the first node of a key is applied, because the list begins with the newest commit.
        if extras[entry, LAST_MARKER] != counts[MARKERS]:
            extras[entry, LAST_MARKER] = counts[MARKERS]
            committed_record_offset = entries[entry, RECORD_OFFSET]
            if tables.rules[IS_CLASSIC]:
                has_no_committed_offset = committed_record_offset < 0
                is_newer = has_no_committed_offset or entries[entry, BATCH_OFFSET] < nodes[node, BATCH_OFFSET]
            else:
                is_newer = (
                    nodes[node, RECORD_OFFSET] > tables.tombstones[entry]
                    and nodes[node, RECORD_OFFSET] > committed_record_offset
                )
            if tables.rules[FOLLOWS_FATES] and not is_tombstone:
                end_node(node, entry, is_commit, is_newer, marker_offset, tables)
            if is_commit and is_newer and not is_tombstone:
                counts[UNUSED_BYTES] += entries[entry, METADATA] & SIZE_MASK
                for column in range(COMMITTED_OFFSET, EPOCH_AND_FLAGS + 1):
                    entries[entry, column] = nodes[node, column]
                for column in range(EXPIRE_TIME, TOPIC_ID_LAST_HALF + 1):
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
    """Mark the entries of all pending commits as kept in `is_kept`, which has a bool for each entry."""
    for row in range(len(producers)):
        node = producers[row, FIRST_NODE] if producers[row, IS_USED] else -1
        while node >= 0:
            entry = nodes[node, ENTRY]
            is_kept[entry if entry >= 0 else ~entry] = True
            node = nodes[node, NEXT_NODE]


@kernel
def move_pending_commits(
    nodes: Any, producers: Any, new_entry_numbers: Any, arena: Any, new_arena: Any, counts: Any
) -> None:
    """Write the new entry numbers into all nodes, and copy the metadata of the nodes to a new arena.

    `new_entry_numbers` maps the old number of each entry to the new number. The arena is the array with the bytes of
    names and metadata.
    """
    end = counts[ARENA_BYTES]
    for row in range(len(producers)):
        node = producers[row, FIRST_NODE] if producers[row, IS_USED] else -1
        while node >= 0:
            entry = nodes[node, ENTRY]
            nodes[node, ENTRY] = new_entry_numbers[entry] if entry >= 0 else ~new_entry_numbers[~entry]
            nodes[node, METADATA], end = copy_text(nodes[node, METADATA], arena, new_arena, end)
            node = nodes[node, NEXT_NODE]
    counts[ARENA_BYTES] = end
