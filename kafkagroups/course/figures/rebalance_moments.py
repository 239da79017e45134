"""Lesson 06: the run of a group of two members, what the coordinator has at each moment, and what a failover loses.

Sessions last ten seconds instead of the default of 45, so that they fit the picture. After each event, a follower loads
the log, as the next coordinator would after a failover.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.coordinator.clock import Timer
from kafkagroups.course import group_life
from kafkagroups.course.broker import start_follower
from kafkagroups.course.group_life import Event, GroupLife, GroupState
from kafkagroups.errors import UsageError
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import decode

MEMBERS = ("billing-1", "billing-2")
SESSION_S = 10


@dataclass(frozen=True)
class Lane:
    """What the coordinator has about one member.

    `session_end_s` is None if no session runs. `is_member`: the coordinator has the member or its member id.
    """

    status: str
    session_end_s: float | None
    is_member: bool


@dataclass(frozen=True)
class Moment:
    """The group after an event.

    `action` is the request and its response, or what happened without one, and `written` the records in the log, one
    entry for each append. `loaded` and `lost` are what the next coordinator would load, and what a failover would lose.
    """

    time_s: float
    action: str
    explanation: str
    state: str
    generation: int
    lanes: tuple[Lane, ...]
    events: tuple[Event, ...]
    written: tuple[tuple[str, ...], ...]
    loaded: str
    lost: str


def take_moment(life: GroupLife, state_before: GroupState, dead: str | None, *, is_death: bool = False) -> Moment:
    event = life.events[-1]
    loaded = start_follower(life.coordinator, life.group_id).manager.get_group(life.group_id)
    state, generation, members = life.read_state()
    removed = sorted(set(state_before[2]) - set(members))
    if is_death:
        action = f"{dead} dies: it sends nothing more"
        explanation = "The coordinator cannot notice it. It keeps the member until the session ends."
        member = life.group.members.get(life.consumers[dead].member_id) if life.group and dead else None
        if member is not None and member.awaiting_join:
            explanation = "No session runs while a JoinGroup waits. It starts at the end of the join phase."
    else:
        action = _name_action(event, removed)
        explanation = _explain(event, state_before, life, removed)
    losses = group_life.list_losses(life.group, loaded, life)
    nothing = "nothing, but every session starts again" if loaded and loaded.members else "nothing"
    lanes = tuple(_read_lane(life, name, dead) for name in MEMBERS)
    written = tuple(_list_appends(life.coordinator, life.group_id))
    told = (group_life.describe_group(loaded), ", ".join(losses) or nothing)
    return Moment(life.now_s, action, explanation, state, generation, lanes, tuple(life.events), written, *told)


def _name_action(event: Event, removed: Sequence[str]) -> str:
    if event.client:
        return f"{event.client}: {event.request} → {event.response}"
    if removed:
        return f"the session of {_name_member(removed[0])} ends"
    return event.request.removeprefix("… ")


def _name_member(member_id: str) -> str:
    return next(name for name in MEMBERS if member_id.startswith(name))


def _read_lane(life: GroupLife, name: str, dead: str | None) -> Lane:
    group = life.group
    consumer = life.consumers.get(name)
    member_id = consumer.member_id if consumer else ""
    has_been_there = any(event.client == name for event in life.events)
    if group is not None and member_id in group.pending_members:
        return Lane("only an id", None, True)
    if group is None or member_id not in group.members:
        gone = "removed" if name == dead else "left"
        return Lane(gone if has_been_there else "", None, False)
    member = group.members[member_id]
    if member.awaiting_join:
        return Lane("JoinGroup waits", None, True)
    if member.awaiting_sync:
        return Lane("SyncGroup waits", None, True)
    timer = member.session_timer
    assert isinstance(timer, Timer)
    end_s = (timer.due_ms - life.start_ms) / 1000
    return Lane(f"session to {end_s:g} s", end_s, True)


def _list_appends(coordinator: GroupCoordinator, group: str) -> Iterator[tuple[str, ...]]:
    manager = coordinator.manager
    for batch in manager.logs.read(manager.partition_for(group)):
        records = [decode(record.key, record.value) for record in batch.records]
        first = records[0]
        if isinstance(first.value, GroupMetadataValue):
            yield f"gen {first.value.generation}", ("no one", "1 member", "both")[len(first.value.members)]
        elif isinstance(first.value, OffsetCommitValue):
            commits = [
                f"{record.key.partition}={record.value.offset}"
                for record in records
                if isinstance(record.key, OffsetCommitKey) and isinstance(record.value, OffsetCommitValue)
            ]
            yield "commit", " ".join(commits)
        else:
            keys = [record.key for record in records]
            assert all(isinstance(key, OffsetCommitKey | GroupMetadataKey) for key in keys)
            yield "deleted", f"{len(keys)} keys"


def _explain(event: Event, state_before: GroupState, life: GroupLife, removed: Sequence[str]) -> str:
    request = event.request.split()[0].removesuffix(",")
    state, generation, members = life.read_state()
    if not event.client:
        if removed:
            name = _name_member(removed[0])
            sync = "the waiting SyncGroup is answered"
            other = sync if event.late_responses else "the other member learns of it with its next request"
            next_step = {
                "PreparingRebalance": f"A rebalance begins, and {other}.",
                "CompletingRebalance": f"The join phase no longer waits for it, so generation {generation} begins.",
            }.get(state, "The group has no member now.")
            return f"{name} gave no sign of life for {SESSION_S} seconds, so the coordinator removes it. {next_step}"
        return f"The join phase is over, and generation {generation} begins. It is only in memory."
    if request == "JoinGroup":
        if event.response.startswith("MEMBER_ID_REQUIRED"):
            written = ", and writes that the group exists" if event.written_lines else ""
            return f"The coordinator gives the client a member id{written}. A JoinGroup with this id makes it a member."
        if event.response == "waits" and state_before[0] in ("Empty", "Dead"):
            return "The first JoinGroup of an empty group waits 3 seconds for more members."
        if event.response == "waits":
            return "A rebalance begins. The JoinGroup waits for the other member, which the coordinator cannot call."
        return f"All members have joined, so generation {generation} begins. The log contains nothing of it yet."
    if request == "SyncGroup":
        return _explain_sync(event, state)
    if request == "OffsetCommit":
        if event.response != "NONE":
            return "The commit is refused, because the new assignments do not exist yet. It is no sign of life."
        if state == "PreparingRebalance":
            return "The old generation is still valid, so the commit is accepted. It is a record and a sign of life."
        return "The commit is a record in the log, and a sign of life: the session starts again."
    if request == "Heartbeat":
        if event.response == "REBALANCE_IN_PROGRESS":
            return "Only the answer to the heartbeat tells the member that it must join again."
        return "The session starts again. A heartbeat leaves no trace in the log."
    if request == "LeaveGroup":
        if members:
            return "The member is removed immediately, and a rebalance begins. The log contains no record of it."
        return "The last member leaves. A record without members is written, and the group keeps its offsets."
    return "The operator deletes the group. One append contains a tombstone for each key."


def _explain_sync(event: Event, state: str) -> str:
    if event.response == "waits":
        return "The SyncGroup waits for the assignments, which the leader computes."
    if state == "Stable" and event.written_lines:
        return "The leader's assignments are one record. With this record, the rebalance is finished."
    return "The group is in another state by now, so the member must join again."


@dataclass(frozen=True)
class Death:
    member: str
    step: int | None = None
    second: int | None = None


@cache
def run_group(death: Death | None) -> list[Moment]:
    """Return a moment for each request of the script, and after the death for each change of the group."""
    return list(_run_group(death))


def _run_group(death: Death | None) -> Iterator[Moment]:
    life = GroupLife("billing", "4.3.1")
    for number, request in enumerate(group_life.TWO_CONSUMERS, 1):
        if death and death.second is not None and life.now_s + request.delay_s > death.second:
            break
        state_before = life.read_state()
        group_life.send_request(life, request, session_s=SESSION_S)
        yield take_moment(life, state_before, None)
        if death and number == death.step:
            break
    if death is None:
        return
    if death.second is not None:
        life.coordinator.clock.advance_to(life.start_ms + death.second * 1000)
    _check_member(life, death)
    dead = death.member
    yield take_moment(life, life.read_state(), dead, is_death=True)
    state_before = life.read_state()
    event_count = len(life.events)
    for _ in group_life.continue_after_crash(life, dead):
        if life.read_state() != state_before or any(map(_is_news, life.events[event_count:])):
            yield take_moment(life, state_before, dead)
        state_before = life.read_state()
        event_count = len(life.events)


def _check_member(life: GroupLife, death: Death) -> None:
    if death.member in life.consumers:
        return
    names = [event.client for event in life.events]
    reason = "has already left" if death.member in names else "has not joined yet"
    raise UsageError(f"{death.member} {reason} at second {death.second}; choose another second")


def _is_news(event: Event) -> bool:
    return bool(event.written_lines or event.late_responses) or event.response not in ("", "NONE")
