"""The pictures of lessons 11 and 12: one load, and three ways to divide a load."""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.course.figures.marks import WIDTH, Arrow, Box, Label, Mark, Tone
from lesson_pictures.shared import LINE_BOX_HEIGHT, MARGIN, RIGHT, SIZE, Picture, draw_line_box

EFFECTS = (
    (" 3: billing orders-0 = 5", "set", Tone.LIVE),
    ("11: billing orders-0 = 11", "replace", Tone.LIVE),
    ("23: fraud-check payments-0 = 10,\n    producer 1", "wait", Tone.WAIT),
    ("25: producer 1 commits", "now it counts", Tone.LIVE),
    (" …  deleted", "remove", Tone.DEAD),
)
"""Records of the log, and what each one does to the memory of the coordinator."""

MEMORY = (("billing", "orders-0", "50"), ("billing", "orders-1", "51"), ("fraud-check", "payments-0", "25"))
"""What the next coordinator has at the end: group, partition, offset."""


def draw_load() -> Picture:
    """Return the picture of lesson 11: the records of a log change the memory of the next coordinator."""
    marks: list[Mark] = [Label("log name", MARGIN, 20, "the log of partition 9", size=SIZE, is_bold=True)]
    y = 30.0
    for number, (record, effect, tone) in enumerate(EFFECTS):
        lines = record.split("\n")
        height = LINE_BOX_HEIGHT + 20 * (len(lines) - 1)
        marks.append(Box(f"record {number}", MARGIN, y, 320, height))
        for line_number, line in enumerate(lines):
            marks.append(Label(f"record {number} {line_number}", 18, y + 22 + 20 * line_number, line, size=SIZE))
        marks.append(Arrow(f"to effect {number}", 330, y + height / 2, 384, y + height / 2))
        marks.append(Box(f"effect {number}", 388, y, RIGHT - 388, height, (effect,), tone, SIZE))
        y += height
    marks += [
        Arrow("load", 40, y + 4, 40, y + 40),
        Label("load words", 56, y + 27, "from the first record to the last", size=SIZE),
        *draw_memory(y + 42),
    ]
    return Picture("A log, and the memory of the next coordinator", y + 150, tuple(marks))


def draw_memory(y: float) -> Iterator[Mark]:
    """Yield the box with the memory of the next coordinator."""
    yield Box("memory", MARGIN, y, RIGHT - MARGIN, 100, tone=Tone.LIVE)
    yield Label("memory name", 18, y + 23, "memory of the next coordinator", size=SIZE, is_bold=True)
    yield Label("answer words", RIGHT - 10, y + 23, "only then, it answers", "end", size=SIZE)
    shown = ""
    for number, (group, partition, offset) in enumerate(MEMORY):
        base_line = y + 46 + 21 * number
        if group != shown:
            yield Label(f"group {number}", 18, base_line, group, size=SIZE)
        yield Label(f"partition {number}", 160, base_line, partition, size=SIZE)
        yield Label(f"offset {number}", 330, base_line, offset, "end", size=SIZE)
        shown = group


def draw_divided_loads() -> Picture:
    """Return the picture of lesson 12: one partition after another, whole partitions, and parts with a merge."""
    marks: list[Mark] = [
        Label("broker", MARGIN, 20, "a broker", size=SIZE, is_bold=True),
        Label("whole words 0", MARGIN, 108, "a program:", size=SIZE, is_bold=True),
        Label("whole words 1", MARGIN, 128, "whole partitions", size=SIZE, is_bold=True),
        Label("parts words 0", 244, 108, "a program:", size=SIZE, is_bold=True),
        Label("parts words 1", 244, 128, "parts and a merge", size=SIZE, is_bold=True),
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
    return Picture("Three ways to load: in turn, whole partitions, parts and a merge", 266, tuple(marks))
