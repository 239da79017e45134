"""Lesson 06: who reads, and what two members wait for, on one time axis, and what a failover loses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from textwrap import wrap
from typing import Any

from kafkagroups.course.figures import marks as mark_tools
from kafkagroups.course.figures.figure import Content, Control, Figure, FreeInput, Part
from kafkagroups.course.figures.marks import KEY, Arrow, Box, Label, Line, Mark, Scene, Tone, fit_words, measure_text
from kafkagroups.course.figures.rebalance_moments import MEMBERS, SESSION_S, Death, Moment, run_group
from kafkagroups.course.group_life import Event, format_count
from kafkagroups.errors import UsageError

_EDGE = 4
_LEFT = 90
_WIDTH = 466
_EVENT_S = 0.2
"""How far the events of the same second stand apart, as a part of the second's column."""
_EVENT_WIDTH = 8
_READERS_TOP = 2
_STATE_TOP = 30
_LANE_TOPS = (78, 132)
_ROW_HEIGHT = 24
_AXIS_BASE = 202
_LOG_TOP = 216
_BOTTOM = 242
_HEIGHT = 264
_SIZE = 12
_SMALL = 11
_GROW_S = 0.1
"""With it, a bar grows while the line of the time moves."""
_HUES = dict(zip(MEMBERS, ("kind-0", "kind-5"), strict=True))
_LEGEND = (
    *(Box(name, *KEY, hue=hue) for name, hue in _HUES.items()),
    Box("sign of life", 0, 0, 10, 10, hue="kind-0", is_solid=True),
    Box(f"session of {SESSION_S} s", *KEY, tone=Tone.MUTED, is_dashed=True),
    Box("a request", *KEY, tone=Tone.NEW),
)
_SQUEEZE = 0.53
# In a narrow column, the legend has two rows.
_NARROW = (
    Part(0, 0, _LEFT, _AXIS_BASE + 6, (0, 0)),
    Part(_LEFT, 0, _LEFT + _WIDTH + 4, _AXIS_BASE + 6, (_LEFT, 0), _SQUEEZE),
    Part(0, _AXIS_BASE + 6, 340, _BOTTOM, (0, _AXIS_BASE + 6)),
    Part(0, _BOTTOM, 314, _HEIGHT, (0, _BOTTOM)),
    Part(314, _BOTTOM, mark_tools.WIDTH, _HEIGHT, (0, _HEIGHT)),
)
_STATES = {"PreparingRebalance": "Preparing", "CompletingRebalance": "Completing"}
_WAITS = {"JoinGroup waits": "waits for others", "SyncGroup waits": "waits for leader", "only an id": "only an id"}
_NO_READERS = {"Empty": "the group is empty", "Dead": "the group does not exist"}
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
    moments_of_death = [
        next((n for n, each in enumerate(story) if " dies: " in each.action), None) for story in stories
    ]
    names = tuple(map(_name_death, stories, moments_of_death))
    jumps = tuple(None if moment is None else ("event", moment) for moment in moments_of_death)
    controls = (
        Control("event", "event", events, initial=14),
        Control("death", "death", names, is_sequence=False, jumps=jumps, is_answer=True),
        Control("failover", "the coordinator", ("stays", "dies after this event"), is_sequence=False),
    )

    def draw(step: int, number: int, failover: int) -> Scene:
        return _draw(stories[number], step, is_failover=failover == 1)

    title = f"A rebalance of billing (sessions of {SESSION_S} seconds)"
    others = {"free_input": FreeInput("place a death", "billing-1 at 9"), "narrow": _NARROW}
    return Content.draw(title, _HEIGHT, controls, draw, **others)


def _name_death(story: list[Moment], moment_of_death: int | None) -> str:
    if moment_of_death is None:
        return "no one dies"
    moment = story[moment_of_death]
    return f"{moment.action.partition(':')[0]} at {moment.time_s:g} s"


def _draw(story: list[Moment], step: int, *, is_failover: bool) -> Scene:
    is_past_end = step >= len(story)
    moments = story[: step + 1]
    moment = moments[-1]
    phases = [_list_phases(number, moments) for number in range(len(MEMBERS))]
    text = [f"time: second {moment.time_s:g}", f"event: {moment.action}"]
    caption = "After this, nothing changes any more." if is_past_end else moment.explanation
    if is_failover:
        marks = _draw_failover(moment)
        is_safe = moment.lost.startswith("nothing")
        fact = f"a crash loses {'nothing' if is_safe else 'what is only in memory'}"
        tone = Tone.LIVE if is_safe else Tone.ERROR
        text += [f"the next coordinator loads: {moment.loaded}", f"a failover loses {moment.lost}"]
        caption = f"The coordinator dies, and its memory is lost. The next one loads from the log: {moment.loaded}."
    else:
        marks = _draw_story(_Scale(story), moments, phases)
        readers = _name_readers([each[-1] for each in phases])
        fact = readers or _NO_READERS.get(moment.state, "nobody reads")
        tone = Tone.LIVE if readers else (Tone.PLAIN, Tone.ERROR)[_is_rebalance(moment)]
        for number, name in enumerate(MEMBERS):
            if any(each.lanes[number].is_member for each in moments):
                text.append(f"{name}: {_name_status(number, moments)}")
        text.append(f"state: {_name_state(moment)}")
        if _has_appended(moments):
            text.append(f"appended: {': '.join(moment.written[-1])}")
    place = "nothing changes any more" if is_past_end else f"second {moment.time_s:g}"
    lines = (Line(f"Second {moment.time_s:g}: {fact}", tone), Line(moment.action, Tone.NEW))
    return Scene(tuple(marks), caption, tuple(text), place, lines)


def _name_readers(phases: Sequence[str]) -> str:
    counts = [sum(map(str.isdecimal, phase.split())) for phase in phases]
    named = zip(MEMBERS, counts, strict=True)
    return ", ".join(f"{name} reads {format_count(count, 'partition')}" for name, count in named if count)


def _name_state(moment: Moment) -> str:
    if moment.state == "Dead":
        return "Dead: the group does not exist"
    count = sum(lane.is_member and lane.status != "only an id" for lane in moment.lanes)
    return f"{moment.state}, generation {moment.generation}, {format_count(count, 'member')}"


def _is_rebalance(moment: Moment) -> bool:
    return moment.state.endswith("Rebalance")


def _draw_story(scale: _Scale, moments: list[Moment], phases: Sequence[Sequence[str]]) -> Iterator[Mark]:
    yield from _draw_axis(scale, len(moments))
    yield from mark_tools.place_keys(_LEGEND, _BOTTOM + 16)
    yield from _draw_readers(scale, moments, phases)
    yield from _draw_states(scale, moments)
    for number in range(len(MEMBERS)):
        yield from _draw_lane(scale, number, moments, phases[number])
    is_new = _has_appended(moments)
    count = len(moments[-1].written)
    yield from _draw_log(moments[-1], count - 1 if is_new else count, Tone.NEW, f"request {len(moments) - 1}")


class _Scale:
    """The places of the events on the time axis. Each second is a column, in which its events stand in their order."""

    def __init__(self, story: list[Moment]) -> None:
        times = [moment.time_s for moment in story]
        self.seconds = [time_s + times[:number].count(time_s) * _EVENT_S for number, time_s in enumerate(times)]
        self.span_s = times[-1] + 1

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
    now = int(scale.seconds[count - 1])
    yield Arrow("time", _LEFT, _AXIS_BASE - 12, _LEFT + _WIDTH, _AXIS_BASE - 12, Tone.MUTED, has_head=False)
    yield Label("axis", _EDGE, _AXIS_BASE + 2, "second", tone=Tone.MUTED, size=_SIZE, keeps_width=True)
    for second in range(int(scale.span_s)):
        tone = Tone.NEW if second == now else Tone.MUTED
        x = scale.find_x(second)
        yield Arrow(f"tick {second}", x, _AXIS_BASE - 13, x, _AXIS_BASE - 9, Tone.MUTED, has_head=False)
        if second == now or (second % 2 == 0 and abs(second - now) > 1):
            yield Label(f"second {second}", x, _AXIS_BASE + 2, str(second), "middle", tone, _SIZE)
    x = scale.find_now(count)
    yield Arrow("now", x, 0, x, _AXIS_BASE - 10, Tone.NEW, has_head=False, duration=_GROW_S)


def _draw_states(scale: _Scale, moments: list[Moment]) -> Iterator[Mark]:
    yield Label("group", _EDGE, _STATE_TOP + 16, "the group is", keeps_width=True)
    yield Label("state", _LEFT, _STATE_TOP + 39, _name_state(moments[-1]), tone=Tone.MUTED, size=_SMALL)
    names = [_STATES.get(moment.state, moment.state) for moment in moments]
    for start, x, width, name in scale.list_spans(names):
        lines = fit_words(width - 1, _SMALL, name)
        tone = {"Stable": Tone.LIVE, "Empty": Tone.MUTED, "Dead": Tone.MUTED}.get(name, Tone.WAIT)
        short = "".join(fit_words(width * _SQUEEZE, _SMALL, name, " "))
        yield Box(
            f"state {start}", x, _STATE_TOP, width, _ROW_HEIGHT, lines, tone, _SMALL, short=short, duration=_GROW_S
        )


def _draw_readers(scale: _Scale, moments: list[Moment], phases: Sequence[Sequence[str]]) -> Iterator[Mark]:
    yield Label("who reads", _EDGE, _READERS_TOP + 16, "who reads?", is_bold=True, keeps_width=True)
    each_moment = zip(moments, zip(*phases, strict=True), strict=True)
    for start, x, width, word in scale.list_spans([_name_reader(moment, words) for moment, words in each_moment]):
        is_gap = word == "nobody"
        words = f"nobody {round(width / _WIDTH * scale.span_s)} s" if is_gap else word
        style: dict[str, Any] = {"hue": _HUES.get(word, ""), "tone": Tone.LIVE if word == "both" else Tone.PLAIN}
        style |= {"tone": Tone.ERROR} if is_gap else {}
        lines = fit_words(width - 1, _SMALL, words, word)
        short = "".join(fit_words(width * _SQUEEZE, _SMALL, words, words.removeprefix("nobody "), " "))
        style |= {"is_bold": is_gap, "short": short, "duration": _GROW_S}
        yield Box(f"reads {start}", x, _READERS_TOP, width, _ROW_HEIGHT, lines, size=_SMALL, **style)


def _name_reader(moment: Moment, phases: Sequence[str]) -> str:
    readers = [name for name, phase in zip(MEMBERS, phases, strict=True) if phase[:1].isdecimal()]
    return "both" if len(readers) == len(MEMBERS) else "".join(readers) or "nobody" * _is_rebalance(moment)


def _draw_failover(moment: Moment) -> Iterator[Mark]:
    """What is only in the memory is lost. What is in the log is in the memory of the next coordinator."""
    record = max(number for number, lines in enumerate(moment.written) if lines[0] != "commit")
    yield from _draw_log(moment, record, Tone.LIVE)
    yield Arrow("load", _find_record(record) + 24, _LOG_TOP - 2, 273, 180)
    is_safe = moment.lost.startswith("nothing")
    lost = moment.lost.partition(", which")[0].replace("the ", "")
    sides = ((_EDGE, 180, "lost with the memory", lost), (276, 280, "loaded from the log", moment.loaded))
    for left, width, title, words in sides:
        is_gone = left == _EDGE and not is_safe
        tone = Tone.ERROR if is_gone else Tone.LIVE
        yield Box(f"frame {left}", left, 18, width, 176, tone=Tone.MUTED, is_dashed=left == _EDGE)
        yield Label(title, left + 8, 35, title, tone=tone, is_bold=True)
        for number, line in enumerate(re.split(", |: ", words)):
            style: dict[str, Any] = {"is_gone": is_gone}
            if left != _EDGE:
                style = {"hue": next((hue for name, hue in _HUES.items() if name in line), "")}
                style["origin"] = f"append {record}"
            frame = (left + 6, 43 + 37 * number, width - 12, 33)
            yield Box(f"{title} {line}", *frame, tuple(wrap(line, 24)), tone, _SMALL, **style)


def _draw_lane(scale: _Scale, number: int, moments: list[Moment], phases: Sequence[str]) -> Iterator[Mark]:
    """A member's lane has what it does, and below it its signs of life, each of which starts its session again."""
    name = MEMBERS[number]
    top = _LANE_TOPS[number]
    yield Box(f"name {name}", _EDGE, top + 7, 10, 10, hue=_HUES[name], is_solid=True, keeps_width=True)
    yield Label(f"words {name}", _EDGE + 15, top + 16, name, is_bold=True, keeps_width=True)
    status = _name_status(number, moments)
    yield Label(f"status {name}", _EDGE, top + 34, status, tone=Tone.MUTED, size=_SMALL, keeps_width=True)
    for start, x, width, phase in scale.list_spans(phases):
        if phase == "joined" and width < _EVENT_WIDTH:
            continue
        is_reader = phase[:1].isdecimal()
        words = f"reads {phase}" if is_reader else phase
        last = phase if is_reader else phase.removeprefix("waits ")
        short = "".join(fit_words(width * _SQUEEZE, _SMALL, words, last, last.split()[-1], " "))
        style: dict[str, Any] = {"is_gone": phase == "dead", "short": short, "duration": _GROW_S}
        if is_reader and start == len(moments) - 1:
            style["origin"] = f"request {start}"
        tone = {"dead": Tone.ERROR, "joined": Tone.MUTED}.get(phase, Tone.PLAIN if is_reader else Tone.WAIT)
        style |= {"hue": _HUES[name] if is_reader else "", "tone": tone}
        lines = fit_words(width - 1, _SMALL, words, last, last.split()[-1])
        yield Box(f"{name} {start}", x, top, width, _ROW_HEIGHT, lines, size=_SMALL, **style)
    yield from _draw_session(scale, number, moments, is_dead=phases[-1] == "dead")
    if moments[-1].action.startswith(f"{name} dies"):
        yield Box("death", scale.find_now(len(moments)) + 4, top, 44, _ROW_HEIGHT, ("dies",), Tone.ERROR, is_bold=True)
    event = moments[-1].events[-1]
    is_new = len(moments) == 1 or len(moments[-2].events) < len(moments[-1].events)
    if is_new and event.client == name:
        yield _draw_request(scale, event, len(moments), top)


def _draw_session(scale: _Scale, number: int, moments: list[Moment], *, is_dead: bool) -> Iterator[Mark]:
    name = MEMBERS[number]
    y = _LANE_TOPS[number] + _ROW_HEIGHT + 5
    ends = [end_s for moment in moments if (end_s := moment.lanes[number].session_end_s) is not None]
    # A session is full when the coordinator removes the member.
    left = scale.find_x(max(ends, default=0) - SESSION_S)
    width = min(scale.find_x(max(ends, default=0)), _LEFT + _WIDTH) - left
    lane = moments[-1].lanes[number]
    if lane.status == "removed":
        lines = ("✗ no sign for 10 s",)
        yield Box(f"session {name}", left, y - 2, width, 16, lines, Tone.ERROR, _SIZE, is_bold=True)
    elif lane.session_end_s is not None:
        silence = min(scale.find_now(len(moments)) - left, width)
        yield Box(f"session {name}", left, y, width, 12, tone=Tone.MUTED, is_dashed=True)
        style: dict[str, Any] = {"tone": Tone.ERROR if is_dead else Tone.PLAIN, "hue": _HUES[name]}
        yield Box(f"silence {name}", left, y, silence, 12, duration=_GROW_S, **style)
    for end_s in dict.fromkeys(ends):
        x = scale.find_x(end_s - SESSION_S) - 1
        yield Box(f"sign {name} {end_s:g}", x, y + 1, 10, 10, hue=_HUES[name], is_solid=True)


def _list_phases(number: int, moments: list[Moment]) -> list[str]:
    _, *phases = accumulate(moments, lambda before, moment: _find_phase(number, moment, before), initial="")
    return phases


def _find_phase(number: int, moment: Moment, before: str) -> str:
    """Return what a member waits for, or the partitions that it reads."""
    name = MEMBERS[number]
    event = moment.events[-1]
    lane = moment.lanes[number]
    if not lane.is_member:
        return ""
    if before == "dead" or moment.action.startswith(f"{name} dies"):
        return "dead"
    answers = [event.response] if event.client == name else []
    for answer in [*answers, *(late for late in event.late_responses if late.startswith(name))]:
        if "orders " in answer:
            return answer.rpartition("orders ")[2]
    if lane.status in _WAITS:
        return _WAITS[lane.status]
    if before == "waits for others" or (event.client == name and event.request.startswith("JoinGroup as")):
        return "joined"
    return "" if before == "waits for leader" else before


def _name_status(number: int, moments: list[Moment]) -> str:
    lane = moments[-1].lanes[number]
    if lane.is_member or not lane.status:
        return lane.status
    end_s = next(later.time_s for earlier, later in reversed([*pairwise(moments)]) if earlier.lanes[number].is_member)
    return f"{lane.status} at {end_s:g} s"


def _draw_request(scale: _Scale, event: Event, count: int, top: float) -> Mark:
    is_refused = event.response.startswith(("MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "UNKNOWN"))
    verb = event.request.split()[0].removesuffix(",").removesuffix("Group").removeprefix("Offset").lower()
    verb = ("assign" if "assignments" in event.request else verb) + " ✗" * is_refused
    width = measure_text(verb, 12) + 12
    x = min(scale.find_now(count) + 12, _LEFT + _WIDTH - width)
    style: dict[str, Any] = {"is_dashed": is_refused, "origin": f"name {event.client}"}
    return Box(f"request {count - 1}", x, top, width, _ROW_HEIGHT, (verb,), Tone.NEW, is_bold=True, **style)


def _has_appended(moments: list[Moment]) -> bool:
    return len(moments) == 1 or len(moments[-2].written) < len(moments[-1].written)


def _draw_log(moment: Moment, told: int, tone: Tone, origin: str = "") -> Iterator[Mark]:
    """One record has words. The others are only counted. A new one comes from the request that it was written for."""
    yield Label("log title", _EDGE, _LOG_TOP + 14, "the log", size=13, is_bold=True, keeps_width=True)
    x = _find_record(0)
    for number, lines in enumerate(moment.written):
        words = (": ".join(lines),) if number == told else ()
        width = measure_text(words[0], _SIZE) + 12 if words else 10
        style: dict[str, Any] = {"tone": tone, "is_bold": True, "origin": origin} if words else {}
        yield Box(f"append {number}", x, _LOG_TOP, width, 20, words, size=_SIZE, **style)
        x += width + 3


def _find_record(number: int) -> float:
    return _LEFT + number * 13
