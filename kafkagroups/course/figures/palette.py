"""The colours of the course, in light and in dark, for its figures and its opening pictures.

A tone says in which state a thing is, and colours its border and its words. A hue says which group or key it belongs
to, and fills it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
