"""The arrays of a compiled fold in a snapshot: saves them, checks them, and continues with them.

Kernels check no bounds, so damaged arrays must never reach them.
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

_COLUMNS = {"entries": 8, "extras": 4, "names": 2, "nodes": 8, "node_extras": 4, "producers": 3}
_NAMES = (*_COLUMNS, "counts", "tombstones", "arena")
"""Arrays without columns have one dimension."""


def save_arrays(offsets: ShardOffsets) -> dict[str, Array]:
    """Return the arrays that hold a shard's offsets."""
    assert isinstance(offsets, FoldedShardOffsets)
    return offsets.state.saved()


def restore_offsets(rules: Dialect, saved: Mapping[str, Array]) -> FoldedShardOffsets:
    """Return the offsets in saved arrays. Raise ValueError if these are not the arrays of a fold."""
    check_arrays(saved)
    return FoldedShardOffsets(FoldState.restore(rules, saved))


def check_arrays(saved: Mapping[str, Array]) -> None:
    """Raise ValueError if these are not the arrays of a fold."""
    _expect(saved.keys() == set(_NAMES), f"arrays {', '.join(_NAMES)}")
    for name in _NAMES:
        array = saved[name]
        kind = "uint8" if name == "arena" else "int64"
        columns = (_COLUMNS[name],) if name in _COLUMNS else ()
        is_right = array.dtype == kind and array.ndim > 0 and array.shape[1:] == columns
        _expect(is_right and array.flags.c_contiguous, f"rows of shape {columns}, {kind}, in {name!r}")
    counts = saved["counts"]
    entries = saved["entries"]
    names = saved["names"]
    arena = saved["arena"]
    nodes = saved["nodes"]
    producers = saved["producers"]
    _expect(len(counts) == len(layout.COUNTS), f"{len(layout.COUNTS)} counts")
    many = len(entries)
    _expect(counts[layout.ROWS] == 0, "no unread rows")
    _expect(0 <= counts[layout.GARBAGE] < 1 << 62, "a number of unused bytes")
    _expect(
        counts[layout.ENTRIES] == many == len(saved["extras"]) == len(saved["tombstones"]), "as many entries as counted"
    )
    _expect(counts[layout.NAMES] == len(names) and counts[layout.ARENA] == len(arena), "as many names as counted")
    _expect(counts[layout.NODES] == len(nodes) == len(saved["node_extras"]), "as many nodes as counted")
    named = entries[:, layout.NAME] >> 32
    _expect(((named >= 0) & (named < len(names))).all(), "entries of names that are there")
    _expect(np.bincount(named, minlength=len(names)).all(), "an entry of each name")
    _check_names(names[:, layout.PLACE], arena)
    waits = _pending(counts, nodes, producers, many)
    places = np.concatenate([names[:, layout.PLACE], entries[:, layout.NOTE], nodes[waits, layout.NOTE]])
    start, end = _bounds(places[places != 0], len(arena))
    order = np.argsort(start)
    _expect((start[order][1:] >= end[order][:-1]).all(), "texts side by side")


def _bounds(places: Array, end: int) -> tuple[Array, Array]:
    """Return where texts begin and end."""
    start = places >> 20
    size = places & layout.SIZE
    _expect(((start >= 0) & (start <= end - size)).all(), "texts inside the arena")
    return start, start + size


def _check_names(places: Array, arena: Array) -> None:
    start, end = _bounds(places, len(arena))
    size = end - start
    _expect((size >= 4).all(), "names of a group and a topic")
    group = _int16(arena, start)
    _expect(((group >= 0) & (group + 4 <= size)).all(), "groups inside their names")
    topic = _int16(arena, start + 2 + group)
    _expect((topic == size - 4 - group).all(), "topics that end with their names")


def _int16(arena: Array, at: Array) -> Array:
    return (arena[at].astype(np.int64) << 8 | arena[at + 1]) - (arena[at] >> 7).astype(np.int64) * (1 << 16)


def _pending(counts: Array, nodes: Array, producers: Array, entries: int) -> Array:
    """Return which nodes are pending. Each list must stay inside the array and end, so no node may occur twice."""
    taken = producers[:, 2] != 0
    size = len(producers)
    _expect(size > 0 and size & size - 1 == 0, "a power of two of producers")
    _expect(counts[layout.PRODUCERS] == taken.sum() <= size // 2, "as many producers as counted")
    links = np.concatenate([producers[taken, 1], [counts[layout.FREE]], nodes[:, layout.NEXT]])
    _expect(((links >= -1) & (links < len(nodes))).all(), "nodes of pending commits inside their array")
    _expect(len(np.unique(links[links >= 0])) == (links >= 0).sum(), "lists of pending commits that end")
    waits = np.zeros(len(nodes), bool)
    current = producers[taken, 1]
    while len(current := current[current >= 0]):
        waits[current] = True
        current = nodes[current, layout.NEXT]
    entry = nodes[waits, layout.ENTRY]
    _expect((np.where(entry < 0, ~entry, entry) < entries).all(), "pending commits of keys that are there")
    return waits


def _expect(is_right: Any, what: str) -> None:
    if not is_right:
        raise ValueError(f"expected {what}")
