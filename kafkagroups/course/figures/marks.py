"""The marks of a picture: boxes, labels, arrows and curves, and their colours, in light and in dark.

A tone says in which state a thing is, and colours its border and its words. A hue says which group or key it belongs
to, and fills it.

If two scenes contain a mark with the same key, a browser moves the mark from its old place to its new place. Lengths
are in pixels of a picture that is `WIDTH` pixels wide, with the origin in the upper left corner.

Meaning never rests on a tone alone: a mark that matters also has a word, a dashed border or a hatch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32


class Tone(StrEnum):
    PLAIN = "plain"
    LIVE = "live"
    NEW = "new"
    """What this step changed, or what the reader chose."""
    WAIT = "wait"
    """Something that waits: pending, not replicated, not loaded."""
    DEAD = "dead"
    """Something that no longer counts."""
    ERROR = "error"
    """Damage, an error, a power cut."""
    MUTED = "muted"
    """Background: frames, axes, small notes."""


class Colours(NamedTuple):
    fill: str
    line: str
    ink: str


PAGE_COLOUR = "#ffffff"
_DARK_PAGE = "#14181e"
_LIGHT_INK = "#101820"
_DARK_INK = "#f4f7fa"
_DARK_SHARE = 0.32
"""How much of a hue is in the colour that fills a box on a dark page."""
_LIGHT_LINES = ("#5b6675", "#1b7a3d", "#1a5fc4", "#9a6a00", "#767676", "#b3261e", "#7f8996")
_DARK_LINES = ("#8c98a6", "#4fbf78", "#6ba6ff", "#d7a520", "#7d8690", "#ff8a7e", "#6f7a86")
"""The border of each tone, in their order. Fills and words are mixtures of it with the page and with its ink."""
# The colours of Okabe and Ito, which people with each kind of colour blindness tell apart.
LIGHT_HUES = ("#0072b2", "#a86500", "#00785a", "#b04f87", "#c44e00", "#5a4fb0", "#007b85", "#4d5866", "#7d7000")
_DARK_HUES = ("#5ab4ea", "#f0ad33", "#35c79a", "#e59cc6", "#ff8f4d", "#a79df2", "#4fd0da", "#a9b4c2", "#e0d64a")
_NAMES = ("billing", "fraud-check", "shipping", "loyalty", "mailer", "promo", "dashboard", "stock-audit", "café-☕")
_KEYS = "ABCDEFGH"


def find_hue(name: str) -> int:
    """Return the number of the hue of a group or of a key: always the same one for the same name."""
    number = name.rpartition("-")[2]
    if number.isdecimal():
        return int(number) % len(LIGHT_HUES)
    for names in (_NAMES, _KEYS):
        if name in names:
            return names.index(name)
    return crc32(name.encode()) % len(LIGHT_HUES)


def find_colours(tone: Tone) -> Colours:
    return _mix_colours(tone, _LIGHT_LINES, PAGE_COLOUR, _LIGHT_INK)


def find_fill(hue: str) -> str:
    return _mix(hue, PAGE_COLOUR, 0.2)


def find_dark_colours() -> dict[str, str]:
    pairs = [(PAGE_COLOUR, _DARK_PAGE)]
    for tone in Tone:
        dark = _mix_colours(tone, _DARK_LINES, _DARK_PAGE, _DARK_INK)
        pairs += zip(find_colours(tone), dark, strict=True)
    for light_hue, dark_hue in zip(LIGHT_HUES, _DARK_HUES, strict=True):
        pairs += [(light_hue, dark_hue), (find_fill(light_hue), _mix(dark_hue, _DARK_PAGE, _DARK_SHARE))]
    return dict(pairs)


def style_sheet() -> str:
    light = _list_rules("", _LIGHT_LINES, LIGHT_HUES, PAGE_COLOUR, _LIGHT_INK)
    return "\n".join([*light, *_list_rules(".kg-dark ", _DARK_LINES, _DARK_HUES, _DARK_PAGE, _DARK_INK)])


def _list_rules(theme: str, lines: Sequence[str], hues: Sequence[str], page: str, ink: str) -> Iterator[str]:
    for tone in Tone:
        colours = _mix_colours(tone, lines, page, ink)
        variables = f"--fill: {colours.fill}; --line: {colours.line}; --ink: {colours.ink};"
        yield f"{theme}.kg-tone-{tone} {{ {variables} }}"
    for number, hue in enumerate(hues):
        fill = _mix(hue, page, 0.2 if page == PAGE_COLOUR else _DARK_SHARE)
        yield f"{theme}.kg-hue-{number} {{ --hue: {fill}; --hue-line: {hue}; }}"


def _mix_colours(tone: Tone, lines: Sequence[str], page: str, ink: str) -> Colours:
    line = lines[list(Tone).index(tone)]
    fill = "none" if tone is Tone.MUTED else _mix(line, page, {Tone.DEAD: 0.06}.get(tone, 0.15))
    return Colours(fill, line, _mix(line, ink, {Tone.PLAIN: 0.1, Tone.DEAD: 0.8}.get(tone, 0.6)))


def _mix(colour: str, other: str, share: float) -> str:
    pairs = zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + bytes(round(share * first + (1 - share) * second) for first, second in pairs).hex()


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
