"""The pictures of lessons 04, 05 and 07: the requests of a consumer and how they are answered."""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Tone
from lesson_pictures.shared import LARGE, LINE_BOX_HEIGHT, MARGIN, RIGHT, SIZE, Picture, draw_large_box, draw_line_box

STEPS = (
    ("1 check", "is this commit allowed?", Tone.PLAIN),
    ("2 append", "a record to __consumer_offsets, on its disk", Tone.NEW),
    ("3 wait", "until the replicas have the record", Tone.WAIT),
    ("4 show", "from now on, a fetch of orders-0 returns 6", Tone.LIVE),
)
"""What the coordinator does with a commit before it answers."""

QUESTIONS = (
    ("FindCoordinator", "any broker", ("partition 9 → broker 2",)),
    ("OffsetFetch", "broker 2", ("memory, not the log:", "orders-0 = 50, epoch 0")),
    ("OffsetForLeaderEpoch", "leader of orders-0", ("epoch 0 ends at 60",)),
)
"""The requests of a consumer that starts: the request, who answers it, and what the answer is based on."""

CHECKS = (
    ("1 is there a group?", "GROUP_ID_NOT_FOUND"),
    ("2 is it a member?", "UNKNOWN_MEMBER_ID"),
    ("3 this generation?", "ILLEGAL_GENERATION"),
    ("4 all assigned?", "REBALANCE_IN_PROGRESS"),
)
"""The checks of a commit in their order, each with its error."""


def draw_storing() -> Picture:
    """Return the picture of lesson 04: the steps between a commit and its answer."""
    marks: list[Mark] = [
        draw_line_box("consumer", MARGIN, 6, RIGHT - MARGIN, "a consumer"),
        Arrow("commit", 58, 42, 58, 84),
        Label("commit words", 70, 68, "commitSync({orders-0: 6})", size=SIZE),
        Arrow("answer", 500, 84, 500, 42),
        Label("answer words", 488, 68, "5 answer: NONE", "end", size=SIZE),
        Box("coordinator", MARGIN, 86, RIGHT - MARGIN, 208, tone=Tone.MUTED),
        Label("coordinator name", 18, 110, "the coordinator", size=SIZE, is_bold=True),
    ]
    for number, (name, words, tone) in enumerate(STEPS):
        y = 122 + number * 42
        marks.append(draw_line_box(name, 18, y, 92, name, tone))
        marks.append(Label(f"{name} words", 122, y + 22, words, size=SIZE))
    return Picture("The steps between a commit and its answer", 300, tuple(marks))


def draw_fetching() -> Picture:
    """Return the picture of lesson 05: the three questions of a consumer that starts."""
    marks: list[Mark] = [draw_large_box("start", MARGIN, 6, RIGHT - MARGIN, "a consumer of billing starts", Tone.NEW)]
    y = 54.0
    above = 40.0
    for request, broker, lines in QUESTIONS:
        height = 42 + 25 * len(lines)
        middle = y + height / 2
        marks += draw_question(request, broker, lines, y, height)
        marks.append(Arrow(f"down to {request}", 124, above + 2, 124, middle - LINE_BOX_HEIGHT / 2 - 2))
        above = middle + LINE_BOX_HEIGHT / 2
        y += height + 16
    marks.append(Arrow("down to end", 124, above + 2, 124, y - 2))
    marks.append(draw_large_box("end", MARGIN, y, RIGHT - MARGIN, "the consumer reads from offset 50", Tone.LIVE))
    return Picture("The three questions of a consumer that starts", y + 40, tuple(marks))


def draw_question(request: str, broker: str, lines: tuple[str, ...], y: float, height: float) -> Iterator[Mark]:
    """Yield the marks of one request: its name on the left, and on the right who answers it and how."""
    middle = y + height / 2
    yield draw_large_box(request, MARGIN, middle - LINE_BOX_HEIGHT / 2, 232, request)
    yield Arrow(f"to {broker}", 242, middle, 258, middle)
    yield Box(f"answer of {broker}", 262, y, RIGHT - 262, height, tone=Tone.MUTED)
    yield Label(f"name of {broker}", 272, y + 26, broker, size=LARGE, is_bold=True)
    for number, line in enumerate(lines):
        yield Label(f"{broker} {number}", 272, y + 52 + 25 * number, line, size=LARGE)


def draw_checks() -> Picture:
    """Return the picture of lesson 07: the checks of a commit, and the error of each check."""
    request = "OffsetCommit {orders-0: 8}"
    marks: list[Mark] = [draw_large_box("request", MARGIN, 6, RIGHT - MARGIN, request, Tone.NEW)]
    for number, (check, error) in enumerate(CHECKS):
        y = 64 + number * 58
        marks += [
            Arrow(f"to {check}", 108, y - 22, 108, y - 2),
            draw_large_box(check, MARGIN, y, 212, check),
            Arrow(f"no {check}", 222, y + 17, 260, y + 17),
            Label(f"no words {check}", 239, y + 10, "no", "middle", size=LARGE),
            draw_large_box(error, 264, y, RIGHT - 264, error, Tone.ERROR),
        ]
        if number:
            marks.append(Label(f"yes words {check}", 120, y - 6, "yes", size=LARGE))
    last = 64 + len(CHECKS) * 58
    marks += [
        Arrow("to log", 108, last - 22, 108, last - 2),
        Label("yes words log", 120, last - 6, "yes", size=LARGE),
        draw_large_box("log", MARGIN, last, 212, "log", Tone.LIVE),
    ]
    return Picture("The checks of a commit, and the error of each check", last + 42, tuple(marks))
