"""The JSON of decoded groups in a snapshot.

A shard (groups/shard.py) stores offsets separately from groups, so the JSON of a group has no offsets. The group's
partition and Kafka version are those of the shard. The values of records have the JSON that Kafka's dump tool prints
(records/structs.py).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.groups.group import Group
from kafkagroups.groups.member import Member
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup, ModernMember
from kafkagroups.groups.owners import Owners
from kafkagroups.groups.states import ClassicState
from kafkagroups.loading.snapshots.json_checks import (
    Reader,
    Schema,
    bytes_text,
    choice_of,
    describe,
    list_of,
    map_of,
    optional,
    read_bytes,
    read_int8,
    read_int32,
    read_int64,
    read_object,
    read_text,
)
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.fields import Message
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.structs import from_json, to_json

_MEMBER: Schema = {
    "member_id": read_text,
    "group_instance_id": optional(read_text),
    "client_id": read_text,
    "client_host": read_text,
    "rebalance_timeout_ms": read_int32,
    "session_timeout_ms": read_int32,
    "protocol_type": read_text,
    "subscription_bytes": read_bytes,
    "assignment_bytes": read_bytes,
}
_CLASSIC_GROUP: Schema = {
    "group_id": read_text,
    "type": choice_of("classic"),
    # A load makes no other states (groups/states.py).
    "state": choice_of(ClassicState.EMPTY.value, ClassicState.STABLE.value),
    "generation": read_int32,
    "protocol_type": read_text,
    "protocol": optional(read_text),
    "leader": optional(read_text),
    "current_state_timestamp": optional(read_int64),
    "members": list_of(lambda value: Member(**read_object(value, _MEMBER))),
}


def _read_numbered(read: Reader[Any]) -> Reader[dict[int, Any]]:
    """Return a reader of a list of [number, value] pairs. The numbers are those of partitions or tasks."""

    def read_pair(value: Any) -> tuple[int, Any]:
        if not isinstance(value, list) or len(value) != 2:
            raise InvalidLog(f"expected a number and a value, found {describe(value)}")
        return read_int32(value[0]), read(value[1])

    read_pairs = list_of(read_pair)
    return lambda value: dict(read_pairs(value))


_read_texts = list_of(read_text)
_OWNERS: Schema = {
    "epochs": map_of(_read_numbered(read_int32)),
    "active": map_of(_read_numbered(read_text)),
    "standby": map_of(_read_numbered(lambda value: set(_read_texts(value)))),
    "warmup": map_of(_read_numbered(lambda value: set(_read_texts(value)))),
}


class _MemberRecordTypes(NamedTuple):
    """The record types of a member, of the member's assignment, and of the member's target assignment."""

    member: int
    assignment: int
    target: int


_RECORD_TYPES_BY_GROUP_TYPE = {
    "consumer": _MemberRecordTypes(5, 8, 7),
    "share": _MemberRecordTypes(10, 14, 13),
    "streams": _MemberRecordTypes(19, 22, 21),
}
_TOPOLOGY_RECORD_TYPE = 23


def group_to_json(group: AnyGroup, dialect: Dialect) -> dict[str, Any]:
    """Return the JSON of a group, without its offsets."""
    return _classic_to_json(group) if isinstance(group, Group) else _modern_to_json(group, dialect)


def read_group(value: Any, partition: int | None, dialect: Dialect) -> AnyGroup:
    """Return the group of a JSON object. Raise InvalidLog if it is not the JSON of a group."""
    group_type = value.get("type") if isinstance(value, dict) else None
    if dialect.coordinator == "new" and isinstance(group_type, str) and group_type in _RECORD_TYPES_BY_GROUP_TYPE:
        return _read_modern(value, group_type, partition, dialect)
    fields = read_object(value, _CLASSIC_GROUP)
    members = {member.member_id: member for member in fields.pop("members")}
    return Group(**fields | {"partition": partition, "state": ClassicState(fields["state"]), "members": members})


def _classic_to_json(group: Group) -> dict[str, Any]:
    return {
        **{name: getattr(group, name) for name in _CLASSIC_GROUP},
        "state": group.state.value,
        "members": [_member_to_json(member) for member in group.members.values()],
    }


def _member_to_json(member: Member) -> dict[str, Any]:
    return {
        **{name: getattr(member, name) for name in _MEMBER},
        "subscription_bytes": bytes_text(member.subscription_bytes),
        "assignment_bytes": bytes_text(member.assignment_bytes),
    }


@cache
def _modern_schema(group_type: str, dialect: Dialect) -> Schema:
    """Return the schema of a consumer, share or streams group. Only a streams group has a topology."""
    record_types = _RECORD_TYPES_BY_GROUP_TYPE[group_type]
    member: Schema = {
        "member_id": read_text,
        "metadata": optional(_value_reader(record_types.member, dialect)),
        "assignment": optional(_value_reader(record_types.assignment, dialect)),
        "member_epoch": read_int32,
        "state": optional(read_int8),
    }
    topology: Schema = {"topology": optional(_value_reader(_TOPOLOGY_RECORD_TYPE, dialect))}
    return {
        "group_id": read_text,
        "type": choice_of(group_type),
        "group_epoch": read_int32,
        "assignment_epoch": read_int32,
        "members": list_of(lambda value: ModernMember(**read_object(value, member))),
        "targets": map_of(_value_reader(record_types.target, dialect)),
        "validated_topology_epoch": read_int32,
        "metadata_hash": read_int64,
        "assignment_timestamp": read_int64,
        "resolved": map_of(_value_reader(16, dialect)),
        "largest_size": read_int32,
        "owners": lambda value: Owners(**read_object(value, _OWNERS)),
        **(topology if group_type == "streams" else {}),
    }


def _read_modern(value: Any, group_type: str, partition: int | None, dialect: Dialect) -> ModernGroup:
    fields = read_object(value, _modern_schema(group_type, dialect))
    members = {member.member_id: member for member in fields.pop("members")}
    return ModernGroup(**fields, partition=partition, kafka=dialect.version, members=members)


def _modern_to_json(group: ModernGroup, dialect: Dialect) -> dict[str, Any]:
    fields = {
        **{name: getattr(group, name) for name in _modern_schema(group.type, dialect)},
        "members": [
            {
                "member_id": member.member_id,
                "metadata": _value_to_json(member.metadata, dialect),
                "assignment": _value_to_json(member.assignment, dialect),
                "member_epoch": member.member_epoch,
                "state": member.state,
            }
            for member in group.members.values()
        ],
        "targets": {member_id: _value_to_json(target, dialect) for member_id, target in group.targets.items()},
        "resolved": {pattern: _value_to_json(value, dialect) for pattern, value in group.resolved.items()},
        "owners": _owners_to_json(group.owners),
    }
    if "topology" in fields:
        fields["topology"] = _value_to_json(group.topology, dialect)
    return fields


def _owners_to_json(owners: Owners) -> dict[str, Any]:
    return {
        name: {place: _numbered_to_json(numbered) for place, numbered in getattr(owners, name).items()}
        for name in _OWNERS
    }


def _numbered_to_json(numbered: dict[int, Any]) -> list[Any]:
    return [[number, sorted(value) if isinstance(value, set) else value] for number, value in numbered.items()]


def _value_to_json(value: Message | None, dialect: Dialect) -> dict[str, Any] | None:
    # All values of record types above 2 have version 0.
    return None if value is None else to_json(value, 0, dialect.version)


def _value_reader(record_type: int, dialect: Dialect) -> Reader[Message]:
    """Return a reader of the JSON of a record type's values."""

    def read_value(value: Any) -> Message:
        try:
            message = from_json(RECORD_TYPES[record_type].value, value, 0, dialect.version)
        except UsageError as error:
            raise InvalidLog(error.reason, field=error.field) from None
        if to_json(message, 0, dialect.version) != value:
            raise InvalidLog(f"expected the JSON of a record of type {record_type}, found {describe(value)}")
        return message

    return read_value
