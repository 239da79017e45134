"""Names of groups and topics, and the groups' partitions. All names of a kind have the same width:

<prefix>group-000000, <prefix>topic-0000
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.errors import UsageError
from kafkagroups.records.text import java_hash
from kafkagroups.synth.settings import MOST_GROUPS, Settings

Array = np.ndarray[Any, np.dtype[Any]]

GROUP = "group-"
TOPIC = "topic-"
GROUP_DIGITS = 6
TOPICS = 10_000


def format_digits(numbers: Array, width: int) -> Array:
    """Return the numbers as text of `width` digits."""
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (numbers[:, None] // powers % 10 + ord("0")).astype("u1").view(f"S{width}")[:, 0]


def choose_groups(settings: Settings) -> tuple[Array, Array]:
    """Return the digits of each group's name, and the group's partition.

    UsageError if too few names belong to the hot partition, or to the others.
    """
    many = settings.groups
    numbers = np.arange(many)
    if settings.hot and settings.partitions > 1:
        partitions = find_partitions(format_digits(np.arange(MOST_GROUPS), GROUP_DIGITS), settings)
        is_in_hot = partitions == partitions[0]
        is_hot = np.floor(np.arange(1, many + 1) * settings.hot) > np.floor(np.arange(many) * settings.hot)
        for is_candidate, wanted in ((is_in_hot, is_hot), (~is_in_hot, ~is_hot)):
            names = np.flatnonzero(is_candidate)
            if len(names) < wanted.sum():
                raise UsageError(
                    f"hot: expected {wanted.sum()} names in these partitions, found {len(names)} of {MOST_GROUPS}; "
                    "choose fewer groups"
                )
            numbers[wanted] = names[: wanted.sum()]
    texts = format_digits(numbers, GROUP_DIGITS)
    return texts, find_partitions(texts, settings)


def find_partitions(texts: Array, settings: Settings) -> Array:
    """Return the partitions of the groups with these digits, as `partition_for` does for one group."""
    value = np.full(len(texts), java_hash(settings.prefix + GROUP) & 0xFFFFFFFF, np.uint32)
    for column in texts.view("u1").reshape(len(texts), -1).T:
        value = value * np.uint32(31) + column
    positive = np.abs(value.view(np.int32).astype(np.int64))
    positive[positive == 2**31] = 0
    return positive % settings.partitions
