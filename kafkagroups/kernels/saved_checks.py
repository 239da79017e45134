"""Kernels for the arrays of a snapshot (saved.py): they list pending commits, and check names and group records.

layout.py describes the arrays of a fold state and the terms name, node, arena and text reference.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.kernels.compiled import kernel
from kafkagroups.kernels.hash_table import find_text, make_slot
from kafkagroups.kernels.layout import FIRST_NODE, IS_USED, NEXT_NODE, NUMBER, SIZE_BITS, SIZE_MASK
from kafkagroups.kernels.plain_groups import is_plain_group
from kafkagroups.kernels.scan import hash_bytes, is_valid_utf8, load_int16


@kernel
def list_pending_commits(producers: Any, nodes: Any, saved_producers: Any, node_numbers: Any) -> tuple[int, int]:
    """List the producers that have pending commits, and the nodes of these commits.

    A row of `saved_producers` receives a producer id and the producer's node count. `node_numbers` receives the numbers
    of the nodes: those of the first producer (the newest commit first), then those of the next producer. Return how
    many producers and how many nodes were listed.
    """
    producer_count = 0
    node_count = 0
    for row in range(len(producers)):
        node = producers[row, FIRST_NODE] if producers[row, IS_USED] else -1
        if node < 0:
            continue
        previous_count = node_count
        while node >= 0:
            node_numbers[node_count] = node
            node_count += 1
            node = nodes[node, NEXT_NODE]
        saved_producers[producer_count, 0] = producers[row, NUMBER]
        saved_producers[producer_count, 1] = node_count - previous_count
        producer_count += 1
    return producer_count, node_count


@kernel
def are_valid_names(names: Any, arena: Any, slots: Any, secret: Any) -> bool:
    """Return whether each name is valid UTF-8 and occurs once.

    A name contains a group id and a topic name, and the size of each (layout.py). The caller must have checked that
    these sizes are correct. The first column of `names` contains the text reference of each name. `slots` is working
    memory for a hash table of the names (hash_table.py); the caller must have filled it with -1. `secret` is the secret
    of the process (secret.py).
    """
    for name in range(len(names)):
        start = names[name, 0] >> SIZE_BITS
        size = names[name, 0] & SIZE_MASK
        group_size = load_int16(arena, start)
        if not is_valid_utf8(arena, start + 2, group_size):
            return False
        if not is_valid_utf8(arena, start + 4 + group_size, size - 4 - group_size):
            return False
        name_hash = hash_bytes(arena, start, size, secret)
        slot = find_text(arena, start, size, name_hash, slots, names, arena)
        if slots[slot] >= 0:
            return False
        slots[slot] = make_slot(name_hash, name)
    return True


@kernel
def are_plain_groups(record_bytes: Any, rows: Any, max_version: int, members: Any) -> bool:
    """Return whether all saved group records are plain (plain_groups.py).

    `rows` and `record_bytes` are the arrays `group_records` and `group_record_bytes` (saved.py). The caller must have
    checked that no size is negative, and that all sizes add up to the size of `record_bytes`.
    `max_version` is the highest value version that the coordinator reads. `members` is working memory for
    `is_plain_group`.
    """
    start = 0
    for row in range(len(rows)):
        key_size = rows[row, 1]
        value_start = start + key_size
        value_size = rows[row, 2]
        if key_size < 2 or load_int16(record_bytes, start) != 2:
            return False
        if not is_plain_group(record_bytes, start, key_size, value_start, value_size, max_version, members):
            return False
        start = value_start + value_size
    return True
