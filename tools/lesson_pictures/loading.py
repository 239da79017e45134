"""The pictures of lessons 11 and 12: one load, and three ways to divide a load."""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.course.figures.marks import WIDTH, Arrow, Box, Label, Mark, Tone
from lesson_pictures.shared import LARGE, LINE_BOX_HEIGHT, MARGIN, RIGHT, SIZE, Picture, draw_large_box, draw_line_box

EFFECTS = (
    (" 3: billing orders-0 = 5", "set", Tone.LIVE),
    ("11: billing orders-0 = 11", "replace", Tone.LIVE),
    ("23: fraud-check payments-0 = 10", "wait", Tone.WAIT),
    ("25: its transaction commits", "count", Tone.LIVE),
    (" …  other keys, deleted", "remove", Tone.DEAD),
)
"""Records of the log, and what each one does to the memory of the coordinator."""

MEMORY = (("billing", "orders-0", "11"), ("fraud-check", "payments-0", "10"))
"""What the next coordinator has at the end: group, partition, offset."""


def draw_load() -> Picture:
    """Return the picture of lesson 11: the records of a log change the memory of the next coordinator."""
    marks: list[Mark] = [Label("log name", MARGIN, 20, "the log of partition 9", size=LARGE, is_bold=True)]
    y = 30.0
    for number, (record, effect, tone) in enumerate(EFFECTS):
        middle = y + LINE_BOX_HEIGHT / 2
        marks += [
            Box(f"record {number}", MARGIN, y, 364, LINE_BOX_HEIGHT),
            Label(f"record {number} words", 18, middle + 6, record, size=LARGE),
            Arrow(f"to effect {number}", 374, middle, 412, middle),
            draw_large_box(f"effect {number}", 416, y, RIGHT - 416, effect, tone),
        ]
        y += LINE_BOX_HEIGHT
    marks += [
        Arrow("load", 40, y + 4, 40, y + 40),
        Label("load words", 56, y + 28, "from the first record to the last", size=LARGE),
        *draw_memory(y + 42),
    ]
    return Picture("A log, and the memory of the next coordinator", y + 141, tuple(marks))


def draw_memory(y: float) -> Iterator[Mark]:
    """Yield the box with the memory of the next coordinator."""
    yield Box("memory", MARGIN, y, RIGHT - MARGIN, 91, tone=Tone.LIVE)
    yield Label("memory name", 18, y + 26, "memory of the next coordinator", size=LARGE, is_bold=True)
    yield Label("answer words", RIGHT - 10, y + 26, "then it answers", "end", size=LARGE)
    shown = ""
    for number, (group, partition, offset) in enumerate(MEMORY):
        base_line = y + 54 + 25 * number
        if group != shown:
            yield Label(f"group {number}", 18, base_line, group, size=LARGE)
        yield Label(f"partition {number}", 180, base_line, partition, size=LARGE)
        yield Label(f"offset {number}", 350, base_line, offset, "end", size=LARGE)
        shown = group


def draw_divided_loads() -> Picture:
    """Return the picture of lesson 12: one partition after another, whole partitions, and parts with a merge."""
    marks: list[Mark] = [
        Label("broker", MARGIN, 20, "a broker", size=SIZE, is_bold=True),
        Label("whole words 0", MARGIN, 108, "a program:", size=SIZE, is_bold=True),
        Label("whole words 1", MARGIN, 128, "whole partitions", size=SIZE, is_bold=True),
        Label("parts words 0", 244, 108, "a program:", size=SIZE, is_bold=True),
        Label("parts words 1", 244, 128, "parts and a merge: slower", size=SIZE, is_bold=True),
    ]
    for number in range(3):
        x = MARGIN + 146 * number
        y = 138 + 42 * number
        middle = y + LINE_BOX_HEIGHT / 2
        marks += [
            draw_line_box(f"in turn {number}", x, 30, 60, str(number)),
            Arrow(f"from {number}", x + 62, 47, x + 142, 47),
            draw_line_box(f"whole {number}", MARGIN, y, 50, str(number)),
            Arrow(f"to offsets {number}", 60, middle, 98, middle),
            draw_line_box(f"offsets {number}", 102, y, 86, "offsets", Tone.LIVE),
            draw_line_box(f"part {number}", 244, y, 56, "part"),
            Arrow(f"to result {number}", 302, middle, 328, middle),
            draw_line_box(f"result {number}", 332, y, 76, "result", Tone.WAIT),
            Arrow(f"to merge {number}", 410, middle, 462, 193 + 8 * number),
        ]
    marks += [
        draw_line_box("ready", MARGIN + 438, 30, 90, "ready", Tone.LIVE),
        Box("merged", 466, 180, RIGHT - 466, LINE_BOX_HEIGHT + 10, ("offsets",), Tone.LIVE, SIZE),
        Arrow("divide", 216, 90, 216, 256, Tone.MUTED, has_head=False),
        Arrow("under the broker", MARGIN, 80, WIDTH - MARGIN, 80, Tone.MUTED, has_head=False),
    ]
    return Picture("Three ways to load: in turn, whole partitions, and, slower, parts with a merge", 266, tuple(marks))
