"""Lesson 05: a failover of partition 9 to another broker, and a client that asks for an offset."""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.coordinator import Errors, GroupCoordinator, TopicPartition
from kafkagroups.course.broker import start_broker
from kafkagroups.course.figures.figure import Content, Control, Figure
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone
from kafkagroups.course.lesson_folders import find_data

_HEIGHT = 262
_COLUMN_WIDTH = 176
_COLUMN_LEFTS = (10, 192, 374)
_PARTITION_OF_OFFSETS = 9
_ORDERS_0 = TopicPartition("orders", 0)


class _Question(NamedTuple):
    """Every group of the questions is stored in partition 9."""

    words: str
    group: str
    require_stable: bool


_QUESTIONS = (
    _Question("billing", "billing", False),
    _Question("a group that never existed", "coupons", False),
    _Question("fraud-check, only stable offsets", "fraud-check", True),
)


class _Phase(NamedTuple):
    words: str
    states: tuple[str, str, str]


_PHASES = (
    _Phase("broker 1 leads partition 9", ("leader", "follower", "follower")),
    _Phase("broker 1 dies", ("dead", "follower", "follower")),
    _Phase("broker 2 becomes the leader", ("dead", "loading", "follower")),
    _Phase("broker 2 has loaded", ("dead", "leader", "follower")),
    _Phase("broker 1 is back, as a follower", ("follower", "leader", "follower")),
)
_TONES = {"leader": Tone.LIVE, "follower": Tone.MUTED, "loading": Tone.WAIT, "dead": Tone.ERROR}
_MEANINGS = {
    "no connection": "The client asks any other broker: who is the coordinator of this group?",
    "NOT_COORDINATOR": "This broker does not lead the group's partition. The client asks FindCoordinator again.",
    "COORDINATOR_LOAD_IN_PROGRESS": "The memory is not complete yet. The client waits, and asks the same broker again.",
    "UNSTABLE_OFFSET_COMMIT": "A transaction with this offset is still open. The client waits, and asks again.",
    "offset −1": "Nothing was committed. This is not an error, and auto.offset.reset decides where to start.",
}


class Failover(Figure):
    def __init__(self) -> None:
        brokers = [start_broker(find_data("harbour/4.3.1"), "4.3.1") for _ in range(3)]
        controls = (
            Control("phase", "phase", tuple(phase.words for phase in _PHASES)),
            Control("broker", "ask", ("broker 1", "broker 2", "broker 3"), is_sequence=False),
            Control("group", "for orders-0 of", tuple(question.words for question in _QUESTIONS), is_sequence=False),
        )
        scenes: dict[tuple[int, ...], Scene] = {}
        for phase_number, phase in enumerate(_PHASES):
            for broker, state in zip(brokers, phase.states, strict=True):
                _change_state(broker, state)
            sizes = [_count_offsets(broker, state) for broker, state in zip(brokers, phase.states, strict=True)]
            for broker_number, broker in enumerate(brokers):
                for question_number, question in enumerate(_QUESTIONS):
                    answer = _ask(broker, phase.states[broker_number], question)
                    scene = _draw(phase, sizes, broker_number, question, answer)
                    scenes[phase_number, broker_number, question_number] = scene
        super().__init__(Content("A failover of partition 9, and a client that asks", _HEIGHT, controls, scenes))


def _change_state(broker: GroupCoordinator, state: str) -> None:
    broker.resign(_PARTITION_OF_OFFSETS)
    broker.manager.loading.discard(_PARTITION_OF_OFFSETS)
    if state == "leader":
        broker.elect(_PARTITION_OF_OFFSETS)
    elif state == "loading":
        broker.manager.loading.add(_PARTITION_OF_OFFSETS)


def _count_offsets(broker: GroupCoordinator, state: str) -> int | None:
    if state == "dead":
        return None
    _, groups = broker.list_groups()
    return sum(
        len(broker.offset_fetch(group.group_id).value.offsets)
        for group in groups
        if broker.manager.partition_for(group.group_id) == _PARTITION_OF_OFFSETS
    )


def _ask(broker: GroupCoordinator, state: str, question: _Question) -> str:
    if state == "dead":
        return "no connection"
    result = broker.offset_fetch(question.group, [_ORDERS_0], require_stable=question.require_stable).value
    if result.error is not Errors.NONE:
        return result.error.name
    answer = result.offsets[_ORDERS_0]
    if answer.error is not Errors.NONE:
        return answer.error.name
    return f"offset {answer.offset}".replace("-", "−")


def _draw(phase: _Phase, sizes: list[int | None], asked: int, question: _Question, answer: str) -> Scene:
    marks: list[Mark] = []
    for number, (state, size) in enumerate(zip(phase.states, sizes, strict=True)):
        marks += _draw_broker(number, state, size)
    middle = _COLUMN_LEFTS[asked] + _COLUMN_WIDTH / 2
    is_offset = answer.startswith("offset") and answer != "offset −1"
    tone = Tone.LIVE if is_offset else Tone.PLAIN
    if answer.isupper() or answer == "no connection":
        tone = Tone.ERROR
    elif answer == "offset −1":
        tone = Tone.WAIT
    marks += [
        Box("client", 10, 208, 200, 44, ("client: OffsetFetch", question.group), Tone.NEW),
        Arrow("question", 110, 206, middle, 132, Tone.NEW, is_dashed=phase.states[asked] == "dead"),
        Label("answer title", 226, 204, f"broker {asked + 1} answers"),
        Box("answer", 226, 210, 324, 42, (answer,), tone, size=14, is_bold=True, is_dashed=tone is Tone.ERROR),
    ]
    meaning = _MEANINGS.get(answer, "The leader answers from its memory. It does not read the log.")
    text = [f"phase: {phase.words}"]
    for number, (state, size) in enumerate(zip(phase.states, sizes, strict=True), 1):
        text += [f"broker {number}: {state}", f"memory of broker {number}: {_name_memory(state, size)}"]
    text += [f"group: {question.group}", f"broker {asked + 1} answers: {answer}"]
    return Scene(tuple(marks), f"{phase.words[0].upper()}{phase.words[1:]}. {meaning}", tuple(text))


def _name_memory(state: str, size: int | None) -> str:
    if state == "dead":
        return "lost"
    if state == "loading":
        return "not complete"
    return f"{size} offsets" if size else "empty"


def _draw_broker(number: int, state: str, size: int | None) -> list[Mark]:
    left = _COLUMN_LEFTS[number]
    is_dead = state == "dead"
    return [
        Label(f"name {number}", left + _COLUMN_WIDTH / 2, 18, f"broker {number + 1}", "middle", is_bold=True),
        Box(
            f"frame {number}",
            left,
            26,
            _COLUMN_WIDTH,
            104,
            tone=_TONES[state],
            is_hollow=True,
            is_dashed=is_dead,
            is_gone=is_dead,
            choice=("broker", number),
        ),
        Label(f"state {number}", left + _COLUMN_WIDTH / 2, 46, state, "middle", size=13, is_bold=True),
        Box(f"memory {number}", left + 12, 56, 152, 26, (f"memory: {_name_memory(state, size)}",)),
        Box(f"log {number}", left + 12, 92, 152, 26, ("log of partition 9",)),
    ]
