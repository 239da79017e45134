"""The widget that steps through a group's life: requests, states, what-ifs.

A life is a fixed script of requests, played through the real coordinator. A what-if plays the script again up to the
shown step. Then one consumer is silent while the others behave normally, or the coordinator dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import ipywidgets as widgets

from kafkagroups.coordinator.clock import Timer
from kafkagroups.course.life import Life
from kafkagroups.course.life_events import Event
from kafkagroups.course.what_if import (
    TWO_CONSUMERS,
    Act,
    describe_coordinator_crash,
    list_changes_without,
    play_acts,
    select_acts,
)
from kafkagroups.course.widgets import MONO, Stepper
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.classic_member import Cancellable, ClassicMember
from kafkagroups.groups.states import VALID_PREVIOUS_STATES, ClassicState

TRANSITIONS = {
    (ClassicState.EMPTY, ClassicState.PREPARING_REBALANCE): "a member joins",
    (ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE): "all have joined, or a timeout",
    (ClassicState.PREPARING_REBALANCE, ClassicState.EMPTY): "no member is left",
    (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE): "the leader's assignments are stored",
    (ClassicState.COMPLETING_REBALANCE, ClassicState.PREPARING_REBALANCE): "a member joins, leaves, fails, never syncs",
    (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE): "a member joins, leaves, fails; the leader joins again",
    (ClassicState.EMPTY, ClassicState.DEAD): "its last offset expires, it is deleted, or unloaded",
    (ClassicState.PREPARING_REBALANCE, ClassicState.DEAD): "unloaded: another broker takes over",
    (ClassicState.COMPLETING_REBALANCE, ClassicState.DEAD): "unloaded: another broker takes over",
    (ClassicState.STABLE, ClassicState.DEAD): "unloaded: another broker takes over",
}
"""Every legal transition to another state, with its cause."""


def list_transitions(state: str) -> list[tuple[str, str]]:
    """Return the legal next states with their causes. AwaitingSync is 1.0.1's name of CompletingRebalance."""
    current = ClassicState("CompletingRebalance" if state == "AwaitingSync" else state)
    return [
        (following.value, TRANSITIONS[current, following])
        for following in ClassicState
        if following is not current and current in VALID_PREVIOUS_STATES[following]
    ]


def draw_states(state: str) -> list[str]:
    """Return the five states in a row, the current one in brackets, and its legal transitions below."""
    third = "AwaitingSync" if state == "AwaitingSync" else "CompletingRebalance"
    names = ["Empty", "PreparingRebalance", third, "Stable", "Dead"]
    boxes = [f"[{name}]" if name == state else f" {name} " for name in names]
    row = " ⇄ ".join(boxes[:3]) + " → " + "   ".join(boxes[3:])
    transitions = [f"  → {name:<20} {cause}" for name, cause in list_transitions(state)]
    return [row.rstrip(), *(transitions or ["  → no other state: the group is removed"])]


class LifeStepper(Stepper):
    """A widget that steps through a script of requests.

    Parameters
    ----------
    acts
        The script.
    kafka
        The coordinator's Kafka version.
    at
        The step that is shown first, from 1. None: the last one.
    what_if
        Who dies after the shown step: a consumer's name, "coordinator", or "" for no death.
    """

    def __init__(
        self, acts: Sequence[Act] = TWO_CONSUMERS, kafka: str = "3.9.2", *, at: int | None = None, what_if: str = ""
    ) -> None:
        self.kafka = kafka
        self.acts = select_acts(acts, kafka)
        lives = [play_acts(self.acts[:count], kafka) for count in range(1, len(self.acts) + 1)]
        self.events: list[Event] = lives[-1].events
        self.names = [list(life.consumers) for life in lives]
        self.members = [describe_members(life) for life in lives]
        self.states = [life.read_state_name() for life in lives]
        self.step = widgets.SelectionSlider(
            options=[(str(number), number - 1) for number in range(1, len(self.acts) + 1)],
            value=(len(self.acts) if at is None else at) - 1,
            description="step",
            layout=widgets.Layout(width="300px"),
        )
        self.what_if = widgets.Dropdown(description="what if", layout=widgets.Layout(width="300px"))
        self._offer_deaths(what_if)
        self.what_if.observe(lambda _: self._draw(), names="value")
        super().__init__(self.step, len(self.acts), "request")
        self.children = (widgets.HBox([self.previous, self.next, self.step]), self.what_if, self.view)

    def describe_death(self, step: int, who: str) -> list[str]:
        """Return what follows if a consumer or "coordinator" dies after that step, counted from 0."""
        life = play_acts(self.acts[: step + 1], self.kafka)
        return describe_coordinator_crash(life) if who == "coordinator" else list_changes_without(life, who)

    def _offer_deaths(self, chosen: str = "") -> None:
        """Offer the deaths that are possible at this step, and keep the chosen one if it is possible."""
        options = [("nobody dies", "")]
        options += [(f"{name} dies here", name) for name in self.names[self.step.value]]
        options.append(("the coordinator dies here", "coordinator"))
        wanted = chosen or self.what_if.value or ""
        self.what_if.options = options
        self.what_if.value = wanted if wanted in {value for _, value in options} else ""

    def _draw(self) -> None:
        possible = {"", "coordinator", *self.names[self.step.value]}
        if {value for _, value in self.what_if.options} != possible:
            self._offer_deaths()
        self.view.value = _format_html(self._format_current())

    def _format_current(self) -> list[str]:
        current = self.step.value
        lines = [f"  {event.format_lines()[0]}" for event in self.events[max(0, current - 5) : current]]
        first, *rest = self.events[current].format_lines()
        lines += [f"▶ {first}", *(f"  {line}" for line in rest)]
        lines += ["", *draw_states(self.states[current]), "", *self.members[current]]
        if self.what_if.value:
            lines += ["", *self.describe_death(current, self.what_if.value)]
        return lines

    def _format_all(self) -> list[str]:
        lines = []
        last_state = ""
        for number, event in enumerate(self.events, 1):
            first, *rest = event.format_lines()
            lines += [f"{number:>2}{first}", *(f"  {line}" for line in rest)]
            if event.state != last_state:
                lines.append(f"{'':12}{event.state}")
            last_state = event.state
        return lines

    def _format_static(self) -> list[str]:
        current = self.step.value
        lines = [*self._format_all(), "", f"after step {current + 1}:"]
        lines += [*draw_states(self.states[current]), *self.members[current]]
        for who in (*self.names[current], "coordinator"):
            name = f"the {who}" if who == "coordinator" else who
            title = f"── What if {name} dies after step {current + 1}? ──"
            lines += ["", title, *self.describe_death(current, who)]
        return lines

    def static_html(self) -> str:
        """Return all steps, and all deaths at the shown step, as HTML for a page without widgets."""
        return _format_html(self._format_static())

    def static_text(self) -> str:
        """Return all steps, and all deaths at the shown step, as text."""
        return "\n".join(self._format_static())


def describe_members(life: Life) -> list[str]:
    """Return a line for each member and each member id that was handed out: what it waits for, or until when."""
    group = life.group
    if group is None:
        return []
    names = {consumer.member_id: consumer.client_id for consumer in life.consumers.values()}
    lines = []
    for member in group.members.values():
        name = names.get(member.member_id, member.member_id)
        lines.append(f"  {name}{_describe_member(life, group, member)}")
    for member_id, timer in group.pending_members.items():
        lines.append(f"  {member_id}: a member id that was handed out; forgotten at {_format_due(life, timer)}")
    return lines


def _describe_member(life: Life, group: ClassicGroup, member: ClassicMember) -> str:
    leads = ", leads" if member.member_id == group.leader else ""
    if member.awaiting_join:
        return f"{leads}: waits for the response to its JoinGroup"
    if member.awaiting_sync:
        return f"{leads}: waits for the response to its SyncGroup"
    unsynced = ", has not synced" if member.member_id in group.pending_sync else ""
    return f"{leads}: must send a heartbeat by {_format_due(life, member.session_timer)}{unsynced}"


def _format_due(life: Life, timer: Cancellable | None) -> str:
    return f"{(timer.at_ms - life.start_ms) / 1000:.1f} s" if isinstance(timer, Timer) else "an unknown time"


def _format_html(lines: list[str]) -> str:
    return f'<div class="kg-life" style="{MONO}">{escape(chr(10).join(lines))}</div>'
