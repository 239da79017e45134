"""Kernels of pending commits: a list for each producer, which a marker decides. The rules are in groups/offsets.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.layout import (
    ARENA,
    BATCH,
    CLASSIC,
    COMMITTED,
    ENTRY,
    EPOCH,
    FREE,
    GARBAGE,
    MARK,
    NEXT,
    NODES,
    NOTE,
    PRODUCERS,
    RECORD,
    SIZE,
)
from kafkagroups.kernels.table import move_text


@kernel
def new_node(producer: int, dead: bool, tables: Any) -> int:
    """Add a node at the head of the producer's list and return it. Return -1 for a tombstone if nothing is pending."""
    counts = tables.counts
    nodes = tables.nodes
    producers = tables.producers
    place = find_producer(producer, counts, producers)
    if dead and producers[place, 1] < 0:
        return -1
    node = counts[FREE]
    if node >= 0:
        counts[FREE] = nodes[node, NEXT]
    else:
        node = counts[NODES]
        counts[NODES] += 1
    nodes[node, NEXT] = producers[place, 1]
    producers[place, 1] = node
    return node


@kernel
def find_producer(producer: int, counts: Any, producers: Any) -> int:
    """Return the place of a producer in the open-addressed table; add the producer if it is new."""
    mask = len(producers) - 1
    place = (np.uint64(producer) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(33)) & np.uint64(mask)
    at = np.int64(place)
    while producers[at, 2]:
        if producers[at, 0] == producer:
            return at
        at = at + 1 & mask
    producers[at, 0] = producer
    producers[at, 1] = -1
    producers[at, 2] = 1
    counts[PRODUCERS] += 1
    return at


@kernel
def end_transaction(producer: int, commits: bool, tables: Any) -> None:
    """Apply a marker to what the producer has pending. Only the newest commit of each key counts. Free the nodes."""
    counts = tables.counts
    entries = tables.entries
    extras = tables.extras
    nodes = tables.nodes
    producers = tables.producers
    place = find_producer(producer, counts, producers)
    node = producers[place, 1]
    producers[place, 1] = -1
    counts[MARK] += 1
    while node >= 0:
        named = nodes[node, ENTRY]
        entry = named if named >= 0 else ~named
        if extras[entry, 3] != counts[MARK]:
            extras[entry, 3] = counts[MARK]
            committed = entries[entry, RECORD]
            if tables.rules[CLASSIC]:
                newer = committed < 0 or entries[entry, BATCH] < nodes[node, BATCH]
            else:
                newer = nodes[node, RECORD] > tables.tombstones[entry] and committed < nodes[node, RECORD]
            if named >= 0 and commits and newer:
                counts[GARBAGE] += entries[entry, NOTE] & SIZE
                for column in range(COMMITTED, EPOCH + 1):
                    entries[entry, column] = nodes[node, column]
                for column in range(3):
                    extras[entry, column] = tables.node_extras[node, column]
                nodes[node, NOTE] = 0
        counts[GARBAGE] += nodes[node, NOTE] & SIZE
        following = nodes[node, NEXT]
        nodes[node, NEXT] = counts[FREE]
        counts[FREE] = node
        node = following


@kernel
def mark_pending(nodes: Any, producers: Any, wanted: Any) -> None:
    """Make the entries of all pending commits wanted."""
    for place in range(len(producers)):
        node = producers[place, 1] if producers[place, 2] else -1
        while node >= 0:
            entry = nodes[node, ENTRY]
            wanted[entry if entry >= 0 else ~entry] = True
            node = nodes[node, NEXT]


@kernel
def move_pending(nodes: Any, producers: Any, renamed: Any, old: Any, new: Any, counts: Any) -> None:
    """Give all pending commits the new numbers of their entries, and copy their metadata to the new arena."""
    end = counts[ARENA]
    for place in range(len(producers)):
        node = producers[place, 1] if producers[place, 2] else -1
        while node >= 0:
            entry = nodes[node, ENTRY]
            nodes[node, ENTRY] = renamed[entry] if entry >= 0 else ~renamed[~entry]
            nodes[node, NOTE], end = move_text(nodes[node, NOTE], old, new, end)
            node = nodes[node, NEXT]
    counts[ARENA] = end
