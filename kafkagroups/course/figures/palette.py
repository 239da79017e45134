"""The colours of the course, in light and in dark, for its figures and its opening pictures.

A tone says in which state a thing is, and colours its border and its words. A hue says which group or key it belongs
to, and fills it. Both also stand in words, so that no meaning rests on colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32


class Tone(StrEnum):
    """The state of a mark."""

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


class Hue(NamedTuple):
    fill: str
    line: str


PAGE_COLOUR = "#ffffff"
LIGHT = {
    Tone.PLAIN: Colours("#eef1f5", "#5b6675", "#1c2430"),
    Tone.LIVE: Colours("#d6f0dd", "#1b7a3d", "#0b4a22"),
    Tone.NEW: Colours("#d8e8ff", "#1a5fc4", "#0a3a80"),
    Tone.WAIT: Colours("#fff0c9", "#9a6a00", "#5c3f00"),
    Tone.DEAD: Colours("#f3f3f3", "#767676", "#5e5e5e"),
    Tone.ERROR: Colours("#ffe0dc", "#b3261e", "#7d130d"),
    Tone.MUTED: Colours("none", "#7f8996", "#566170"),
}
_DARK = {
    Tone.PLAIN: Colours("#2a323c", "#8c98a6", "#e6eaf0"),
    Tone.LIVE: Colours("#12351f", "#4fbf78", "#b7f0cb"),
    Tone.NEW: Colours("#13305c", "#6ba6ff", "#cfe2ff"),
    Tone.WAIT: Colours("#3c2e08", "#d7a520", "#ffe3a0"),
    Tone.DEAD: Colours("#1c2025", "#7d8690", "#a6aeb7"),
    Tone.ERROR: Colours("#47170f", "#ff8a7e", "#ffd2cc"),
    Tone.MUTED: Colours("none", "#6f7a86", "#a5b0bd"),
}
# The colours of Okabe and Ito, which people with each kind of colour blindness tell apart.
LIGHT_HUES = (
    Hue("#cde4f6", "#0072b2"),
    Hue("#fbdcae", "#a86500"),
    Hue("#c6ebdc", "#00785a"),
    Hue("#f2d3e6", "#b04f87"),
    Hue("#fcd3bf", "#c44e00"),
    Hue("#d9d6f5", "#5a4fb0"),
    Hue("#c9eff0", "#007b85"),
    Hue("#d9dee5", "#4d5866"),
    Hue("#f1ecb0", "#7d7000"),
)
_DARK_HUES = (
    Hue("#123c5c", "#5ab4ea"),
    Hue("#553b08", "#f0ad33"),
    Hue("#0d4637", "#35c79a"),
    Hue("#522444", "#e59cc6"),
    Hue("#592609", "#ff8f4d"),
    Hue("#302a66", "#a79df2"),
    Hue("#08434a", "#4fd0da"),
    Hue("#363e49", "#a9b4c2"),
    Hue("#45400a", "#e0d64a"),
)
_NAMES = ("billing", "fraud-check", "shipping", "loyalty", "mailer", "promo", "dashboard", "stock-audit", "café-☕")
_KEYS = "ABCDEFGH"


def find_hue(name: str) -> int:
    """Return the number of the hue of a group or of a key: always the same one for the same name.

    Partitions, members and producers have a number at the end, which decides.
    """
    number = name.rpartition("-")[2]
    if number.isdecimal():
        return int(number) % len(LIGHT_HUES)
    for names in (_NAMES, _KEYS):
        if name in names:
            return names.index(name)
    return crc32(name.encode()) % len(LIGHT_HUES)


def style_sheet() -> str:
    """Return the rules that give each tone and each hue its colours, as variables of figure.css."""
    return "\n".join([*_list_rules("", LIGHT, LIGHT_HUES), *_list_rules(".kg-dark ", _DARK, _DARK_HUES)])


def _list_rules(theme: str, tones: dict[Tone, Colours], hues: tuple[Hue, ...]) -> Iterator[str]:
    for tone, colours in tones.items():
        variables = f"--fill: {colours.fill}; --line: {colours.line}; --ink: {colours.ink};"
        yield f"{theme}.kg-tone-{tone} {{ {variables} }}"
    for number, hue in enumerate(hues):
        yield f"{theme}.kg-hue-{number} {{ --hue: {hue.fill}; --hue-line: {hue.line}; }}"
