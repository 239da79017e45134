"""A living group as a load shows one: for whoever prints it, or compares the two."""

from __future__ import annotations

from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.group import Group
from kafkagroups.groups.member import Member


def as_loaded(group: ClassicGroup, partition: int | None) -> Group:
    """What a load shows of such a group, for whoever compares or prints it."""
    return Group(
        group.group_id,
        partition,
        state=group.state,
        generation=group.generation,
        protocol_type=group.protocol_type or "",
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp,
        members={
            each.member_id: Member(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout_ms,
                each.session_timeout_ms,
                each.protocol_type,
                each.metadata(group.protocol) if group.protocol else b"",
                each.assignment,
            )
            for each in group.members.values()
        },
        offsets=dict(group.offsets.committed),
        pending={producer: dict(waiting) for producer, waiting in group.offsets.transactions.items() if waiting},
    )
