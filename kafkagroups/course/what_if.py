"""A script of requests to replay, and what follows if a client or the broker dies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.course.broker import restart_after_crash
from kafkagroups.course.life import GroupState, Life
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.records.versions import parse_release
from kafkagroups.simulation import Consumer
from kafkagroups.simulation.consumer import ConsumerState

_MAX_WATCHED_S = 900
"""How long a what-if is watched at most: three rebalance timeouts."""
_HEARTBEAT_INTERVAL_S = 3


class Act(NamedTuple):
    """A request of a script.

    Attributes
    ----------
    delay_s
        The seconds after the request before it.
    request
        The name of a method of `Life`.
    arguments
        The arguments of that method.
    since
        The first Kafka version that has or needs this request.
    """

    delay_s: float
    request: str
    arguments: tuple[Any, ...] = ()
    since: str = "0.11"


TWO_CONSUMERS = (
    Act(0, "join", ("billing-1",)),
    Act(0, "join", ("billing-1",), "2.2"),
    Act(0, "wait", (3,)),
    Act(0, "sync", ("billing-1",)),
    Act(1, "commit", ("billing-1", {"orders-0": 5, "orders-2": 7})),
    Act(1, "join", ("billing-2",)),
    Act(0, "join", ("billing-2",), "2.2"),
    Act(1, "commit", ("billing-1", {"orders-0": 8})),
    Act(1, "heartbeat", ("billing-1",)),
    Act(0, "join", ("billing-1",)),
    Act(3, "heartbeat", ("billing-1",)),
    Act(0, "commit", ("billing-1", {"orders-0": 9})),
    Act(0, "sync", ("billing-2",)),
    Act(1, "sync", ("billing-1",)),
    Act(1, "commit", ("billing-2", {"orders-2": 9})),
    Act(1, "leave", ("billing-1",)),
    Act(1, "heartbeat", ("billing-2",)),
    Act(0, "join", ("billing-2",)),
    Act(0, "sync", ("billing-2",)),
    Act(1, "leave", ("billing-2",)),
    Act(1, "delete", (), "1.1"),
)
"""Two consumers of the shop's group `billing` join, commit and leave one after the other. Then the group is deleted."""


def select_acts(acts: Sequence[Act], kafka: str) -> list[Act]:
    """Return the acts that this Kafka version has."""
    return [act for act in acts if parse_release(kafka) >= parse_release(act.since)]


def play_acts(acts: Sequence[Act], kafka: str = "3.9.2", broker: GroupCoordinator | None = None) -> Life:
    """Play the acts that this Kafka version has, and return the life of the group.

    Parameters
    ----------
    acts
        The script, for example `TWO_CONSUMERS` or its beginning.
    kafka
        The coordinator's Kafka version.
    broker
        The coordinator. None: a new one.
    """
    life = Life("billing", kafka, verbose=False, broker=broker)
    for act in select_acts(acts, kafka):
        play_act(life, act)
    return life


def play_act(life: Life, act: Act) -> None:
    """Let the act's delay pass, and send its request."""
    life.coordinator.clock.advance(round(act.delay_s * 1000))
    getattr(life, act.request)(*act.arguments)


def list_changes_without(life: Life, name: str) -> list[str]:
    """Return every change of the group if this consumer sends nothing from now on and the others behave normally."""
    lines = [f"{name} is dead and sends nothing any more"]
    watch = _Watch(life)
    start_s = life.now_s
    next_heartbeat_s = start_s + _HEARTBEAT_INTERVAL_S
    while life.now_s - start_s < _MAX_WATCHED_S and not _is_at_rest(life, name):
        for other in _list_others(life, name):
            if not other.waiting_for:
                _send_next_request(life, other, heartbeat=life.now_s >= next_heartbeat_s)
                lines += watch.describe_changes()
        if life.now_s >= next_heartbeat_s:
            next_heartbeat_s += _HEARTBEAT_INTERVAL_S
        life.wait(1)
        lines += watch.describe_changes()
    return [*lines, "after that nothing changes any more" if len(lines) > 1 else "nothing changes"]


class _Watch:
    """The group's last state, and the events that are described already."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.state: GroupState = life.read_state()
        self.event_count = len(life.events)

    def describe_changes(self) -> list[str]:
        """Return the lines of the last event if the group changed or a record was written since the last call."""
        before = self.state
        events = self.life.events[self.event_count :]
        self.state = self.life.read_state()
        self.event_count = len(self.life.events)
        if not events or (self.state == before and not any(event.written for event in events)):
            return []
        event = events[-1]
        cause = f"{event.who}: {event.request.partition(',')[0]}" if event.who else "a timeout"
        _, _, members_before = before
        _, _, members = self.state
        removed = "".join(f"; {member} is removed" for member in sorted(set(members_before) - set(members)))
        written = "".join(f"; written {str(line).strip()}" for line in event.written)
        return [f"{event.at_s:>6.1f} s  {cause}{removed}", f"{'':10}{event.state}{written}"]


def _list_others(life: Life, name: str) -> list[Consumer]:
    return [consumer for consumer in life.consumers.values() if consumer.client_id != name]


def _is_at_rest(life: Life, dead_name: str) -> bool:
    """Return whether the dead consumer is removed, and the others have nothing to do."""
    group = life.group
    dead = life.consumers.get(dead_name)
    if group is not None and dead is not None and dead.member_id in {*group.members, *group.pending_members}:
        return False
    others = _list_others(life, dead_name)
    has_resting_state = life.read_state_name() in ("Stable", "Empty", "Dead")
    return has_resting_state and all(each.state is ConsumerState.STABLE and not each.waiting_for for each in others)


def _send_next_request(life: Life, consumer: Consumer, *, heartbeat: bool) -> None:
    name = consumer.client_id
    if consumer.state is ConsumerState.JOINING:
        life.join(name)
    elif consumer.state is ConsumerState.SYNCING:
        life.sync(name)
    elif heartbeat:
        life.heartbeat(name)


def describe_coordinator_crash(life: Life) -> list[str]:
    """Return what the next coordinator loads, what is lost, and how it answers the members."""
    before = life.group
    next_coordinator = restart_after_crash(life.coordinator)
    group = next_coordinator.manager.get_group(life.group_id)
    lines = ["the coordinator is dead; the next one has loaded the log:", f"  {_describe_group(group)}"]
    if group is not None and group.offsets.committed:
        offsets = (f"{partition} = {offset.offset}" for partition, offset in sorted(group.offsets.committed.items()))
        lines.append(f"  {', '.join(offsets)}")
    losses = _list_losses(before, group, life) or ["only time: every session starts again"]
    lines += [f"lost: {loss}" for loss in losses]
    for consumer in life.consumers.values():
        if consumer.generation >= 0:
            error = next_coordinator.heartbeat(life.group_id, consumer.generation, consumer.member_id)
            lines.append(
                f"{consumer.client_id}'s heartbeat, generation {consumer.generation}, is answered {error.name}"
            )
    return lines


def _describe_group(group: ClassicGroup | None) -> str:
    if group is None:
        return "no group with this id"
    members = [f"{member} (leads)" if member == group.leader else member for member in group.members]
    return f"{group.state.value}, generation {group.generation}: {', '.join(members) or 'no members'}"


def _list_losses(before: ClassicGroup | None, after: ClassicGroup | None, life: Life) -> list[str]:
    losses = []
    if before is not None:
        members = set(after.members) if after else set()
        if before.generation != (after.generation if after else 0):
            losses.append(f"generation {before.generation}")
        if before.state.value not in ("Stable", "Empty"):
            losses.append("the rebalance")
        losses += [f"the member {each}" for each in before.members if each not in members]
        losses += [f"the member id {each}, which was handed out" for each in before.pending_members]
        losses += [f"the LeaveGroup of {each}" for each in sorted(members - set(before.members))]
    for consumer in life.consumers.values():
        if consumer.waiting_for:
            losses.append(f"the response to {consumer.client_id}'s {consumer.waiting_for}")
    return losses
