"""Names of groups and topics, and the partitions that store the groups.

The names are <prefix>group-000000 and <prefix>topic-0000. So all group names have the same length, and all topic names
have the same length. If the setting `hot` is used, a fraction of the groups is stored in one partition, the hot
partition.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.errors import UsageError
from kafkagroups.records.text import java_hash
from kafkagroups.synth.settings import MAX_GROUPS, Settings

Array = np.ndarray[Any, np.dtype[Any]]

GROUP = "group-"
TOPIC = "topic-"
GROUP_DIGITS = 6
TOPICS = 10_000
"""The number of topic names with four digits."""


def format_digits(numbers: Array, width: int) -> Array:
    """Return the numbers as texts of `width` digits."""
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (numbers[:, None] // powers % 10 + ord("0")).astype("u1").view(f"S{width}")[:, 0]


def choose_groups(settings: Settings) -> tuple[Array, Array]:
    """Return the digits in each group's name, and the partition that stores each group.

    Raises UsageError if there are not enough names for the hot partition or for the other partitions.
    """
    numbers = np.arange(settings.groups)
    if settings.hot and settings.partitions > 1:
        partitions = find_partitions(format_digits(np.arange(MAX_GROUPS), GROUP_DIGITS), settings)
        # The partition that stores the first name is the hot partition.
        is_name_hot = partitions == partitions[0]
        # The hot groups are spread evenly, so that busy and quiet groups are among them.
        hot_counts = np.floor(np.arange(settings.groups + 1) * settings.hot)
        is_group_hot = hot_counts[1:] > hot_counts[:-1]
        # First the hot groups get names that are stored in the hot partition, then the other groups get other names.
        # `is_candidate` says which names can be used, and `is_member` says which groups need a name.
        for is_candidate, is_member in ((is_name_hot, is_group_hot), (~is_name_hot, ~is_group_hot)):
            candidates = np.flatnonzero(is_candidate)
            group_count = is_member.sum()
            if len(candidates) < group_count:
                raise UsageError(
                    f"hot: expected {group_count} names in these partitions, found {len(candidates)} of {MAX_GROUPS}; "
                    "choose fewer groups"
                )
            numbers[is_member] = candidates[:group_count]
    group_digits = format_digits(numbers, GROUP_DIGITS)
    return group_digits, find_partitions(group_digits, settings)


def find_partitions(group_digits: Array, settings: Settings) -> Array:
    """For each group, return the partition that stores the group, as `partition_for` does for one group.

    `group_digits` contains the digits in each group's name.
    """
    hashes = np.full(len(group_digits), java_hash(settings.prefix + GROUP) & 0xFFFFFFFF, np.uint32)
    for digit in group_digits.view("u1").reshape(len(group_digits), -1).T:
        hashes = hashes * np.uint32(31) + digit
    absolute = np.abs(hashes.view(np.int32).astype(np.int64))
    absolute[absolute == 2**31] = 0
    return absolute % settings.partitions
