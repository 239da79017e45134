"""Lesson 06: who reads each partition, what two members and the coordinator do for it, and what a failover loses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, groupby, pairwise
from typing import Any, NamedTuple

from kafkagroups.course.figures.figure import Content, Control, Figure, FreeInput, Part
from kafkagroups.course.figures.marks import WIDTH, Arrow, Box, Label, Line, Mark, Scene, Tone, fit_words, measure_text
from kafkagroups.course.figures.rebalance_moments import MEMBERS, SESSION_S, Death, Moment, run_group
from kafkagroups.course.group_life import Event, format_count
from kafkagroups.errors import UsageError

_EDGE = 4
_LEFT = 96
_WIDTH = WIDTH - _LEFT
_TIME_WIDTH = _WIDTH - 60
"""The time axis leaves room for what the last event says."""
_NOW = 8
"""The width of what has begun in this second."""
_PARTITIONS_TOP = 22
_LANE_TOPS = (98, 146)
_ROW_HEIGHT = 22
_STATE_TOP = 200
_LOG_TOP = 246
_HEIGHT = 286
_SMALL = 11
# A step shows the time that passes, then the request, then the responses and the record, and then what they change.
_PASS_S = 0.1
_ASKED_S = 0.05
_ANSWERED_S = 0.35
_CHANGED_S = 0.55
_HUES = dict(zip(MEMBERS, ("kind-0", "kind-5"), strict=True))
_TOPS = dict(zip(MEMBERS, _LANE_TOPS, strict=True))
_LEGEND = (
    Box("sign of life", 0, 0, 10, 10, hue="kind-0", is_solid=True),
    Box(f"session of {SESSION_S} s", 0, 0, 18, 14, tone=Tone.MUTED, is_dashed=True),
    Box("waits", 0, 0, 18, 14, tone=Tone.WAIT),
)
_SQUEEZE = 0.73


def _narrow_row(top: float, bottom: float, place: float) -> Iterator[Part]:
    """Yield the parts of a lane in a narrow column, where its name and its status stand above it."""
    yield Part(0, top, _LEFT, top + _ROW_HEIGHT, (0, place))
    yield Part(0, top + _ROW_HEIGHT, _LEFT, bottom, (110, place + 3))
    yield Part(_LEFT, top, WIDTH, bottom, (0, place + 20), _SQUEEZE)


_NARROW = (
    Part(0, 0, _LEFT, _PARTITIONS_TOP, (-28, 0)),
    *(Part(0, 22 * n, _LEFT, 22 * n + 22, (70, 18 * n - 22)) for n in range(1, 4)),
    Part(_LEFT, 0, WIDTH, 94, (0, 54), _SQUEEZE),
    *_narrow_row(94, 142, 148),
    *_narrow_row(142, 196, 214),
    *_narrow_row(196, 242, 274),
    *_narrow_row(242, _HEIGHT, 332),
)
_STATES = {"PreparingRebalance": "join", "CompletingRebalance": "sync"}
_VERBS = {"OffsetCommit": "commit", "DeleteGroups": "delete"}
_ANSWERS = {"NONE": "ok", "MEMBER_ID_REQUIRED": "an id", "REBALANCE_IN_PROGRESS": "rebalance ✗"}
_WAITS = {"JoinGroup waits": "join", "SyncGroup waits": "sync", "only an id": "id"}
_NO_READERS = {"Empty": "the group is empty", "Dead": "the group does not exist"}
_NOBODY = "nobody"
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
    died = [next((n for n, each in enumerate(story) if " dies: " in each.action), None) for story in stories]
    names = tuple(map(_name_death, stories, died))
    jumps = tuple(None if moment is None else ("event", moment) for moment in died)
    controls = (
        Control("event", "event", events, initial=12),
        Control("death", "death", names, is_sequence=False, jumps=jumps, is_answer=True),
        Control("failover", "the coordinator", ("stays", "dies after this event"), is_sequence=False),
    )

    title = f"A rebalance of billing (sessions of {SESSION_S} seconds)"
    others = {"free_input": FreeInput("place a death", "billing-1 at 9"), "narrow": _NARROW, "legend": _LEGEND}
    return Content.draw(title, _HEIGHT, controls, partial(_draw, stories), **others)


def _name_death(story: list[Moment], died: int | None) -> str:
    if died is None:
        return "no one dies"
    return f"{story[died].action.partition(':')[0]} at {story[died].time_s:g} s"


def _draw(stories: Sequence[list[Moment]], step: int, number: int, failover: int) -> Scene:
    story = stories[number]
    is_past_end = step >= len(story)
    moments = story[: step + 1]
    moment = moments[-1]
    phases = [_list_phases(number, moments) for number in range(len(MEMBERS))]
    text = [f"time: second {moment.time_s:g}", f"event: {moment.action}"]
    caption = "After this, nothing changes any more." if is_past_end else moment.explanation
    readers = [_find_readers(each, words) for each, words in zip(moments, zip(*phases, strict=True), strict=True)]
    scale = _Scale(story, moments, readers)
    if failover:
        marks = _draw_failover(scale, moments, phases)
        is_safe = moment.lost.startswith("nothing")
        fact = f"a crash loses {'nothing' if is_safe else 'what is only in memory'}"
        tone = Tone.LIVE if is_safe else Tone.ERROR
        text += [f"the next coordinator loads: {moment.loaded}", f"a failover loses {moment.lost}"]
        caption = f"The coordinator dies, and its memory is lost. The next one loads from the log: {moment.loaded}."
    else:
        marks = _draw_story(scale, moments, phases)
        fact, tone = _tell_readers(scale, moment)
        text += [f"orders-{number} had no reader for: {gap} s" for number, gap in enumerate(scale.measure_gaps())]
        for number, spans in enumerate(scale.columns):
            runs = ", ".join(f"{span.words} for {span.seconds:g} s" for span in spans if span.words)
            text.append(f"who read orders-{number}, in turn = {runs}")
        for number, name in enumerate(MEMBERS):
            if any(each.lanes[number].is_member for each in moments):
                text.append(f"{name}: {_name_status(number, moments)}")
            if (end_s := moment.lanes[number].session_end_s) is not None:
                text.append(f"{name} gave no sign of life for {moment.time_s - end_s + SESSION_S:g} of {SESSION_S} s")
        text.append(f"state: {_name_state(moment)}")
        if _has_appended(moments):
            text.append(f"appended: {': '.join(moment.written[-1])}")
    place = "nothing changes any more" if is_past_end else f"second {moment.time_s:g}"
    lines = (Line(f"Second {moment.time_s:g}: {fact}", tone), Line(moment.action, Tone.NEW))
    # The words are in front of the line of this second.
    return Scene(tuple(sorted(marks, key=lambda mark: isinstance(mark, Label))), caption, tuple(text), place, lines)


def _find_readers(moment: Moment, phases: Sequence[str]) -> tuple[str, ...]:
    """Return who reads each partition: no one has to if the group has no members."""
    readers = {number: name for name, phase in zip(MEMBERS, phases, strict=True) for number in phase.split()}
    return tuple(readers.get(str(partition), "" if moment.state in _NO_READERS else _NOBODY) for partition in range(3))


def _tell_readers(scale: _Scale, moment: Moment) -> tuple[str, Tone]:
    if moment.state in _NO_READERS:
        return _NO_READERS[moment.state], Tone.PLAIN
    names = scale.readers[-1]
    ends = [span.seconds for gaps in scale.gaps for span in gaps[-1:] if span.start + span.seconds == moment.time_s]
    unread = [f" orders-{number}" for number, name in enumerate(names) if name == _NOBODY]
    if unread:
        which = "" if len(unread) == len(names) else ",".join(unread)
        length = f", for {min(ends):g} s so far" * (min(ends) > 0)
        return f"nobody reads{which}{length}", Tone.ERROR
    who = f"{names[0]} reads all partitions" if len(set(names)) == 1 else "both members read"
    return f"{who}, after {max(ends):g} s without a reader" if ends else who, Tone.LIVE


def _name_state(moment: Moment) -> str:
    if moment.state == "Dead":
        return "Dead: the group does not exist"
    count = sum(lane.is_member and lane.status != "only an id" for lane in moment.lanes)
    return f"{moment.state}, generation {moment.generation}, {format_count(count, 'member')}"


def _draw_story(scale: _Scale, moments: list[Moment], phases: Sequence[Sequence[str]]) -> Iterator[Mark]:
    has_event = len(moments) == 1 or len(moments[-2].events) < len(moments[-1].events)
    messages = list(_list_messages(moments[-1].events[-1])) if has_event else []
    told = {client for client, *_ in messages}
    yield from _draw_tracks(told)
    yield from _draw_readers(scale)
    for number, name in enumerate(MEMBERS):
        for mark in _draw_lane(scale, number, moments, phases[number]):
            yield replace(mark, is_faint=bool(told) and name not in told)
    yield from _draw_states(scale, moments)
    yield from _draw_axis(scale)
    yield Label("state", _LEFT + 3, _STATE_TOP + 36, _name_state(moments[-1]), tone=Tone.MUTED, size=_SMALL)
    yield from _draw_messages(scale, messages, len(moments[-1].events))
    yield from _draw_log(scale, moments, len(moments[-1].written) - _has_appended(moments), Tone.NEW)


def _draw_tracks(told: Collection[str] = ()) -> Iterator[Mark]:
    """The names of those that the event concerns are bold."""
    for top, count in ((_PARTITIONS_TOP, 3), *((top, 1) for top in (*_LANE_TOPS, _STATE_TOP))):
        yield Box(f"track {top}", _LEFT, top, _WIDTH, count * _ROW_HEIGHT, tone=Tone.MUTED)
    for name, top in _TOPS.items():
        yield Box(f"name {name}", _EDGE, top + 6, 10, 10, hue=_HUES[name], is_solid=True)
        yield Label(f"words {name}", _EDGE + 15, top + 15, name, is_bold=name in told)
    yield Label("coordinator", _EDGE, _STATE_TOP + 15, "coordinator", is_bold=bool(told))
    yield Label("log title", _EDGE, _LOG_TOP + 14, "the log")


class _Span(NamedTuple):
    """A run of equal words: its first second, its length in seconds, its place and its width."""

    words: Any
    start: float
    seconds: float
    x: float
    width: float


class _Scale:
    """The time axis up to the last of these moments, and who reads each partition at each moment."""

    def __init__(self, story: list[Moment], moments: list[Moment], readers: list[tuple[str, ...]]) -> None:
        self.times = [moment.time_s for moment in moments]
        self.now_s = self.times[-1]
        self.span_s = story[-1].time_s + 0.6
        self.now_x = self.find_x(self.now_s) + _NOW
        self.readers = readers
        self.columns = [self.list_spans(column) for column in zip(*readers, strict=True)]
        self.gaps = [[span for span in spans if span.words == _NOBODY] for spans in self.columns]

    def find_x(self, second: float) -> float:
        return _LEFT + second / self.span_s * _TIME_WIDTH

    def measure_gaps(self) -> list[str]:
        return [f"{sum(span.seconds for span in gaps):g}" for gaps in self.gaps]

    def list_spans(self, words: Sequence[Any]) -> list[_Span]:
        """Return the runs of equal words. Of the events of one second, the last one decides."""
        by_second = dict(zip(self.times, words, strict=True))
        starts = [next(group) for _, group in groupby(by_second, by_second.__getitem__)]
        xs = [*map(self.find_x, starts), self.now_x]
        rows = zip(starts, [*starts[1:], self.now_s], pairwise(xs), strict=True)
        return [_Span(by_second[start], start, end - start, x, right - x) for start, end, (x, right) in rows]

    def draw_bar(self, key: str, span: _Span, top: float, words: Sequence[str], **style: Any) -> Box:
        """Return a bar with the first of these words that fits. What begins now changes after the messages."""
        style = {"height": _ROW_HEIGHT, "delay": _CHANGED_S * (span.start == self.now_s), "size": _SMALL} | style
        lines = fit_words(span.width - 8, style["size"], *words) if span.width > _NOW + 1 else ()
        short = "".join(fit_words(span.width * _SQUEEZE - 4, min(style["size"], _SMALL), *words)) or " "
        style = {"lines": lines or (" ",), "short": short, "duration": _PASS_S, **style}
        return Box(f"{key} {span.start:g}", span.x, top, span.width, **style)


def _draw_axis(scale: _Scale) -> Iterator[Mark]:
    """The seconds, and the second of the event. Messages come from where its line crosses a lane."""
    yield Label("axis", _LEFT - 8, 12, "unread for", "end", Tone.MUTED)
    x = scale.now_x
    for second in range(2, int(scale.span_s) + 1, 2):
        if abs(scale.find_x(second) + 5 - x) > 38:
            yield Label(f"second {second}", scale.find_x(second) + 5, 12, str(second), "middle", Tone.MUTED)
    yield Arrow("now", x, 16, x, _STATE_TOP + _ROW_HEIGHT, Tone.NEW, has_head=False, duration=_PASS_S)
    words = (f"{scale.now_s:g} s",)
    yield Box("clock", max(x - 18, _LEFT), 0, 36, 17, words, Tone.NEW, is_bold=True, duration=_PASS_S)
    for name, top in {**_TOPS, "coordinator": _STATE_TOP}.items():
        style: dict[str, Any] = {"tone": Tone.NEW, "hue": _HUES.get(name, ""), "is_solid": True, "duration": _PASS_S}
        yield Box(f"now {name}", x - 4, top + 7, 8, 8, **style)


def _draw_readers(scale: _Scale) -> Iterator[Mark]:
    """The partitions that one member reads at the same time, or nobody, have one box together: they are neighbours."""
    for number, gap in enumerate(scale.measure_gaps()):
        y = _PARTITIONS_TOP + _ROW_HEIGHT * number + 16
        tone = Tone.MUTED if gap == "0" else Tone.ERROR
        yield Label(f"partition {number}", _EDGE, y, f"orders-{number}")
        yield Label(f"unread {number}", _LEFT - 6, y, f"{gap} s", "end", tone, 13, is_bold=True, delay=_CHANGED_S)
    rows: dict[_Span, list[int]] = {}
    for number, spans in enumerate(scale.columns):
        for span in spans:
            rows.setdefault(span, []).append(number)
    for span, numbers in rows.items():
        name, _, seconds, _, width = span
        style: dict[str, Any] = {"height": _ROW_HEIGHT * len(numbers), "hue": _HUES.get(name, "")}
        words = [name]
        if name == _NOBODY:
            words = [f"nobody {seconds:g} s", f"{seconds:g} s"]
            style |= {"tone": Tone.ERROR, "is_bold": True}
        fitting = (size for size in (15, 12) if len(numbers) > 1 and fit_words(width - 3, size, words[-1]))
        style["size"] = next(fitting, 12 if name == _NOBODY else 10)
        if name == _NOBODY and len(numbers) > 1 and fit_words(width, style["size"], name):
            style |= {"lines": (name, words[-1]), "short": words[0]}
        if name:
            top = _PARTITIONS_TOP + _ROW_HEIGHT * numbers[0]
            yield scale.draw_bar(f"reads {numbers[0]}", span, top, words, **style)


def _draw_states(scale: _Scale, moments: list[Moment]) -> Iterator[Box]:
    tones = {"Stable": Tone.LIVE, "Empty": Tone.MUTED, "Dead": Tone.MUTED}
    for span in scale.list_spans([moment.state for moment in moments]):
        words = [_STATES.get(span.words, span.words)]
        yield scale.draw_bar("state", span, _STATE_TOP, words, tone=tones.get(span.words, Tone.WAIT))


def _draw_failover(scale: _Scale, moments: list[Moment], phases: Sequence[Sequence[str]]) -> Iterator[Mark]:
    """What is only in the memory is lost. What is in the log is in the memory of the next coordinator."""
    yield from _draw_tracks()
    moment = moments[-1]
    lanes = [*map(_draw_bars, (scale, scale), MEMBERS, phases), _draw_states(scale, moments)]
    for bar in chain.from_iterable(lanes):
        yield replace(bar, tone=Tone.DEAD, hue="", is_gone=True, delay=0)
    is_safe = moment.lost.startswith("nothing")
    tone = Tone.LIVE if is_safe else Tone.ERROR
    yield Label("lost", _LEFT + 3, 14, "lost with the coordinator", tone=tone, is_bold=True)
    for number, line in enumerate(moment.lost.partition(", which")[0].replace("the ", "").split(", ")):
        frame = (_LEFT + number % 2 * 232, 22 + number // 2 * 34, 228, 30)
        yield Box(f"lost {line}", *frame, (line,), tone, _SMALL, is_gone=not is_safe)
    record = max(number for number, lines in enumerate(moment.written) if lines[0] != "commit")
    yield from _draw_log(scale, moments, record, Tone.LIVE)
    state, _, members = moment.loaded.partition(": ")
    style: dict[str, Any] = {"tone": Tone.LIVE, "size": _SMALL, "origin": f"append {record}", "delay": 0.3}
    yield Box("loaded state", _LEFT, _STATE_TOP, _WIDTH, _ROW_HEIGHT, (state,), **style)
    for line in members.split(", "):
        for name in (name for name in MEMBERS if name in line):
            yield Box(f"loaded {name}", _LEFT, _TOPS[name], _WIDTH, _ROW_HEIGHT, (line,), hue=_HUES[name], **style)


def _draw_lane(scale: _Scale, number: int, moments: list[Moment], phases: Sequence[str]) -> Iterator[Mark]:
    """A member's lane has what it does, and below it its signs of life, each of which starts its session again."""
    name = MEMBERS[number]
    top = _LANE_TOPS[number]
    status = _name_status(number, moments)
    yield Label(f"status {name}", _EDGE, top + 34, status, tone=Tone.MUTED, size=_SMALL, delay=_CHANGED_S)
    yield from _draw_bars(scale, name, phases)
    yield from _draw_session(scale, number, moments, is_dead=phases[-1] == "dead")
    if moments[-1].action.startswith(f"{name} dies"):
        yield Box("death", scale.now_x + 4, top, 44, _ROW_HEIGHT, ("dies",), Tone.ERROR, is_bold=True)


def _draw_bars(scale: _Scale, name: str, phases: Sequence[str]) -> Iterator[Box]:
    for span in scale.list_spans(phases):
        phase = span.words
        is_reader = phase[:1].isdecimal()
        tone = {"dead": Tone.ERROR, "joined": Tone.MUTED}.get(phase, Tone.PLAIN if is_reader else Tone.WAIT)
        style: dict[str, Any] = {"is_gone": phase == "dead", "hue": _HUES[name] if is_reader else "", "tone": tone}
        if phase:
            yield scale.draw_bar(name, span, _TOPS[name], [phase], **style)


def _draw_session(scale: _Scale, number: int, moments: list[Moment], *, is_dead: bool) -> Iterator[Mark]:
    name = MEMBERS[number]
    y = _LANE_TOPS[number] + _ROW_HEIGHT + 5
    ends = [end_s for moment in moments if (end_s := moment.lanes[number].session_end_s) is not None]
    # A session is full when the coordinator removes the member.
    left = scale.find_x(max(ends, default=0) - SESSION_S)
    width = min(scale.find_x(max(ends, default=0)), _LEFT + _WIDTH) - left
    lane = moments[-1].lanes[number]
    if lane.status == "removed":
        words = ("✗ no sign for 10 s",)
        yield Box(f"session {name}", left, y - 2, width, 16, words, Tone.ERROR, is_bold=True, delay=_CHANGED_S)
    elif lane.session_end_s is not None:
        yield Box(f"session {name}", left, y, width, 12, tone=Tone.MUTED, is_dashed=True)
        style: dict[str, Any] = {"tone": Tone.ERROR if is_dead else Tone.PLAIN, "hue": _HUES[name]}
        yield Box(f"silence {name}", left, y, min(scale.now_x - left, width), 12, duration=_PASS_S, **style)
    for end_s in dict.fromkeys(ends):
        x = scale.find_x(end_s - SESSION_S) - 1
        yield Box(f"sign {name} {end_s:g}", x, y + 1, 10, 10, hue=_HUES[name], is_solid=True, delay=_CHANGED_S)


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
    if before == "join" or (event.client == name and event.request.startswith("JoinGroup as")):
        return "joined"
    return "" if before == "sync" else before


def _name_status(number: int, moments: list[Moment]) -> str:
    lane = moments[-1].lanes[number]
    if lane.is_member or not lane.status:
        return lane.status
    end_s = next(later.time_s for earlier, later in reversed([*pairwise(moments)]) if earlier.lanes[number].is_member)
    return f"{lane.status} at {end_s:g} s"


def _list_messages(event: Event) -> Iterator[tuple[str, str, bool]]:
    """Yield the client and the words of the request, and then of the responses, which may be late ones."""
    answers = [(late.partition("'")[0], late.partition(" → ")[2]) for late in event.late_responses]
    if event.client:
        verb = event.request.split()[0].removesuffix(",")
        words = "assign" if "assignments" in event.request else verb.removesuffix("Group").lower()
        yield event.client, _VERBS.get(verb, words), True
        answers.insert(0, (event.client, event.response))
    for client, response in answers:
        words = response.partition(",")[0]
        if client in MEMBERS and words != "waits":
            yield client, _ANSWERS.get(words, words), False


def _draw_messages(scale: _Scale, messages: Sequence[tuple[str, str, bool]], count: int) -> Iterator[Mark]:
    """A request goes down from its member's lane to the coordinator, and a response up to the lane of its member."""
    boxes = []
    for number, (client, words, is_request) in enumerate(messages):
        width = measure_text(words, _SMALL) + 14
        # The messages before go at once, so no new one has the place of one of them.
        left = min(scale.now_x + 8, WIDTH - width - 1) + count % 2 / 10
        lane = _TOPS.get(client, _PARTITIONS_TOP + 44)
        x = left + 9 + 12 * number
        ends = (x, lane + _ROW_HEIGHT, x, _STATE_TOP) if is_request else (x, _STATE_TOP, x, lane + _ROW_HEIGHT)
        delay = _ASKED_S if is_request else _ANSWERED_S
        yield Arrow(f"way {number} {count}", *ends, Tone.NEW, delay=delay)
        origin = f"now {client if is_request else 'coordinator'}"
        style: dict[str, Any] = {"hue": _HUES.get(client, ""), "is_dashed": "✗" in words, "is_bold": True}
        frame = (left, (_STATE_TOP if is_request else lane) + 1, width, 20)
        style |= {"origin": origin, "delay": delay}
        key = f"{'request' if is_request else 'answer'} {client} {count}"
        boxes.append(Box(key, *frame, (words,), Tone.NEW, _SMALL, **style))
    yield from boxes


def _has_appended(moments: list[Moment]) -> bool:
    return len(moments) == 1 or len(moments[-2].written) < len(moments[-1].written)


def _draw_log(scale: _Scale, moments: list[Moment], told: int, tone: Tone) -> Iterator[Mark]:
    """Each record is at its second. A new one falls from the coordinator. One has words."""
    for number, lines in enumerate(moments[-1].written):
        x = scale.find_x(next(moment.time_s for moment in moments if len(moment.written) > number))
        style: dict[str, Any] = {}
        if number == told:
            style = {"tone": tone, "is_solid": True, "origin": "now coordinator", "delay": _ANSWERED_S}
            is_left = x < WIDTH - 140
            place = (x if is_left else x + _NOW, _LOG_TOP + 34, ": ".join(lines), "start" if is_left else "end")
            if tone is Tone.LIVE:
                yield Arrow("load", x + 4, _LOG_TOP - 2, x + 4, _STATE_TOP + _ROW_HEIGHT + 1, tone)
            yield Label(f"record {number}", *place, tone, is_bold=True, delay=_CHANGED_S)
        yield Box(f"append {number}", x, _LOG_TOP, _NOW, 20, **style)
