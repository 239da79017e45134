"""Returns the arrays of a fold state for a snapshot. Checks saved arrays, and makes a fold state from them.

A fold state is the state of one log partition after the compiled engine has read some batches. layout.py describes the
arrays of this state and the terms entry, name, node, arena and text reference. Kernels do not check whether a position
is inside an array, so with damaged arrays a kernel could read or write any memory. Therefore all saved arrays are
checked before a kernel receives them.
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
from kafkagroups.records.dialects import Dialect

_COLUMN_COUNTS = {"entries": 8, "extras": 4, "names": 2, "nodes": 8, "node_extras": 4, "producers": 3}
"""The number of columns of the arrays with two dimensions."""
_ARRAY_NAMES = (*_COLUMN_COUNTS, "counts", "tombstones", "arena")
"""The names of all saved arrays."""


def save_arrays(offsets: ShardOffsets) -> dict[str, Array]:
    """Return the arrays that contain the offsets of a shard, by name.

    A shard is the state of one partition (groups/shard.py). The compiled engine must have made the shard.
    """
    assert isinstance(offsets, FoldedShardOffsets)
    return offsets.state.arrays_to_save()


def restore_offsets(dialect: Dialect, saved_arrays: Mapping[str, Array]) -> FoldedShardOffsets:
    """Return the offsets in saved arrays. Raise ValueError if the arrays are damaged."""
    check_arrays(saved_arrays)
    return FoldedShardOffsets(FoldState.restore(dialect, saved_arrays))


def check_arrays(saved_arrays: Mapping[str, Array]) -> None:
    """Raise ValueError if the arrays are not those of a fold state."""
    _expect(saved_arrays.keys() == set(_ARRAY_NAMES), f"the arrays {', '.join(_ARRAY_NAMES)}")
    for name in _ARRAY_NAMES:
        array = saved_arrays[name]
        dtype_name = "uint8" if name == "arena" else "int64"
        columns = (_COLUMN_COUNTS[name],) if name in _COLUMN_COUNTS else ()
        has_right_shape = array.ndim > 0 and array.shape[1:] == columns
        has_right_memory = array.dtype == dtype_name and array.flags.c_contiguous
        is_right = has_right_shape and has_right_memory
        _expect(is_right, f"the array {name!r} to have {dtype_name} rows of shape {columns}")
    counts = saved_arrays["counts"]
    entries = saved_arrays["entries"]
    names = saved_arrays["names"]
    arena = saved_arrays["arena"]
    nodes = saved_arrays["nodes"]
    producers = saved_arrays["producers"]
    _expect(len(counts) == len(layout.COUNTS), f"the array 'counts' to have {len(layout.COUNTS)} elements")
    entry_count = len(entries)
    _expect(counts[layout.OTHER_RECORDS] == 0, "the count OTHER_RECORDS to be 0")
    _expect(0 <= counts[layout.UNUSED_BYTES] < 1 << 62, "the count UNUSED_BYTES to be from 0 to 2**62")
    _expect(
        counts[layout.ENTRIES] == entry_count == len(saved_arrays["extras"]) == len(saved_arrays["tombstones"]),
        "the count ENTRIES to be the number of entries",
    )
    _expect(counts[layout.NAMES] == len(names), "the count NAMES to be the number of names")
    _expect(counts[layout.ARENA_BYTES] == len(arena), "the count ARENA_BYTES to be the size of the arena")
    _expect(
        counts[layout.NODES] == len(nodes) == len(saved_arrays["node_extras"]),
        "the count NODES to be the number of nodes",
    )
    entry_names = entries[:, layout.NAME_AND_PARTITION] >> layout.PARTITION_BITS
    _expect(((entry_names >= 0) & (entry_names < len(names))).all(), "each entry to have the number of a name")
    _expect(np.bincount(entry_names, minlength=len(names)).all(), "each name to have an entry")
    _check_names(names[:, layout.NAME_TEXT], arena)
    is_pending = _find_pending_nodes(counts, nodes, producers, entry_count)
    text_references = np.concatenate(
        [names[:, layout.NAME_TEXT], entries[:, layout.METADATA], nodes[is_pending, layout.METADATA]]
    )
    starts, ends = _find_bounds(text_references[text_references != 0], len(arena))
    order = np.argsort(starts)
    _expect((starts[order][1:] >= ends[order][:-1]).all(), "the names and the metadata not to overlap in the arena")


def _find_bounds(text_references: Array, arena_size: int) -> tuple[Array, Array]:
    """Return the start and the end in the arena of each text. Raise ValueError if a text is not inside the arena."""
    starts = text_references >> layout.SIZE_BITS
    sizes = text_references & layout.SIZE_MASK
    _expect(((starts >= 0) & (starts <= arena_size - sizes)).all(), "each name and metadata to be inside the arena")
    return starts, starts + sizes


def _check_names(text_references: Array, arena: Array) -> None:
    """Raise ValueError if the bytes of a name are not a group id and a topic name, each after its size (int16)."""
    starts, ends = _find_bounds(text_references, len(arena))
    name_sizes = ends - starts
    _expect((name_sizes >= 4).all(), "each name to have at least the 4 bytes of two sizes")
    group_sizes = _read_int16(arena, starts)
    _expect(((group_sizes >= 0) & (group_sizes + 4 <= name_sizes)).all(), "each group id to be inside its name")
    topic_sizes = _read_int16(arena, starts + 2 + group_sizes)
    _expect((topic_sizes == name_sizes - 4 - group_sizes).all(), "each topic to end at the end of its name")


def _read_int16(arena: Array, positions: Array) -> Array:
    """Return the signed big-endian int16 at each position."""
    high_bytes = arena[positions].astype(np.int8).astype(np.int64)
    return high_bytes << 8 | arena[positions + 1]


def _find_pending_nodes(counts: Array, nodes: Array, producers: Array, entry_count: int) -> Array:
    """Return a bool for each node: whether the node is in the list of a producer, so that it is a pending commit.

    Raise ValueError if a node number is wrong. A node may occur only once in all lists, because a list with a loop
    would never end.
    """
    is_used = producers[:, layout.IS_USED] != 0
    row_count = len(producers)
    is_power_of_two = row_count > 0 and row_count & row_count - 1 == 0
    _expect(is_power_of_two, "the number of rows of 'producers' to be a power of two")
    _expect(counts[layout.PRODUCERS] == is_used.sum(), "the count PRODUCERS to be the number of used rows")
    _expect(is_used.sum() <= row_count // 2, "at most half of the rows of 'producers' to be used")
    first_nodes = producers[is_used, layout.FIRST_NODE]
    node_numbers = np.concatenate([first_nodes, [counts[layout.FREE_NODE]], nodes[:, layout.NEXT_NODE]])
    _expect(((node_numbers >= -1) & (node_numbers < len(nodes))).all(), "each node number to be inside 'nodes'")
    node_numbers = node_numbers[node_numbers >= 0]
    _expect(len(np.unique(node_numbers)) == len(node_numbers), "the lists of nodes to have no loop and no common node")
    is_pending = np.zeros(len(nodes), bool)
    list_nodes = first_nodes[first_nodes >= 0]
    while len(list_nodes):
        is_pending[list_nodes] = True
        next_nodes = nodes[list_nodes, layout.NEXT_NODE]
        list_nodes = next_nodes[next_nodes >= 0]
    node_entries = nodes[is_pending, layout.ENTRY]
    entry_numbers = np.where(node_entries < 0, ~node_entries, node_entries)
    _expect((entry_numbers < entry_count).all(), "each pending commit to have the number of an entry")
    return is_pending


def _expect(is_met: Any, expectation: str) -> None:
    """Raise ValueError if `is_met` is false. `expectation` continues the message "expected …"."""
    if not is_met:
        raise ValueError(f"expected {expectation}")
