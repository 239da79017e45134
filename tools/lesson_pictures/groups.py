"""The pictures of lessons 06 and 13: the states of a classic group, and the epochs of the new protocols."""

from __future__ import annotations

from kafkagroups.course.figures.marks import Arrow, Curve, Label, Mark, Tone
from lesson_pictures.shared import LARGE, LINE_BOX_HEIGHT, MARGIN, Picture, draw_large_box

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
STATE_X = 172
STATE_WIDTH = 216
STATE_DISTANCE = 84

EPOCHS = (
    ("group epoch", "the group has changed"),
    ("targets", "who should have what"),
    ("assignment epoch", "the targets are complete"),
    ("current assignments", "the members move"),
)
"""What changes after a member joins, in this order."""


def draw_states() -> Picture:
    """Return the picture of lesson 06: the states of a group and what changes them."""
    right = STATE_X + STATE_WIDTH
    loop = right + 24
    preparing, completing, stable = (8 + number * STATE_DISTANCE for number in (1, 2, 3))
    last = 8 + len(STATES) * STATE_DISTANCE - 22
    tones = (Tone.PLAIN, Tone.WAIT, Tone.WAIT, Tone.LIVE)
    marks: list[Mark] = [
        draw_large_box(name, STATE_X, 8 + number * STATE_DISTANCE, STATE_WIDTH, name, tone)
        for number, (name, tone) in enumerate(zip(STATES, tones, strict=True))
    ]
    marks += [
        Arrow("join", 224, preparing - 48, 224, preparing - 2),
        Label("join words", 212, preparing - 19, "a member joins", "end", size=LARGE),
        Arrow("leave", 336, preparing - 2, 336, preparing - 48),
        Label("leave words", 348, preparing - 19, "the last one leaves", size=LARGE),
        Arrow("complete", 280, completing - 48, 280, completing - 2),
        Label("complete words", 268, completing - 19, "all have joined", "end", size=LARGE),
        Arrow("stabilize", 280, stable - 48, 280, stable - 2),
        Label("stabilize words", 268, stable - 19, "assignments are stored", "end", size=LARGE),
        Curve("from stable", ((right, stable + 17), (loop, stable + 17), (loop, preparing + 17))),
        Curve("from completing", ((right, completing + 17), (loop, completing + 17))),
        Arrow("again", loop, preparing + 17, right + 2, preparing + 17),
        Label("again words 0", loop + 10, completing + 12, "join, leave", size=LARGE),
        Label("again words 1", loop + 10, completing + 36, "or failure", size=LARGE),
        draw_large_box("every state", MARGIN, last + 6, 140, "every state", is_dashed=True),
        Arrow("die", 150, last + 23, 180, last + 23),
        draw_large_box("dead", 184, last + 6, 68, "Dead", Tone.DEAD),
        Label("dead words 0", 264, last + 18, "deleted, or another", size=LARGE),
        Label("dead words 1", 264, last + 42, "broker coordinates it", size=LARGE),
    ]
    return Picture("The states of a group and what changes them", last + 54, tuple(marks))


def draw_epochs() -> Picture:
    """Return the picture of lesson 13: what changes after a member joins."""
    marks: list[Mark] = [draw_large_box("join", MARGIN, 6, 226, "a member joins", Tone.NEW)]
    for number, (name, words) in enumerate(EPOCHS):
        y = 66 + number * 60
        tone = Tone.LIVE if number == len(EPOCHS) - 1 else Tone.PLAIN
        marks += [
            Arrow(f"to {name}", 121, y - 24, 121, y - 2),
            draw_large_box(name, MARGIN, y, 226, name, tone),
            Label(f"{name} words", 252, y + LINE_BOX_HEIGHT / 2 + 6, words, size=LARGE),
        ]
    return Picture("What changes after a member joins", 66 + len(EPOCHS) * 60 - 18, tuple(marks))
