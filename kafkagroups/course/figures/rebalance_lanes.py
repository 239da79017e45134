"""Lesson 06: two members of a group on a time axis, the group's state, its log, and what a failover loses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from textwrap import wrap
from typing import Any

from kafkagroups.course.figures.figure import Content, Control, Figure, FreeInput
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone, fit_words, measure_text
from kafkagroups.course.figures.rebalance_moments import MEMBERS, SESSION_S, Death, Moment, run_group
from kafkagroups.course.group_life import format_count
from kafkagroups.errors import UsageError

_HEIGHT = 346
_EDGE = 4
_LEFT = 80
_WIDTH = 476
_EVENT_S = 0.34
_GROUP_TOP = 46
_LANE_TOPS = (86, 175)
_LANE_HEIGHT = 48
_ROW = 16
_AXIS_BASE = 260
_LOG_TOP = 290
_SIZE = 11
_RECORD_DISTANCE = 61.5
_PADDING = 3
_SIGNS = {"Heartbeat": "♥", "OffsetCommit": "●"}
_LEGEND = "0 1 2: partitions   ♥ heartbeat   ● commit   ○ refused"
_STATE_WORDS = {"Stable": "stable", "Empty": "empty", "Dead": ""}
_STATE_TONES = {"stable": Tone.LIVE, "rebalance": Tone.WAIT}
_DEATH = re.compile(r"\s*(?P<member>billing-[12])\s+at\s+(?P<second>[0-9]{1,3})\s*")
_LAST_TYPED_SECOND = 15
_DEATHS = (None, Death("billing-1", 8), Death("billing-1", 12), Death("billing-2", 7), Death("billing-2", 15))


class RebalanceLanes(Figure):
    def __init__(self) -> None:
        super().__init__(_make_content(_DEATHS))

    def compute_content(self, value: str) -> Content:
        """Return the content with a death that was typed as "billing-1 at 9"."""
        match = _DEATH.fullmatch(value)
        if match is None:
            raise UsageError(f"expected a member and a second, for example 'billing-1 at 9'; found {value[:40]!r}")
        death = Death(match["member"], second=int(match["second"]))
        if int(match["second"]) > _LAST_TYPED_SECOND:
            raise UsageError(f"the script ends at second {_LAST_TYPED_SECOND}; found second {match['second']}")
        return _make_content((death, *_DEATHS))


def _make_content(deaths: Sequence[Death | None]) -> Content:
    stories = list(map(run_group, deaths))
    events = tuple(f"event {number}" for number in range(1, max(map(len, stories)) + 1))
    moments_of_death = [_find_death(story, death) for story, death in zip(stories, deaths, strict=True)]
    names = tuple(map(_name_death, stories, moments_of_death))
    jumps = tuple(None if moment is None else ("event", moment) for moment in moments_of_death)
    controls = (
        Control("event", "event", events, initial=15),
        Control("death", "death", names, is_sequence=False, jumps=jumps, is_answer=True),
        Control("failover", "the coordinator", ("stays", "dies after this event"), is_sequence=False),
    )

    def draw(step: int, number: int, failover: int) -> Scene:
        return _draw(stories[number], step, is_failover=failover == 1)

    title = f"A rebalance of billing (sessions of {SESSION_S} seconds)"
    return Content.draw(title, _HEIGHT, controls, draw, FreeInput("place a death", "billing-1 at 9"))


def _find_death(story: list[Moment], death: Death | None) -> int | None:
    if death is None:
        return None
    return next(number for number, moment in enumerate(story) if moment.action.startswith(f"{death.member} dies"))


def _name_death(story: list[Moment], moment_of_death: int | None) -> str:
    if moment_of_death is None:
        return "no one dies"
    moment = story[moment_of_death]
    last = next(event for event in reversed(moment.events) if event.client)
    member = moment.action.partition(" ")[0]
    whose = "its" if last.client == member else f"{last.client}'s"
    request = last.request.split()[0].removesuffix(",")
    return f"{member} dies at {moment.time_s:g} s, after {whose} {request}"


def _draw(story: list[Moment], step: int, *, is_failover: bool) -> Scene:
    is_past_end = step >= len(story)
    moments = story[: step + 1]
    moment = moments[-1]
    state = "Dead: the group does not exist"
    if moment.state != "Dead":
        count = sum(lane.is_member and lane.status != "has only an id" for lane in moment.lanes)
        state = f"{moment.state}, generation {moment.generation}, {format_count(count, 'member')}"
    marks: list[Mark] = [
        Label("state", _EDGE, 16, f"{moment.time_s:g} s   {state}", size=13, is_bold=True, is_pinned=True),
        Label("action", _EDGE, 34, moment.action, tone=Tone.NEW, size=_SIZE, is_pinned=True),
    ]
    text = [f"time: {moment.time_s:g} s", f"state: {state}", f"event: {moment.action}"]
    if is_failover:
        marks += _draw_failover(moment)
        text += [f"the next coordinator loads: {moment.loaded}", f"a failover loses {moment.lost}"]
    else:
        scale = _Scale(story)
        marks += [*_draw_axis(scale, len(moments)), *_draw_group(scale, moments)]
        for number, name in enumerate(MEMBERS):
            marks += _draw_lane(scale, number, moments)
            if any(each.lanes[number].is_member for each in moments):
                text.append(f"{name}: {_name_status(number, moments)}")
        marks += _draw_names(moments)
        marks.append(Label("legend", _EDGE, _HEIGHT - 6, _LEGEND, tone=Tone.MUTED, size=_SIZE))
    marks += _draw_log(moments)
    text += [f"append {number}, {lines[0]}: {lines[1]}" for number, lines in enumerate(moment.written)]
    place = "nothing changes any more" if is_past_end else f"second {moment.time_s:g}"
    caption = "After this, nothing changes any more." if is_past_end else moment.explanation
    if is_failover:
        caption = "The coordinator dies, and its memory is lost. The next one has only the log."
    return Scene(tuple(marks), caption, tuple(text), place)


class _Scale:
    """The places of the events on the time axis. Events of the same second stand in their order.

    The axis goes on to the end of the last session.
    """

    def __init__(self, story: list[Moment]) -> None:
        times = [moment.time_s for moment in story]
        self.seconds = [time_s + times[:number].count(time_s) * _EVENT_S for number, time_s in enumerate(times)]
        session_ends = (lane.session_end_s or 0 for moment in story for lane in moment.lanes)
        self.span_s = max(times[-1] + 2, *session_ends)

    def find_x(self, second: float) -> float:
        return _LEFT + second / self.span_s * _WIDTH

    def find_event(self, number: int) -> float:
        return self.find_x(self.seconds[number])

    def find_now(self, count: int) -> float:
        return self.find_x(self.seconds[count - 1] + _EVENT_S)

    def list_spans(self, words: Sequence[str]) -> Iterator[tuple[int, float, float, str]]:
        """Yield each run of equal words: its first event, its place, its width and the words."""
        start = 0
        for word, group in groupby(words):
            end = start + len(list(group))
            x = self.find_event(start)
            right = self.find_event(end) if end < len(words) else self.find_now(len(words))
            if word:
                yield start, x, right - x, word
            start = end


def _draw_axis(scale: _Scale, count: int) -> Iterator[Mark]:
    for second in range(0, int(scale.span_s), 5):
        yield Label(f"second {second}", scale.find_x(second), _AXIS_BASE, f"{second} s", "middle", Tone.MUTED, _SIZE)
    x = scale.find_now(count)
    yield Arrow("now", x, _GROUP_TOP - 4, x, _AXIS_BASE - 12, Tone.NEW, has_head=False)


def _draw_group(scale: _Scale, moments: list[Moment]) -> Iterator[Mark]:
    states = [_STATE_WORDS.get(moment.state, "rebalance") for moment in moments]
    for start, x, width, word in scale.list_spans(states):
        lines = fit_words(width - _PADDING, _SIZE, word)
        yield Box(f"band {start}", x, _GROUP_TOP, width, 18, lines, _STATE_TONES.get(word, Tone.PLAIN), _SIZE)
        if word == "rebalance":
            yield Box(f"pause {start}", x, _GROUP_TOP + 22, width, 178, tone=Tone.WAIT)


def _draw_failover(moment: Moment) -> Iterator[Mark]:
    tone = Tone.LIVE if moment.lost.startswith("nothing") else Tone.ERROR
    lost = (54, tone, "lost with the coordinator's memory:", moment.lost)
    loaded = (138, Tone.LIVE, "the next coordinator reads the log:", moment.loaded)
    for top, tone, title, words in (lost, loaded):
        style: dict[str, Any] = {"is_dashed": tone is Tone.ERROR, "is_pinned": True}
        yield Box(f"part {top}", _EDGE, top, 306, 76, (title, *wrap(words, 40)), tone, **style)
    x = _EDGE + (len(moment.written) - 0.5) * _RECORD_DISTANCE
    yield Arrow("load", x, _LOG_TOP - 3, min(x, 290), 216)


def _draw_lane(scale: _Scale, number: int, moments: list[Moment]) -> Iterator[Mark]:
    """A member has a bar for each partition that it reads, so while it waits, its lane is empty."""
    name = MEMBERS[number]
    top = _LANE_TOPS[number]
    lane = moments[-1].lanes[number]
    _, *phases = accumulate(moments, lambda before, moment: _find_phase(number, moment, before), initial="")
    for start, x, width, phase in scale.list_spans(phases):
        style: dict[str, Any] = {"origin": f"request {start}" if start == len(moments) - 1 else "", "size": _SIZE}
        if phase in ("waits", "dead"):
            lines = fit_words(width - _PADDING, _SIZE, phase)
            style |= {"tone": Tone.ERROR, "is_gone": True} if phase == "dead" else {"tone": Tone.MUTED}
            yield Box(f"{name} {start}", x, top + 15, width, 18, lines, is_dashed=True, **style)
            continue
        for row in map(int, phase.split()):
            yield Box(f"{name} {start} {row}", x, top + 2 + _ROW * row, width, 12, hue=name, is_solid=True, **style)
    if lane.session_end_s is not None:
        x = scale.find_x(lane.session_end_s - SESSION_S)
        frame = (x, top + _LANE_HEIGHT + 2, scale.find_x(lane.session_end_s) - x, 15)
        yield Box(f"session {name}", *frame, (lane.status,), size=_SIZE, is_dashed=True, is_hollow=True)
    if moments[-1].action.startswith(f"{name} dies"):
        yield Box("death", scale.find_now(len(moments)) + 4, top + 14, 44, 20, ("dies",), Tone.ERROR, is_bold=True)
    yield from _draw_requests(scale, name, moments, top)


def _draw_names(moments: list[Moment]) -> Iterator[Mark]:
    """The cover hides what a narrow picture scrolls below the names."""
    yield Box("cover", 1, _GROUP_TOP - 1, 78, 202, tone=Tone.MUTED, is_hollow=True, is_pinned=True)
    yield Label("group", _EDGE, _GROUP_TOP + 14, "the group", is_bold=True, is_pinned=True)
    for number, (name, top, lane) in enumerate(zip(MEMBERS, _LANE_TOPS, moments[-1].lanes, strict=True)):
        status = _name_status(number, moments) if lane.session_end_s is None else "leads" * lane.is_leader
        lines = (name, *wrap(status, 9))
        yield Box(f"name {name}", _EDGE, top, 64, _LANE_HEIGHT, lines, size=_SIZE, hue=name, is_pinned=True)
        for row in range(3):
            yield Label(f"row {name} {row}", 70, top + 12 + _ROW * row, str(row), size=_SIZE, is_pinned=True)


def _find_phase(number: int, moment: Moment, before: str) -> str:
    """Return "waits" from a JoinGroup to the answer to the SyncGroup, and otherwise the partitions that it reads."""
    name = MEMBERS[number]
    event = moment.events[-1]
    if not moment.lanes[number].is_member:
        return ""
    if before == "dead" or moment.action.startswith(f"{name} dies"):
        return "dead"
    answers = [event.response] if event.client == name else []
    for answer in [*answers, *(late for late in event.late_responses if late.startswith(name))]:
        if "orders " in answer:
            return answer.rpartition("orders ")[2]
    return "waits" if event.client == name and event.request.startswith("JoinGroup") else before


def _name_status(number: int, moments: list[Moment]) -> str:
    lane = moments[-1].lanes[number]
    if lane.is_member or not lane.status:
        return lane.status
    end_s = next(later.time_s for earlier, later in reversed([*pairwise(moments)]) if earlier.lanes[number].is_member)
    return f"{lane.status} at {end_s:g} s"


def _draw_requests(scale: _Scale, name: str, moments: list[Moment], top: float) -> Iterator[Mark]:
    """The request of this moment has its verb. Of earlier ones only the heartbeats and the commits are left."""
    seen = 0
    for number, moment in enumerate(moments):
        for event in moment.events[seen:]:
            request = event.request.split()[0].removesuffix(",")
            seen += 1
            if event.client != name:
                continue
            is_refused = event.response.startswith(("MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "UNKNOWN"))
            if request in _SIGNS:
                x = scale.find_event(number) if event.time_s == moment.time_s else scale.find_x(event.time_s)
                sign = "○" if request == "OffsetCommit" and is_refused else _SIGNS[request]
                yield Label(f"sign {seen}", x, top - 4, sign)
            if number == len(moments) - 1 and event == moment.events[-1]:
                verb = request.removesuffix("Group").removeprefix("Offset").lower()
                verb = "assign" if "assignments" in event.request else verb
                width = measure_text(verb, 12) + 12
                x = min(scale.find_now(len(moments)) + 4, _LEFT + _WIDTH - width)
                style: dict[str, Any] = {"is_dashed": is_refused, "origin": f"name {name}"}
                yield Box(f"request {number}", x, top + 14, width, 20, (verb,), Tone.NEW, is_bold=True, **style)


def _draw_log(moments: list[Moment]) -> Iterator[Mark]:
    """A record comes from the request that it was written for."""
    yield Label("log title", _EDGE, _LOG_TOP - 7, "the log", is_bold=True, is_pinned=True)
    for number, lines in enumerate(moments[-1].written):
        slot = next(slot for slot, moment in enumerate(moments) if len(moment.written) > number)
        tone = Tone.NEW if slot == len(moments) - 1 else Tone.PLAIN
        x = _EDGE + number * _RECORD_DISTANCE
        yield Box(f"append {number}", x, _LOG_TOP, 59, 32, lines, tone, _SIZE, origin=f"request {slot}")
