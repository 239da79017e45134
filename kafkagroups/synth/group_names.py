"""Names of groups and topics, and the partitions that store the groups.

Names have the form <prefix>group-000000 and <prefix>topic-0000. So all group names have the same length, and all topic
names have the same length. With the setting `hot`, a fraction of the groups is stored in one partition, the hot
partition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.errors import UsageError
from kafkagroups.records.wire import java_hash
from kafkagroups.synth.topic_settings import MAX_GROUPS, Settings

Array = np.ndarray[Any, np.dtype[Any]]

GROUP = "group-"
"""The part of a group's name between the prefix and the digits."""
TOPIC = "topic-"
"""The part of a topic's name between the prefix and the digits."""
GROUP_DIGITS = 6
TOPICS = 10_000
"""The number of topic names with four digits."""


def format_digits(numbers: Array, width: int) -> Array:
    """Return the numbers as texts of `width` digits, with leading zeros."""
    powers = 10 ** np.arange(width - 1, -1, -1)
    digits = numbers[:, None] // powers % 10
    characters = (digits + ord("0")).astype("u1")
    return characters.view(f"S{width}")[:, 0]


def choose_groups(settings: Settings) -> tuple[Array, Array]:
    """Return the digits in each group's name, and the partition that stores each group.

    Raises UsageError if there are not enough names for the hot partition or for the other partitions.
    """
    name_numbers = np.arange(settings.groups)
    if settings.hot and settings.partitions > 1:
        name_numbers = _choose_hot_names(settings)
    group_digits = format_digits(name_numbers, GROUP_DIGITS)
    return group_digits, find_partitions(group_digits, settings)


def _choose_hot_names(settings: Settings) -> Array:
    """Return the number in each group's name, so that the hot partition stores the fraction `hot` of the groups."""
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
    """Return the numbers of the first `count` suitable names. `is_suitable` has a bool for each possible name.

    Raises UsageError if there are not enough suitable names. `place`, a part of the message, is where groups with
    suitable names are stored.
    """
    suitable = np.flatnonzero(is_suitable)
    if len(suitable) < count:
        raise UsageError(
            f"hot: {count} groups must be stored {place}, but only {len(suitable)} of the {MAX_GROUPS} possible group "
            "names belong there; choose fewer groups"
        )
    return suitable[:count]


def find_partitions(group_digits: Array, settings: Settings) -> Array:
    """For each group, return the partition that stores the group. `partition_for` does the same for one group.

    `group_digits` contains the digits in each group's name.
    """
    # Java's hash of a name is computed character by character. The hash of the characters before the digits is computed
    # once, because all names begin with these characters.
    hashes = np.full(len(group_digits), java_hash(settings.prefix + GROUP) & 0xFFFFFFFF, np.uint32)
    digits_by_position = group_digits.view("u1").reshape(len(group_digits), -1).T
    for digits in digits_by_position:
        hashes = hashes * np.uint32(31) + digits
    absolute = np.abs(hashes.view(np.int32).astype(np.int64))
    absolute[absolute == 2**31] = 0  # Kafka replaces the absolute value of the smallest int32 by 0.
    return absolute % settings.partitions
