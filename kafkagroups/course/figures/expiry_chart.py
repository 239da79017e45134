"""Lesson 09: the two clocks of an offset, and the day on which two rules delete it.

A coordinator of this package with a simulated clock finds the day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.course.broker import start_broker
from kafkagroups.course.figures.figure import Content, Control, Figure
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone, fit_words
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.small_logs import DAY_MS, HOUR_MS, START_MS
from kafkagroups.records.offset_commit import OffsetCommitKey
from kafkagroups.records.serde import decode

LAST_DAY = 23
"""The day on which the simulation ends. The first day is 0."""


@dataclass(frozen=True)
class Members:
    """How the group's only member behaves, which joins on day 0. It reads `topic` ("": the group never has members),
    and leaves on the day `leaves_on` (None: it stays).
    """

    topic: str
    leaves_on: int | None = None


def find_deletion_day(kafka: str, *, commit_day: int, leaves_on: int, retention: int) -> int | None:
    """Return the day on which a Kafka version deletes an offset, or None if it stays until day 23.

    The only member commits on `commit_day` the offset of a topic that it reads, and leaves on `leaves_on`.
    """
    return find_deletion_days(kafka, (commit_day,), (Members("orders", leaves_on),), retention)[0, 0]


def find_deletion_days(
    kafka: str, commit_days: Sequence[int], members: Sequence[Members], retention: int
) -> dict[tuple[int, int], int | None]:
    """Return the day of the deletion, or None, for each commit day and each choice of members, by their numbers.

    The members send no heartbeats, but their session timeout is longer than the simulation, so they stay until they
    leave.
    """
    broker = start_broker(
        kafka=kafka,
        offsets_retention_ms=retention * DAY_MS,
        # Kafka's default is ten minutes. The result is a day, and a rare check is faster.
        offsets_retention_check_interval_ms=6 * HOUR_MS,
        group_max_session_timeout_ms=2**31 - 1,
        group_initial_rebalance_delay_ms=0,
    )
    broker.start_expiration()
    keys = product(range(len(commit_days)), range(len(members)))
    lives = {key: GroupLife(f"group {key}", broker=broker) for key in keys}
    for day in range(LAST_DAY + 1):
        broker.clock.advance_to(START_MS + day * DAY_MS)
        for (commit_number, members_number), life in lives.items():
            _act(life, day, commit_days[commit_number], members[members_number])
    return {key: _read_deletion_day(broker, life.group_id) for key, life in lives.items()}


def _act(life: GroupLife, day: int, commit_day: int, members: Members) -> None:
    if day == 0 and members.topic:
        # The response to the first JoinGroup may contain only a member id. Then a second JoinGroup is needed.
        while life.read_state_name() in ("Dead", "Empty"):
            life.join("member", topics=[members.topic], session_s=(LAST_DAY + 1) * 86_400)
        life.sync("member")
    if day == commit_day:
        life.commit("member" if members.topic else "", {"orders-0": 10})
    if day == members.leaves_on:
        life.leave("member")


def _read_deletion_day(broker: GroupCoordinator, group: str) -> int | None:
    for batch in broker.manager.logs.read(broker.manager.partition_for(group)):
        for record in batch.records:
            if record.value is not None or record.key is None:
                continue
            key = decode(record.key, None).key
            if isinstance(key, OffsetCommitKey) and key.group == group:
                return (record.timestamp - START_MS) // DAY_MS
    return None


_DAY_WIDTH = 23
_AXIS_BASE = 18
_MEMBERS_TOP = 48
_COMMIT_TOP = 94
_EMPTY_TOP = 140
_VERSION_TOPS = (186, 232)
_BAR_HEIGHT = 24
_COMMIT_WIDTH = 54
_SIZE = 11
_VERSIONS = ("1.0.1", "3.9.2")
_VERSION_NAMES = ("Kafka 1.0.1", "Kafka 2.4+")
_STEPS = ("the group and its commit", "the two clocks", "the day of the deletion")
_HUES = {"commit clock": "A", "empty clock": "B"}
_WORDS = {
    Members("orders", 4): ("leaves on day 4", "Empty since day 4", "Its only member leaves on day 4."),
    Members("orders", 9): ("leaves on day 9", "Empty since day 9", "Its only member leaves on day 9."),
    Members("orders"): ("stays", "a member reads orders", "Its member reads orders and stays."),
    Members("payments"): (
        "stays, but reads only payments",
        "a member reads payments",
        "Its member reads payments and stays.",
    ),
    Members(""): ("no member at any time", "the group never has members", "It is a simple group, without members."),
}
"""For each choice of members: the option, the words in the picture, and the sentence of the caption."""
_MEMBERS = tuple(_WORDS)
_COMMIT_DAYS = (0, 2, 4)
_RETENTIONS = (7, 3)


@dataclass(frozen=True)
class _Case:
    commit_day: int
    members: Members
    retention: int
    deletion_days: tuple[int | None, int | None]
    """The day of the deletion in each version of `_VERSIONS`. None: the offset stays."""


class ExpiryChart(Figure):
    def __init__(self) -> None:
        days = [
            [find_deletion_days(kafka, _COMMIT_DAYS, _MEMBERS, retention) for kafka in _VERSIONS]
            for retention in _RETENTIONS
        ]

        def draw(step: int, commit: int, member: int, retention: int) -> Scene:
            old_day, new_day = (by_case[commit, member] for by_case in days[retention])
            case = _Case(_COMMIT_DAYS[commit], _MEMBERS[member], _RETENTIONS[retention], (old_day, new_day))
            return _draw(step, case)

        choose = partial(Control, is_sequence=False)
        controls = (
            Control("step", "step", _STEPS),
            choose("commit", "the commit is on", tuple(f"day {day}" for day in _COMMIT_DAYS)),
            choose("members", "the member", tuple(option for option, _, _ in _WORDS.values())),
            choose("retention", "retention", tuple(map(_format_days, _RETENTIONS))),
        )
        title = "The two clocks of an offset of a classic group (orders-0)"
        super().__init__(Content.draw(title, 260, controls, draw))


def _find_x(day: float) -> float:
    return 8 + day * _DAY_WIDTH


def _format_days(days: int) -> str:
    return f"{days} days"


def _draw(step: int, case: _Case) -> Scene:
    marks: list[Mark] = [*_draw_axis()]
    if step == 2:
        marks += [_draw_end(number, case) for number, day in enumerate(case.deletion_days) if day is not None]
    marks += _draw_members(case.members)
    marks += _draw_clocks(step, case)
    text = [
        f"commit on day {case.commit_day}",
        f"retention of {_format_days(case.retention)}",
        f"members: {_WORDS[case.members][1]}",
    ]
    for number, name in enumerate(_VERSION_NAMES):
        y = _VERSION_TOPS[number]
        marks.append(Label(f"version {number}", 4, y - 6, name, is_bold=True, is_pinned=True))
        if step < 2:
            marks += _draw_question(number, case.commit_day)
        else:
            day = case.deletion_days[number]
            marks += _draw_result(number, case)
            text.append(f"deletion in {name}: {'stays' if day is None else f'day {day}'}")
    return Scene(tuple(marks), _explain(step, case), tuple(text))


def _draw_axis() -> Iterator[Mark]:
    for day in range(LAST_DAY):
        x = _find_x(day)
        is_labelled = day % 2 == 0
        if is_labelled:
            words, anchor = (str(day), "middle") if day else ("day 0", "start")
            yield Label(f"day {day}", x if day else 4, _AXIS_BASE - 2, words, anchor, Tone.MUTED, _SIZE)
        top = _AXIS_BASE + (2 if is_labelled else 6)
        yield Arrow(f"tick {day}", x, top, x, _AXIS_BASE + 10, Tone.MUTED, has_head=False)


def _draw_bar(key: str, x: float, top: float, width: float, lines: tuple[str, ...] = (), **style: Any) -> Box:
    return Box(key, x, top, width, _BAR_HEIGHT, lines, size=_SIZE, **style)


def _draw_members(members: Members) -> Iterator[Mark]:
    yield Label("members", 4, _MEMBERS_TOP - 6, "the group", is_bold=True, is_pinned=True)
    start = _find_x(0)
    end = _find_x(LAST_DAY)
    leaves_at = start
    if members.topic:
        leaves_at = end if members.leaves_on is None else _find_x(members.leaves_on)
        width = leaves_at - start
        lines = fit_words(width, _SIZE, f"a member reads {members.topic}", "a member")
        yield _draw_bar("member", start, _MEMBERS_TOP, width, lines)
    if leaves_at < end:
        words = _WORDS[members][1]
        yield _draw_bar("empty", leaves_at, _MEMBERS_TOP, end - leaves_at, (words,), is_dashed=True)


def _draw_clocks(step: int, case: _Case) -> Iterator[Mark]:
    commit_x = _find_x(case.commit_day)
    yield Label("commit clock title", 4, _COMMIT_TOP - 6, "since the commit", is_bold=True, is_pinned=True)
    yield Label("empty clock title", 4, _EMPTY_TOP - 6, "since Empty", is_bold=True, is_pinned=True)
    if step == 0:
        hue = _HUES["commit clock"]
        yield _draw_bar("commit clock", commit_x, _COMMIT_TOP, _COMMIT_WIDTH, ("commit",), hue=hue)
        return
    yield _draw_clock("commit clock", case.commit_day, case.retention, _COMMIT_TOP)
    if case.members.leaves_on is None:
        yield Label("no empty clock", _find_x(0), _EMPTY_TOP + 16, "does not start", tone=Tone.MUTED)
    else:
        yield _draw_clock("empty clock", case.members.leaves_on, case.retention, _EMPTY_TOP)


def _draw_clock(key: str, start_day: int, retention: int, top: float) -> Mark:
    width = retention * _DAY_WIDTH
    lines = fit_words(width, _SIZE, _format_days(retention))
    return _draw_bar(key, _find_x(start_day), top, width, lines, hue=_HUES[key])


def _draw_question(number: int, commit_day: int) -> Iterator[Mark]:
    x = _find_x(commit_day)
    top = _VERSION_TOPS[number]
    yield _draw_bar(f"offset {number}", x, top, _COMMIT_WIDTH, ("offset",), tone=Tone.MUTED, is_dashed=True)
    yield Label(f"question {number}", x + _COMMIT_WIDTH + 8, top + 16, "exists until day …?", tone=Tone.MUTED)


def _draw_end(number: int, case: _Case) -> Mark:
    day = case.deletion_days[number]
    assert day is not None
    clock_top = _EMPTY_TOP if _follows_empty_clock(case, number) else _COMMIT_TOP
    return Arrow(f"end {number}", _find_x(day), clock_top + _BAR_HEIGHT, _find_x(day), _VERSION_TOPS[number], Tone.NEW)


def _draw_result(number: int, case: _Case) -> Iterator[Mark]:
    day = case.deletion_days[number]
    top = _VERSION_TOPS[number]
    start = _find_x(case.commit_day)
    hue = _HUES["empty clock" if _follows_empty_clock(case, number) else "commit clock"]
    key = f"offset {number}"
    if day is None:
        width = _find_x(LAST_DAY) - start
        yield _draw_bar(key, start, top, width, ("the offset stays",), tone=Tone.LIVE, is_bold=True)
        return
    end = _find_x(day)
    lines = fit_words(end - start, _SIZE, f"deleted on day {day}", f"until day {day}", f"day {day}")
    yield _draw_bar(key, start, top, end - start, lines, is_bold=True, hue=hue)
    yield _draw_bar(f"deletion {number}", end, top, _DAY_WIDTH, ("✗",), tone=Tone.ERROR, is_gone=True)


def _follows_empty_clock(case: _Case, number: int) -> bool:
    leaves_on = case.members.leaves_on
    return number > 0 and leaves_on is not None and case.deletion_days[number] == leaves_on + case.retention


def _explain(step: int, case: _Case) -> str:
    members = case.members
    if step == 0:
        return (
            f"The group commits an offset of orders-0 on day {case.commit_day}. {_WORDS[members][2]} The retention "
            f"is {_format_days(case.retention)}. On which day is the offset deleted?"
        )
    if step == 1:
        first = f"A clock of {_format_days(case.retention)} starts with the commit."
        if members.leaves_on is None:
            return f"{first} The group does not become Empty, so the other clock does not start. Which clock counts?"
        return f"{first} Another one starts when the group becomes Empty. Which clock counts?"
    old_day, new_day = case.deletion_days
    old = f"Kafka 1.0.1 counts from the commit: day {old_day}."
    if not members.topic:
        return f"{old} A simple group has no members, so Kafka 2.4+ counts from the commit, too: day {new_day}."
    if members.topic != "orders":
        return f"{old} No member reads orders, so Kafka 2.4+ counts from the commit, too: day {new_day}."
    if members.leaves_on is None:
        return f"{old} The group still has a member. In Kafka 2.4+, an offset stays while a member reads its topic."
    assert old_day is not None
    loss = " On this day, the group still has a member." if old_day < members.leaves_on else ""
    return f"{old}{loss} Kafka 2.4+ counts from when the group became Empty: day {new_day}."
