"""Random requests of all groups in order of time; a seed determines them.

Request n is sent at n ms. Each request becomes one batch, and the request's batch type says what the batch contains.
The width is the number of offset records in the batch; it is 1 if the batch contains group records. A marker is the
control record that ends a transaction. A modern group uses the new consumer protocol (KIP-848).
"""

from __future__ import annotations

import numpy as np

from kafkagroups.synth.names import Array
from kafkagroups.synth.settings import MAX_VARIED_WIDTH, Settings

COMMIT = 0
METADATA_BIT = 1
TXN_BIT = 2
"""The batch type of commits is COMMIT plus none, one or both of two bits.

METADATA_BIT: the commits have a metadata string. TXN_BIT: the commits are in a transaction."""
TOMBSTONES, GENERATION, EMPTY_GENERATION, NEW_EPOCH, COMMIT_MARKER, ABORT_MARKER, NO_MARKER = range(4, 11)
"""The other batch types.

TOMBSTONES are tombstones of offsets. GENERATION is a new generation of a classic group, and EMPTY_GENERATION is one
without members. NEW_EPOCH is a new epoch of a modern group. COMMIT_MARKER and ABORT_MARKER end a transaction. NO_MARKER
is not a batch type: it is the `marker` of a transaction that hangs, i.e. never ends."""
REQUEST = np.dtype([("group", "i4"), ("first_key", "i4"), ("width", "i2"), ("batch_type", "i1"), ("marker", "i1")])
"""One request.

The fields: the number of its group, the first of its keys, its width, the type of its batch, and the marker that ends
its transaction (0: it has no transaction). A key is the number of a topic-partition that the group commits."""
_ROUND = 1 << 20
"""The number of requests that are generated in one step."""


def draw_requests(settings: Settings) -> Array:
    """Return random REQUESTs that have `settings.records` records together."""
    random = np.random.default_rng(settings.seed)
    group_chances = 1 / np.arange(1, settings.groups + 1) ** settings.skew
    group_chances /= group_chances.sum()
    # `transactional`, `modern` and `hanging` contain a bool for each group.
    transactional = _choose_fraction(settings, 1, settings.transactional)
    modern = _choose_fraction(settings, 2, settings.modern)
    tombstone_chance, generation_chance = _calculate_chances(settings)
    hanging = np.zeros(settings.groups, bool)
    rounds = [np.empty(0, REQUEST)]
    missing_records = settings.records
    while missing_records:
        # This number of requests is enough if all batches have the largest width. Otherwise, another round follows.
        request_count = -(-missing_records // (settings.max_width if settings.width else 1))
        requests = np.zeros(min(_ROUND, request_count), REQUEST)
        group = random.choice(settings.groups, len(requests), p=group_chances)
        requests["group"] = group
        chance = random.random(len(requests))
        batch_type = np.where(chance < tombstone_chance + generation_chance, GENERATION, COMMIT)
        batch_type[chance < tombstone_chance] = TOMBSTONES
        batch_type[(batch_type == GENERATION) & modern[group]] = NEW_EPOCH
        if settings.metadata:
            has_metadata = random.random(len(requests)) < settings.metadata
            batch_type[(batch_type == COMMIT) & has_metadata] = METADATA_BIT
        requests["batch_type"] = batch_type
        is_group_record = (batch_type == GENERATION) | (batch_type == NEW_EPOCH)
        requests["width"] = np.where(is_group_record, 1, _draw_widths(settings, len(requests), random))
        if settings.width is None or settings.max_width < settings.keys:
            requests["first_key"] = random.integers(settings.keys, size=len(requests))
        if settings.transactional:
            _add_transactions(settings, requests, transactional, hanging, random)
        requests = _cut_requests(settings, requests, missing_records)
        missing_records -= int(count_records(settings, requests).sum())
        rounds.append(requests)
    return np.concatenate(rounds)


def count_records(settings: Settings, requests: Array) -> Array:
    """For each request, return its number of records, including the marker of its transaction."""
    has_marker = (requests["marker"] == COMMIT_MARKER) | (requests["marker"] == ABORT_MARKER)
    counts: Array = requests["width"] + has_marker.astype(np.int64)
    counts[requests["batch_type"] == NEW_EPOCH] = settings.modern_records
    return counts


def _choose_fraction(settings: Settings, choice: int, fraction: float) -> Array:
    """Choose a random fraction of the groups. The result has a bool for each group.

    `choice` is part of the seed: calls with different numbers make independent choices.
    """
    order = np.random.default_rng([settings.seed, choice]).permutation(settings.groups)
    return order < round(fraction * settings.groups)


def _calculate_chances(settings: Settings) -> tuple[float, float]:
    """Return the chance that a request writes tombstones, and the chance that it writes a generation.

    The settings contain fractions of the records. Requests have different numbers of records, so the chances differ
    from these fractions.
    """
    mean_width = float(settings.max_width)
    if not settings.width:
        mean_wide = np.arange(5, MAX_VARIED_WIDTH + 1).clip(max=settings.keys).mean()
        mean_width = (1 + mean_wide) / 2
    commit_records = mean_width + settings.transactional * (1 - settings.hanging)
    generation_records = 1 + settings.modern * (settings.modern_records - 1)
    tombstones = settings.tombstones / mean_width
    generations = settings.generation_fraction / generation_records
    commits = 1 - settings.tombstones - settings.generation_fraction
    mean_records = commit_records / (commits + commit_records * (tombstones + generations))
    return float(tombstones * mean_records), float(generations * mean_records)


def _draw_widths(settings: Settings, count: int, random: np.random.Generator) -> Array:
    """Return the widths of `count` batches of offsets."""
    if settings.width:
        return np.full(count, settings.max_width)
    wide = random.integers(5, MAX_VARIED_WIDTH + 1, count).clip(max=settings.keys)
    return np.where(random.random(count) < 0.5, 1, wide)


def _add_transactions(
    settings: Settings, requests: Array, transactional: Array, hanging: Array, random: np.random.Generator
) -> None:
    """Put the commits of transactional groups into transactions, and choose the markers of these transactions.

    `transactional` and `hanging` contain a bool for each group. In `hanging`, mark the groups that have a hanging
    transaction. After its hanging transaction, a group writes no tombstones, because the two coordinators treat a
    tombstone of a pending offset differently.
    """
    group = requests["group"]
    batch_type = requests["batch_type"]
    commits = np.flatnonzero((batch_type <= METADATA_BIT) & transactional[group])
    batch_type[commits] |= TXN_BIT
    chance = random.random(len(commits))
    marker = np.where(chance < settings.hanging + settings.aborts, ABORT_MARKER, COMMIT_MARKER)
    marker[chance < settings.hanging] = NO_MARKER
    requests["marker"][commits] = marker
    # For each group, the index of its first request with a hanging transaction. -1 means that an earlier round had it.
    first_hanging = np.where(hanging, -1, len(requests))
    hanging_requests = np.flatnonzero(requests["marker"] == NO_MARKER)
    np.minimum.at(first_hanging, group[hanging_requests], hanging_requests)
    is_after_hanging = np.arange(len(requests)) > first_hanging[group]
    batch_type[(batch_type == TOMBSTONES) & is_after_hanging] = COMMIT
    hanging[group[hanging_requests]] = True


def _cut_requests(settings: Settings, requests: Array, record_count: int) -> Array:
    """Return the first requests, with `record_count` records together.

    If the last request has too many records, smaller requests of the same group replace it, without a transaction.
    """
    ends = np.cumsum(count_records(settings, requests))
    fitting = int(np.searchsorted(ends, record_count, "right"))
    if fitting == len(requests):
        return requests
    missing = record_count - int(ends[fitting - 1] if fitting else 0)
    full_count, remainder = divmod(missing, settings.max_width)
    widths = [settings.max_width] * full_count
    if remainder:
        widths.append(remainder)
    replacement = np.repeat(requests[fitting : fitting + 1], len(widths))
    replacement["width"] = widths
    replacement["marker"] = 0
    replacement["batch_type"] = np.where(replacement["batch_type"] == TOMBSTONES, TOMBSTONES, COMMIT)
    return np.concatenate([requests[:fitting], replacement])
