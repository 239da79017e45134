"""A group whose plain record is decoded when somebody looks: most never are."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

from kafkagroups.groups.group import Group, group_from_record
from kafkagroups.records.serde import decode
from kafkagroups.records.versions import Dialect


class KeptRecord(NamedTuple):
    """A record. `plain` is the group of one of type 2 that every coordinator since 0.10.1 reads."""

    offset: int
    key: bytes
    value: bytes | None
    plain: str | None


OF_RECORD = ("state", "generation", "protocol_type", "protocol", "leader", "current_state_timestamp", "members")


class KeptGroup(Group):
    """As the Group that a plain record makes, with offsets of its own: equal to it, and shown as it."""

    def __init__(self, group_id: str, partition: int | None, record: KeptRecord, rules: Dialect) -> None:
        self.group_id, self.partition = group_id, partition
        self.offsets, self.pending, self.type = {}, {}, "classic"
        self._record, self._rules = record, rules

    def read(self) -> None:
        """Decodes the record; what was set before stays."""
        record, rules = self._record, self._rules
        group = group_from_record(self.partition, decode(record.key, record.value, rules), record.offset, rules)
        for name in OF_RECORD:
            self.__dict__.setdefault(name, getattr(group, name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and all(getattr(self, f.name) == getattr(other, f.name) for f in fields(Group))

    __hash__ = None

    def __repr__(self) -> str:
        return repr(Group(*(getattr(self, f.name) for f in fields(Group))))


class _Unread:
    """What is found where a group has no such field yet."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, group: KeptGroup, owner: type | None = None) -> Any:
        group.read()
        return group.__dict__[self._name]


for _name in OF_RECORD:
    setattr(KeptGroup, _name, _Unread(_name))
