"""Lesson 06: two members of a group on a time axis, the group's state, its log, and what a failover loses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap

from kafkagroups.course.figures.figure import Content, Control, Figure, FreeInput
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone, measure_text
from kafkagroups.course.figures.rebalance_moments import MEMBERS, SESSION_S, Moment
from kafkagroups.course.figures.rebalance_run import Death, run_group
from kafkagroups.course.script_events import Event, format_count
from kafkagroups.errors import UsageError

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
_DEATHS = (
    None,
    Death("billing-1", step=8),
    Death("billing-1", step=12),
    Death("billing-2", step=7),
    Death("billing-2", step=15),
)


class RebalanceLanes(Figure):
    """A rebalance of two members on a time axis. The reader places the death of a member."""

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
    stories = [list(run_group(death)) for death in deaths]
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
    title = f"A rebalance of billing (sessions of {SESSION_S} seconds)"
    return Content(title, _HEIGHT, controls, scenes, FreeInput("place a death", "billing-1 at 9"))


def _draw(moments: list[Moment], death: Death | None, is_past_end: bool) -> Scene:
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
    for number, name in enumerate(MEMBERS):
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
        *(f"{name}: {_name_status(number, moments)}" for number, name in enumerate(MEMBERS) if _joins(number, moments)),
        *(f"append {number}, {lines[0]}: {lines[1]}" for number, lines in enumerate(moment.written)),
        f"the next coordinator loads: {moment.loaded}",
        f"a failover loses {moment.lost}",
    ]
    caption = "After this, nothing changes any more." if is_past_end else moment.explanation
    return Scene(tuple(marks), caption, tuple(text))


def _find_x(second: float) -> float:
    return _LEFT + min(second, _LAST_SECOND) * _SECOND_WIDTH


def _find_death_time(moments: list[Moment], death: Death | None) -> float | None:
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


def _draw_band(moments: list[Moment]) -> list[Mark]:
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


def _draw_lane(number: int, moments: list[Moment], death_s: float | None) -> list[Mark]:
    name = MEMBERS[number]
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
        x = _find_x(lane.session_end_s - SESSION_S)
        width = _find_x(lane.session_end_s) - x
        words = f"session to {lane.session_end_s:g} s"
        lines = (words,) if measure_text(words, _SIZE) <= width else ()
        marks.append(Box(f"session {name}", x, top + 27, width, 16, lines, Tone.WAIT, _SIZE, is_dashed=True))
    marks += _draw_requests(name, moment.events, top, death_s)
    return marks


def _joins(number: int, moments: list[Moment]) -> bool:
    return any(moment.lanes[number].is_member for moment in moments)


def _find_end(number: int, moments: list[Moment]) -> float:
    end_s = moments[-1].time_s
    for moment in reversed(moments):
        if moment.lanes[number].is_member:
            break
        end_s = moment.time_s
    return end_s


def _name_status(number: int, moments: list[Moment]) -> str:
    lane = moments[-1].lanes[number]
    if lane.is_member or not lane.status:
        return lane.status
    return f"{lane.status} at {_find_end(number, moments):g} s"


def _draw_requests(name: str, events: tuple[Event, ...], top: float, death_s: float | None) -> list[Mark]:
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


def _draw_log(moments: list[Moment]) -> list[Mark]:
    written = moments[-1].written
    before = len(moments[-2].written) if len(moments) > 1 else 0
    marks: list[Mark] = [Label("log title", 4, _LOG_TOP + 20, "log", is_bold=True)]
    for number, lines in enumerate(written):
        tone = Tone.NEW if number >= before else Tone.PLAIN
        x = 44 + number * (_RECORD_WIDTH + 2)
        marks.append(Box(f"append {number}", x, _LOG_TOP, _RECORD_WIDTH, 32, lines, tone, _SIZE))
    return marks
