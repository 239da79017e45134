"""Lessons 06 and 07: scripts of requests, what follows a crash, and groups in a certain situation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kafkagroups.coordinator import Consumer, GroupCoordinator
from kafkagroups.coordinator.simulated_consumers import ConsumerState
from kafkagroups.course.group_life import GroupLife
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.records.versions import parse_release

# The longest simulated time after a crash, in seconds: three rebalance timeouts of 300 seconds.
_MAX_OBSERVED_S = 900
# The time between two heartbeats of a consumer, in seconds.
_HEARTBEAT_INTERVAL_S = 3


class ScriptRequest(NamedTuple):
    """A call of a method of `GroupLife`, `delay_s` after the previous one.

    Only `first_version` and later versions get the request. For example, a new consumer sends a second JoinGroup since
    Kafka 2.2, because the response to the first one contains only a member id.
    """

    delay_s: float
    method: str
    arguments: tuple[Any, ...] = ()
    first_version: str = "0.11"


TWO_CONSUMERS = (
    ScriptRequest(0, "join", ("billing-1",)),
    ScriptRequest(0, "join", ("billing-1",), "2.2"),
    ScriptRequest(0, "wait", (3,)),
    ScriptRequest(0, "sync", ("billing-1",)),
    ScriptRequest(1, "commit", ("billing-1", {"orders-0": 5, "orders-2": 7})),
    ScriptRequest(1, "join", ("billing-2",)),
    ScriptRequest(0, "join", ("billing-2",), "2.2"),
    ScriptRequest(1, "commit", ("billing-1", {"orders-0": 8})),
    ScriptRequest(1, "heartbeat", ("billing-1",)),
    ScriptRequest(0, "join", ("billing-1",)),
    ScriptRequest(3, "heartbeat", ("billing-1",)),
    ScriptRequest(0, "commit", ("billing-1", {"orders-0": 9})),
    ScriptRequest(0, "sync", ("billing-2",)),
    ScriptRequest(1, "sync", ("billing-1",)),
    ScriptRequest(1, "commit", ("billing-2", {"orders-2": 9})),
    ScriptRequest(1, "leave", ("billing-1",)),
    ScriptRequest(1, "heartbeat", ("billing-2",)),
    ScriptRequest(0, "join", ("billing-2",)),
    ScriptRequest(0, "sync", ("billing-2",)),
    ScriptRequest(1, "leave", ("billing-2",)),
    ScriptRequest(1, "delete", (), "1.1"),
)
"""Two consumers of the shop's group `billing` join, commit and leave. Then the group is deleted."""


def play_script(
    script: Sequence[ScriptRequest], kafka: str = "3.9.2", broker: GroupCoordinator | None = None
) -> GroupLife:
    """Send the requests of a script for this Kafka version to a broker, by default a new one, and return the group."""
    life = GroupLife("billing", kafka, broker=broker)
    for request in script:
        if parse_release(kafka) >= parse_release(request.first_version):
            life.coordinator.clock.advance(round(request.delay_s * 1000))
            getattr(life, request.method)(*request.arguments)
    return life


def continue_after_crash(life: GroupLife, name: str) -> Iterator[None]:
    """Let the other consumers continue after the consumer `name` has crashed, until the group is settled.

    Yields after each request, and after each second.
    """
    start_s = life.now_s
    next_heartbeat_s = start_s + _HEARTBEAT_INTERVAL_S
    while life.now_s - start_s < _MAX_OBSERVED_S and not _is_settled(life, name):
        for consumer in _list_other_consumers(life, name):
            if not consumer.waiting_for:
                _send_next_request(life, consumer, is_heartbeat_due=life.now_s >= next_heartbeat_s)
                yield
        if life.now_s >= next_heartbeat_s:
            next_heartbeat_s += _HEARTBEAT_INTERVAL_S
        life.wait(1)
        yield


def _list_other_consumers(life: GroupLife, name: str) -> list[Consumer]:
    return [consumer for consumer in life.consumers.values() if consumer.client_id != name]


def _is_settled(life: GroupLife, crashed_name: str) -> bool:
    group = life.group
    crashed_consumer = life.consumers.get(crashed_name)
    if group is not None and crashed_consumer is not None:
        known_member_ids = {*group.members, *group.pending_members}
        if crashed_consumer.member_id in known_member_ids:
            return False
    if life.read_state_name() not in ("Stable", "Empty", "Dead"):
        return False
    return all(
        consumer.state is ConsumerState.STABLE and not consumer.waiting_for
        for consumer in _list_other_consumers(life, crashed_name)
    )


def _send_next_request(life: GroupLife, consumer: Consumer, *, is_heartbeat_due: bool) -> None:
    name = consumer.client_id
    if consumer.state is ConsumerState.JOINING:
        life.join(name)
    elif consumer.state is ConsumerState.SYNCING:
        life.sync(name)
    elif is_heartbeat_due:
        life.heartbeat(name)


def describe_group(group: ClassicGroup | None) -> str:
    if group is None:
        return "no group with this id"
    members = [f"{member} (leads)" if member == group.leader else member for member in group.members]
    return f"{group.state.value}, generation {group.generation}: {', '.join(members) or 'no members'}"


def list_losses(group_before: ClassicGroup | None, group_after: ClassicGroup | None, life: GroupLife) -> list[str]:
    losses = []
    if group_before is not None:
        members_after = set(group_after.members) if group_after else set()
        generation_after = group_after.generation if group_after else 0
        if group_before.generation != generation_after:
            losses.append(f"generation {group_before.generation}")
        if group_before.state.value not in ("Stable", "Empty"):
            losses.append("the rebalance")
        losses += [f"the member {member_id}" for member_id in group_before.members if member_id not in members_after]
        losses += [f"the member id {member_id}, which has not joined yet" for member_id in group_before.pending_members]
        # If a member is only in the loaded group, it left or was removed after the last group record was written.
        losses += [f"the removal of {member_id}" for member_id in sorted(members_after - set(group_before.members))]
    for consumer in life.consumers.values():
        if consumer.waiting_for:
            losses.append(f"the response to {consumer.client_id}'s {consumer.waiting_for}")
    return losses


def run_silent_member(broker: GroupCoordinator | None = None) -> GroupLife:
    """Return the group `billing`, whose second member has sent nothing for 50 seconds.

    The session of `billing-2` has ended, and `billing-1` has not joined again yet.
    """
    life = GroupLife("billing", broker=broker)
    # The response to the first JoinGroup of a client contains only the member id.
    life.join("billing-1")
    life.join("billing-1")
    life.wait(3)
    life.sync("billing-1")
    life.join("billing-2")
    life.join("billing-2")
    life.join("billing-1")
    life.sync("billing-1")
    life.sync("billing-2")
    for _ in range(5):
        life.wait(10)
        life.heartbeat("billing-1")
    return life


def start_two_vans(broker: GroupCoordinator | None = None) -> GroupLife:
    """Return the group `shipping`, Stable in generation 2, with the static members van-1, the leader, and van-2."""
    life = GroupLife("shipping", broker=broker)
    life.join("van-1", instance="van-1")
    life.wait(3)
    life.sync("van-1")
    life.join("van-2", instance="van-2")
    life.join("van-1", instance="van-1")
    life.wait(3)
    life.sync("van-1")
    life.sync("van-2")
    return life


def run_duplicate_static_member() -> GroupLife:
    """Return the group `shipping` after four rounds, in each of which a new process joins as the static member van-2.

    The process that joins last removes the other process from the group.
    """
    topics = ("orders", "stock")
    life = GroupLife("shipping")
    for members in (["van-1"], ["van-1", "van-2"], ["van-1", "van-2", "van-3"]):
        # The new member is last in the list. Its JoinGroup starts the rebalance, so it must be sent first.
        for member in reversed(members):
            life.join(member, instance=member, topics=topics)
        # The first rebalance of a group waits three seconds for more members (group.initial.rebalance.delay.ms).
        life.wait(3)
        for member in members:
            life.sync(member)
    for round_number in range(4):
        life.wait(20)
        life.join("van-2", instance="van-2", topics=topics, new_process=True)
        for member in ("van-1", "van-2", "van-3"):
            life.heartbeat(member)
        life.commit("van-1", {"orders-0": 10 + round_number})
    return life
