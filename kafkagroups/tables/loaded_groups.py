"""What the tables need of loaded groups. `kafkagroups.loading.groups.Groups` has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.groups.shard import LoadedPartition


class LoadedGroups(Protocol):
    """The result of a load, as the tables read it. The package `loading` uses the tables, not the reverse."""

    partitions: dict[int | None, LoadedPartition]
    named: dict[str, list[int | None]]

    @property
    def problems(self) -> list[str]:
        """A line for each partition whose bytes are damaged or whose load fails."""

    def parts(self) -> Iterator[tuple[str, GroupParts]]:
        """Yield the id and the parts of each group, in the order of the ids."""
