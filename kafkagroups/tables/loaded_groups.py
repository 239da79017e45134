"""The interface through which the tables read loaded groups. The class `Groups` (loading/groups.py) implements it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.groups.shard import LoadedPartition


class LoadedGroups(Protocol):
    """The result of a load, as the tables read it.

    `partitions` says for each partition how much was read, and how its load ended. `partitions_of` maps each group id
    to the partitions that contain records of the group. The number of a partition is None if the name of the log's
    folder has no number.

    This class is an interface, because the tables cannot import the package `loading`, which imports the tables.
    """

    partitions: dict[int | None, LoadedPartition]
    partitions_of: dict[str, list[int | None]]

    @property
    def problems(self) -> list[str]:
        """A line of text for each damaged partition, and for each partition whose load by a broker would fail."""

    def parts(self) -> Iterator[tuple[str, GroupParts]]:
        """Yield the id and the parts of each group (groups/group_parts.py), in the order of the ids."""
