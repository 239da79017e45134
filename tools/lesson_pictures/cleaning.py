"""The pictures of lessons 08, 09 and 10: pending offsets, tombstones, and a pass of the cleaner."""

from __future__ import annotations

from kafkagroups.course.figures.marks import Arrow, Box, Curve, Label, Mark, Tone
from lesson_pictures.shared import MARGIN, RIGHT, ROW_HEIGHT, SIZE, Picture, draw_line_box, draw_row

RECORDS = ("A=1", "B=1", "A=2", "C=1", "A=3", "B=∅", "A=4")
ACTIVE = 6
"""The offset at which the active segment begins."""
TONES = {3: Tone.LIVE, 4: Tone.LIVE, 5: Tone.LIVE, ACTIVE: Tone.PLAIN}
"""The tones of the records that are left after the pass, by their offsets."""


def draw_transaction() -> Picture:
    """Return the picture of lesson 08: an offset is pending until the marker of its transaction."""
    marks = (
        Label("service 0", MARGIN, 22, "a service reads payments, writes alarms,", size=SIZE),
        Label("service 1", MARGIN, 43, "and commits its offsets in ONE transaction", size=SIZE),
        Label("log name", MARGIN, 84, "__consumer_offsets-9", size=SIZE, is_bold=True),
        Box("before", MARGIN, 94, 36, ROW_HEIGHT, ("…",), size=SIZE),
        Box("record", 44, 94, 164, ROW_HEIGHT, ("payments-0 = 10", "producer 1"), Tone.WAIT, SIZE),
        Box("between", 208, 94, 92, ROW_HEIGHT, ("…",), size=SIZE),
        Box("marker", 300, 94, 190, ROW_HEIGHT, ("marker:", "producer 1 COMMITS"), Tone.LIVE, SIZE, is_bold=True),
        Box("after", 490, 94, 62, ROW_HEIGHT, ("…",), size=SIZE),
        Curve("begin of pending", ((44, 140), (44, 166)), Tone.WAIT, is_dashed=True),
        Curve("end of pending", ((300, 140), (300, 166)), Tone.LIVE, is_dashed=True),
        Box("pending", 44, 166, 256, 34, ("pending",), Tone.WAIT, SIZE, is_dashed=True),
        Box("counts", 300, 166, RIGHT - 300, 34, ("counts from here on",), Tone.LIVE, SIZE),
    )
    return Picture("An offset in a transaction counts from the marker on", 208, marks)


def draw_tombstones() -> Picture:
    """Return the picture of lesson 09: the records of a group, and the batch of tombstones that deletes them."""
    records = (("group", "gen 1"), ("orders-0", "7"), ("orders-1", "7"), ("orders-2", "7"), ("group", "gen 2"))
    tombstones = tuple((key, "no value") for key in ("orders-2", "orders-0", "orders-1", "group"))
    marks = [
        Label("log name", MARGIN, 22, "the log of mailer's partition", size=SIZE, is_bold=True),
        *draw_row("record", MARGIN, 32, records, (100,) * 5, Tone.LIVE),
        Curve("way", ((508, 55), (536, 55), (536, 98), (60, 98))),
        Arrow("to batch", 60, 98, 60, 120),
        Box("batch", MARGIN, 122, RIGHT - MARGIN, 92, tone=Tone.MUTED),
        Label("batch name", 20, 146, "one batch", size=SIZE, is_bold=True),
        Label("batch words", RIGHT - 12, 146, "tombstones", "end", size=SIZE),
        *(
            Box(f"tombstone {number}", 20 + 130 * number, 158, 130, ROW_HEIGHT, lines, Tone.DEAD, SIZE, is_dashed=True)
            for number, lines in enumerate(tombstones)
        ),
    ]
    return Picture("The records of a group, and a batch of tombstones", 220, tuple(marks))


def draw_compaction() -> Picture:
    """Return the picture of lesson 10: a log before and after a pass of the cleaner."""
    wall = find_column(ACTIVE) - 10
    marks: list[Mark] = [
        Label("closed", find_column(0), 22, "closed segments", size=SIZE, is_bold=True),
        Label("active", RIGHT, 22, "active segment", "end", size=SIZE, is_bold=True),
        Label("offset", MARGIN, 50, "offset", size=SIZE),
        Label("before", MARGIN, 81, "before", size=SIZE, is_bold=True),
        Label("after", MARGIN, 201, "after", size=SIZE, is_bold=True),
        Curve("wall", ((wall, 34), (wall, 216)), is_dashed=True),
        Arrow("to map", 272, 96, 272, 114),
        draw_line_box("map", 96, 116, 352, "the offset map: A → 4, B → 5, C → 3", Tone.NEW),
        Arrow("from map", 272, 152, 272, 176),
    ]
    for offset, text in enumerate(RECORDS):
        x = find_column(offset)
        tone = TONES.get(offset, Tone.DEAD)
        is_gone = tone is Tone.DEAD
        marks.append(Label(f"offset {offset}", x + 31, 50, str(offset), "middle", size=SIZE))
        marks.append(draw_line_box(f"before {offset}", x, 59, 62, text, tone, is_gone))
        if not is_gone:
            marks.append(draw_line_box(f"after {offset}", x, 179, 62, text, tone))
    return Picture("A log before and after a pass of the cleaner", 222, tuple(marks))


def find_column(offset: int) -> float:
    """Return the x of the records at an offset. The active segment is behind a wall."""
    gap = 16 if offset >= ACTIVE else 0
    return 78 + offset * 66 + gap - 4
