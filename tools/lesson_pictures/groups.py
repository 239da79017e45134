"""The pictures of lessons 06 and 13: the states of a classic group, and the epochs of the new protocols."""

from __future__ import annotations

from kafkagroups.course.figures.marks import Arrow, Curve, Label, Mark, Tone
from lesson_pictures.shared import LINE_BOX_HEIGHT, MARGIN, SIZE, Picture, draw_line_box

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
STATE_X = 166
STATE_WIDTH = 190
STATE_DISTANCE = 84

EPOCHS = (
    ("group epoch", "the group has changed"),
    ("targets", "who should have which partition"),
    ("assignment epoch", "all targets are computed"),
    ("current assignments", "the members move to their targets"),
)
"""What changes after a member joins, in this order."""


def draw_states() -> Picture:
    """Return the picture of lesson 06: the states of a group and what changes them."""
    right = STATE_X + STATE_WIDTH
    loop = right + 44
    preparing, completing, stable = (8 + number * STATE_DISTANCE for number in (1, 2, 3))
    last = 8 + len(STATES) * STATE_DISTANCE - 22
    marks: list[Mark] = [
        draw_line_box(name, STATE_X, 8 + number * STATE_DISTANCE, STATE_WIDTH, name, tone)
        for number, (name, tone) in enumerate(zip(STATES, (Tone.PLAIN, Tone.WAIT, Tone.WAIT, Tone.LIVE), strict=True))
    ]
    marks += [
        Arrow("join", 214, preparing - 48, 214, preparing - 2),
        Label("join words", 202, preparing - 20, "a member joins", "end", size=SIZE),
        Arrow("leave", 306, preparing - 2, 306, preparing - 48),
        Label("leave words", 318, preparing - 20, "the last member leaves", size=SIZE),
        Arrow("complete", 261, completing - 48, 261, completing - 2),
        Label("complete words 0", 248, completing - 30, "all have joined,", "end", size=SIZE),
        Label("complete words 1", 248, completing - 10, "or time is over", "end", size=SIZE),
        Arrow("stabilize", 261, stable - 48, 261, stable - 2),
        Label("stabilize words 0", 248, stable - 30, "the assignments", "end", size=SIZE),
        Label("stabilize words 1", 248, stable - 10, "are stored", "end", size=SIZE),
        Curve("from stable", ((right, stable + 17), (loop, stable + 17), (loop, preparing + 17))),
        Curve("from completing", ((right, completing + 17), (loop, completing + 17))),
        Arrow("again", loop, preparing + 17, right + 2, preparing + 17),
        Label("again words 0", loop + 10, completing + 12, "a member joins,", size=SIZE),
        Label("again words 1", loop + 10, completing + 32, "leaves or fails", size=SIZE),
        draw_line_box("every state", MARGIN, last + 6, 116, "every state", is_dashed=True),
        Arrow("die", 126, last + 23, 158, last + 23),
        draw_line_box("dead", 162, last + 6, 64, "Dead", Tone.DEAD),
        Label("dead words 0", 240, last + 19, "the group is deleted, or another", size=SIZE),
        Label("dead words 1", 240, last + 39, "broker becomes its coordinator", size=SIZE),
    ]
    return Picture("The states of a group and what changes them", last + 50, tuple(marks))


def draw_epochs() -> Picture:
    """Return the picture of lesson 13: what changes after a member joins."""
    marks: list[Mark] = [draw_line_box("join", MARGIN, 6, 190, "a member joins", Tone.NEW)]
    for number, (name, words) in enumerate(EPOCHS):
        y = 66 + number * 60
        tone = Tone.LIVE if number == len(EPOCHS) - 1 else Tone.PLAIN
        marks += [
            Arrow(f"to {name}", 103, y - 24, 103, y - 2),
            draw_line_box(name, MARGIN, y, 190, name, tone),
            Label(f"{name} words", 214, y + LINE_BOX_HEIGHT / 2 + 5, words, size=SIZE),
        ]
    return Picture("What changes after a member joins", 66 + len(EPOCHS) * 60 - 18, tuple(marks))
