"""Conversions between a loaded group and a living classic group in a coordinator.

A living group (classic_group.py) is in the cache of a running coordinator: it also has timers and waiting requests. A
loaded group (group.py) contains only what the log contains.
Source: GroupMetadata.loadGroup (3.9).
"""

from __future__ import annotations

from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.classic_member import ClassicMember
from kafkagroups.groups.group import Group
from kafkagroups.groups.group_offsets import GroupOffsets
from kafkagroups.groups.map_orders import Version
from kafkagroups.groups.member import Member


def build_classic_group(loaded: Group, kafka: Version, now_ms: int) -> ClassicGroup:
    """Return the living group that a coordinator of this Kafka version creates from a loaded group.

    A simple group (it has offsets but no group record) becomes Empty at `now_ms`, as in Kafka. `now_ms` is a time in ms
    since the epoch.
    """
    has_record = bool(loaded.members or loaded.generation or loaded.current_state_timestamp is not None)
    is_simple = not has_record and not loaded.protocol_type
    group = ClassicGroup(
        loaded.group_id,
        kafka,
        now_ms if is_simple else loaded.current_state_timestamp,
        generation=loaded.generation,
        protocol_type=loaded.protocol_type or None,
        protocol=loaded.protocol,
        leader=loaded.leader,
        offsets=GroupOffsets(
            dict(loaded.offsets), {producer: dict(pending) for producer, pending in loaded.pending.items()}
        ),
    )
    for member in loaded.members.values():
        group.add(_build_classic_member(member, loaded.protocol))
    group.state = loaded.state
    group.compute_subscribed_topics()
    return group


def build_loaded_group(group: ClassicGroup, partition: int | None) -> Group:
    """Return a loaded group with the content of a living group, so that both can be printed and compared."""
    return Group(
        group.group_id,
        partition,
        state=group.state,
        generation=group.generation,
        protocol_type=group.protocol_type or "",
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp,
        members={member.member_id: _build_loaded_member(member, group.protocol) for member in group.members.values()},
        offsets=dict(group.offsets.committed),
        pending={producer: dict(pending) for producer, pending in group.offsets.transactions.items() if pending},
    )


def _build_classic_member(member: Member, protocol: str | None) -> ClassicMember:
    return ClassicMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.protocol_type,
        [(protocol or "", member.subscription_bytes)],
        member.assignment_bytes,
    )


def _build_loaded_member(member: ClassicMember, protocol: str | None) -> Member:
    return Member(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.protocol_type,
        member.metadata(protocol) if protocol else b"",
        member.assignment,
    )
