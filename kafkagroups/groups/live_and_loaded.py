"""Conversions between a loaded group and a living classic group in a coordinator.

A living group (classic_group.py) is in the cache of a running coordinator, and has timers and waiting requests. A
loaded group (group.py) is the result of a load, and contains only what the log contains.
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

    `now_ms` is the current time, in ms since the epoch. If the log has no group record, the group became Empty at this
    time, as in Kafka.
    """
    has_state_time = loaded.current_state_timestamp is not None
    has_group_record = bool(loaded.members or loaded.generation or loaded.protocol_type or has_state_time)
    group = ClassicGroup(
        loaded.group_id,
        kafka,
        loaded.current_state_timestamp if has_group_record else now_ms,
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
    """Return a loaded group with the content of a living group, for example to compare a cache with a load."""
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
    # A group record has each member's subscription for only one protocol: the group's protocol.
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
        member.find_metadata(protocol) if protocol else b"",
        member.assignment,
    )
