"""The batches of one partition in log order: commits, generations and transaction markers.

A key is the number of a topic-partition that a group commits, from 0 to `settings.keys` - 1. The width of a batch is
its number of offset records.
"""

from __future__ import annotations

import numpy as np

from kafkagroups.synth.names import Array
from kafkagroups.synth.requests import (
    ABORT_MARKER,
    COMMIT_MARKER,
    EMPTY_GENERATION,
    GENERATION,
    NEW_EPOCH,
    NO_MARKER,
    TOMBSTONES,
    TXN_BIT,
)
from kafkagroups.synth.settings import Settings

EVENT = np.dtype(
    [
        ("time", "i8"),
        ("producer", "i8"),
        ("group", "i4"),
        ("first_key", "i4"),
        ("generation", "i4"),
        ("width", "i2"),
        ("batch_type", "i1"),
    ]
)
"""One batch of a partition.

The fields: its time (ms since the first request), the producer id of its transaction, the number of its group, the
first of its keys, its generation or epoch, its width, and its type (the constants of requests.py)."""
_FIRST_PRODUCER_ID = 1_000
"""The producer id of the first group."""
_FIRST_HANGING_PRODUCER_ID = 10_000_000
"""The first producer id of the hanging transactions."""
_MAX_TXN_MS = 1000
"""A transaction takes less time (ms) than this, and it ends before the group's next request."""
_EMPTY_EVERY = 10
"""One of 10 generations of a group has no members: never the first one, and another one in each group."""


def build_events(settings: Settings, request_times: Array, requests: Array, partition: int) -> Array:
    """Return the EVENTs of a partition's requests, with a marker for each transaction that does not hang.

    `requests` contains REQUESTs (requests.py), and `request_times` their times (ms) in ascending order.
    """
    events = np.zeros(len(requests), EVENT)
    events["time"] = request_times
    for column in ("group", "first_key", "width", "batch_type"):
        events[column] = requests[column]
    _number_generations(events)
    hanging_producer = _FIRST_HANGING_PRODUCER_ID + request_times
    group_producer = _FIRST_PRODUCER_ID + requests["group"]
    events["producer"] = np.where(requests["marker"] == NO_MARKER, hanging_producer, group_producer)
    with_marker = np.flatnonzero((requests["marker"] == COMMIT_MARKER) | (requests["marker"] == ABORT_MARKER))
    if not len(with_marker):
        return events
    random = np.random.default_rng([settings.seed, 3, partition])
    markers = events[with_marker]
    markers["batch_type"] = requests["marker"][with_marker]
    markers["width"] = 0
    end_times = request_times[with_marker] + random.integers(_MAX_TXN_MS, size=len(with_marker))
    next_times = _find_next_times(request_times, requests["group"])[with_marker]
    markers["time"] = np.minimum(end_times, next_times - 1)
    events = np.concatenate([events, markers])
    # If a marker and a request have the same time, the request comes first.
    is_marker = np.arange(len(events)) >= len(requests)
    return events[np.argsort(2 * events["time"] + is_marker, kind="stable")]


def count_records(settings: Settings, events: Array) -> Array:
    """Return the number of records of each batch."""
    counts: Array = np.maximum(events["width"], 1).astype(np.int64)
    counts[events["batch_type"] == NEW_EPOCH] = settings.modern_records
    return counts


def mark_live(settings: Settings, requests: Array, is_live: Array) -> None:
    """Set in `is_live` which offsets exist after these requests. It has a row for each group, a column for each key."""
    batch_type = requests["batch_type"]
    is_committed = (batch_type & TXN_BIT == 0) | (requests["marker"] == COMMIT_MARKER)
    effective = np.flatnonzero((batch_type <= TOMBSTONES) & is_committed)
    # About 500,000 requests at a time limit the memory for the arrays of records.
    for part in np.array_split(effective, 1 + len(requests) // 500_000):
        part_requests = requests[part]
        widths = part_requests["width"].astype(np.int64)
        records = np.repeat(part_requests, widths)
        index_in_batch = np.arange(len(records)) - np.repeat(np.cumsum(widths) - widths, widths)
        keys = (records["first_key"] + index_in_batch) % settings.keys
        # If a key occurs several times, numpy keeps the last value, as a load does.
        is_live[records["group"], keys] = records["batch_type"] != TOMBSTONES


def _number_generations(events: Array) -> None:
    """Number each group's generations and epochs in order, and make some of the generations empty."""
    generations = np.flatnonzero((events["batch_type"] == GENERATION) | (events["batch_type"] == NEW_EPOCH))
    by_group = generations[np.argsort(events["group"][generations], kind="stable")]
    group = events["group"][by_group]
    group_start = np.searchsorted(group, group)
    number = 1 + np.arange(len(by_group)) - group_start
    events["generation"][by_group] = number
    empty = by_group[(number > 1) & ((group + number) % _EMPTY_EVERY == 0)]
    events["batch_type"][empty[events["batch_type"][empty] == GENERATION]] = EMPTY_GENERATION


def _find_next_times(request_times: Array, groups: Array) -> Array:
    """For each request, return the time of the next request of its group; the largest int64 if no request follows."""
    next_times = np.full(len(request_times), np.iinfo(np.int64).max)
    by_group = np.argsort(groups, kind="stable")
    requests = by_group[:-1]
    following = by_group[1:]
    is_same_group = groups[requests] == groups[following]
    next_times[requests[is_same_group]] = request_times[following[is_same_group]]
    return next_times
