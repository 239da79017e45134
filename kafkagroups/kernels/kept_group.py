"""A group whose plain record is decoded when somebody looks: most never are."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

from kafkagroups.groups.group import Group, group_from_record
from kafkagroups.records.dialect import Dialect
from kafkagroups.records.serde import decode


class KeptRecord(NamedTuple):
    """A record. `is_plain`: one of type 2 that every coordinator since 0.10.1 reads."""

    offset: int
    key: bytes
    value: bytes | None
    is_plain: bool


OF_RECORD = ("state", "generation", "protocol_type", "protocol", "leader", "current_state_timestamp", "members")


class KeptGroup(Group):
    """As the Group that a plain record makes, with offsets of its own: equal to it, and shown as it."""

    def __init__(self, group_id: str, partition: int | None, record: KeptRecord, rules: Dialect) -> None:
        self.group_id, self.partition = group_id, partition
        self.offsets, self.pending, self.type = {}, {}, "classic"
        self._unread: tuple[KeptRecord, Dialect] | None = (record, rules)

    def __getattribute__(self, name: str) -> Any:
        if name in OF_RECORD and (unread := self._unread):
            record, rules = unread
            group = group_from_record(self.partition, decode(record.key, record.value, rules), record.offset, rules)
            for each in OF_RECORD:
                setattr(self, each, getattr(group, each))
            self._unread = None  # last: another thread may be looking
        return super().__getattribute__(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and all(getattr(self, f.name) == getattr(other, f.name) for f in fields(Group))

    __hash__ = None

    def __repr__(self) -> str:
        return repr(Group(*(getattr(self, f.name) for f in fields(Group))))
