"""Lesson 04: a commit on its way from the client to the replicas, and a power cut at each step.

After each step, the figure shows where an offset is, and, if the reader cuts the power, what the next broker answers
with all records of the log and with those that the replicas have confirmed.
"""

from __future__ import annotations

from kafkagroups.course.commit_script import GROUP, CommitScript, CommitStep
from kafkagroups.course.figures.figure import Content, Control, Figure
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone

_HEIGHT = 268
_POWER = ("on", "cut after this step")
_SENTENCES = {
    "checked": "The coordinator has checked the commit, and the offset is pending. Nothing is in the log yet.",
    "appended": "The record is in this broker's log. The replicas do not have it yet, so a fetch does not return it.",
    "cached": "The replicas have the record, so the offset moves to the cache. The client has no answer yet.",
    "confirmed": "The replicas have the record, the cache has the offset, and the client receives NONE: no error.",
    "answered": "The client receives NONE: no error.",
    "late": "The replicas did not have the record in time. The client receives an error, but the record stays.",
    "refuses": "The log refused the batch. Nothing was written, and the client receives an error.",
}
"""What a step means, by the first word of its description that fits."""


class CommitAndPowerCut(Figure):
    """Commits of the group `dashboard` for orders-0. `script` has the actions, as `CommitScript` explains them."""

    def __init__(self, *script: str) -> None:
        self.steps = CommitScript(*script).steps
        controls = (
            Control(
                "step", "step", tuple(step.description for step in self.steps), initial=min(4, len(self.steps) - 1)
            ),
            Control("power", "power", _POWER, is_sequence=False, initial=1),
        )

        def draw(step: int, power: int) -> Scene:
            return _draw(self.steps[step], self.steps[step - 1] if step else None, is_cut=power == 1)

        super().__init__(Content.draw("A commit, and a power cut at any step", _HEIGHT, controls, draw))


def _draw(step: CommitStep, previous: CommitStep | None, *, is_cut: bool) -> Scene:
    places = step.places
    before = previous.places if previous else None
    dead = Tone.ERROR if is_cut else Tone.MUTED
    marks: list[Mark] = [
        Label("client title", 60, 22, "client", "middle", is_bold=True),
        Box("broker", 150, 30, 250, 132, tone=dead, is_dashed=is_cut, is_hollow=True),
        Label(
            "broker title", 275, 22, "coordinator" if not is_cut else "coordinator: no power", "middle", is_bold=True
        ),
        Label("replica title", 490, 22, "replica", "middle", is_bold=True),
        _draw_slot("pending", (162, 44, 108), places.pending, before and before.pending, Tone.WAIT, is_lost=is_cut),
        _draw_slot("cache", (280, 44, 108), places.cache, before and before.cache, Tone.LIVE, is_lost=is_cut),
        _draw_slot("log", (162, 108, 226), places.log, before and before.log, Tone.PLAIN),
        _draw_slot("confirmed", (430, 108, 120), step.answer_from_confirmed_log, None, Tone.PLAIN),
        _draw_responses(places.responses.split(", "), before and before.responses.split(", ")),
        Arrow("request", 120, 70, 148, 70, Tone.MUTED),
        Arrow("replicate", 402, 130, 428, 130, Tone.MUTED),
    ]
    if is_cut:
        marks += [
            Label("next title", 10, 196, "The next broker loads its log and answers:", is_bold=True),
            _draw_answer("whole", 10, "it has the whole log", _name_answer(step.answer_from_whole_log)),
            _draw_answer(
                "confirmed answer", 290, "it has the confirmed records", _name_answer(step.answer_from_confirmed_log)
            ),
        ]
        caption = (
            f"The power fails after “{step.description}”. Memory is lost: pending commits and the cache. "
            f"The next broker answers {_name_answer(step.next_answers)}."
        )
    else:
        marks.append(Label("fetch", 10, 196, f"An OffsetFetch now returns {_name_answer(places.cache)}."))
        caption = f"{step.description}. {_explain(step)}"
    text = [
        f"step: {step.description}",
        f"pending: {places.pending}",
        f"log: {places.log}",
        f"cache: {places.cache}",
        *(f"response to {response}" for response in places.responses.split(", ")),
    ]
    if is_cut:
        text.append(f"after a power cut, with the whole log: {_name_answer(step.answer_from_whole_log)}")
        text.append(f"after a power cut, with the confirmed log: {_name_answer(step.answer_from_confirmed_log)}")
    return Scene(tuple(marks), caption, tuple(text))


def _name_answer(answer: str) -> str:
    return answer.replace("–", "−1")


def _explain(step: CommitStep) -> str:
    return next((sentence for word, sentence in _SENTENCES.items() if word in step.description), "")


Slot = tuple[float, float, float]


def _draw_slot(key: str, slot: Slot, value: str, before: str | None, tone: Tone, *, is_lost: bool = False) -> Box:
    is_new = before is not None and before != value
    is_empty = value in ("", "–", "empty", "nothing")
    if is_lost:
        tone = Tone.DEAD
    elif is_new:
        tone = Tone.NEW
    elif is_empty:
        tone = Tone.MUTED
    hue = "" if is_empty else GROUP
    return Box(key, *slot, 46, (key, value), tone, is_bold=is_new, is_gone=is_lost, is_hollow=is_empty, hue=hue)


def _draw_responses(responses: list[str], before: list[str] | None) -> Box:
    is_new = before is not None and before != responses
    return Box(
        "responses", 10, 44, 108, 52, ("responses", *responses), Tone.NEW if is_new else Tone.PLAIN, is_bold=is_new
    )


def _draw_answer(key: str, x: float, name: str, answer: str) -> Box:
    return Box(key, x, 208, 260, 46, (name, _name_answer(answer)), Tone.NEW)
