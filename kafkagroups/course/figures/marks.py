"""The marks of a picture: boxes, labels, arrows and curves, with a tone for each.

If two scenes contain a mark with the same key, a browser moves the mark from its old place to its new place. Lengths
are in pixels of a picture that is `WIDTH` pixels wide, with the origin in the upper left corner.

Meaning never rests on a tone alone: a mark that matters also has a word, a dashed border or a hatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkagroups.course.figures.palette import Tone as Tone

WIDTH = 560
"""The width of every picture. On a screen of this width, a text has its full size."""

CHARACTER_WIDTH = 0.61
"""The width of a character of the picture's font, as a part of the font size."""

_HATCH_DISTANCE = 9


@dataclass(frozen=True)
class Box:
    """A rectangle with centered lines of text.

    With `is_gone`, the thing is gone, or will be: the box is faded and hatched. With `is_hollow`, only the border has a
    colour, as for a tombstone. `hue` is the group or the key whose colour fills the box, and a solid box has its strong
    colour. `choice` is the control and the option that a click on the box chooses.
    """

    key: str
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...] = ()
    tone: Tone = Tone.PLAIN
    size: float = 12
    is_bold: bool = False
    is_dashed: bool = False
    is_gone: bool = False
    is_hollow: bool = False
    is_solid: bool = False
    hue: str = ""
    choice: tuple[str, int] | None = None


@dataclass(frozen=True)
class Label:
    """A text without a border. `anchor` is "start", "middle" or "end". (x, y) is on the base line."""

    key: str
    x: float
    y: float
    text: str
    anchor: str = "start"
    tone: Tone = Tone.PLAIN
    size: float = 12
    is_bold: bool = False


@dataclass(frozen=True)
class Arrow:
    key: str
    x1: float
    y1: float
    x2: float
    y2: float
    tone: Tone = Tone.PLAIN
    is_dashed: bool = False
    has_head: bool = True


@dataclass(frozen=True)
class Curve:
    key: str
    points: tuple[tuple[float, float], ...]
    tone: Tone = Tone.PLAIN
    is_dashed: bool = False
    hue: str = ""


Mark = Box | Label | Arrow | Curve


@dataclass(frozen=True)
class Scene:
    """What a figure shows at one position of its controls. Marks go from back to front.

    The caption has one to three sentences. `text` is the text form, for tests and screen readers. `place` is what the
    figure says about the step, instead of its option's name.
    """

    marks: tuple[Mark, ...]
    caption: str
    text: tuple[str, ...]
    place: str = ""


def list_labels(marks: Sequence[Mark]) -> list[str]:
    labels: list[str] = []
    for mark in marks:
        if isinstance(mark, Box):
            labels += mark.lines
        elif isinstance(mark, Label):
            labels.append(mark.text)
    return labels


def measure_text(text: str, size: float) -> float:
    return len(text) * size * CHARACTER_WIDTH


def find_hatch(box: Box) -> str:
    lines = []
    for start in range(_HATCH_DISTANCE, int(box.width + box.height), _HATCH_DISTANCE):
        left = max(0, start - box.height)
        right = min(box.width, start)
        lines.append(f"M{left:g} {start - left:g}L{right:g} {start - right:g}")
    return "".join(lines)


def fit_words(width: float, size: float, *candidates: str) -> tuple[str, ...]:
    """Return the first of these texts that is not wider, as the lines of a box; otherwise nothing."""
    return next(((words,) for words in candidates if measure_text(words, size) <= width), ())
