"""The marks of a picture: boxes, labels, arrows and curves, and their colours, in light and in dark.

A tone says in which state a thing is, and colours its border and its words. A hue says which group or key it belongs
to, and fills it.

`draw_svg` makes an image of a scene, for pages that run no script. It has its own background, and both sets of colours.
If two scenes contain a mark with the same key, a browser moves the mark from its old place to its new place. Lengths
are in pixels of a picture that is `WIDTH` pixels wide, with the origin in the upper left corner.

Meaning never rests on a tone alone: a mark that matters also has a word, a dashed border or a hatch.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from html import escape
from math import dist
from typing import Any, NamedTuple
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
    PAGE = "page"
    """The colour of the page: a box that is not seen, but has words or can be clicked."""


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
_SOFT_SHARE = 0.22
"""How much of a line is in the usual border of a box."""
_LIGHT_LINES = ("#5b6675", "#1b7a3d", "#1a5fc4", "#9a6a00", "#767676", "#b3261e", "#76808d", PAGE_COLOUR)
_DARK_LINES = ("#8c98a6", "#4fbf78", "#6ba6ff", "#d7a520", "#7d8690", "#ff8a7e", "#78838f", _DARK_PAGE)
"""The border of each tone, in their order. Fills and words are mixtures of it with the page and with its ink."""
# The colours of Okabe and Ito, which people with each kind of colour blindness tell apart.
LIGHT_HUES = ("#0072b2", "#a86500", "#00785a", "#b04f87", "#c44e00", "#5a4fb0", "#007b85", "#4d5866", "#7d7000")
_DARK_HUES = ("#5ab4ea", "#f0ad33", "#35c79a", "#e59cc6", "#ff8f4d", "#a79df2", "#4fd0da", "#a9b4c2", "#e0d64a")
_NAMES = ("billing", "fraud-check", "shipping", "loyalty", "mailer", "promo", "dashboard", "stock-audit", "café-☕")


def find_hue(name: str) -> int:
    """Return the number of the hue of a group or of a key: always the same one for the same name."""
    number = name.rpartition("-")[2]
    if number.isdecimal():
        return int(number) % len(LIGHT_HUES)
    for names in (_NAMES, "ABCDEFGH"):
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
        pairs += zip(find_colours(tone), _mix_colours(tone, _DARK_LINES, _DARK_PAGE, _DARK_INK), strict=True)
    for light, dark in zip((*LIGHT_HUES, *_LIGHT_LINES), (*_DARK_HUES, *_DARK_LINES), strict=True):
        pairs += [(light, dark), (find_fill(light), _mix(dark, _DARK_PAGE, _DARK_SHARE))]
        pairs.append((_mix(light, PAGE_COLOUR, _SOFT_SHARE), _mix(dark, _DARK_PAGE, _SOFT_SHARE)))
    return dict(pairs)


def style_sheet() -> str:
    light = _list_rules("", _LIGHT_LINES, LIGHT_HUES, PAGE_COLOUR, _LIGHT_INK)
    return "\n".join([*light, *_list_rules(".kg-dark ", _DARK_LINES, _DARK_HUES, _DARK_PAGE, _DARK_INK)])


def _list_rules(theme: str, lines: Sequence[str], hues: Sequence[str], page: str, ink: str) -> Iterator[str]:
    for tone in Tone:
        colours = _mix_colours(tone, lines, page, ink)
        yield f"{theme}.kg-tone-{tone} {{ --fill: {colours.fill}; --line: {colours.line}; --ink: {colours.ink}; }}"
    for number, hue in enumerate(hues):
        fill = _mix(hue, page, 0.2 if page == PAGE_COLOUR else _DARK_SHARE)
        yield f"{theme}.kg-hue-{number} {{ --hue: {fill}; --hue-line: {hue}; }}"


def _mix_colours(tone: Tone, lines: Sequence[str], page: str, ink: str) -> Colours:
    line = lines[list(Tone).index(tone)]
    share = 0.16 if page == PAGE_COLOUR else 0.22
    fill = _mix(line, page, {Tone.MUTED: 0.1, Tone.DEAD: 0.08, Tone.PAGE: 1}.get(tone, share))
    return Colours(fill, line, _mix(line, ink, {Tone.PLAIN: 0.1, Tone.DEAD: 0.8, Tone.PAGE: 0}.get(tone, 0.6)))


def _mix(colour: str, other: str, share: float) -> str:
    pairs = zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + bytes(round(share * first + (1 - share) * second) for first, second in pairs).hex()


WIDTH = 560
"""The width of every picture. On a screen of this width, a text has its full size."""

CHARACTER_WIDTH = 0.61
"""The width of a character of the picture's font, as a part of the font size."""

_HATCH_DISTANCE = 9
_CORNER = 6


@dataclass(frozen=True, kw_only=True)
class _Timed:
    """How long a mark waits, and how long it moves, in seconds after what each step takes. An image ignores it.

    With a negative delay, it changes before other marks move. In a long step, all of this is shorter.

    With `keeps_width`, the mark is as wide in a narrow column as elsewhere. A faint mark is not what the step is about:
    it fades, but not its words.
    """

    delay: float = 0
    duration: float = 0
    keeps_width: bool = False
    is_faint: bool = False


@dataclass(frozen=True)
class Box(_Timed):
    """A rectangle with centered lines of text.

    With `is_gone`, the thing is gone, or will be: the box is faded and hatched. With `is_hollow`, only the border has a
    colour, as for a tombstone. `hue` is the group or the key whose colour fills the box, and a solid box has its strong
    colour. `choice` is the control and the option that a click on the box chooses. `origin` is the key of the mark from
    which a new box comes, as a copy of it. `short` has the lines that replace too wide words in a narrow column.
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
    origin: str = ""
    short: str = ""


@dataclass(frozen=True)
class Label(_Timed):
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
class Arrow(_Timed):
    key: str
    x1: float
    y1: float
    x2: float
    y2: float
    tone: Tone = Tone.PLAIN
    is_dashed: bool = False
    has_head: bool = True


@dataclass(frozen=True)
class Curve(_Timed):
    key: str
    points: tuple[tuple[float, float], ...]
    tone: Tone = Tone.PLAIN
    is_dashed: bool = False
    hue: str = ""


Mark = Box | Label | Arrow | Curve
KEY = (0, 0, 18, 14)
"""The frame of a box in a legend, whose key is what such a box means."""
DASHED = Box("in a transaction", *KEY, is_dashed=True, is_hollow=True)
HATCHED = Box("replaced or removed", *KEY, tone=Tone.DEAD, is_gone=True)


@dataclass(frozen=True)
class Line:
    """A line of text above the picture. Unlike a label, it wraps in a narrow column."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Scene:
    """What a figure shows at one position of its controls. Marks go from back to front.

    The caption has one to three sentences. `text` is the text form, for tests and screen readers. `place` is what the
    figure says about the step, instead of its option's name. Every scene of a figure has as many `lines`.
    """

    marks: tuple[Mark, ...]
    caption: str
    text: tuple[str, ...]
    place: str = ""
    lines: tuple[Line, ...] = ()


def measure_text(text: str, size: float) -> float:
    return len(text) * size * CHARACTER_WIDTH


def _find_hatch(box: Box) -> str:
    starts = range(_HATCH_DISTANCE, int(box.width + box.height), _HATCH_DISTANCE)
    ends = [(start, max(0, start - box.height), min(box.width, start)) for start in starts]
    return "".join(f"M{left:g} {start - left:g}L{right:g} {start - right:g}" for start, left, right in ends)


def fit_words(width: float, size: float, *candidates: str) -> tuple[str, ...]:
    """Return the first of these texts that is not wider, as the lines of a box; otherwise nothing."""
    return next(((words,) for words in candidates if measure_text(words, size) <= width), ())


def place_keys(legend: Sequence[Box], y: float) -> Iterator[Mark]:
    """Yield the marks of a legend in one row, for an image. On a page, they stand below the picture, and wrap."""
    x = 4.0
    for box in legend:
        yield replace(box, x=x, y=y - 4 - box.height / 2)
        yield Label(f"{box.key} words", x + 23, y, box.key, size=11)
        x += 37 + measure_text(box.key, 11)


_MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"
LINE_HEIGHT = 1.3
"""The distance of two lines of text in a box, as a part of the font size."""
_COLOUR = re.compile(r'(fill|stroke)="(#\w{6})"')


def draw_svg(scene: Scene, height: float, title: str, legend: Sequence[Box] = (), has_bytes: bool = False) -> str:
    height += 20 * bool(legend)
    size = f'viewBox="0 0 {WIDTH} {_format(height)}" width="{WIDTH}" height="{_format(height)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{_MONO if has_bytes else _FONT}">',
        f"<title>{escape(title)}</title>",
        _draw("rect", width=WIDTH, height=height, rx=6, fill=PAGE_COLOUR),
    ]
    for mark in (*scene.marks, *place_keys(legend, height - 6)):
        for element in _draw_mark(mark):
            is_faint = mark.is_faint and not element.startswith("<text")
            parts.append(f'<g opacity="0.5">{element}</g>' if is_faint else element)
    parts.insert(2, _write_style("\n".join(parts)))
    return "\n".join([*parts, "</svg>"])


def _write_style(elements: str) -> str:
    dark = find_dark_colours()
    rules = [
        f'[{name}="{colour}"]{{{name}:light-dark({colour},{dark[colour]})}}'
        for name, colour in sorted(set(_COLOUR.findall(elements)))
    ]
    return f"<style>:root{{color-scheme:light dark}}{''.join(rules)}</style>"


def encode_data_address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _draw_mark(mark: Mark) -> Iterator[str]:
    colours = find_colours(mark.tone)._replace(ink=find_colours(Tone.MUTED if mark.is_faint else mark.tone).ink)
    dashes = "3 3" if not isinstance(mark, Label) and mark.is_dashed else None
    if isinstance(mark, Box):
        yield from _draw_box(mark, colours)
    elif isinstance(mark, Label):
        yield _draw_text(mark.x, mark.y, mark.text, mark.anchor, mark, colours.ink)
    elif isinstance(mark, Arrow):
        ends: dict[str, Any] = {"x1": mark.x1, "y1": mark.y1, "x2": mark.x2, "y2": mark.y2}
        yield _draw("line", **ends, stroke=colours.line, stroke_width=1.5, stroke_dasharray=dashes)
        if mark.has_head:
            yield _draw("polygon", points=_join(_find_head(mark)), fill=colours.line)
    else:
        line = LIGHT_HUES[find_hue(mark.hue)] if mark.hue else colours.line
        style: dict[str, Any] = {"stroke": line, "stroke_width": 2, "stroke_dasharray": dashes}
        yield _draw("polyline", points=_join(mark.points), fill="none", **style)


def _draw_box(box: Box, colours: Colours) -> Iterator[str]:
    hue = LIGHT_HUES[find_hue(box.hue)] if box.hue else colours.line
    fill = find_fill(hue) if box.hue else colours.fill
    if box.is_solid:
        fill = hue
    elif box.is_hollow or (box.is_dashed and box.tone is Tone.MUTED):
        fill = PAGE_COLOUR if box.lines or box.tone is not Tone.NEW else "none"
    line, line_width = _find_border(box, hue, colours.line)
    place: dict[str, Any] = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
    place["rx"] = min(_CORNER, box.width / 2, box.height / 2)
    place |= {"stroke": line, "stroke_width": line_width, "stroke_dasharray": "3 3" if box.is_dashed else None}
    yield _draw("rect", **place, fill=fill, fill_opacity=0.4 if box.is_gone else None)
    if box.is_gone:
        hatch = {"transform": f"translate({_format(box.x)} {_format(box.y)})", "d": _find_hatch(box), "fill": "none"}
        yield _draw("path", **hatch, stroke=colours.line, stroke_width="0.75", opacity="0.3")
    first = box.y + box.height / 2 - (len(box.lines) - 1) * box.size * LINE_HEIGHT / 2 + box.size * 0.35
    for number, text in enumerate(box.lines):
        y = first + number * box.size * LINE_HEIGHT
        yield _draw_text(box.x + box.width / 2, y, text, "middle", box, colours.ink)


def _find_border(box: Box, hue: str, line: str) -> tuple[str, float]:
    """Return the colour and the width of a border.

    That of what this step changed is strong, and so is that of what is dashed, hollow, or a place without words.
    """
    if box.is_solid:
        return hue, 1
    is_quiet = box.tone in (Tone.PLAIN, Tone.DEAD, Tone.MUTED, Tone.PAGE)
    if box.tone is Tone.NEW or (not is_quiet and (box.hue or box.is_hollow)):
        return line, 1.25 if box.is_dashed else 1.75
    if box.is_dashed or box.is_hollow or (not box.lines and (box.hue or box.tone is Tone.PLAIN)):
        return line if box.tone is Tone.MUTED else hue, 1
    return _mix(hue, PAGE_COLOUR, _SOFT_SHARE), 1


def _find_head(arrow: Arrow) -> list[tuple[float, float]]:
    length = dist((arrow.x1, arrow.y1), (arrow.x2, arrow.y2)) or 1
    unit_x = (arrow.x2 - arrow.x1) / length
    unit_y = (arrow.y2 - arrow.y1) / length
    x = arrow.x2 - 7 * unit_x
    y = arrow.y2 - 7 * unit_y
    return [(arrow.x2, arrow.y2), (x - 3.5 * unit_y, y + 3.5 * unit_x), (x + 3.5 * unit_y, y - 3.5 * unit_x)]


def _draw_text(x: float, y: float, text: str, anchor: str, mark: Box | Label, colour: str) -> str:
    style = {"font_size": mark.size, "font_weight": "bold" if mark.is_bold else None, "xml:space": "preserve"}
    return _draw("text", escape(text), x=x, y=y, text_anchor=anchor, fill=colour, **style)


def _draw(name: str, content: str = "", **attributes: Any) -> str:
    given = [(key.replace("_", "-"), value) for key, value in attributes.items() if value is not None]
    words = "".join(f' {key}="{_format(value)}"' for key, value in given)
    return f"<{name}{words}>{content}</{name}>" if content else f"<{name}{words}/>"


def _join(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_format(x)},{_format(y)}" for x, y in points)


def _format(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 2):g}"
