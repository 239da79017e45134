"""The batches of one partition in log order: commits, generations and transaction markers.

An event is the description of one batch. A key is the number of a topic-partition that a group commits, from 0 to
`settings.keys` - 1. The width of a batch is its number of offset records. It is 1 for group records, and 0 for a
marker. A marker is the control record that ends a transaction. A modern group uses the new consumer protocol (KIP-848);
it has epochs instead of generations. An offset is live if a coordinator answers with it after a load.
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
"""The numpy type of an event.

    time          ms since the first request
    producer      the producer id of the transaction; unused if the batch is not in a transaction
    group         the number of the group
    first_key     the key of the first record; the other records have the following keys, and key 0 follows the last key
    generation    the generation or epoch of the group
    width         the width of the batch
    batch_type    one of the constants in requests.py
"""
_FIRST_PRODUCER_ID = 1_000
"""The producer id of the first group."""
_FIRST_HANGING_PRODUCER_ID = 10_000_000
"""The first producer id of the hanging transactions."""
_MAX_TXN_MS = 1000
"""A transaction takes less than this time in ms."""
_EMPTY_GENERATION_INTERVAL = 10
"""Every 10th generation of a classic group has no members. The first generation always has members."""
_MARKER_TIMES_SEED = 3
"""A part of the random seed of the markers' times. The seeds in requests.py have other numbers."""


def build_events(settings: Settings, request_times: Array, requests: Array, partition: int) -> Array:
    """Return the events of a partition's requests, with a marker for each transaction that does not hang.

    `requests` has the type REQUEST of requests.py. `request_times` contains the time of each request in ms, in
    ascending order. `partition` is the number of the partition.
    """
    events = np.zeros(len(requests), EVENT)
    events["time"] = request_times
    for column in ("group", "first_key", "width", "batch_type"):
        events[column] = requests[column]
    _number_generations(events)
    # No two requests have the same time, so each hanging transaction has its own producer id.
    hanging_producer = _FIRST_HANGING_PRODUCER_ID + request_times
    group_producer = _FIRST_PRODUCER_ID + requests["group"]
    events["producer"] = np.where(requests["marker"] == NO_MARKER, hanging_producer, group_producer)
    has_marker = (requests["marker"] == COMMIT_MARKER) | (requests["marker"] == ABORT_MARKER)
    marker_indexes = np.flatnonzero(has_marker)
    if not len(marker_indexes):
        return events
    random = np.random.default_rng([settings.seed, _MARKER_TIMES_SEED, partition])
    markers = events[marker_indexes]
    markers["batch_type"] = requests["marker"][marker_indexes]
    markers["width"] = 0
    end_times = request_times[marker_indexes] + random.integers(_MAX_TXN_MS, size=len(marker_indexes))
    next_times = _find_next_times(request_times, requests["group"])[marker_indexes]
    # A transaction ends before the group's next request.
    markers["time"] = np.minimum(end_times, next_times - 1)
    events = np.concatenate([events, markers])
    # If a marker and a request have the same time, the request comes first.
    is_marker = np.arange(len(events)) >= len(requests)
    return events[np.argsort(2 * events["time"] + is_marker, kind="stable")]


def count_batch_records(settings: Settings, events: Array) -> Array:
    """For each event, return the number of records in its batch."""
    # A marker has width 0, but it is one record.
    counts: Array = np.maximum(events["width"], 1).astype(np.int64)
    counts[events["batch_type"] == NEW_EPOCH] = settings.modern_records
    return counts


def mark_live(settings: Settings, requests: Array, is_live: Array) -> None:
    """Set in `is_live` which offsets are live after these requests.

    `is_live` has a row for each group and a column for each key. `requests` has the type REQUEST of requests.py.
    """
    batch_type = requests["batch_type"]
    has_offset_records = batch_type <= TOMBSTONES
    is_transactional = batch_type & TXN_BIT != 0
    has_effect = has_offset_records & (~is_transactional | (requests["marker"] == COMMIT_MARKER))
    # The arrays below contain an element for each record. To save memory, take about 500,000 requests at a time.
    for part in np.array_split(np.flatnonzero(has_effect), 1 + len(requests) // 500_000):
        part_requests = requests[part]
        widths = part_requests["width"].astype(np.int64)
        records = np.repeat(part_requests, widths)  # For each record, its request.
        first_record_of_batch = np.repeat(np.cumsum(widths) - widths, widths)
        index_in_batch = np.arange(len(records)) - first_record_of_batch
        keys = (records["first_key"] + index_in_batch) % settings.keys
        # If a key occurs several times, numpy keeps the last value, as a load does.
        is_live[records["group"], keys] = records["batch_type"] != TOMBSTONES


def _number_generations(events: Array) -> None:
    """Number each group's generations or epochs in order from 1, and make some of the generations empty."""
    generations = np.flatnonzero((events["batch_type"] == GENERATION) | (events["batch_type"] == NEW_EPOCH))
    by_group = generations[np.argsort(events["group"][generations], kind="stable")]
    group = events["group"][by_group]
    group_start = np.searchsorted(group, group)  # For each generation, the index of its group's first generation.
    number = 1 + np.arange(len(by_group)) - group_start
    events["generation"][by_group] = number
    # The group's number is added, so that not all groups have the same empty generations.
    is_empty = (number > 1) & ((group + number) % _EMPTY_GENERATION_INTERVAL == 0)
    is_classic = events["batch_type"][by_group] == GENERATION
    events["batch_type"][by_group[is_empty & is_classic]] = EMPTY_GENERATION


def _find_next_times(request_times: Array, groups: Array) -> Array:
    """For each request, return the time of its group's next request; the largest int64 if there is no next request."""
    next_times = np.full(len(request_times), np.iinfo(np.int64).max)
    by_group = np.argsort(groups, kind="stable")
    earlier = by_group[:-1]
    later = by_group[1:]
    is_same_group = groups[earlier] == groups[later]
    next_times[earlier[is_same_group]] = request_times[later[is_same_group]]
    return next_times
