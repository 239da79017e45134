"""The settings of a synthetic topic with the names of its groups, random requests of all groups in the order of their
times (`draw_requests`), and the batches that they become.

Request n is sent at n ms, and becomes one batch. The width is the number of offset records in a batch; it is 1 for
group records, and for a marker, the control record that ends a transaction. A key is the number of a topic-partition
that a group commits, from 0 to `settings.keys` - 1. An event is the description of one batch of a partition, also of a
marker. An offset is live if a coordinator answers with it after a load. The same seed gives the same requests.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from kafkagroups.errors import UsageError
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.segment_file import SEGMENT_BYTES

WIDTH = 8
"""The default of the settings `width` and `keys`."""
MAX_GROUPS = 1_000_000
"""The limit of `groups`, because the name of a group has six digits."""
MAX_KEYS = 10_000
MAX_OFFSETS = 100_000_000
"""The limit of groups × keys. A coordinator that has loaded the topic has at most this number of offsets."""
TOPIC_PARTITIONS = 100
"""The number of partitions of each topic that groups consume. A group with more keys consumes several topics."""
MAX_VARIED_WIDTH = 15
"""The largest width if the width varies: half of the batches have 1 record, and the other batches have 5 to 15."""


Fraction = Annotated[float, Meta(ge=0, le=1)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `write`, with their ranges. Fractions are from 0 to 1.

    Each group commits `keys` topic-partitions, in batches of `width` records (None: it varies). `skew` says how unequal
    the groups are: the n-th one sends requests in proportion to 1 / n^skew, so with 0 all are equally busy, and with 1
    the first is twice as busy as the second (Zipf's law).

    `tombstones` of offsets and `generations` (in modern groups, epochs) are fractions of the records; without a value,
    there are no new generations, or 0.01 if `modern` is above 0. `transactional` and `modern` (KIP-848) are fractions
    of the groups, `aborts` and `hanging` of the transactions, and `metadata` of the commit batches. A segment is larger
    than `segment_bytes` only if it contains a single, larger batch. With `one_partition`, all groups belong to one
    partition.
    """

    records: Annotated[int, Meta(ge=0, le=2**40)]
    partitions: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 50
    one_partition: bool = False
    groups: Annotated[int, Meta(ge=1, le=MAX_GROUPS)] = 1000
    keys: Annotated[int, Meta(ge=1, le=MAX_KEYS)] = WIDTH
    width: Annotated[int, Meta(ge=1, le=50)] | None = WIDTH
    skew: Annotated[float, Meta(ge=0, le=10)] = 1.0
    tombstones: Fraction = 0.02
    generations: Fraction | None = None
    members: Annotated[int, Meta(ge=1, le=50)] = 3
    transactional: Fraction = 0.0
    aborts: Fraction = 0.1
    hanging: Fraction = 0.001
    modern: Fraction = 0.0
    metadata: Fraction = 0.0
    codec: Annotated[str, Meta(pattern=rf"\A({'|'.join(codec.name.lower() for codec in CompressionType)})\Z")] = "none"
    segment_bytes: Annotated[int, Meta(ge=1, le=2**31 - 1)] = SEGMENT_BYTES
    prefix: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._-]{0,100}\Z")] = ""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0

    @property
    def max_width(self) -> int:
        return min(self.width or MAX_VARIED_WIDTH, self.keys)

    @property
    def generation_fraction(self) -> float:
        if self.generations is not None:
            return self.generations
        return 0.01 if self.modern else 0.0

    @property
    def modern_records(self) -> int:
        """The records of a new epoch of a group of KIP-848: two of the group, and three of each member."""
        return 2 + 3 * self.members

    @property
    def topics_of_group(self) -> int:
        return math.ceil(self.keys / TOPIC_PARTITIONS)


def read_settings(settings: dict[str, Any]) -> Settings:
    """Raises UsageError if a setting is out of its range."""
    try:
        read = msgspec.convert(settings, Settings)
    except msgspec.ValidationError as error:
        reason, _, name = str(error).partition(" - at `$.")
        raise UsageError(f"{name.rstrip('`') or 'settings'}: {reason[0].lower()}{reason[1:]}") from None
    if read.groups * read.keys > MAX_OFFSETS:
        raise UsageError(f"groups and keys: expected at most {MAX_OFFSETS} offsets, found {read.groups * read.keys}")
    for names, fraction in (
        ("tombstones and generations", read.tombstones + read.generation_fraction),
        ("aborts and hanging", read.aborts + read.hanging),
    ):
        if fraction > 1:
            raise UsageError(f"{names}: expected at most 1 together, found {fraction}")
    return read


Array = np.ndarray[Any, np.dtype[Any]]

GROUP = "group-"
TOPIC = "topic-"
GROUP_DIGITS = 6
TOPICS = 10_000
"""The number of topic names with four digits."""


def format_digits(numbers: Array, width: int) -> Array:
    return np.char.mod(f"%0{width}d", numbers).astype(f"S{width}")


COMMIT = 0
METADATA_BIT = 1
TXN_BIT = 2
"""The batch types of commits are the numbers 0 to 3: COMMIT, plus METADATA_BIT if the commits have a metadata string,
plus TXN_BIT if the commits are in a transaction."""
TOMBSTONES, GENERATION, EMPTY_GENERATION, NEW_EPOCH, COMMIT_MARKER, ABORT_MARKER, NO_MARKER = range(4, 11)
"""The other batch types, from 4 on.

    TOMBSTONES                     tombstones of offsets
    GENERATION                     a new generation of a classic group
    EMPTY_GENERATION               a new generation without members
    NEW_EPOCH                      a new epoch of a modern group
    COMMIT_MARKER, ABORT_MARKER    a marker
    NO_MARKER                      not a batch type: the `marker` of a request whose transaction hangs, i.e. never ends
"""
REQUEST = np.dtype([("group", "i4"), ("first_key", "i4"), ("width", "i2"), ("batch_type", "i1"), ("marker", "i1")])
"""The numpy type of a request.

    group         the number of the group
    first_key     the key of the first record; the other records have the following keys, and key 0 follows the last key
    width         the width of the batch
    batch_type    the type of the batch
    marker        COMMIT_MARKER, ABORT_MARKER or NO_MARKER; 0 for a request without a transaction
"""
EVENT = np.dtype([*REQUEST.descr, ("generation", "i4"), ("base_offset", "i8"), ("time", "i8"), ("producer", "i8")])
"""The numpy type of an event: the fields of a request (`marker` is that of the request, also in the event of a marker),
and

    generation    the generation or epoch of the group
    base_offset   the offset of the first record; files.py sets it
    time          ms since the first request
    producer      the producer id of the transaction; unused if the batch is not in a transaction
"""
_FIRST_PRODUCER_ID = 1_000
"""The producer id of the first group."""
_FIRST_HANGING_PRODUCER_ID = 10_000_000
"""The first producer id of the hanging transactions."""
_MAX_TXN_MS = 1000
_EMPTY_GENERATION_INTERVAL = 10
"""The first generation always has members."""
_MARKER_TIMES_SEED = 3
_MAX_ROUND_REQUESTS = 1 << 20
_TRANSACTIONAL_GROUPS_SEED = 1
_MODERN_GROUPS_SEED = 2
"""Parts of the random seeds with which these groups are chosen."""
_MIN_LARGE_WIDTH = 5
"""If the width varies, half of the batches have width 1, and the other batches have width 5 to MAX_VARIED_WIDTH."""


def draw_requests(settings: Settings) -> Array:
    random = np.random.default_rng(settings.seed)
    group_chances = 1 / np.arange(1, settings.groups + 1) ** settings.skew
    group_chances /= group_chances.sum()
    # Each of these arrays contains a bool for each group.
    is_transactional = _draw_groups(settings, _TRANSACTIONAL_GROUPS_SEED, settings.transactional)
    is_modern = _draw_groups(settings, _MODERN_GROUPS_SEED, settings.modern)
    has_hanging = np.zeros(settings.groups, bool)
    tombstone_chance, generation_chance = _calculate_chances(settings)
    rounds = [np.empty(0, REQUEST)]
    missing_records = settings.records
    while missing_records:
        # `request_count` is an estimate: the number of requests if every batch has `width` records. If these requests
        # have too few records, another round follows. If they have too many records, the last requests are cut off.
        width = settings.max_width if settings.width else 1
        request_count = math.ceil(missing_records / width)
        requests = np.zeros(min(_MAX_ROUND_REQUESTS, request_count), REQUEST)
        group = random.choice(settings.groups, len(requests), p=group_chances)
        requests["group"] = group
        draw = random.random(len(requests))
        batch_type = np.where(draw < tombstone_chance + generation_chance, GENERATION, COMMIT)
        batch_type[draw < tombstone_chance] = TOMBSTONES
        batch_type[(batch_type == GENERATION) & is_modern[group]] = NEW_EPOCH
        if settings.metadata:
            has_metadata = random.random(len(requests)) < settings.metadata
            batch_type[(batch_type == COMMIT) & has_metadata] = METADATA_BIT
        requests["batch_type"] = batch_type
        has_group_records = (batch_type == GENERATION) | (batch_type == NEW_EPOCH)
        requests["width"] = np.where(has_group_records, 1, _draw_widths(settings, len(requests), random))
        # If every batch contains all keys, every batch begins with key 0.
        if settings.width is None or settings.max_width < settings.keys:
            requests["first_key"] = random.integers(settings.keys, size=len(requests))
        if settings.transactional:
            _add_transactions(settings, requests, is_transactional, has_hanging, random)
        requests = _cut_requests(settings, requests, missing_records)
        missing_records -= int(_count_request_records(settings, requests).sum())
        rounds.append(requests)
    return np.concatenate(rounds)


def _count_request_records(settings: Settings, requests: Array) -> Array:
    return count_batch_records(settings, requests) + _has_marker(requests)


def _has_marker(requests: Array) -> Array:
    return np.isin(requests["marker"], (COMMIT_MARKER, ABORT_MARKER))


def _draw_groups(settings: Settings, seed: int, fraction: float) -> Array:
    random_order = np.random.default_rng([settings.seed, seed]).permutation(settings.groups)
    return random_order < round(fraction * settings.groups)


def _calculate_chances(settings: Settings) -> tuple[float, float]:
    """The settings have fractions of the records, and requests have different numbers of records."""
    mean_width = float(settings.max_width)
    if not settings.width:
        mean_large_width = np.arange(_MIN_LARGE_WIDTH, MAX_VARIED_WIDTH + 1).clip(max=settings.keys).mean()
        mean_width = (1 + mean_large_width) / 2
    # The mean number of records that a request of each kind writes. A commit in a transaction also causes a marker.
    records_per_commit = mean_width + settings.transactional * (1 - settings.hanging)
    records_per_generation = 1 + settings.modern * (settings.modern_records - 1)
    tombstones_per_record = settings.tombstones / mean_width  # Requests that write tombstones, per record of the topic.
    generations_per_record = settings.generation_fraction / records_per_generation
    commit_fraction = 1 - settings.tombstones - settings.generation_fraction
    others_per_record = tombstones_per_record + generations_per_record
    # There are commit_fraction / records_per_commit + others_per_record requests per record. The inverse is:
    records_per_request = records_per_commit / (commit_fraction + records_per_commit * others_per_record)
    return float(tombstones_per_record * records_per_request), float(generations_per_record * records_per_request)


def _draw_widths(settings: Settings, count: int, random: np.random.Generator) -> Array:
    if settings.width:
        return np.full(count, settings.max_width)
    large_widths = random.integers(_MIN_LARGE_WIDTH, MAX_VARIED_WIDTH + 1, count).clip(max=settings.keys)
    return np.where(random.random(count) < 0.5, 1, large_widths)


def _add_transactions(
    settings: Settings, requests: Array, is_transactional: Array, has_hanging: Array, random: np.random.Generator
) -> None:
    """Put the commits of transactional groups into transactions, and choose the markers of these transactions.

    Both arguments have a bool for each group; `has_hanging` is set where a transaction hangs. After it, a group commits
    instead of writing tombstones.
    """
    group = requests["group"]
    batch_type = requests["batch_type"]
    is_commit = batch_type < TOMBSTONES
    commits = np.flatnonzero(is_commit & is_transactional[group])
    batch_type[commits] |= TXN_BIT
    draw = random.random(len(commits))
    marker = np.where(draw < settings.hanging + settings.aborts, ABORT_MARKER, COMMIT_MARKER)
    marker[draw < settings.hanging] = NO_MARKER
    requests["marker"][commits] = marker
    # For each group: the index of its first request with a hanging transaction; -1 if this request is in an earlier
    # round; len(requests) if the group has no hanging transaction.
    first_hanging = np.where(has_hanging, -1, len(requests))
    hanging_requests = np.flatnonzero(requests["marker"] == NO_MARKER)
    np.minimum.at(first_hanging, group[hanging_requests], hanging_requests)
    is_after_hanging = np.arange(len(requests)) > first_hanging[group]
    batch_type[(batch_type == TOMBSTONES) & is_after_hanging] = COMMIT
    has_hanging[group[hanging_requests]] = True


def _cut_requests(settings: Settings, requests: Array, record_count: int) -> Array:
    """Return the first requests that have at most `record_count` records together.

    Smaller requests of the same group without a transaction replace the next one, so that all together have exactly
    `record_count` records.
    """
    ends = np.cumsum(_count_request_records(settings, requests))
    fitting_count = int(np.searchsorted(ends, record_count, "right"))
    if fitting_count == len(requests):
        return requests
    missing_records = record_count - int(ends[fitting_count - 1] if fitting_count else 0)
    full_batch_count, remaining_records = divmod(missing_records, settings.max_width)
    widths = [settings.max_width] * full_batch_count
    if remaining_records:
        widths.append(remaining_records)
    replacement = np.repeat(requests[fitting_count : fitting_count + 1], len(widths))
    replacement["width"] = widths
    replacement["marker"] = 0
    replacement["batch_type"] = np.where(replacement["batch_type"] == TOMBSTONES, TOMBSTONES, COMMIT)
    return np.concatenate([requests[:fitting_count], replacement])


def build_events(settings: Settings, request_times: Array, requests: Array, partition: int) -> Array:
    events = np.zeros(len(requests), EVENT)
    events["time"] = request_times
    for column in REQUEST.names or ():
        events[column] = requests[column]
    _number_generations(events)
    # No two requests have the same time, so each hanging transaction has its own producer id.
    hanging_producer = _FIRST_HANGING_PRODUCER_ID + request_times
    group_producer = _FIRST_PRODUCER_ID + requests["group"]
    events["producer"] = np.where(requests["marker"] == NO_MARKER, hanging_producer, group_producer)
    marker_indexes = np.flatnonzero(_has_marker(requests))
    random = np.random.default_rng([settings.seed, _MARKER_TIMES_SEED, partition])
    markers = events[marker_indexes]
    markers["batch_type"] = markers["marker"]
    markers["width"] = 1
    end_times = request_times[marker_indexes] + random.integers(_MAX_TXN_MS, size=len(marker_indexes))
    next_times = _find_next_times(request_times, requests["group"])[marker_indexes]
    # A transaction ends before the group's next request.
    markers["time"] = np.minimum(end_times, next_times - 1)
    events = np.concatenate([events, markers])
    # If a marker and a request have the same time, the request comes first.
    is_marker = np.arange(len(events)) >= len(requests)
    return events[np.argsort(2 * events["time"] + is_marker, kind="stable")]


def count_batch_records(settings: Settings, batches: Array) -> Array:
    """Return the number of records in the batches of events, or in those of requests, whose markers are other
    batches.
    """
    counts: Array = batches["width"].astype(np.int64)
    counts[batches["batch_type"] == NEW_EPOCH] = settings.modern_records
    return counts


def mark_live(settings: Settings, requests: Array, is_live: Array) -> None:
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
    next_times = np.full(len(request_times), np.iinfo(np.int64).max)
    by_group = np.argsort(groups, kind="stable")
    earlier = by_group[:-1]
    later = by_group[1:]
    is_same_group = groups[earlier] == groups[later]
    next_times[earlier[is_same_group]] = request_times[later[is_same_group]]
    return next_times
