"""Saves the arrays of a compiled fold for a snapshot; checks and restores saved arrays.

A fold is the state of the compiled engine after some batches; layout.py describes its arrays. Kernels do not check
whether a position is inside an array. So damaged arrays could make them read or write any memory, and all saved arrays
are checked before a kernel receives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kafkagroups.groups.offsets import ShardOffsets
from kafkagroups.kernels import layout
from kafkagroups.kernels.arrays import Array
from kafkagroups.kernels.shards import FoldedShardOffsets
from kafkagroups.kernels.state import FoldState
from kafkagroups.records.versions import Dialect

_COLUMN_COUNTS = {"entries": 8, "extras": 4, "names": 2, "nodes": 8, "node_extras": 4, "producers": 3}
_ARRAY_NAMES = (*_COLUMN_COUNTS, "counts", "tombstones", "arena")
"""The names of the saved arrays. The arrays that are not in _COLUMN_COUNTS have one dimension."""


def save_arrays(offsets: ShardOffsets) -> dict[str, Array]:
    """Return the arrays that contain the offsets of a shard (groups/shard.py) from the compiled engine."""
    assert isinstance(offsets, FoldedShardOffsets)
    return offsets.state.arrays_to_save()


def restore_offsets(dialect: Dialect, saved_arrays: Mapping[str, Array]) -> FoldedShardOffsets:
    """Return the offsets in saved arrays. Raise ValueError if these are not the arrays of a fold."""
    check_arrays(saved_arrays)
    return FoldedShardOffsets(FoldState.restore(dialect, saved_arrays))


def check_arrays(saved_arrays: Mapping[str, Array]) -> None:
    """Raise ValueError if these are not the arrays of a fold."""
    _expect(saved_arrays.keys() == set(_ARRAY_NAMES), f"arrays {', '.join(_ARRAY_NAMES)}")
    for name in _ARRAY_NAMES:
        array = saved_arrays[name]
        dtype_name = "uint8" if name == "arena" else "int64"
        columns = (_COLUMN_COUNTS[name],) if name in _COLUMN_COUNTS else ()
        has_right_shape = array.dtype == dtype_name and array.ndim > 0 and array.shape[1:] == columns
        _expect(has_right_shape and array.flags.c_contiguous, f"rows of shape {columns}, {dtype_name}, in {name!r}")
    counts = saved_arrays["counts"]
    entries = saved_arrays["entries"]
    names = saved_arrays["names"]
    arena = saved_arrays["arena"]
    nodes = saved_arrays["nodes"]
    producers = saved_arrays["producers"]
    _expect(len(counts) == len(layout.COUNTS), f"{len(layout.COUNTS)} counts")
    entry_count = len(entries)
    _expect(counts[layout.OTHER_RECORDS] == 0, "no unread rows")
    _expect(0 <= counts[layout.UNUSED_BYTES] < 1 << 62, "a number of unused bytes")
    _expect(
        counts[layout.ENTRIES] == entry_count == len(saved_arrays["extras"]) == len(saved_arrays["tombstones"]),
        "as many entries as counted",
    )
    _expect(counts[layout.NAMES] == len(names) and counts[layout.ARENA_BYTES] == len(arena), "as many names as counted")
    _expect(counts[layout.NODES] == len(nodes) == len(saved_arrays["node_extras"]), "as many nodes as counted")
    entry_names = entries[:, layout.NAME_AND_PARTITION] >> 32
    _expect(((entry_names >= 0) & (entry_names < len(names))).all(), "entries whose names exist")
    _expect(np.bincount(entry_names, minlength=len(names)).all(), "an entry for each name")
    _check_names(names[:, layout.NAME_TEXT], arena)
    is_pending = _find_pending_nodes(counts, nodes, producers, entry_count)
    texts = np.concatenate(
        [names[:, layout.NAME_TEXT], entries[:, layout.METADATA], nodes[is_pending, layout.METADATA]]
    )
    start, end = _find_bounds(texts[texts != 0], len(arena))
    order = np.argsort(start)
    _expect((start[order][1:] >= end[order][:-1]).all(), "texts side by side")


def _find_bounds(texts: Array, arena_size: int) -> tuple[Array, Array]:
    """Return the start and the end of each text in the arena. Raise ValueError if a text is not inside the arena."""
    start = texts >> 20
    size = texts & layout.SIZE_MASK
    _expect(((start >= 0) & (start <= arena_size - size)).all(), "texts inside the arena")
    return start, start + size


def _check_names(texts: Array, arena: Array) -> None:
    """Raise ValueError if a name is not a group and a topic, each after its size (int16)."""
    start, end = _find_bounds(texts, len(arena))
    name_size = end - start
    _expect((name_size >= 4).all(), "names of a group and a topic")
    group_size = _read_int16(arena, start)
    _expect(((group_size >= 0) & (group_size + 4 <= name_size)).all(), "groups inside their names")
    topic_size = _read_int16(arena, start + 2 + group_size)
    _expect((topic_size == name_size - 4 - group_size).all(), "topics that end with their names")


def _read_int16(arena: Array, positions: Array) -> Array:
    """Return the signed big-endian int16 at each position."""
    return (arena[positions].astype(np.int64) << 8 | arena[positions + 1]) - (arena[positions] >> 7).astype(
        np.int64
    ) * (1 << 16)


def _find_pending_nodes(counts: Array, nodes: Array, producers: Array, entry_count: int) -> Array:
    """Return for each node whether it is a pending commit, i.e. in the list of a producer.

    Raise ValueError if a node number is wrong. Each node may occur only once in all lists, so that every list ends.
    """
    is_used = producers[:, 2] != 0
    row_count = len(producers)
    _expect(row_count > 0 and row_count & row_count - 1 == 0, "a power of two of producers")
    _expect(counts[layout.PRODUCERS] == is_used.sum() <= row_count // 2, "as many producers as counted")
    node_numbers = np.concatenate([producers[is_used, 1], [counts[layout.FREE_NODE]], nodes[:, layout.NEXT_NODE]])
    _expect(((node_numbers >= -1) & (node_numbers < len(nodes))).all(), "nodes of pending commits inside their array")
    _expect(
        len(np.unique(node_numbers[node_numbers >= 0])) == (node_numbers >= 0).sum(),
        "lists of pending commits that end",
    )
    is_pending = np.zeros(len(nodes), bool)
    list_nodes = producers[is_used, 1]
    while len(list_nodes := list_nodes[list_nodes >= 0]):
        is_pending[list_nodes] = True
        list_nodes = nodes[list_nodes, layout.NEXT_NODE]
    node_entries = nodes[is_pending, layout.ENTRY]
    _expect(
        (np.where(node_entries < 0, ~node_entries, node_entries) < entry_count).all(),
        "pending commits whose keys exist",
    )
    return is_pending


def _expect(is_met: Any, expectation: str) -> None:
    """Raise ValueError if `is_met` is false. `expectation` describes what was expected of the arrays."""
    if not is_met:
        raise ValueError(f"expected {expectation}")
