"""Groups' numbers and homes. Names have one width: `<prefix>group-000000`, `<prefix>topic-0000`."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkagroups.errors import UsageError
from kafkagroups.records.text import java_hash
from kafkagroups.synth.settings import MOST_GROUPS, Settings

Array = np.ndarray[Any, np.dtype[Any]]

GROUP, TOPIC = "group-", "topic-"
GROUP_DIGITS, TOPICS = 6, 10_000


def digits(numbers: Array, width: int) -> Array:
    """The numbers as texts of so many digits."""
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (numbers[:, None] // powers % 10 + ord("0")).astype("u1").view(f"S{width}")[:, 0]


def choose(settings: Settings) -> tuple[Array, Array]:
    """Each group's digits and its home. UsageError when too few names live in the hot partition, or elsewhere."""
    many = settings.groups
    numbers = np.arange(many)
    if settings.hot and settings.partitions > 1:
        every = homes(digits(np.arange(MOST_GROUPS), GROUP_DIGITS), settings)
        lives_there = every == every[0]
        is_hot = np.floor(np.arange(1, many + 1) * settings.hot) > np.floor(np.arange(many) * settings.hot)
        for there, wanted in ((lives_there, is_hot), (~lives_there, ~is_hot)):
            names = np.flatnonzero(there)
            if len(names) < wanted.sum():
                raise UsageError(f"of {MOST_GROUPS} names {len(names)} live where {wanted.sum()} groups are wanted")
            numbers[wanted] = names[: wanted.sum()]
    texts = digits(numbers, GROUP_DIGITS)
    return texts, homes(texts, settings)


def homes(texts: Array, settings: Settings) -> Array:
    """`partition_for` of the groups with these digits."""
    value = np.full(len(texts), java_hash(settings.prefix + GROUP) & 0xFFFFFFFF, np.uint32)
    for column in texts.view("u1").reshape(len(texts), -1).T:
        value = value * np.uint32(31) + column
    home = np.abs(value.view(np.int32).astype(np.int64))
    home[home == 2**31] = 0
    return home % settings.partitions
