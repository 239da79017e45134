"""What the tables need of loaded groups. `kafkagroups.loading.groups.Groups` has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.groups.shard import LoadedPartition


class LoadedGroups(Protocol):
    """The result of a load, as the tables read it. `partitions` has what was read of each partition.

    `named` has the partitions in which each group has records. This class is an interface, because the package
    `loading` imports the tables, so the tables cannot import `loading`.
    """

    partitions: dict[int | None, LoadedPartition]
    named: dict[str, list[int | None]]

    @property
    def problems(self) -> list[str]:
        """A line for each partition whose bytes are damaged or whose load fails."""

    def parts(self) -> Iterator[tuple[str, GroupParts]]:
        """Yield the id and the parts of each group (groups/group_parts.py), in the order of the ids."""
