"""A script of requests, played; what if somebody died after one of them; and the script as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafkagroups.coordinator import DiskLogs, GroupCoordinator, HeldLogs
from kafkagroups.course.broker import coordinator, crashed, follower
from kafkagroups.course.folders import make_scratch_folder
from kafkagroups.course.life import Consumer, Event, Life
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.records.versions import parse_release

_LATEST_S = 900
"""So long a what-if is watched: three rebalance timeouts."""


class Act(NamedTuple):
    """A request of the script: `then` seconds after the one before it; `since`: older Kafkas do not need or know it."""

    then: float
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
"""The shop's billing: one comes, a second comes, the first goes, the second goes, and the group is deleted."""


def acts_for(acts: Sequence[Act], kafka: str) -> list[Act]:
    return [act for act in acts if parse_release(kafka) >= parse_release(act.since)]


def played(acts: Sequence[Act], kafka: str = "3.9.2", broker: GroupCoordinator | None = None) -> Life:
    """The life of the group after these acts, those of them that this Kafka has. `broker`: one that is there."""
    life = Life("billing", kafka, tells=False, broker=broker)
    for act in acts_for(acts, kafka):
        _play(life, act)
    return life


def _play(life: Life, act: Act) -> None:
    life.coordinator.clock.advance(round(act.then * 1000))
    getattr(life, act.request)(*act.arguments)


def without(life: Life, name: str) -> list[str]:
    """What comes if that consumer is silent from now on, and the others are well: every change of the group."""
    told, was, known = [f"{name} is dead: not another word from it"], life.settled(), len(life.events)
    began, next_heartbeat = life.now_s, life.now_s + 3
    while life.now_s - began < _LATEST_S and not _is_calm(life, name):
        for other in [each for each in life.consumers.values() if each.name != name and not each.hangs]:
            _go_on(life, other, heartbeat=life.now_s >= next_heartbeat)
            known = _changes(life, told, was, known)
            was = life.settled()
        if life.now_s >= next_heartbeat:
            next_heartbeat += 3
        life.wait(1)
        known = _changes(life, told, was, known)
        was = life.settled()
    return [*told, "after that nothing changes any more" if len(told) > 1 else "nothing changes"]


def _is_calm(life: Life, dead: str) -> bool:
    group, ghost = life.group, life.consumers.get(dead)
    others = [each for each in life.consumers.values() if each.name != dead]
    if group is not None and ghost is not None and ghost.member_id in {*group.members, *group.pending_members}:
        return False
    rests = life.state_name() in ("Stable", "Empty", "Dead")
    return rests and all(not each.needs and not each.hangs for each in others)


def _go_on(life: Life, consumer: Consumer, *, heartbeat: bool) -> None:
    if consumer.needs == "join":
        life.join(consumer.name)
    elif consumer.needs == "sync":
        life.sync(consumer.name)
    elif heartbeat:
        life.heartbeat(consumer.name)


def _changes(life: Life, told: list[str], was: Any, known: int) -> int:
    """Adds the line of the last events if they changed the group or wrote something."""
    new = life.events[known:]
    if new and (life.settled() != was or any(event.wrote for event in new)):
        event = new[-1]
        gone = sorted(set(was[2]) - set(life.settled()[2]))
        why = f"{event.who}: {event.asked.partition(',')[0]}" if event.who else "the time is over"
        told.append(f"{event.at_s:>6.1f} s  {why}" + "".join(f"; {each} is out" for each in gone))
        told.append(f"{'':10}{event.state}" + "".join(f"; written {str(line).strip()}" for line in event.wrote))
    return len(life.events)


def coordinator_dies(life: Life) -> list[str]:
    """What the next coordinator knows of the group, and what it says to those who knew the old one."""
    before = life.group
    heir = crashed(life.coordinator)
    group = heir.manager.get_group(life.group_id)
    told = ["the coordinator is dead; the next one has read the log and knows", f"  {_known(group)}"]
    if group is not None and group.offsets.committed:
        offsets = (f"{each} = {offset.offset}" for each, offset in sorted(group.offsets.committed.items()))
        told.append(f"  {', '.join(offsets)}")
    gone = _lost(before, group, life)
    told += [f"gone: {each}" for each in gone or ["nothing but time: every session begins anew"]]
    for each in life.consumers.values():
        if each.generation >= 0:
            error = heir.heartbeat(life.group_id, each.generation, each.member_id)
            told.append(f"to {each.name}'s heartbeat, generation {each.generation}, it says {error.name}")
    return told


def _known(group: ClassicGroup | None) -> str:
    if group is None:
        return "no group of that name"
    who = ", ".join(f"{each}{' (leads)' * (each == group.leader)}" for each in group.members) or "no members"
    return f"{group.state.value}, generation {group.generation}: {who}"


def _lost(before: ClassicGroup | None, after: ClassicGroup | None, life: Life) -> list[str]:
    gone = []
    if before is not None:
        members = set(after.members) if after else set()
        if before.generation != (after.generation if after else 0):
            gone.append(f"generation {before.generation}")
        if before.state.value not in ("Stable", "Empty"):
            gone.append("the rebalance")
        gone += [f"{each} as a member" for each in before.members if each not in members]
        gone += [f"the id {each}, handed out" for each in before.pending_members]
        gone += [f"that {each} left" for each in sorted(members - set(before.members))]
    return gone + [f"the answer to {each.name}'s {each.hangs}" for each in life.consumers.values() if each.hangs]


def two_kafkas(old: str = "1.0.1", new: str = "3.9.2", acts: Sequence[Act] = TWO_CONSUMERS) -> None:
    """Prints the requests that the two answer differently, with their steps in the newer one's script."""
    told: list[dict[int, str]] = []
    for kafka in (old, new):
        sent = [number for number, act in enumerate(acts) if act in acts_for([act], kafka)]
        answers = (event.answer for event in played(acts, kafka).events)
        told.append(dict(zip(sent, answers, strict=True)))
    print(f"{'step':<6}{'':<21}{old:<24}{new}")
    steps = {number: step for step, number in enumerate(told[1], 1)}
    for number, act in enumerate(acts):
        cells = [each.get(number, "not asked") for each in told]
        if cells[0] != cells[1]:
            who = act.arguments[0] if act.arguments else "operator"
            print(f"{steps.get(number, ''):>4}  {f'{who} {act.request}':<21}{cells[0]:<24}{cells[1]}")


def crash_table(kafka: str = "3.9.2", acts: Sequence[Act] = TWO_CONSUMERS) -> None:
    """Prints after each act what was written, how the group stands, and how a next coordinator would find it.

    A group's record has two lines: when it is in this broker's log, and when the replicas have it, too.
    """
    script = acts_for(acts, kafka)
    for many, act in enumerate(script, 1):
        logs = HeldLogs(DiskLogs(make_scratch_folder()), holds=False)
        life = played(script[: many - 1], kafka, coordinator(logs, kafka))
        before = life.written
        logs.holds = act.request in ("sync", "leave")  # all that can write the group's record
        _play(life, act)
        event = life.events[-1]
        end = before[-1].at + 1 if before else 0
        print(f"{many:>2}  {_asked(event):<25}{'+' * len(event.wrote):<5}{_beside(life, end if logs.held else None)}")
        if logs.held:
            logs.release()
            print(f"{'':4}{'… confirmed':<25}{'':<5}{_beside(life, None)}")


def _asked(event: Event) -> str:
    return f"{event.who} {event.asked.split()[0].removesuffix(',')}" if event.who else event.asked


def _beside(life: Life, end: int | None) -> str:
    """How the group stands, and how a next coordinator finds it that has all of the log, or what is below `end`."""
    state, generation, _ = life.settled()
    here = f"{state} {generation}" if life.group else "Dead"
    found = [follower(life.coordinator, life.group_id, each).manager.get_group(life.group_id) for each in (None, end)]
    then = " or ".join(dict.fromkeys(f"{each.state.value} {each.generation}" if each else "Dead" for each in found))
    return f"{here:<24}{then}" + ("" if here == then else "   ◀ differs")
