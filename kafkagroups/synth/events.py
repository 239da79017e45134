"""The batches of one partition in log order: commits, generations and transaction markers."""

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
"""One batch: its time (ms since the first request), the producer of its transaction, its group, the first of its keys,
its generation, its number of offsets, and its kind (requests.py)."""
_PRODUCERS = 1_000
"""The producer id of the first group."""
_HANGING_PRODUCERS = 10_000_000
"""The first producer id of the hanging transactions."""
_LONGEST_MS = 1000
"""A transaction takes less time than this, and it ends before the group's next request."""
_EMPTY_EVERY = 10
"""One of so many generations has no members. The first one always has members. Groups differ in which one it is."""


def build_events(settings: Settings, time: Array, requests: Array, partition: int) -> Array:
    """Return the EVENTs of a partition's requests; `time` contains their times in ascending order."""
    out = np.zeros(len(requests), EVENT)
    out["time"] = time
    for column in ("group", "start", "width", "what"):
        out[column] = requests[column]
    _number_generations(out)
    out["producer"] = np.where(requests["end"] == OPEN, _HANGING_PRODUCERS + time, _PRODUCERS + requests["group"])
    ending = np.flatnonzero((requests["end"] == COMMITTED) | (requests["end"] == ABORTED))
    if not len(ending):
        return out
    random = np.random.default_rng([settings.seed, 3, partition])
    markers = out[ending]
    markers["what"] = requests["end"][ending]
    markers["width"] = 0
    end_time = time[ending] + random.integers(_LONGEST_MS, size=len(ending))
    markers["time"] = np.minimum(end_time, _find_next_times(time, requests["group"])[ending] - 1)
    out = np.concatenate([out, markers])
    return out[np.argsort(2 * out["time"] + (np.arange(len(out)) >= len(time)), kind="stable")]


def count_records(settings: Settings, events: Array) -> Array:
    """Return the number of records of each batch."""
    count: Array = np.maximum(events["width"], 1).astype(np.int64)
    count[events["what"] == MODERN] = settings.modern_records
    return count


def mark_live(settings: Settings, requests: Array, live: Array) -> None:
    """Mark in `live` (groups × keys) which offsets exist after these requests."""
    what = requests["what"]
    end = requests["end"]
    takes_effect = (what <= TOMBSTONES) & ((what & TXN == 0) | (end == COMMITTED))
    for chosen in np.array_split(np.flatnonzero(takes_effect), 1 + len(requests) // 500_000):
        part = requests[chosen]
        width = part["width"].astype(np.int64)
        record = np.repeat(part, width)
        lane = np.arange(len(record)) - np.repeat(np.cumsum(width) - width, width)
        key = (record["start"] + lane) % settings.keys
        live[record["group"], key] = record["what"] != TOMBSTONES  # The last record of a key counts.


def _number_generations(out: Array) -> None:
    """Number each group's generations in order, and make some of them empty."""
    own = np.flatnonzero((out["what"] == GENERATION) | (out["what"] == MODERN))
    order = np.argsort(out["group"][own], kind="stable")
    group = out["group"][own][order]
    first = np.searchsorted(group, group)
    number = 1 + np.arange(len(own)) - first
    out["generation"][own[order]] = number
    empty = own[order][(number > 1) & ((group + number) % _EMPTY_EVERY == 0)]
    out["what"][empty[out["what"][empty] == GENERATION]] = EMPTY


def _find_next_times(time: Array, group: Array) -> Array:
    """Return for each request the time of the same group's next request."""
    following = np.full(len(time), np.iinfo(np.int64).max)
    order = np.argsort(group, kind="stable")
    same = group[order[1:]] == group[order[:-1]]
    following[order[:-1][same]] = time[order[1:][same]]
    return following
