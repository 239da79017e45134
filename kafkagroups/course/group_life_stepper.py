"""Lesson 06: a widget that steps through a group's requests, states and possible crashes.

The widget sends the requests of a script to a coordinator. Each request is one step. To show a crash after a step, the
widget sends the requests up to this step to a new coordinator. Then the coordinator crashes, or one consumer crashes:
this consumer sends no more requests, while the other consumers continue.
"""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as widgets

from kafkagroups.coordinator.clock import Timer
from kafkagroups.course.group_events import Event
from kafkagroups.course.group_life import GroupLife
from kafkagroups.course.scripts import (
    TWO_CONSUMERS,
    ScriptRequest,
    describe_consumer_crash,
    describe_coordinator_crash,
    play_script,
    select_requests,
)
from kafkagroups.course.widgets import Stepper, format_html
from kafkagroups.groups.classic_group import ClassicGroup
from kafkagroups.groups.classic_member import Cancellable, ClassicMember
from kafkagroups.groups.states import VALID_PREVIOUS_STATES, ClassicState

TRANSITIONS = {
    (ClassicState.EMPTY, ClassicState.PREPARING_REBALANCE): "a member joins",
    (ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE): "all members have joined, or a timeout",
    (ClassicState.PREPARING_REBALANCE, ClassicState.EMPTY): "the last member left",
    (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE): "the leader's assignments are stored",
    (
        ClassicState.COMPLETING_REBALANCE,
        ClassicState.PREPARING_REBALANCE,
    ): "a member joins, leaves, fails, does not sync",
    (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE): "a member joins, leaves or fails; the leader joins again",
    (ClassicState.EMPTY, ClassicState.DEAD): "the last offset expires; the group is deleted or unloaded",
    (ClassicState.PREPARING_REBALANCE, ClassicState.DEAD): "unloaded: another broker takes over",
    (ClassicState.COMPLETING_REBALANCE, ClassicState.DEAD): "unloaded: another broker takes over",
    (ClassicState.STABLE, ClassicState.DEAD): "unloaded: another broker takes over",
}
"""The cause of each transition that Kafka allows. The keys are pairs (state before, state after)."""

_EARLIER_STEP_COUNT = 5
"""How many earlier steps are listed above the shown step."""


def list_transitions(state: str) -> list[tuple[str, str]]:
    """Return the states that can follow `state`, each with the cause of the transition."""
    # Kafka 1.0.1 calls this state AwaitingSync.
    current_state = ClassicState("CompletingRebalance" if state == "AwaitingSync" else state)
    return [
        (next_state.value, TRANSITIONS[current_state, next_state])
        for next_state in ClassicState
        if next_state is not current_state and current_state in VALID_PREVIOUS_STATES[next_state]
    ]


def draw_states(state: str) -> list[str]:
    """Return a row with the five states, and a line for each transition that can follow. `state` is in brackets."""
    # Kafka 1.0.1 calls the third state AwaitingSync.
    third_name = "AwaitingSync" if state == "AwaitingSync" else "CompletingRebalance"
    names = ["Empty", "PreparingRebalance", third_name, "Stable", "Dead"]
    boxes = [f"[{name}]" if name == state else f" {name} " for name in names]
    row = " ⇄ ".join(boxes[:3]) + " → " + "   ".join(boxes[3:])
    transitions = [f"  → {name:<20} {cause}" for name, cause in list_transitions(state)]
    return [row.rstrip(), *(transitions or ["  → no other state: the group is removed"])]


class GroupLifeStepper(Stepper):
    """A widget that steps through a script of requests and shows the group after each request.

    Parameters
    ----------
    script
        The requests. Requests that this Kafka version does not have are left out.
    kafka
        The coordinator's Kafka version.
    shown_step
        The number of the step that is shown first, from 1. None means the last step.
    what_if
        The process that crashes after the shown step: a consumer's name, or "coordinator". "" means that no process
        crashes.
    """

    def __init__(
        self,
        script: Sequence[ScriptRequest] = TWO_CONSUMERS,
        kafka: str = "3.9.2",
        *,
        shown_step: int | None = None,
        what_if: str = "",
    ) -> None:
        self.kafka = kafka
        self.script = select_requests(script, kafka)
        # These lists have one element for each step. `lives` has the group after each step.
        lives = [play_script(self.script[:count], kafka) for count in range(1, len(self.script) + 1)]
        self.events: list[Event] = lives[-1].events
        self.consumer_names = [list(life.consumers) for life in lives]
        self.member_lines = [describe_members(life) for life in lives]
        self.states = [life.read_state_name() for life in lives]
        self.step_slider = widgets.SelectionSlider(
            options=[(str(number), number - 1) for number in range(1, len(self.script) + 1)],
            value=(len(self.script) if shown_step is None else shown_step) - 1,
            description="step",
            layout=widgets.Layout(width="300px"),
        )
        self.what_if = widgets.Dropdown(description="what if", layout=widgets.Layout(width="300px"))
        self._offer_crashes(what_if)
        self.what_if.observe(lambda _: self._draw(), names="value")
        super().__init__(self.step_slider, len(self.script), "request")
        self.children = (widgets.HBox([self.previous, self.next, self.step_slider]), self.what_if, self.view)

    def describe_crash(self, step: int, process: str) -> list[str]:
        """Return lines about what happens if a process crashes after a step.

        `step` is the index of the step, from 0. `process` is a consumer's name or "coordinator".
        """
        life = play_script(self.script[: step + 1], self.kafka)
        return describe_coordinator_crash(life) if process == "coordinator" else describe_consumer_crash(life, process)

    def _offer_crashes(self, wanted_process: str = "") -> None:
        """Fill the list "what if" with the processes that can crash at the shown step, and choose one of them.

        If `wanted_process` is "", the choice does not change. If the chosen process cannot crash at the shown step,
        choose "nothing crashes".
        """
        options = [("nothing crashes", "")]
        options += [(f"{name} crashes here", name) for name in self.consumer_names[self.step_slider.value]]
        options.append(("the coordinator crashes here", "coordinator"))
        process = wanted_process or self.what_if.value or ""
        self.what_if.options = options
        self.what_if.value = process if process in {value for _, value in options} else ""

    def _draw(self) -> None:
        possible_processes = {"", "coordinator", *self.consumer_names[self.step_slider.value]}
        offered_processes = {process for _, process in self.what_if.options}
        if offered_processes != possible_processes:
            self._offer_crashes()
        self.view.value = format_html("kg-life", self._format_current())

    def _format_current(self) -> list[str]:
        """Return the shown step, after the request lines of the previous steps."""
        current_step = self.step_slider.value
        previous_events = self.events[max(0, current_step - _EARLIER_STEP_COUNT) : current_step]
        lines = [f"  {event.format_lines()[0]}" for event in previous_events]
        request_line, *change_lines = self.events[current_step].format_lines()
        lines += [f"▶ {request_line}", *(f"  {line}" for line in change_lines)]
        lines += ["", *draw_states(self.states[current_step]), "", *self.member_lines[current_step]]
        if self.what_if.value:
            lines += ["", *self.describe_crash(current_step, self.what_if.value)]
        return lines

    def _format_all(self) -> list[str]:
        """Return all steps, with the group's state where it changes."""
        lines = []
        last_state = ""
        for number, event in enumerate(self.events, 1):
            request_line, *change_lines = event.format_lines()
            lines += [f"{number:>2}{request_line}", *(f"  {line}" for line in change_lines)]
            if event.state != last_state:
                lines.append(f"{'':12}{event.state}")
            last_state = event.state
        return lines

    def _format_static(self) -> list[str]:
        current_step = self.step_slider.value
        lines = [*self._format_all(), "", f"after step {current_step + 1}:"]
        lines += [*draw_states(self.states[current_step]), *self.member_lines[current_step]]
        for process in (*self.consumer_names[current_step], "coordinator"):
            name = "the coordinator" if process == "coordinator" else process
            title = f"── What if {name} crashes after step {current_step + 1}? ──"
            lines += ["", title, *self.describe_crash(current_step, process)]
        return lines

    def static_html(self) -> str:
        """Return all steps, and all possible crashes after the shown step, as HTML for a page without widgets."""
        return format_html("kg-life", self._format_static())

    def static_text(self) -> str:
        """Return all steps, and all possible crashes after the shown step, as text."""
        return "\n".join(self._format_static())


def describe_members(life: GroupLife) -> list[str]:
    """Return a line for each member of the group, and for each member id whose client has not joined yet.

    The line says which response the member waits for, or the time by which it must send its next request.
    """
    group = life.group
    if group is None:
        return []
    client_by_member = {consumer.member_id: consumer.client_id for consumer in life.consumers.values()}
    lines = []
    for member in group.members.values():
        name = client_by_member.get(member.member_id, member.member_id)
        lines.append(f"  {name}{_describe_member(life, group, member)}")
    for member_id, timer in group.pending_members.items():
        lines.append(
            f"  {member_id}: a member id that has not joined yet; it is removed at {_format_deadline(life, timer)}"
        )
    return lines


def _describe_member(life: GroupLife, group: ClassicGroup, member: ClassicMember) -> str:
    leader_text = ", leads" if member.member_id == group.leader else ""
    if member.awaiting_join:
        return f"{leader_text}: waits for the response to its JoinGroup"
    if member.awaiting_sync:
        return f"{leader_text}: waits for the response to its SyncGroup"
    sync_text = ", has not synced" if member.member_id in group.pending_sync else ""
    return f"{leader_text}: must send a heartbeat by {_format_deadline(life, member.session_timer)}{sync_text}"


def _format_deadline(life: GroupLife, timer: Cancellable | None) -> str:
    """Return the time at which a timer is due, in seconds since the GroupLife was created."""
    if not isinstance(timer, Timer):
        return "an unknown time"
    return f"{(timer.due_ms - life.start_ms) / 1000:.1f} s"
