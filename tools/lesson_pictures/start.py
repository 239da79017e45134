"""The pictures of lessons 00 to 03: an offset survives, a record, the partition of a group, the files of a log."""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.course.figures.marks import WIDTH, Arrow, Box, Curve, Label, Mark, Tone
from lesson_pictures.shared import (
    LINE_BOX_HEIGHT,
    MARGIN,
    RIGHT,
    ROW_HEIGHT,
    SIZE,
    Picture,
    draw_line_box,
    draw_row,
)

PARTITIONS = 50
BILLING = 9
"""The partition of the group billing."""


def draw_survival() -> Picture:
    """Return the picture of lesson 00: a commit, the death of a broker, and the answer of another broker."""
    marks = (
        draw_line_box("consumer", MARGIN, 14, 106, "a consumer"),
        Label("commit words", 216, 21, "commits orders-0 → 17", "middle", size=SIZE),
        Arrow("commit", 116, 32, 316, 32),
        draw_line_box("broker", 320, 14, 100, "a broker"),
        Arrow("death", 422, 31, 456, 31, is_dashed=True),
        Box("dead broker", 460, 14, 92, LINE_BOX_HEIGHT, ("it dies",), Tone.ERROR, SIZE, is_dashed=True),
        Arrow("append", 370, 50, 370, 92),
        Label("append words", 358, 76, "appends it", "end", size=SIZE),
        Box("disk", MARGIN, 94, RIGHT - MARGIN, 62, tone=Tone.MUTED),
        Label("disk name", 20, 122, "__consumer_offsets", size=SIZE, is_bold=True),
        Label("disk words", 20, 143, "on disk", size=SIZE),
        Box("record", 290, 106, 160, 38, ("orders-0 → 17",), Tone.LIVE, SIZE),
        Arrow("read", 370, 158, 370, 200),
        Label("read words", 358, 184, "reads it", "end", size=SIZE),
        draw_line_box("other broker", 302, 202, 144, "another broker"),
        Arrow("answer", 298, 220, 118, 220),
        Label("answer words", 208, 210, "answers 17 again", "middle", size=SIZE),
        draw_line_box("same consumer", MARGIN, 202, 106, "a consumer"),
    )
    return Picture("A committed offset survives the death of a broker", 244, marks)


def draw_record() -> Picture:
    """Return the picture of lesson 01: the key and the value of a commit, and a tombstone."""
    key = (("type", "1"), ("group", '"billing"'), ("topic", '"orders"'), ("partition", "0"))
    value = (("version", "4"), ("offset", "35"), ("epoch, metadata, …",))
    marks = [
        Label("key words", MARGIN, 22, "key: whose position?", size=SIZE, is_bold=True),
        *draw_row("key", MARGIN, 32, key, (60, 94, 90, 94), Tone.NEW),
        Arrow("to value", 38, 82, 38, 126),
        Label("value words", 54, 110, "value: the position, and more", size=SIZE, is_bold=True),
        *draw_row("value", MARGIN, 130, value, (76, 70, 192), Tone.LIVE),
        Arrow("to tombstone", 350, 55, 456, 126, is_dashed=True),
        Label("or", 430, 88, "or", size=SIZE),
        Box("tombstone", 378, 130, 174, ROW_HEIGHT, ("no value:", "a tombstone"), Tone.DEAD, SIZE, is_dashed=True),
    ]
    return Picture("A record: a key, and a value or no value", 184, tuple(marks))


def draw_partition() -> Picture:
    """Return the picture of lesson 02: the steps from a group's name to its partition."""
    cell_width = (RIGHT - MARGIN) / PARTITIONS
    middle = MARGIN + (BILLING + 0.5) * cell_width
    marks = [
        Box("group", MARGIN, 8, 104, ROW_HEIGHT, ('"billing"',), Tone.NEW, SIZE),
        Arrow("to hash", 114, 31, 146, 31),
        Box("hash", 150, 8, 176, ROW_HEIGHT, ("String.hashCode()", "(a 32-bit int)"), size=SIZE),
        Arrow("to abs", 328, 31, 360, 31),
        Box("abs", 364, 8, 64, ROW_HEIGHT, ("abs",), size=SIZE),
        Arrow("to modulo", 430, 31, 462, 31),
        Box("modulo", 466, 8, 86, ROW_HEIGHT, ("% 50",), size=SIZE),
        Curve("way", ((509, 54), (509, 76), (middle, 76))),
        Arrow("to partition", middle, 76, middle, 126),
        Label("partition", middle + 14, 108, "partition 9", size=SIZE, is_bold=True),
        *(draw_cell(number, cell_width) for number in range(PARTITIONS)),
        Label("first", MARGIN, 180, "0", size=SIZE),
        Label("topic", WIDTH / 2, 180, "the partitions of __consumer_offsets", "middle", size=SIZE),
        Label("last", RIGHT, 180, "49", "end", size=SIZE),
    ]
    return Picture("From the name of a group to its partition", 190, tuple(marks))


def draw_cell(number: int, width: float) -> Box:
    """Return the small box of a partition. The partition of billing is higher than the others."""
    x = MARGIN + number * width
    if number == BILLING:
        return Box(f"cell {number}", x, 128, width, 34, tone=Tone.NEW)
    return Box(f"cell {number}", x, 132, width, 26)


def draw_log() -> Picture:
    """Return the picture of lesson 03: a folder, its files, and the batches of a file."""
    marks = [
        Box("folder", MARGIN, 4, RIGHT - MARGIN, 212, tone=Tone.MUTED),
        Label("folder name", 18, 26, "__consumer_offsets-9/", size=SIZE, is_bold=True),
        Label("folder words", RIGHT - 10, 26, "a folder: one partition", "end", size=SIZE),
        Box("file", 18, 40, RIGHT - 28, 166, tone=Tone.MUTED),
        Label("file name", 28, 64, "00000000000000000000.log", size=SIZE, is_bold=True),
        Label("file words", RIGHT - 20, 64, "a file: one segment", "end", size=SIZE),
        Label("file name words", 28, 86, "named by its first offset", size=SIZE, tone=Tone.MUTED),
        *draw_batch(0, 28, 100, 80),
        *draw_batch(1, 192, 100, 110),
        Box("more batches", 386, 100, 146, ROW_HEIGHT, ("more batches",), size=SIZE, is_dashed=True),
        Label("batch 0 words", 28, 168, "a batch", size=SIZE),
        Label("batch 1 words", 192, 168, "a batch", size=SIZE),
        Label("gap words", 28, 194, "one after another, without gaps", size=SIZE, tone=Tone.MUTED),
    ]
    return Picture("A partition's folder, a segment file, and its batches", 220, tuple(marks))


def draw_batch(number: int, x: float, y: float, records_width: float) -> Iterator[Mark]:
    """Yield the two boxes of a batch: its header and its records."""
    yield Box(f"header {number}", x, y, 80, ROW_HEIGHT, ("header", "61 bytes"), Tone.NEW, SIZE)
    yield Box(f"records {number}", x + 80, y, records_width, ROW_HEIGHT, ("records",), Tone.LIVE, SIZE)
