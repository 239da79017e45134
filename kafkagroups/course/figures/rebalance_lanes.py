"""Lesson 06: two members of a group on a time axis, the group's state, its log, and what a failover loses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from textwrap import wrap

from kafkagroups.course.figures.figure import Content, Control, Figure, FreeInput
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone, fit_words
from kafkagroups.course.figures.rebalance_moments import MEMBERS, SESSION_S, Death, Moment, run_group
from kafkagroups.course.group_life import format_count
from kafkagroups.errors import UsageError

_HEIGHT = 300
_LEFT = 124
_SLOT_WIDTH = 20.5
_SLOT_COUNT = 21
_BAND_TOP = 58
_LANE_TOPS = (86, 138)
_LANE_HEIGHT = 44
_AXIS_BASE = 197
_LOG_TOP = 226
_LEGEND_BASE = 277
_SIZE = 11
_RECORD_WIDTH = 59
_PADDING = 6
_FAILOVER_COLUMNS = 78
_LETTERS = {"JoinGroup": "J", "SyncGroup": "S", "Heartbeat": "H", "OffsetCommit": "C", "LeaveGroup": "L"}
_LEGENDS = (
    "Em Empty   Pr PreparingRebalance   Co CompletingRebalance   St Stable",
    "J Join   S Sync   H Heartbeat   C Commit   L Leave   dashed: error",
)
_REFUSALS = ("MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "UNKNOWN")
_STATE_TONES = {"Stable": Tone.LIVE, "PreparingRebalance": Tone.WAIT, "CompletingRebalance": Tone.WAIT}
_DEATH = re.compile(r"\s*(?P<member>billing-[12])\s+at\s+(?P<second>[0-9]{1,3})\s*")
_LAST_TYPED_SECOND = 15
_DYING = (("billing-1", 8), ("billing-1", 12), ("billing-2", 7), ("billing-2", 15))
_DEATHS = (None, *(Death(member, step) for member, step in _DYING))


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
        Control("event", "event", events, initial=7),
        Control("death", "death", names, is_sequence=False, jumps=jumps, is_answer=True),
        Control("failover", "the coordinator", ("stays", "dies after this event"), is_sequence=False),
    )

    def draw(step: int, number: int, failover: int) -> Scene:
        return _draw(stories[number], step, moments_of_death[number], is_failover=failover == 1)

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


def _draw(story: list[Moment], step: int, moment_of_death: int | None, *, is_failover: bool) -> Scene:
    is_past_end = step >= len(story)
    moments = story[: step + 1]
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
    marks += _draw_band(moments, is_lost=is_failover)
    text = [f"time: {moment.time_s:g} s", f"state: {state}", f"event: {moment.action}"]
    text += [f"late response: {late}" for late in moment.late[:1]]
    if is_failover:
        marks += _draw_failover(moment)
        text += [f"the next coordinator loads: {moment.loaded}", f"a failover loses {moment.lost}"]
    else:
        for number, name in enumerate(MEMBERS):
            marks += _draw_lane(number, story, moments, moment_of_death)
            text += [f"{name}: {_name_status(number, moments)}"] if _joins(number, moments) else []
        marks += _draw_axis(story, len(moments))
    for line, legend in enumerate(_LEGENDS):
        marks.append(Label(f"legend {line}", 4, _LEGEND_BASE + line * 16, legend, tone=Tone.MUTED, size=_SIZE))
    marks += _draw_log(moments)
    text += [f"append {number}, {lines[0]}: {lines[1]}" for number, lines in enumerate(moment.written)]
    place = "nothing changes any more" if is_past_end else moment.action
    caption = "After this, nothing changes any more." if is_past_end else moment.explanation
    if is_failover:
        caption = "The coordinator dies, and its memory is lost. The next one has only the log."
    return Scene(tuple(marks), caption, tuple(text), place)


def _find_x(slot: int) -> float:
    return _LEFT + min(slot, _SLOT_COUNT) * _SLOT_WIDTH


def _find_slot(story: list[Moment], second: float) -> int:
    return next((slot for slot, moment in enumerate(story) if moment.time_s >= second), _SLOT_COUNT)


def _draw_axis(story: list[Moment], slot_count: int) -> Iterator[Mark]:
    yield Label("axis", 4, _AXIS_BASE, "s (not to scale)", tone=Tone.MUTED, size=_SIZE)
    for slot, moment in enumerate(story):
        if slot == 0 or story[slot - 1].time_s != moment.time_s:
            x = _find_x(slot) + _SLOT_WIDTH / 2
            yield Label(f"second {slot}", x, _AXIS_BASE, f"{moment.time_s:g}", "middle", Tone.MUTED, _SIZE)
    x = min(_find_x(slot_count), _find_x(_SLOT_COUNT) - 2)
    yield Arrow("now", x, _BAND_TOP, x, _AXIS_BASE + 3, Tone.NEW, has_head=False)


def _draw_band(moments: list[Moment], *, is_lost: bool) -> Iterator[Mark]:
    yield Label("band title", 4, _BAND_TOP + 15, "state", is_bold=True)
    start = 0
    for state, group in groupby(moments, lambda moment: moment.state):
        count = len(list(group))
        width = count * _SLOT_WIDTH
        if state != "Dead":
            lines = fit_words(width - _PADDING, _SIZE, state.removesuffix("Rebalance"), state[:2])
            tone = Tone.DEAD if is_lost else _STATE_TONES.get(state, Tone.PLAIN)
            yield Box(f"band {start}", _find_x(start), _BAND_TOP, width, 20, lines, tone, _SIZE, is_gone=is_lost)
        start += count


def _draw_failover(moment: Moment) -> Iterator[Mark]:
    is_lost = not moment.lost.startswith("nothing")
    lost = ("lost with the memory:", *wrap(moment.lost, _FAILOVER_COLUMNS))
    tone = Tone.ERROR if is_lost else Tone.PLAIN
    loaded = ("the next coordinator loads:", moment.loaded)
    yield Box("lost", 4, _LANE_TOPS[0], 552, _LANE_HEIGHT, lost, tone, _SIZE, is_dashed=is_lost)
    yield Box("loaded", 4, _LANE_TOPS[1], 552, _LANE_HEIGHT, loaded, Tone.LIVE, _SIZE)
    yield Arrow("load", 60, _LOG_TOP - 2, 60, _LANE_TOPS[1] + _LANE_HEIGHT + 2, Tone.LIVE)


def _draw_lane(number: int, story: list[Moment], moments: list[Moment], moment_of_death: int | None) -> Iterator[Mark]:
    name = MEMBERS[number]
    top = _LANE_TOPS[number]
    lane = moments[-1].lanes[number]
    title = f"{name} leads" if lane.is_leader else name
    yield Label(f"name {name}", 4, top + 15, title, is_bold=True)
    yield Label(f"status {name}", 4, top + 34, _name_status(number, moments), size=_SIZE)
    yield Box(f"lane {name}", _LEFT, top, _SLOT_COUNT * _SLOT_WIDTH, _LANE_HEIGHT, tone=Tone.MUTED)
    there = [slot for slot, moment in enumerate(moments) if moment.lanes[number].is_member]
    if there:
        x = _find_x(there[0])
        width = _find_x(there[-1] + 1) - x
        tone = Tone.PLAIN if lane.is_member else Tone.DEAD
        yield Box(f"present {name}", x, top + 20, width, 6, tone=tone, hue=name)
    if lane.session_end_s is not None:
        x = _find_x(min(_find_slot(story, lane.session_end_s - SESSION_S), len(moments) - 1))
        width = _find_x(_find_slot(story, lane.session_end_s)) - x
        lines = fit_words(width - _PADDING, _SIZE, f"session to {lane.session_end_s:g} s")
        yield Box(f"session {name}", x, top + 27, width, 16, lines, Tone.WAIT, _SIZE, is_dashed=True)
    yield from _draw_requests(name, moments, top)
    death = story[moment_of_death] if moment_of_death is not None else None
    if moment_of_death is not None and death in moments and story[moment_of_death].action.startswith(name):
        x = _find_x(moment_of_death)
        yield Box(f"death {name}", x, top + 2, 34, 16, ("dies",), Tone.ERROR, _SIZE, is_bold=True)


def _joins(number: int, moments: list[Moment]) -> bool:
    return any(moment.lanes[number].is_member for moment in moments)


def _name_status(number: int, moments: list[Moment]) -> str:
    lane = moments[-1].lanes[number]
    if lane.is_member or not lane.status:
        return lane.status
    end_s = next(later.time_s for earlier, later in reversed([*pairwise(moments)]) if earlier.lanes[number].is_member)
    return f"{lane.status} at {end_s:g} s"


def _draw_requests(name: str, moments: list[Moment], top: float) -> Iterator[Mark]:
    seen = 0
    for slot, moment in enumerate(moments):
        sent = [event for event in moment.events[seen:] if event.client == name]
        seen = len(moment.events)
        if not sent:
            continue
        letter = _LETTERS[sent[-1].request.split()[0].removesuffix(",")]
        words = letter if len(sent) == 1 else f"{len(sent)}{letter}"
        is_refused = sent[-1].response.startswith(_REFUSALS)
        tone = Tone.NEW if slot == len(moments) - 1 else Tone.PLAIN
        x = _find_x(slot) + 2
        width = _SLOT_WIDTH - 4
        yield Box(f"request {slot}", x, top + 2, width, 16, (words,), tone, _SIZE, is_dashed=is_refused, hue=name)


def _draw_log(moments: list[Moment]) -> Iterator[Mark]:
    """A record comes from the request that it was written for."""
    yield Label("log title", 4, _LOG_TOP - 6, "log", is_bold=True)
    for number, lines in enumerate(moments[-1].written):
        slot = next(slot for slot, moment in enumerate(moments) if len(moment.written) > number)
        tone = Tone.NEW if slot == len(moments) - 1 else Tone.PLAIN
        x = 4 + number * (_RECORD_WIDTH + 2.5)
        origin = f"request {slot}"
        yield Box(f"append {number}", x, _LOG_TOP, _RECORD_WIDTH, 32, lines, tone, _SIZE, origin=origin)
