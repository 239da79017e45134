"""Lesson 06: two members of a group on a time axis, the group's state, its log, and what a failover loses.

The figure sends the requests of a script (scripts.py) to a coordinator with the rules of Kafka 3.9. Sessions last ten
seconds instead of the default of 45, so that they fit on the axis. After each event, a follower loads the log, as the
next coordinator would after a failover.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.coordinator.clock import Timer
from kafkagroups.course.broker import start_follower
from kafkagroups.course.figures.figure import Content, Control, Figure, FreeInput
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone, measure_text
from kafkagroups.course.group_events import Event, format_count
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.scripts import (
    TWO_CONSUMERS,
    ScriptRequest,
    continue_after_crash,
    describe_group,
    list_losses,
)
from kafkagroups.errors import UsageError
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import decode

_SESSION_S = 10
_MEMBERS = ("billing-1", "billing-2")
_HEIGHT = 328
_LEFT = 128
_SECOND_WIDTH = 15
_LAST_SECOND = 28
_AXIS_BASE = 72
_BAND_TOP = 80
_LANE_TOPS = (106, 156)
_LEGEND_BASE = 216
_LOG_TOP = 224
_FAILOVER_TOP = 276
_SIZE = 11
_LETTER_WIDTH = 11
_RECORD_WIDTH = 62
_FAILOVER_COLUMNS = 80
_LETTERS = {"JoinGroup": "J", "SyncGroup": "S", "Heartbeat": "H", "OffsetCommit": "C", "LeaveGroup": "L"}
_LEGEND = "J Join   S Sync   H Heartbeat   C Commit   L Leave   dashed: error"
_STATE_WORDS = {
    "PreparingRebalance": "Preparing",
    "CompletingRebalance": "Completing",
    "Stable": "Stable",
    "Empty": "Empty",
}
_STATE_TONES = {"Stable": Tone.LIVE, "PreparingRebalance": Tone.WAIT, "CompletingRebalance": Tone.WAIT}
_DEATH = re.compile(r"\s*(?P<member>billing-[12])\s+at\s+(?P<second>[0-9]{1,3})\s*")
_LAST_TYPED_SECOND = 15


@dataclass(frozen=True)
class Death:
    """A member sends nothing more. Exactly one of `step` and `second` is given.

    Attributes
    ----------
    member
        The member's name.
    step
        The number of the last step of the script before the death, from 1.
    second
        The second of the death. The requests of this second are still sent.
    """

    member: str
    step: int | None = None
    second: int | None = None

    @property
    def words(self) -> str:
        """The words of the control."""
        time = f"at second {self.second}" if self.step is None else f"after event {self.step}"
        return f"{self.member} dies {time}"


_DEATHS = (
    None,
    Death("billing-1", step=8),
    Death("billing-1", step=12),
    Death("billing-2", step=7),
    Death("billing-2", step=15),
)


@dataclass(frozen=True)
class _Lane:
    """What the coordinator has about one member.

    Attributes
    ----------
    status
        One or two words about the member.
    is_leader
        Whether the member leads the group.
    session_end_s
        The second at which the member's session ends, or None if no session runs.
    is_member
        Whether the coordinator has the member or its member id.
    """

    status: str
    is_leader: bool
    session_end_s: float | None
    is_member: bool


@dataclass(frozen=True)
class _Moment:
    """The group after an event.

    Attributes
    ----------
    action
        The request and its response, or what happened without a request.
    late
        The late responses that arrived.
    explanation
        A sentence about the event.
    events
        All events until now.
    written
        The records in the log, one entry for each append.
    loaded, lost
        What the next coordinator would load, and what a failover would lose.
    """

    time_s: float
    action: str
    late: tuple[str, ...]
    explanation: str
    state: str
    generation: int
    lanes: tuple[_Lane, ...]
    events: tuple[Event, ...]
    written: tuple[tuple[str, ...], ...]
    loaded: str
    lost: str


class RebalanceLanes(Figure):
    """A rebalance of two members on a time axis. The reader places the death of a member."""

    def __init__(self) -> None:
        super().__init__(_make_content(_DEATHS))

    def compute_content(self, value: str) -> Content:
        """Return the content with a death that the reader typed as "billing-1 at 9"."""
        match = _DEATH.fullmatch(value)
        if match is None:
            raise UsageError(f"expected a member and a second, for example 'billing-1 at 9'; found {value[:40]!r}")
        death = Death(match["member"], second=int(match["second"]))
        if int(match["second"]) > _LAST_TYPED_SECOND:
            raise UsageError(f"the script ends at second {_LAST_TYPED_SECOND}; found second {match['second']}")
        return _make_content((death, *_DEATHS))


def _make_content(deaths: Sequence[Death | None]) -> Content:
    stories = [list(_tell(death)) for death in deaths]
    step_count = max(map(len, stories))
    scenes: dict[tuple[int, ...], Scene] = {}
    for number, (death, moments) in enumerate(zip(deaths, stories, strict=True)):
        for step in range(step_count):
            is_past_end = step >= len(moments)
            last = min(step, len(moments) - 1)
            scenes[step, number] = _draw(moments[: last + 1], death, is_past_end)
    controls = (
        Control("event", "event", tuple(f"event {step + 1}" for step in range(step_count))),
        Control(
            "death", "death", tuple(death.words if death else "no one dies" for death in deaths), is_sequence=False
        ),
    )
    title = f"A rebalance of billing (sessions of {_SESSION_S} seconds)"
    return Content(title, _HEIGHT, controls, scenes, FreeInput("place a death", "billing-1 at 9"))


# The story


def _tell(death: Death | None) -> Iterator[_Moment]:
    """Yield a moment for each request of the script, and after the death for each change of the group."""
    life = GroupLife("billing", verbose=False)
    for number, request in enumerate(TWO_CONSUMERS, 1):
        if death and death.second is not None and life.now_s + request.delay_s > death.second:
            break
        state_before = life.read_state()
        _send(life, request)
        yield _take_moment(life, state_before, None)
        if death and number == death.step:
            break
    if death is None:
        return
    if death.second is not None:
        life.coordinator.clock.advance_to(life.start_ms + death.second * 1000)
    _check_member(life, death)
    dead = death.member
    yield _take_moment(life, life.read_state(), dead, is_death=True)
    state_before = life.read_state()
    event_count = len(life.events)
    for _ in continue_after_crash(life, dead):
        new_events = life.events[event_count:]
        is_news = life.read_state() != state_before or any(_is_news(event) for event in new_events)
        if is_news:
            yield _take_moment(life, state_before, dead)
        state_before = life.read_state()
        event_count = len(life.events)


def _send(life: GroupLife, request: ScriptRequest) -> None:
    """Advance the clock by the request's delay, and send the request. Members join with short sessions."""
    life.coordinator.clock.advance(round(request.delay_s * 1000))
    if request.method == "join":
        life.join(*request.arguments, session_s=_SESSION_S)
    else:
        getattr(life, request.method)(*request.arguments)


def _check_member(life: GroupLife, death: Death) -> None:
    """Raise UsageError if the member cannot die, because it has not joined yet or has left."""
    if death.member in life.consumers:
        return
    names = [event.client for event in life.events]
    reason = "has already left" if death.member in names else "has not joined yet"
    raise UsageError(f"{death.member} {reason} at second {death.second}; choose another second")


def _is_news(event: Event) -> bool:
    """Return whether an event without a change of the group is shown after a death."""
    is_plain = event.response in ("", "NONE")
    return bool(event.written_lines or event.late_responses) or not is_plain


def _take_moment(
    life: GroupLife, state_before: tuple[str, int, tuple[str, ...]], dead: str | None, *, is_death: bool = False
) -> _Moment:
    event = life.events[-1]
    follower = start_follower(life.coordinator, life.group_id)
    loaded = follower.manager.get_group(life.group_id)
    state, generation, members = life.read_state()
    removed = sorted(set(state_before[2]) - set(members))
    if is_death:
        action = f"{dead} dies: it sends nothing more"
        explanation = "The coordinator cannot notice it. It keeps the member until the session ends."
        member = life.group.members.get(life.consumers[dead].member_id) if life.group and dead else None
        if member is not None and member.awaiting_join:
            explanation = (
                "The coordinator cannot notice it. While a JoinGroup waits, no session runs. The session starts at the "
                "end of the join phase."
            )
    else:
        action = _name_action(event, removed)
        explanation = _explain(event, state_before, life, removed)
    losses = list_losses(life.group, loaded, life)
    nothing = "nothing, but every session starts again" if loaded and loaded.members else "nothing"
    return _Moment(
        life.now_s,
        action,
        () if is_death else event.late_responses,
        explanation,
        state,
        generation,
        tuple(_read_lane(life, name, dead) for name in _MEMBERS),
        tuple(life.events),
        tuple(_list_appends(life.coordinator, life.group_id)),
        describe_group(loaded),
        ", ".join(losses) or nothing,
    )


def _name_action(event: Event, removed: Sequence[str]) -> str:
    if event.client:
        return f"{event.client}: {event.request} → {event.response}"
    if removed:
        return f"the session of {_name_member(removed[0])} ends"
    return event.request.removeprefix("… ")


def _name_member(member_id: str) -> str:
    """Return the name of a member. Its id is the name and a number."""
    return next(name for name in _MEMBERS if member_id.startswith(name))


def _read_lane(life: GroupLife, name: str, dead: str | None) -> _Lane:
    group = life.group
    consumer = life.consumers.get(name)
    member_id = consumer.member_id if consumer else ""
    has_been_there = any(event.client == name for event in life.events)
    if group is not None and member_id in group.pending_members:
        return _Lane("has only an id", False, None, True)
    if group is None or member_id not in group.members:
        gone = "removed" if name == dead else "left"
        return _Lane(gone if has_been_there else "", False, None, False)
    member = group.members[member_id]
    is_leader = member_id == group.leader
    if member.awaiting_join:
        return _Lane("JoinGroup waits", is_leader, None, True)
    if member.awaiting_sync:
        return _Lane("SyncGroup waits", is_leader, None, True)
    timer = member.session_timer
    assert isinstance(timer, Timer)
    end_s = (timer.due_ms - life.start_ms) / 1000
    return _Lane(f"session to {end_s:g} s", is_leader, end_s, True)


def _list_appends(coordinator: GroupCoordinator, group: str) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a box for each append to the log."""
    manager = coordinator.manager
    for batch in manager.logs.read(manager.partition_for(group)):
        records = [decode(record.key, record.value) for record in batch.records]
        first = records[0]
        if isinstance(first.value, GroupMetadataValue):
            count = len(first.value.members)
            yield f"gen {first.value.generation}", f"{count} {'member' if count == 1 else 'members'}"
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


def _explain(
    event: Event, state_before: tuple[str, int, tuple[str, ...]], life: GroupLife, removed: Sequence[str]
) -> str:
    """Return a sentence about what an event did, from its request and its response."""
    request = event.request.split()[0].removesuffix(",")
    state, generation, members = life.read_state()
    if not event.client:
        if removed:
            name = _name_member(removed[0])
            is_answered = bool(event.late_responses)
            begin = "A rebalance begins. The other member learns of it with its next request."
            next_step = {
                "PreparingRebalance": "A rebalance begins, and the waiting SyncGroup is answered."
                if is_answered
                else begin,
                "CompletingRebalance": f"The join phase no longer waits for it, so generation {generation} begins.",
            }.get(state, "The group has no member now.")
            return f"{name} gave no sign of life for {_SESSION_S} seconds, so the coordinator removes it. {next_step}"
        return f"The join phase is over, and generation {generation} begins. It is only in memory."
    if request == "JoinGroup":
        if event.response.startswith("MEMBER_ID_REQUIRED"):
            return "The coordinator gives the client a member id. Only a JoinGroup with this id makes it a member."
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


# The picture


def _draw(moments: list[_Moment], death: Death | None, is_past_end: bool) -> Scene:
    """Return the scene of the last of the moments."""
    moment = moments[-1]
    state = "Dead: the group does not exist"
    if moment.state != "Dead":
        count = sum(lane.is_member and lane.status != "has only an id" for lane in moment.lanes)
        state = f"{moment.state}, generation {moment.generation}, {format_count(count, 'member')}"
    marks: list[Mark] = [
        Label("time", 4, 16, f"{moment.time_s:g} s", size=13, is_bold=True),
        Label("state", _LEFT, 16, state, size=13, is_bold=True),
        Label("action", 4, 34, moment.action, tone=Tone.NEW, size=_SIZE),
    ]
    if moment.late:
        marks.append(Label("late", 4, 48, moment.late[0], tone=Tone.NEW, size=_SIZE))
    marks += _draw_axis(moment.time_s)
    marks += _draw_band(moments)
    death_s = _find_death_time(moments, death)
    for number, name in enumerate(_MEMBERS):
        is_dead = death is not None and death.member == name
        marks += _draw_lane(number, moments, death_s if is_dead else None)
    marks.append(Label("legend", 4, _LEGEND_BASE, _LEGEND, tone=Tone.MUTED, size=_SIZE))
    marks += _draw_log(moments)
    loaded = f"the next coordinator loads: {moment.loaded}"
    is_lost = not moment.lost.startswith("nothing")
    lost_lines = wrap(f"lost: {moment.lost}", _FAILOVER_COLUMNS)
    marks += [
        Label("failover title", 4, _FAILOVER_TOP - 4, "if the coordinator dies now:", size=_SIZE, is_bold=True),
        Box(
            "failover",
            4,
            _FAILOVER_TOP,
            552,
            48,
            (loaded, *lost_lines),
            Tone.WAIT if is_lost else Tone.PLAIN,
            _SIZE,
            is_dashed=is_lost,
        ),
    ]
    text = [
        f"time: {moment.time_s:g} s",
        f"state: {state}",
        f"event: {moment.action}",
        *(f"late response: {late}" for late in moment.late[:1]),
        *(
            f"{name}: {_name_status(number, moments)}"
            for number, name in enumerate(_MEMBERS)
            if _joins(number, moments)
        ),
        *(f"append {number}, {lines[0]}: {lines[1]}" for number, lines in enumerate(moment.written)),
        f"the next coordinator loads: {moment.loaded}",
        f"a failover loses {moment.lost}",
    ]
    caption = "After this, nothing changes any more." if is_past_end else moment.explanation
    return Scene(tuple(marks), caption, tuple(text))


def _find_x(second: float) -> float:
    return _LEFT + min(second, _LAST_SECOND) * _SECOND_WIDTH


def _find_death_time(moments: list[_Moment], death: Death | None) -> float | None:
    if death is None:
        return None
    return next((moment.time_s for moment in moments if moment.action.startswith(f"{death.member} dies")), None)


def _draw_axis(now_s: float) -> list[Mark]:
    marks: list[Mark] = []
    for second in range(0, _LAST_SECOND + 1, 5):
        x = _find_x(second)
        marks.append(Label(f"second {second}", x, _AXIS_BASE, f"{second} s", "middle", Tone.MUTED, _SIZE))
    x = _find_x(now_s)
    marks.append(Arrow("now", x, _AXIS_BASE + 4, x, _LANE_TOPS[1] + 44, Tone.NEW, has_head=False))
    return marks


def _draw_band(moments: list[_Moment]) -> list[Mark]:
    """Return a box for each time in which the group did not change its state."""
    marks: list[Mark] = [Label("band title", 4, _BAND_TOP + 15, "state", is_bold=True)]
    now_s = moments[-1].time_s
    start = 0
    for number, moment in enumerate(moments):
        is_last = number == len(moments) - 1
        if not is_last and moments[number + 1].state == moment.state:
            continue
        start_s = moments[start].time_s
        end_s = now_s if is_last else moments[number + 1].time_s
        start = number + 1
        if moment.state == "Dead" or (end_s == start_s and not is_last):
            continue
        width = max(_find_x(end_s) - _find_x(start_s), 4)
        words = _STATE_WORDS[moment.state]
        fitting = [text for text in (words, words[:4]) if measure_text(text, _SIZE) <= width]
        lines = tuple(fitting[:1])
        tone = _STATE_TONES.get(moment.state, Tone.PLAIN)
        marks.append(Box(f"band {number}", _find_x(start_s), _BAND_TOP, width, 20, lines, tone, _SIZE))
    return marks


def _draw_lane(number: int, moments: list[_Moment], death_s: float | None) -> list[Mark]:
    """Return a member's name and status, its time in the group, its requests, and its session."""
    name = _MEMBERS[number]
    top = _LANE_TOPS[number]
    moment = moments[-1]
    lane = moment.lanes[number]
    title = f"{name}, leads" if lane.is_leader else name
    marks: list[Mark] = [
        Label(f"name {name}", 4, top + 13, title, is_bold=True),
        Label(f"status {name}", 4, top + 32, _name_status(number, moments), size=_SIZE),
        Box(f"lane {name}", _LEFT, top, _LAST_SECOND * _SECOND_WIDTH, 44, tone=Tone.MUTED),
    ]
    if _joins(number, moments):
        x = _find_x(next(earlier.time_s for earlier in moments if earlier.lanes[number].is_member))
        width = max(_find_x(_find_end(number, moments)) - x, 4)
        tone = Tone.LIVE if lane.is_member else Tone.DEAD
        marks.append(Box(f"present {name}", x, top + 20, width, 6, tone=tone))
    if lane.session_end_s is not None:
        x = _find_x(lane.session_end_s - _SESSION_S)
        width = _find_x(lane.session_end_s) - x
        words = f"session to {lane.session_end_s:g} s"
        lines = (words,) if measure_text(words, _SIZE) <= width else ()
        marks.append(Box(f"session {name}", x, top + 27, width, 16, lines, Tone.WAIT, _SIZE, is_dashed=True))
    marks += _draw_requests(name, moment.events, top, death_s)
    return marks


def _joins(number: int, moments: list[_Moment]) -> bool:
    """Return whether the member has been in the group until now."""
    return any(moment.lanes[number].is_member for moment in moments)


def _find_end(number: int, moments: list[_Moment]) -> float:
    """Return the second at which the member left or was removed. While it is in the group, it is the current second."""
    end_s = moments[-1].time_s
    for moment in reversed(moments):
        if moment.lanes[number].is_member:
            break
        end_s = moment.time_s
    return end_s


def _name_status(number: int, moments: list[_Moment]) -> str:
    lane = moments[-1].lanes[number]
    if lane.is_member or not lane.status:
        return lane.status
    return f"{lane.status} at {_find_end(number, moments):g} s"


def _draw_requests(name: str, events: tuple[Event, ...], top: float, death_s: float | None) -> list[Mark]:
    """Return a letter for each request of a member, and its death, at its time or after the previous letter."""
    marks: list[Mark] = []
    free_x = 0.0
    for number, event in enumerate(events):
        letter = _LETTERS.get(event.request.split()[0].removesuffix(","))
        if event.client != name or letter is None:
            continue
        x = max(_find_x(event.time_s), free_x)
        free_x = x + _LETTER_WIDTH + 1
        is_refused = event.response.startswith(("MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "UNKNOWN"))
        tone = Tone.NEW if number == len(events) - 1 else Tone.PLAIN
        marks.append(
            Box(f"request {number}", x, top + 2, _LETTER_WIDTH, 16, (letter,), tone, _SIZE, is_dashed=is_refused)
        )
    if death_s is not None:
        x = max(_find_x(death_s), free_x)
        marks.append(Box(f"death {name}", x, top + 2, 36, 16, ("dies",), Tone.ERROR, _SIZE, is_bold=True))
    return marks


def _draw_log(moments: list[_Moment]) -> list[Mark]:
    """Return a box for each append to the log. The appends of the last event are marked."""
    written = moments[-1].written
    before = len(moments[-2].written) if len(moments) > 1 else 0
    marks: list[Mark] = [Label("log title", 4, _LOG_TOP + 20, "log", is_bold=True)]
    for number, lines in enumerate(written):
        tone = Tone.NEW if number >= before else Tone.PLAIN
        x = 44 + number * (_RECORD_WIDTH + 2)
        marks.append(Box(f"append {number}", x, _LOG_TOP, _RECORD_WIDTH, 32, lines, tone, _SIZE))
    return marks
