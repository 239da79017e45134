"""Lesson 06: the run of a group of two members, moment by moment, with the death of a member.

The coordinator has the rules of Kafka 3.9. Sessions last ten seconds instead of the default of 45, so that they fit on
the axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkagroups.course.figures.rebalance_moments import SESSION_S, Moment, take_moment
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.script_events import Event
from kafkagroups.course.scripts import TWO_CONSUMERS, ScriptRequest, continue_after_crash
from kafkagroups.errors import UsageError


@dataclass(frozen=True)
class Death:
    """The death of a member after a `step` of the script, from 1, or at a `second`, whose requests are still sent."""

    member: str
    step: int | None = None
    second: int | None = None


def run_group(death: Death | None) -> Iterator[Moment]:
    """Yield a moment for each request of the script, and after the death for each change of the group."""
    life = GroupLife("billing", verbose=False)
    for number, request in enumerate(TWO_CONSUMERS, 1):
        if death and death.second is not None and life.now_s + request.delay_s > death.second:
            break
        state_before = life.read_state()
        _send(life, request)
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
    for _ in continue_after_crash(life, dead):
        new_events = life.events[event_count:]
        is_news = life.read_state() != state_before or any(_is_news(event) for event in new_events)
        if is_news:
            yield take_moment(life, state_before, dead)
        state_before = life.read_state()
        event_count = len(life.events)


def _send(life: GroupLife, request: ScriptRequest) -> None:
    """Advance the clock by the request's delay, and send the request. Members join with short sessions."""
    life.coordinator.clock.advance(round(request.delay_s * 1000))
    if request.method == "join":
        life.join(*request.arguments, session_s=SESSION_S)
    else:
        getattr(life, request.method)(*request.arguments)


def _check_member(life: GroupLife, death: Death) -> None:
    if death.member in life.consumers:
        return
    names = [event.client for event in life.events]
    reason = "has already left" if death.member in names else "has not joined yet"
    raise UsageError(f"{death.member} {reason} at second {death.second}; choose another second")


def _is_news(event: Event) -> bool:
    """Return whether an event without a change of the group is shown after a death."""
    is_plain = event.response in ("", "NONE")
    return bool(event.written_lines or event.late_responses) or not is_plain
