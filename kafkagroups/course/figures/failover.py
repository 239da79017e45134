"""Lesson 05: a failover of partition 9 to another broker, and a client that asks for an offset."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from kafkagroups.coordinator import Errors, GroupCoordinator, TopicPartition
from kafkagroups.course.broker import start_broker
from kafkagroups.course.figures.figure import Content, Control, Figure, squeeze_right
from kafkagroups.course.figures.marks import WIDTH, Arrow, Box, Label, Line, Mark, Scene, Tone
from kafkagroups.course.lesson_folders import find_data

_COLUMN_WIDTH = 176
_COLUMN_LEFTS = (10, 192, 374)
_PARTITION_OF_OFFSETS = 9
_BEFORE = -0.75
"""The delay of what changes before anything moves: first the state of a broker, then what follows from it."""
_LOADED = -0.15
"""A broker says that it is the leader when the last offset is in its memory, and then the question comes."""
_ORDERS_0 = TopicPartition("orders", 0)


_QUESTIONS = {
    "billing": ("billing", False),
    "a group that never existed": ("coupons", False),
    "fraud-check, only stable offsets": ("fraud-check", True),
}
"""The group that the client asks for, and requireStable. Every group is stored in partition 9."""
_PHASES = {
    "broker 1 leads partition 9": ("leader", "follower", "follower"),
    "broker 1 dies": ("dead", "follower", "follower"),
    "broker 2 becomes the leader": ("dead", "loading", "follower"),
    "broker 2 has loaded": ("dead", "leader", "follower"),
    "broker 1 is back, as a follower": ("follower", "leader", "follower"),
}
_TONES = {"leader": Tone.LIVE, "follower": Tone.MUTED, "loading": Tone.WAIT, "dead": Tone.DEAD}
_MEANINGS = {
    "no connection": "No answer comes, so the client asks another broker who coordinates the group.",
    "NOT_COORDINATOR": "This broker does not lead the group's partition. The client asks FindCoordinator again.",
    "COORDINATOR_LOAD_IN_PROGRESS": "The memory is not complete yet. The client waits, and asks the same broker again.",
    "UNSTABLE_OFFSET_COMMIT": "A transaction with this offset is still open. The client waits, and asks again.",
    "offset −1": "Nothing was committed. This is not an error, and auto.offset.reset decides where to start.",
}


class Failover(Figure):
    def __init__(self) -> None:
        brokers = [start_broker(find_data("harbour/4.3.1"), "4.3.1") for _ in range(3)]
        controls = (
            Control("phase", "phase", tuple(_PHASES), initial=2),
            Control("broker", "ask", ("as a client does", "broker 1", "broker 2", "broker 3"), is_sequence=False),
            Control("group", "for orders-0 of", tuple(_QUESTIONS), is_sequence=False),
        )
        sizes: dict[str, list[int]] = {}
        answers: dict[tuple[str, int, str], str] = {}
        for phase, states in _PHASES.items():
            for broker, state in zip(brokers, states, strict=True):
                _change_state(broker, state)
            sizes[phase] = [_count_offsets(broker) for broker in brokers]
            if states[0] == "dead":
                sizes[phase][0] = next(iter(sizes.values()))[0]  # What it had.
            for asked, question in product(range(3), _QUESTIONS):
                answers[phase, asked, question] = _ask(brokers[asked], states[asked], *_QUESTIONS[question])

        def draw(phase_number: int, chosen: int, question_number: int) -> Scene:
            # A client asks the broker that it knows, and then the one that it has found.
            asked = chosen - 1 if chosen else (0, 0, 1, 1, 1)[phase_number]
            phase = list(_PHASES)[phase_number]
            question = list(_QUESTIONS)[question_number]
            return _draw(phase, sizes[phase], asked, _QUESTIONS[question][0], answers[phase, asked, question])

        title = "A failover of partition 9, and a client that asks"
        super().__init__(Content.draw(title, 286, controls, draw, narrow=squeeze_right(2, 286, 0.63)))


def _change_state(broker: GroupCoordinator, state: str) -> None:
    broker.resign(_PARTITION_OF_OFFSETS)
    broker.manager.loading.discard(_PARTITION_OF_OFFSETS)
    if state == "leader":
        broker.elect(_PARTITION_OF_OFFSETS)
    elif state == "loading":
        broker.manager.loading.add(_PARTITION_OF_OFFSETS)


def _count_offsets(broker: GroupCoordinator) -> int:
    _, groups = broker.list_groups()
    return sum(
        len(broker.offset_fetch(group.group_id).value.offsets)
        for group in groups
        if broker.manager.partition_for(group.group_id) == _PARTITION_OF_OFFSETS
    )


def _ask(broker: GroupCoordinator, state: str, group: str, require_stable: bool) -> str:
    if state == "dead":
        return "no connection"
    result = broker.offset_fetch(group, [_ORDERS_0], require_stable=require_stable).value
    if result.error is not Errors.NONE:
        return result.error.name
    answer = result.offsets[_ORDERS_0]
    if answer.error is not Errors.NONE:
        return answer.error.name
    return f"offset {answer.offset}".replace("-", "−")


def _draw(phase: str, sizes: list[int], asked: int, group: str, answer: str) -> Scene:
    states = _PHASES[phase]
    marks: list[Mark] = []
    text = [f"phase: {phase}"]
    for number, (state, size) in enumerate(zip(states, sizes, strict=True)):
        marks += _draw_broker(number, state, size)
        name = f"broker {number + 1}"
        text += [f"{name}: {state}", f"memory of {name}: {_name_memory(state, size)}"]
    tone = Tone.LIVE if answer.startswith("offset") else Tone.ERROR
    if answer in ("offset −1", "COORDINATOR_LOAD_IN_PROGRESS", "UNSTABLE_OFFSET_COMMIT"):
        tone = Tone.WAIT
    key = f"{phase} {asked} {group}"
    left = _COLUMN_LEFTS[asked] + 12
    middle = left + 76
    lost = states[asked] == "dead"
    after = 0.2 * (phase == "broker 2 has loaded")
    marks += [
        Box("client", 2, 225, WIDTH - 4, 59, tone=Tone.MUTED),
        Label("client title", _COLUMN_LEFTS[0] + 4, 241, "the client is told", is_bold=True, keeps_width=True),
        Arrow("question", middle, 225, middle, 190, Tone.NEW),
    ]
    asks: dict[str, Any] = {"origin": f"way {asked}", "is_dashed": lost, "delay": after}
    tells: dict[str, Any] = {"origin": f"asked {key}", "delay": after + 0.1}
    marks.append(Box(f"asked {key}", left, 196 if lost else 156, 152, 24, (f"{group}?",), Tone.NEW, **asks))
    if lost:
        tells = {"delay": 0.45}
        marks.append(Box(f"lost {key}", middle - 10, 178, 20, 20, ("✗",), Tone.ERROR, is_bold=True))
    elif states[asked] == "leader":
        # The one offset that it finds, or all that it has looked at.
        frame = (middle - 72, 93, 144, 20) if answer == "offset −1" else (middle - 10, 93, 20, 20)
        marks.append(Box(f"found {key}", *frame, tone=Tone.NEW, is_hollow=True, delay=after))
        tells["origin"] = f"found {key}"
    for number, (each, size) in enumerate(zip(states, sizes, strict=True)):
        marks += _draw_offsets(number, each, size, max(sizes))
    width = 236 if len(answer) > 22 else 168
    marks.append(Box(f"answer {key}", middle - width / 2, 249, width, 26, (answer,), tone, is_bold=True, **tells))
    meaning = _MEANINGS.get(answer, "The leader answers from its memory. It does not read the log.")
    text += [f"group: {group}", f"broker {asked + 1} answers: {answer}"]
    caption = f"{phase[0].upper()}{phase[1:]}. {meaning}"
    line = Line(f"Broker {asked + 1} {'is dead' if lost else 'answers'}: {answer}", tone)
    return Scene(tuple(marks), caption, tuple(text), lines=(line,))


def _name_memory(state: str, size: int) -> str:
    return {"dead": "lost", "loading": "not complete"}.get(state, f"{size} offsets" if size else "empty")


def _draw_broker(number: int, state: str, size: int) -> Iterator[Mark]:
    left = _COLUMN_LEFTS[number]
    is_dead = state == "dead"
    middle = left + _COLUMN_WIDTH / 2
    yield Arrow(f"way {number}", middle, 225, middle, 190, Tone.MUTED, has_head=False)
    yield Label(f"name {number}", middle, 18, f"broker {number + 1}", "middle", is_bold=True)
    style: dict[str, Any] = {"is_dashed": is_dead, "is_gone": is_dead, "choice": ("broker", number + 1)}
    delay = _LOADED if state == "leader" else _BEFORE
    yield Box(f"frame {number}", left, 26, _COLUMN_WIDTH, 162, tone=_TONES[state], delay=delay, **style)
    word = {"dead": "✗ dead", "loading": "leader, loading"}.get(state, state)
    yield Label(f"state {number}", middle, 46, word, "middle", size=13, is_bold=True, delay=delay)
    lines = ("memory", _name_memory(state, size), "")
    yield Box(f"memory {number}", left + 12, 54, 152, 62, lines, Tone.PAGE, 11, delay=delay)
    tone = Tone.DEAD if is_dead else Tone.PLAIN
    frame = (left + 12, 120, 152, 32, ("__consumer_offsets", "partition 9"))
    yield Box(f"log {number}", *frame, tone, 11, delay=_BEFORE, short="log of part. 9")


def _draw_offsets(number: int, state: str, size: int, full: int) -> Iterator[Mark]:
    for cell in range(full if state == "loading" else size):
        key = f"cell {number} {cell}"
        style: dict[str, Any] = {"tone": Tone.LIVE, "is_solid": True, "origin": f"log {number}"}
        style["delay"] = 0.04 * (cell % 3) - 0.25
        if state == "dead":
            style = {"tone": Tone.DEAD, "is_hollow": True, "delay": _BEFORE}
        elif state == "loading" and cell > 2:
            key = f"missing {number} {cell}"
            style = {"tone": Tone.MUTED, "is_hollow": True, "is_dashed": True}
        yield Box(key, _COLUMN_LEFTS[number] + 20 + cell * 20, 96, 16, 14, **style)
