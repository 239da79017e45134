"""What the arrays of a saved fold must hold, so that kernels, which check no bounds, can go on with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kafkagroups.kernels import layout

Array = np.ndarray[Any, Any]
_COLUMNS = {"entries": 8, "more": 4, "names": 2, "nodes": 8, "node_more": 4, "producers": 3}
_NAMES = (*_COLUMNS, "counts", "tombs", "arena")
"""Those without columns have one dimension."""


def check(saved: Mapping[str, Array]) -> None:
    """ValueError: these are not the arrays of a fold."""
    _expect(saved.keys() == set(_NAMES), f"arrays {', '.join(_NAMES)}")
    for name in _NAMES:
        array, kind = saved[name], "uint8" if name == "arena" else "int64"
        columns = (_COLUMNS[name],) if name in _COLUMNS else ()
        is_right = array.dtype == kind and array.ndim > 0 and array.shape[1:] == columns
        _expect(is_right and array.flags.c_contiguous, f"rows of shape {columns}, {kind}, in {name!r}")
    counts, entries, names, arena = (saved[name] for name in ("counts", "entries", "names", "arena"))
    nodes, producers = saved["nodes"], saved["producers"]
    _expect(len(counts) == len(layout.COUNTS), f"{len(layout.COUNTS)} counts")
    many = len(entries)
    _expect(counts[layout.ROWS] == 0, "no rows that wait")
    _expect(0 <= counts[layout.GARBAGE] < 1 << 62, "bytes of texts that are not needed")
    _expect(counts[layout.ENTRIES] == many == len(saved["more"]) == len(saved["tombs"]), "as many entries as counted")
    _expect(counts[layout.NAMES] == len(names) and counts[layout.ARENA] == len(arena), "as many names as counted")
    _expect(counts[layout.NODES] == len(nodes) == len(saved["node_more"]), "as many nodes as counted")
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
    """Where texts begin and end."""
    start, size = places >> 20, places & layout.SIZE
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
    """Which nodes wait. Their lists are inside the array, and no node is in two places, so that each list ends."""
    taken = producers[:, 2] != 0
    size = len(producers)
    _expect(size > 0 and size & size - 1 == 0, "a power of two of producers")
    _expect(counts[layout.PRODUCERS] == taken.sum() <= size // 2, "as many producers as counted")
    told = np.concatenate([producers[taken, 1], [counts[layout.FREE]], nodes[:, layout.NEXT]])
    _expect(((told >= -1) & (told < len(nodes))).all(), "nodes of pending commits inside their array")
    _expect(len(np.unique(told[told >= 0])) == (told >= 0).sum(), "lists of pending commits that end")
    waits, there = np.zeros(len(nodes), bool), producers[taken, 1]
    while len(there := there[there >= 0]):
        waits[there] = True
        there = nodes[there, layout.NEXT]
    entry = nodes[waits, layout.ENTRY]
    _expect((np.where(entry < 0, ~entry, entry) < entries).all(), "pending commits of keys that are there")
    return waits


def _expect(is_so: Any, what: str) -> None:
    if not is_so:
        raise ValueError(f"{what} were expected")
