"""Lesson 09: the days pass, two clocks of an offset run, and two rules delete it.

A coordinator of this package with a simulated clock finds the day.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.course.broker import start_broker
from kafkagroups.course.figures.figure import Content, Control, Figure, squeeze_right
from kafkagroups.course.figures.marks import Arrow, Box, Label, Line, Mark, Scene, Tone
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


_DAYS = (0, 2, 3, 4, 5, 7, 9, 11, 12, 16)
"""The steps: every day on which something can happen."""
_SHOWN_DAYS = 18
_LEFT = 122
_DAY_WIDTH = 24
_SECONDS_PER_DAY = 0.25
_AXIS_TOP = 38
_BOTTOM = 252
_ROW_TOPS = {"the group": 52, "since the commit": 97, "since Empty": 132, "Kafka 1.0.1": 181, "Kafka 2.4+": 216}
_BAR_HEIGHT = 24
_SIZE = 11
_VERSIONS = {"Kafka 1.0.1": "1.0.1", "Kafka 2.4+": "3.9.2"}
_HUES = {"since the commit": "A", "since Empty": "B"}
_MEMBERS = {
    "leaves on day 4": Members("orders", 4),
    "leaves on day 9": Members("orders", 9),
    "stays": Members("orders"),
    "stays, but reads only payments": Members("payments"),
    "no member at any time": Members(""),
}
_COMMIT_DAYS = (0, 2, 4)
_RETENTIONS = (7, 3)


@dataclass(frozen=True)
class _Case:
    commit_day: int
    members: Members
    retention: int
    deletion_days: tuple[int | None, ...]
    """The day of the deletion in each version of `_VERSIONS`. None: the offset stays."""

    @property
    def clock_starts(self) -> dict[str, int | None]:
        return {"since the commit": self.commit_day, "since Empty": self.members.leaves_on}

    def find_clock(self, version: str, deletion_day: int) -> str:
        """Return the clock that a version counts."""
        has_run_out = self.members.leaves_on == deletion_day - self.retention
        return "since Empty" if has_run_out and version != "Kafka 1.0.1" else "since the commit"


class ExpiryChart(Figure):
    def __init__(self) -> None:
        choices = list(_MEMBERS.values())
        days = [
            [find_deletion_days(kafka, _COMMIT_DAYS, choices, retention) for kafka in _VERSIONS.values()]
            for retention in _RETENTIONS
        ]

        def draw(step: int, commit: int, member: int, retention: int) -> Scene:
            deletion_days = tuple(by_case[commit, member] for by_case in days[retention])
            return _draw(step, _Case(_COMMIT_DAYS[commit], choices[member], _RETENTIONS[retention], deletion_days))

        choose = partial(Control, is_sequence=False)
        controls = (
            Control("step", "step", tuple(f"day {day}" for day in _DAYS), initial=4),
            choose("commit", "the commit is on", tuple(f"day {day}" for day in _COMMIT_DAYS)),
            choose("members", "the member", tuple(_MEMBERS)),
            choose("retention", "retention", tuple(f"{days} days" for days in _RETENTIONS)),
        )
        title = "The two clocks of an offset of a classic group (orders-0)"
        super().__init__(Content.draw(title, _BOTTOM, controls, draw, narrow=squeeze_right(_LEFT - 9, _BOTTOM, 0.505)))


def _find_x(day: float) -> float:
    return _LEFT + day * _DAY_WIDTH


def _draw(step: int, case: _Case) -> Scene:
    today = _DAYS[step]
    # What grows until today grows as long as the line of today moves, and what ends today comes after that.
    seconds = _SECONDS_PER_DAY * (today - _DAYS[max(step - 1, 0)])
    text = [f"today: day {today}"]
    deleted = []
    rows: list[Box | Label | Arrow] = [*_draw_members(today, case.members)]
    for name, start in case.clock_starts.items():
        rows += _draw_clock(name, today, start, case.retention)
    for name, deletion_day in zip(_VERSIONS, case.deletion_days, strict=True):
        rows += _draw_offset(name, today, deletion_day, case)
        if deletion_day is not None and deletion_day <= today:
            deleted.append(name)
            text.append(f"deletion in {name}: day {deletion_day}")
    x = _find_x(today)
    # The line of today and the arrows are behind the bars and the words.
    line_of_today = Arrow("today", x, 19, x, _BOTTOM - 2, Tone.NEW, has_head=False, duration=seconds)
    marks: list[Mark] = [line_of_today, *_draw_axis()]
    marks += [replace(mark, delay=seconds) for mark in rows if isinstance(mark, Arrow)]
    marks += [replace(mark, duration=seconds) for mark in rows if isinstance(mark, Box)]
    flag = (max(x - 22, 0), 2, 44, 17)
    marks.append(Box("flag", *flag, (f"day {today}",), Tone.NEW, _SIZE, is_bold=True, duration=seconds))
    marks += [replace(mark, delay=seconds) for mark in rows if isinstance(mark, Label)]
    text += [f"{mark.key}: {mark.text}" for mark in rows if isinstance(mark, Label) and mark.tone is not Tone.ERROR]
    for name, top in _ROW_TOPS.items():
        marks.append(Label(f"title {name}", 4, top + 9, name, is_bold=True, keeps_width=True))
    fate = f"deleted in {' and '.join(deleted)}" if deleted else "the offset exists"
    fate = "nothing is committed" if today < case.commit_day else fate
    line = Line(f"Day {today}: {fate}", Tone.ERROR if deleted else Tone.PLAIN)
    return Scene(tuple(marks), _explain(today, case), tuple(text), lines=(line,))


def _draw_axis() -> Iterator[Mark]:
    yield Label("axis", 4, _AXIS_TOP - 4, "day", tone=Tone.MUTED, size=_SIZE, keeps_width=True)
    for day in range(0, _SHOWN_DAYS, 2):
        yield Label(f"day {day}", _find_x(day), _AXIS_TOP - 4, str(day), "middle", Tone.MUTED, _SIZE)


def _draw_bar(row: str, key: str, start: float, end: float, **style: Any) -> Box:
    frame = (_find_x(start), _ROW_TOPS[row], max(end - start, 0) * _DAY_WIDTH, _BAR_HEIGHT)
    return Box(f"{row} {key}", *frame, size=_SIZE, **style)


def _draw_words(row: str, words: str, tone: Tone = Tone.MUTED) -> Label:
    return Label(row, 4, _ROW_TOPS[row] + 23, words, tone=tone, size=_SIZE, keeps_width=True)


def _draw_members(today: int, members: Members) -> Iterator[Box | Label]:
    leaves_on = members.leaves_on if members.topic else 0
    is_there = leaves_on is None or today < leaves_on
    yield _draw_bar("the group", "member", 0, today if leaves_on is None else min(today, leaves_on))
    if leaves_on is not None and not is_there:
        yield _draw_bar("the group", "empty", leaves_on, today, is_dashed=True, is_hollow=True)
    empty = f"Empty since day {leaves_on}" if members.topic else "never has members"
    yield _draw_words("the group", f"reads {members.topic}" if is_there else empty)


def _draw_clock(row: str, today: int, start: int | None, retention: int) -> Iterator[Box | Label]:
    if start is None or today < start:
        words = "does not run" if start is None else f"starts on day {start}"
        yield _draw_words(row, words)
        return
    end = start + retention
    yield _draw_bar(row, "frame", start, end, is_dashed=True, is_hollow=True, hue=_HUES[row])
    yield _draw_bar(row, "bar", start, min(today, end), is_solid=True, hue=_HUES[row])
    yield _draw_words(row, f"{min(today - start, retention)} of {retention} days")


def _draw_offset(row: str, today: int, deletion_day: int | None, case: _Case) -> Iterator[Box | Label | Arrow]:
    """The bar of the offset ends on the day of its deletion, and fades."""
    start = case.commit_day
    if today < start:
        yield _draw_words(row, "no offset yet")
    elif deletion_day is None or today < deletion_day:
        yield _draw_bar(row, "offset", start, today, hue="C", tone=Tone.LIVE)
        yield replace(_draw_words(row, "✓ the offset exists", Tone.LIVE), is_bold=True)
    else:
        clock = case.find_clock(row, deletion_day)
        yield _draw_bar(row, "offset", start, deletion_day, hue=_HUES[clock], tone=Tone.ERROR, is_gone=True)
        words = f"✗ deleted on day {deletion_day}"
        yield replace(_draw_words(row, words, Tone.ERROR), key=f"{row} deletion", is_bold=True)
        is_second = row == "Kafka 2.4+" and len({*case.deletion_days}) == 1
        x = _find_x(deletion_day) + 4 + 6 * is_second  # The arrows of one day stand next to each other.
        yield Arrow(f"{row} end", x, _ROW_TOPS[clock] + _BAR_HEIGHT, x, _ROW_TOPS[row], Tone.ERROR)


def _explain(today: int, case: _Case) -> str:
    members = case.members
    old_day, new_day = case.deletion_days
    has_member = bool(members.topic) and (members.leaves_on is None or today < members.leaves_on)
    told = []
    if today == case.commit_day:
        told.append("The group commits an offset of orders-0, and a clock starts.")
    if today == members.leaves_on:
        told.append("The only member leaves, the group is Empty, and the other clock starts.")
    if today == old_day:
        told.append(f"Kafka 1.0.1 counts from the commit{', although the group has a member' * has_member}.")
    if today == new_day and case.find_clock("Kafka 2.4+", new_day) == "since Empty":
        told.append("Kafka 2.4+ counts from when the group became Empty.")
    elif today == new_day:
        reason = "No member reads orders" if members.topic else "A simple group has no members"
        told.append(f"{reason}, so Kafka 2.4+ counts from the commit, too.")
    if today == 0:
        told.append("On which day is the offset deleted?")
    gap = today - _DAYS[max(_DAYS.index(today) - 1, 0)]
    later = f", {gap} days later" * (gap > 1)
    return f"Day {today}{later}. {' '.join(told) or _explain_quiet_day(today, case)}"


def _explain_quiet_day(today: int, case: _Case) -> str:
    old_day, new_day = case.deletion_days
    if today < case.commit_day:
        return "Nothing is committed yet."
    if old_day is not None and today < old_day:
        return "The offset gets older. On which day is it deleted?"
    if new_day is None:
        return "In Kafka 2.4+, an offset stays while a member reads its topic."
    return "Kafka 2.4+ still has the offset." if today < new_day else "Both versions have deleted the offset."
