"""A group whose plain record is decoded when somebody looks: most never are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from kafkagroups.groups.group import Group

OF_RECORD = ("state", "generation", "protocol_type", "protocol", "leader", "current_state_timestamp", "members")


class KeptGroup(Group):
    """As the Group that `read` makes of the record, with offsets of its own; equal to it, pickled and shown as it."""

    def __init__(self, group_id: str, partition: int | None, read: Callable[[], Group]) -> None:
        self.group_id, self.partition = group_id, partition
        self.offsets, self.pending, self.type = {}, {}, "classic"
        self._read: Callable[[], Group] | None = read

    def __getattribute__(self, name: str) -> Any:
        if name in OF_RECORD and (read := self._read):
            self._read = None
            whole = read()
            for each in OF_RECORD:
                setattr(self, each, getattr(whole, each))
        return super().__getattribute__(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and all(getattr(self, f.name) == getattr(other, f.name) for f in fields(Group))

    __hash__ = None

    def __repr__(self) -> str:
        return repr(Group(*self._values()))

    def __reduce__(self) -> tuple[Any, ...]:
        return Group, self._values()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, f.name) for f in fields(Group))
