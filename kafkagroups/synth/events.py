"""The batches of one partition in the order of the log: requests, the markers of their transactions, generations."""

from __future__ import annotations

import numpy as np

from kafkagroups.synth.names import Array
from kafkagroups.synth.requests import (
    ABORTED,
    COMMITTED,
    EMPTY,
    GENERATION,
    MODERN,
    OPEN,
    TOMBSTONES,
    TXN,
)
from kafkagroups.synth.settings import Settings

EVENT = np.dtype(
    [
        ("time", "i8"),
        ("producer", "i8"),
        ("group", "i4"),
        ("start", "i4"),
        ("generation", "i4"),
        ("width", "i2"),
        ("what", "i1"),
    ]
)
"""A batch: when (ms since the first), whose transaction, whose, the first of its keys, which generation, which kind."""
_PRODUCERS, _LOST_PRODUCERS = 1_000, 10_000_000
"""The first producer id of the groups, and of producers that never end their transaction."""
_LONGEST = 1000
"""A transaction takes less ms, and ends before the group's next request."""
_EMPTY_EVERY = 10
"""One generation of so many has no members, but never the first; groups differ in which."""


def events(settings: Settings, time: Array, requests: Array, partition: int) -> Array:
    """The EVENTs of a partition's requests (at these times, rising)."""
    out = np.zeros(len(requests), EVENT)
    out["time"] = time
    for column in ("group", "start", "width", "what"):
        out[column] = requests[column]
    _number_generations(out)
    out["producer"] = np.where(requests["end"] == OPEN, _LOST_PRODUCERS + time, _PRODUCERS + requests["group"])
    decided = np.flatnonzero((requests["end"] == COMMITTED) | (requests["end"] == ABORTED))
    if not len(decided):
        return out
    random = np.random.default_rng([settings.seed, 3, partition])
    markers = out[decided]
    markers["what"], markers["width"] = requests["end"][decided], 0
    ended = time[decided] + random.integers(_LONGEST, size=len(decided))
    markers["time"] = np.minimum(ended, _next(time, requests["group"])[decided] - 1)
    out = np.concatenate([out, markers])
    return out[np.argsort(2 * out["time"] + (np.arange(len(out)) >= len(time)), kind="stable")]


def records(settings: Settings, events: Array) -> Array:
    """How many records each batch has."""
    count: Array = np.maximum(events["width"], 1).astype(np.int64)
    count[events["what"] == MODERN] = settings.modern_records
    return count


def note_live(settings: Settings, requests: Array, live: Array) -> None:
    """Notes in `live` (groups × keys) which offsets there are after these requests."""
    what, end = requests["what"], requests["end"]
    plain = (what <= TOMBSTONES) & ((what & TXN == 0) | (end == COMMITTED))
    for chosen in np.array_split(np.flatnonzero(plain), 1 + len(requests) // 500_000):
        told = requests[chosen]
        width = told["width"].astype(np.int64)
        each = np.repeat(told, width)
        lane = np.arange(len(each)) - np.repeat(np.cumsum(width) - width, width)
        key = (each["start"] + lane) % settings.keys
        live[each["group"], key] = each["what"] != TOMBSTONES  # where a key stands twice, the later one counts


def _number_generations(out: Array) -> None:
    own = np.flatnonzero((out["what"] == GENERATION) | (out["what"] == MODERN))
    order = np.argsort(out["group"][own], kind="stable")
    group = out["group"][own][order]
    first = np.searchsorted(group, group)
    number = 1 + np.arange(len(own)) - first
    out["generation"][own[order]] = number
    empty = own[order][(number > 1) & ((group + number) % _EMPTY_EVERY == 0)]
    out["what"][empty[out["what"][empty] == GENERATION]] = EMPTY


def _next(time: Array, group: Array) -> Array:
    """When the same group's next request comes."""
    following = np.full(len(time), np.iinfo(np.int64).max)
    order = np.argsort(group, kind="stable")
    same = group[order[1:]] == group[order[:-1]]
    following[order[:-1][same]] = time[order[1:][same]]
    return following
