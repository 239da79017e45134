"""A group's life step by step: previous, next, or any step; the state among its legal moves; what if one died here.

A history is a fixed script of requests, played through the real coordinator. "What if" plays the same history up to
that step anew, and lets one consumer fall silent while the others go on as real ones do; or kills the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import ipywidgets as widgets

from kafkagroups.coordinator.clock import Timer
from kafkagroups.course.life import Event, Life
from kafkagroups.course.what_if import TWO_CONSUMERS, Act, acts_for, coordinator_dies, played, without
from kafkagroups.course.widgets import MONO, Stepper
from kafkagroups.groups.states import VALID_PREVIOUS_STATES, ClassicState

MOVES = {
    (ClassicState.EMPTY, ClassicState.PREPARING_REBALANCE): "a member joins",
    (ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE): "all have joined, or the time is over",
    (ClassicState.PREPARING_REBALANCE, ClassicState.EMPTY): "nobody is left",
    (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE): "the leader's shares are stored",
    (ClassicState.COMPLETING_REBALANCE, ClassicState.PREPARING_REBALANCE): "a member joins, leaves, fails, never syncs",
    (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE): "a member joins, leaves, fails; the leader joins again",
    (ClassicState.EMPTY, ClassicState.DEAD): "its last offset is gone, it is deleted, or unloaded",
    (ClassicState.PREPARING_REBALANCE, ClassicState.DEAD): "unloaded: another broker takes over",
    (ClassicState.COMPLETING_REBALANCE, ClassicState.DEAD): "unloaded: another broker takes over",
    (ClassicState.STABLE, ClassicState.DEAD): "unloaded: another broker takes over",
}
"""Every legal move to another state, and what causes it."""


def legal_moves(state: str) -> list[tuple[str, str]]:
    """Where a group in that state can go, and why it would. AwaitingSync is 1.0.1's CompletingRebalance."""
    name = "CompletingRebalance" if state == "AwaitingSync" else state
    here = ClassicState(name)
    return [(to.value, MOVES[here, to]) for to in ClassicState if to is not here and here in VALID_PREVIOUS_STATES[to]]


def drawn(state: str) -> list[str]:
    """The five states in a row, the present one in brackets, and its legal moves below."""
    third = "AwaitingSync" if state == "AwaitingSync" else "CompletingRebalance"
    row = ["Empty", "PreparingRebalance", third, "Stable", "Dead"]
    boxes = [f"[{each}]" if each == state else f" {each} " for each in row]
    moves = [f"  → {to:<20} {why}" for to, why in legal_moves(state)] or ["  → nowhere: the group is gone"]
    row_of_boxes = " ⇄ ".join(boxes[:3]) + " → " + "   ".join(boxes[3:])
    return [row_of_boxes.rstrip(), *moves]


class LifeStepper(Stepper):
    """Steps through a script of requests, from 1. `at`: the first shown (None: the last); `what_if`: who dies there."""

    def __init__(
        self, acts: Sequence[Act] = TWO_CONSUMERS, kafka: str = "3.9.2", *, at: int | None = None, what_if: str = ""
    ) -> None:
        self.kafka = kafka
        self.acts = acts_for(acts, kafka)
        lives = [played(self.acts[:many], kafka) for many in range(1, len(self.acts) + 1)]
        self.events: list[Event] = lives[-1].events
        self.names = [list(life.consumers) for life in lives]
        self.members = [list(_members(life)) for life in lives]
        self.states = [life.state_name() for life in lives]
        self.step = widgets.SelectionSlider(
            options=[(str(number), number - 1) for number in range(1, len(self.acts) + 1)],
            value=(len(self.acts) if at is None else at) - 1,
            description="step",
            layout=widgets.Layout(width="300px"),
        )
        self.what_if = widgets.Dropdown(description="what if", layout=widgets.Layout(width="300px"))
        self._offer(what_if)
        self.what_if.observe(lambda _: self._draw(), names="value")
        super().__init__(self.step, len(self.acts), "request")
        self.children = (widgets.HBox([self.previous, self.next, self.step]), self.what_if, self.view)

    def _offer(self, chosen: str = "") -> None:
        """Who can die at this step; the choice is kept while it can be."""
        names = self.names[self.step.value]
        options = [("everybody lives", ""), *((f"{name} dies here", name) for name in names)]
        options.append(("the coordinator dies here", "coordinator"))
        wanted = chosen or self.what_if.value or ""
        self.what_if.options = options
        self.what_if.value = wanted if wanted in {value for _, value in options} else ""

    def _draw(self) -> None:
        if {value for _, value in self.what_if.options} != {"", "coordinator", *self.names[self.step.value]}:
            self._offer()
        self.view.value = _html(self._now())

    def told(self, step: int, who: str) -> list[str]:
        """What if `who` (a consumer, or "coordinator") died after that step, counted from 0."""
        life = played(self.acts[: step + 1], self.kafka)
        return coordinator_dies(life) if who == "coordinator" else without(life, who)

    def _now(self) -> list[str]:
        here = self.step.value
        lines = [line for event in self.events[max(0, here - 5) : here] for line in event.lines()[:1]]
        out = [f"  {line}" for line in lines]
        out += [f"▶ {line}" if not index else f"  {line}" for index, line in enumerate(self.events[here].lines())]
        out += ["", *drawn(self.states[here]), "", *self.members[here]]
        if self.what_if.value:
            out += ["", *self.told(here, self.what_if.value)]
        return out

    def _all(self) -> list[str]:
        out = []
        for number, event in enumerate(self.events, 1):
            first, *rest = event.lines()
            out += [f"{number:>2}{first}", *(f"  {line}" for line in rest)]
            if number < 2 or self.events[number - 2].state != event.state:
                out.append(f"{'':12}{event.state}")
        return out

    def _static(self) -> list[str]:
        here = self.step.value
        out = [*self._all(), "", f"after step {here + 1}:", *drawn(self.states[here]), *self.members[here]]
        for who in (*self.names[here], "coordinator"):
            name = f"the {who}" if who == "coordinator" else who
            out += ["", f"── What if {name} dies after step {here + 1}? ──", *self.told(here, who)]
        return out

    def static_html(self) -> str:
        return _html(self._static())

    def static_text(self) -> str:
        return "\n".join(self._static())


def _members(life: Life) -> Iterator[str]:
    group = life.group
    if group is None:
        return
    names = {each.member_id: each.name for each in life.consumers.values()}
    for member in group.members.values():
        waits = "JoinGroup" if member.awaiting_join else "SyncGroup" if member.awaiting_sync else ""
        until = f"must be heard of by {_due(life, member.heartbeat)}"
        doing = f"waits for the answer to its {waits}" if waits else until
        leads = ", leads" if member.member_id == group.leader else ""
        unsynced = ", has not synced" if member.member_id in group.pending_sync and not waits else ""
        yield f"  {names.get(member.member_id, member.member_id)}{leads}: {doing}{unsynced}"
    for pending, timer in group.pending_members.items():
        yield f"  {pending}: an id that nobody uses yet; forgotten at {_due(life, timer)}"


def _due(life: Life, timer: Any) -> str:
    return f"{(timer.at_ms - life.start_ms) / 1000:.1f} s" if isinstance(timer, Timer) else "some time"


def _html(lines: list[str]) -> str:
    return f'<div class="kg-life" style="{MONO}">{escape(chr(10).join(lines))}</div>'
