"""The picture of lesson 14: the four questions about a log."""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Tone
from lesson_pictures.shared import MARGIN, SIZE, Picture

COLUMN_WIDTH = 264
RIGHT_COLUMN = MARGIN + COLUMN_WIDTH + 16
LOWER_ROW = 176


def draw_questions() -> Picture:
    """Return the picture of lesson 14: where, who, what a broker answers, and what changed."""
    marks: list[Mark] = [
        *draw_heading("where", MARGIN, 20, "1 where?", "stats, check"),
        *draw_partitions(MARGIN, 36),
        *draw_heading("who", RIGHT_COLUMN, 20, "2 who?", "timeline, explain"),
        *draw_records(RIGHT_COLUMN, 36),
        *draw_heading("answer", MARGIN, LOWER_ROW + 20, "3 what answer?", "load"),
        *draw_answer(MARGIN, LOWER_ROW + 36),
        *draw_heading("change", RIGHT_COLUMN, LOWER_ROW + 20, "4 what changed?", "diff"),
        *draw_two_logs(RIGHT_COLUMN, LOWER_ROW + 36),
    ]
    return Picture("Four questions about a log", LOWER_ROW + 152, tuple(marks))


def draw_heading(key: str, x: float, y: float, question: str, commands: str) -> Iterator[Mark]:
    yield Label(f"{key} question", x, y, question, size=SIZE, is_bold=True)
    yield Label(f"{key} commands", x + COLUMN_WIDTH, y, commands, "end", Tone.MUTED, SIZE)


def draw_partitions(x: float, y: float) -> Iterator[Mark]:
    """Yield partitions, one of which is much larger than the others."""
    for number in range(4):
        yield Box(f"partition {number}", x, y + number * 29, 34, 27, (str(10 + number),), size=SIZE)
        is_large = number == 2
        width = 214 if is_large else 30
        tone = Tone.ERROR if is_large else Tone.PLAIN
        yield Box(f"size {number}", x + 40, y + number * 29 + 3, width, 21, tone=tone)


def draw_records(x: float, y: float) -> Iterator[Mark]:
    """Yield records of three groups, of which one wrote most."""
    for number, group in enumerate(("billing", "ticker", "ticker", "ticker")):
        tone = Tone.ERROR if group == "ticker" else Tone.PLAIN
        yield Box(
            f"record {number}", x, y + number * 29, COLUMN_WIDTH, 27, (f"{group}: 1{number}:0{number}",), tone, SIZE
        )


def draw_answer(x: float, y: float) -> Iterator[Mark]:
    """Yield a log, and the answer of a broker that loads it."""
    for number in range(3):
        yield Box(f"log {number}", x, y + number * 32, 92, 30, tone=Tone.PLAIN)
    yield Arrow("to answer", x + 98, y + 47, x + 142, y + 47)
    yield Box("answer", x + 148, y + 20, COLUMN_WIDTH - 148, 54, ("offset", "4870"), Tone.LIVE, SIZE)


def draw_two_logs(x: float, y: float) -> Iterator[Mark]:
    """Yield two logs that differ in one record."""
    for column, name in enumerate("AB"):
        left = x + column * 136
        for number in range(3):
            is_different = number == 1
            tone = Tone.ERROR if is_different and column else Tone.PLAIN
            words = ("no record",) if is_different and column else (f"record {number}",)
            yield Box(
                f"{name} {number}", left, y + number * 32, 128, 30, words, tone, SIZE, is_dashed=tone is Tone.ERROR
            )
