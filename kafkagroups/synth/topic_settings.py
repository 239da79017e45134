"""The settings of a synthetic topic and their limits, and the names of its groups and topics."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from kafkagroups.errors import UsageError
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.segment_file import SEGMENT_BYTES, partition_for
from kafkagroups.records.wire import java_hash

WIDTH = 8
"""The default of the settings `width` and `keys`."""
MAX_GROUPS = 1_000_000
"""The limit of `groups`, because the name of a group has six digits."""
MAX_KEYS = 10_000
MAX_OFFSETS = 100_000_000
"""The limit of groups × keys. A coordinator that has loaded the topic has at most this number of offsets."""
MAX_WIDTH = 50
TOPIC_PARTITIONS = 100
"""The number of partitions of each topic that groups consume. A group with more keys consumes several topics."""
MAX_VARIED_WIDTH = 15
"""The largest width if the width varies: half of the batches have 1 record, and the other batches have 5 to 15."""


@dataclass(frozen=True)
class Settings:
    """The arguments of `write`. Fractions are from 0 to 1.

    Each group commits `keys` topic-partitions, in batches of `width` records (None: it varies). `skew` says how unequal
    the groups are: the n-th one sends requests in proportion to 1 / n^skew, so with 0 all are equally busy, and with 1
    the first is twice as busy as the second (Zipf's law). `hot` is the fraction of the groups that are stored in one
    partition.

    `tombstones` of offsets and `generations` (in modern groups, epochs) are fractions of the records; without a value,
    there are no new generations, or 0.01 if `modern` is above 0. `transactional` and `modern` (KIP-848) are fractions
    of the groups, `aborts` and `hanging` of the transactions, and `metadata` of the commit batches. A segment is larger
    than `segment_bytes` only if it contains a single, larger batch.
    """

    records: int
    partitions: int = 50
    groups: int = 1000
    keys: int = WIDTH
    width: int | None = WIDTH
    skew: float = 1.0
    hot: float = 0.0
    tombstones: float = 0.02
    generations: float | None = None
    members: int = 3
    transactional: float = 0.0
    aborts: float = 0.1
    hanging: float = 0.001
    modern: float = 0.0
    metadata: float = 0.0
    codec: str = "none"
    segment_bytes: int = SEGMENT_BYTES
    prefix: str = ""
    seed: int = 0

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


def check_settings(settings: Settings) -> None:
    partition_for("", settings.partitions)  # For 0 partitions, this raises a clearer UsageError than _check_range.
    _check_range("partitions", settings.partitions, 1, 2**31 - 1)
    _check_range("records", settings.records, 0, 2**40)
    _check_range("groups", settings.groups, 1, MAX_GROUPS)
    _check_range("keys of a group", settings.keys, 1, min(MAX_KEYS, MAX_OFFSETS // settings.groups))
    if settings.width is not None:
        _check_range("records in a batch", settings.width, 1, MAX_WIDTH)
    _check_range("the skew", settings.skew, 0, 10)
    _check_range("members", settings.members, 1, 50)
    _check_range("bytes of a segment", settings.segment_bytes, 1, 2**31 - 1)
    _check_range("the seed", settings.seed, 0, 2**63 - 1)
    for name in ("hot", "tombstones", "transactional", "aborts", "hanging", "modern", "metadata"):
        _check_range(f"the fraction {name!r}", getattr(settings, name), 0, 1)
    _check_range("the fraction 'generations'", settings.generation_fraction, 0, 1)
    other_than_commits = settings.tombstones + settings.generation_fraction
    _check_range("the fractions of tombstones and generations together", other_than_commits, 0, 1)
    _check_range("the fractions of aborts and hanging transactions together", settings.aborts + settings.hanging, 0, 1)
    codecs = ", ".join(codec.name.lower() for codec in CompressionType)
    if settings.codec.upper() not in CompressionType.__members__:
        raise UsageError(f"codec: expected one of {codecs}, found {settings.codec!r}")
    if not re.fullmatch(r"[A-Za-z0-9._-]{0,100}", settings.prefix):
        raise UsageError(f"prefix: expected at most 100 letters, digits, '.', '_' and '-', found {settings.prefix!r}")


def _check_range(name: str, value: float, minimum: float, maximum: float) -> None:
    if not minimum <= value <= maximum:
        raise UsageError(f"{name}: expected {minimum} to {maximum}, found {value}")


Array = np.ndarray[Any, np.dtype[Any]]

GROUP = "group-"
TOPIC = "topic-"
GROUP_DIGITS = 6
TOPICS = 10_000
"""The number of topic names with four digits."""


def format_digits(numbers: Array, width: int) -> Array:
    powers = 10 ** np.arange(width - 1, -1, -1)
    digits = numbers[:, None] // powers % 10
    characters = (digits + ord("0")).astype("u1")
    return characters.view(f"S{width}")[:, 0]


def choose_groups(settings: Settings) -> tuple[Array, Array]:
    """Return the digits in each group's name, and the partition that stores each group.

    Raises UsageError if there are not enough names for the hot partition or for the others.
    """
    name_numbers = np.arange(settings.groups)
    if settings.hot and settings.partitions > 1:
        name_numbers = _choose_hot_names(settings)
    group_digits = format_digits(name_numbers, GROUP_DIGITS)
    return group_digits, find_partitions(group_digits, settings)


def _choose_hot_names(settings: Settings) -> Array:
    partition_of_name = find_partitions(format_digits(np.arange(MAX_GROUPS), GROUP_DIGITS), settings)
    # The hot partition is the partition to which the first possible name belongs.
    is_hot_name = partition_of_name == partition_of_name[0]
    # The first group sends the most requests, and the last group the fewest. The hot groups are at equal distances in
    # this order: with hot = 0.5, every second group is hot. Element n of `hot_counts` is the number of hot groups among
    # the first n groups.
    hot_counts = np.floor(np.arange(settings.groups + 1) * settings.hot)
    is_hot_group = hot_counts[1:] > hot_counts[:-1]
    hot_group_count = int(is_hot_group.sum())
    name_numbers = np.empty(settings.groups, np.int64)
    name_numbers[is_hot_group] = _take_names(is_hot_name, hot_group_count, "in the hot partition")
    name_numbers[~is_hot_group] = _take_names(~is_hot_name, settings.groups - hot_group_count, "in other partitions")
    return name_numbers


def _take_names(is_suitable: Array, count: int, place: str) -> Array:
    suitable = np.flatnonzero(is_suitable)
    if len(suitable) < count:
        raise UsageError(
            f"hot: {count} groups must be stored {place}, but only {len(suitable)} of the {MAX_GROUPS} possible group "
            "names belong there; choose fewer groups"
        )
    return suitable[:count]


def find_partitions(group_digits: Array, settings: Settings) -> Array:
    # Java's hash of a name is computed character by character. The hash of the characters before the digits is computed
    # once, because all names begin with these characters.
    hashes = np.full(len(group_digits), java_hash(settings.prefix + GROUP) & 0xFFFFFFFF, np.uint32)
    digits_by_position = group_digits.view("u1").reshape(len(group_digits), -1).T
    for digits in digits_by_position:
        hashes = hashes * np.uint32(31) + digits
    absolute = np.abs(hashes.view(np.int32).astype(np.int64))
    absolute[absolute == 2**31] = 0  # Kafka replaces the absolute value of the smallest int32 by 0.
    return absolute % settings.partitions
