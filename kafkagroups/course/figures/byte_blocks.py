"""Lessons 01 and 03: the blocks of some bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from kafkagroups.course.figures.marks import CHARACTER_WIDTH, WIDTH, Box, Label, Mark, Tone, measure_text
from kafkagroups.errors import UsageError
from kafkagroups.records.spans import Span

MARGIN = 6
_GAP = 4
_SIZE = 11
_BLOCK_HEIGHT = 44
_CUT_HEIGHT = 6
_ROW_HEIGHT = _BLOCK_HEIGHT + _CUT_HEIGHT + 6
_HEADING_HEIGHT = 18
_SHOWN_BYTES = 11
_NAME_OF_REST = "rest"
_CHANGE = re.compile(r"\s*(?:(?P<part>[a-z]+)\s+)?(?P<position>[0-9]{1,9})\s*=\s*(?P<byte>[0-9a-fA-F]{1,2})\s*")


@dataclass(frozen=True)
class Place:
    span: Span
    x: float
    y: float
    width: float


def find_name(span: Span) -> str:
    field = span.field or _NAME_OF_REST
    prefix, separator, short = field.rpartition(": ")
    if span.type.endswith("length"):
        return f"{prefix}{separator}length of {short}"
    if span.type == "uvarint, uvarint":
        return f"tag of {field}"
    return field


@dataclass(frozen=True)
class Reading:
    """What a reader believes. If it refuses the bytes, `error` says why, and the fields are at most those before."""

    spans: Sequence[Span]
    error: str | None = None

    @property
    def value_by_name(self) -> dict[tuple[str, str], str]:
        return {(span.part, find_name(span)): span.text for span in self.spans}


def _find_label(span: Span) -> str:
    if span.type.endswith("length"):
        return "length"
    if span.type == "uvarint, uvarint":
        return "tag"
    return (span.field or _NAME_OF_REST).rpartition(": ")[2].rpartition(".")[2]


def _find_section(span: Span) -> str:
    record, separator, _ = span.field.rpartition(": ")
    if separator:
        return record
    return "header" if span.part == "batch" else span.part


def arrange_blocks(spans: Sequence[Span]) -> tuple[list[Place], list[Mark], float]:
    places = []
    headings: list[Mark] = []
    section = ""
    x = float(MARGIN)
    y = -float(_ROW_HEIGHT)
    for span in spans:
        width = max(measure_text(_format_hex(span), _SIZE), measure_text(_find_label(span), _SIZE)) + 7
        if _find_section(span) != section:
            section = _find_section(span)
            x = MARGIN
            y += _ROW_HEIGHT + _HEADING_HEIGHT
            words = "header: the checksum crc covers every byte after itself" if section == "header" else section
            headings.append(Label(f"heading {section}", MARGIN, y - 5, words, is_bold=True))
        elif x + width > WIDTH - MARGIN:
            x = MARGIN
            y += _ROW_HEIGHT
        places.append(Place(span, x, y, width))
        x += width + _GAP
    return places, headings, y + _ROW_HEIGHT


def _format_hex(span: Span) -> str:
    count = span.end - span.start
    return "00 " * (min(count, _SHOWN_BYTES) - 1) + "00" + (" …" if count > _SHOWN_BYTES else "")


def draw_block(
    number: int, place: Place, bytes_by_part: Mapping[str, bytes], *, is_selected: bool, is_changed: bool
) -> Box:
    span = place.span
    data = bytes_by_part[span.part][span.start : span.end]
    rest = " …" if len(data) > _SHOWN_BYTES else ""
    characters = [chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in data[:_SHOWN_BYTES]]
    lines = (
        _find_label(span),
        data[:_SHOWN_BYTES].hex(" ") + rest,
        "  ".join(characters) + (f" {rest}" if rest else ""),
    )
    tone = Tone.PLAIN
    if is_selected:
        tone = Tone.NEW
    if is_changed:
        tone = Tone.ERROR
    return Box(
        f"block {number}",
        place.x,
        place.y,
        place.width,
        _BLOCK_HEIGHT,
        lines,
        tone,
        _SIZE,
        is_bold=is_selected,
        is_dashed=is_changed,
        choice=("field", number),
    )


def draw_changed_byte(place: Place, position: int, byte: int) -> list[Mark]:
    index = position - place.span.start
    count = place.span.end - place.span.start
    if index >= _SHOWN_BYTES:
        return []
    step = 3 * _SIZE * CHARACTER_WIDTH
    characters = min(count, _SHOWN_BYTES) * 3 - 1 + (2 if count > _SHOWN_BYTES else 0)
    start = place.x + place.width / 2 - characters * _SIZE * CHARACTER_WIDTH / 2
    x = start + index * step - 2
    return [Box("changed byte", x, place.y + 15, 18, 15, (f"{byte:02x}",), Tone.ERROR, _SIZE, is_bold=True)]


def draw_cuts(places: Sequence[Place], spans: Sequence[Span], wrong: Set[tuple[str, str]]) -> Iterator[Box]:
    for span in spans:
        name = (span.part, find_name(span))
        is_wrong = name in wrong
        for number, place in enumerate(places):
            block = place.span
            start = max(span.start, block.start)
            end = min(span.end, block.end)
            if span.part != block.part or start >= end:
                continue
            byte_width = place.width / (block.end - block.start)
            yield Box(
                f"cut {name} {number}",
                place.x + (start - block.start) * byte_width + 1,
                place.y + _BLOCK_HEIGHT + 2,
                (end - start) * byte_width - 2,
                _CUT_HEIGHT,
                tone=Tone.ERROR if is_wrong else Tone.LIVE,
                is_solid=is_wrong,
            )


@dataclass(frozen=True)
class ByteChange:
    """A new value for one byte. `part` is "key", "value", "batch" or "file"."""

    part: str
    position: int
    byte: int

    def apply(self, bytes_by_part: Mapping[str, bytes]) -> dict[str, bytes]:
        changed = bytearray(bytes_by_part[self.part])
        changed[self.position] = self.byte
        return {**bytes_by_part, self.part: bytes(changed)}


def parse_change(text: str, bytes_by_part: Mapping[str, bytes], example: str) -> ByteChange:
    """Return the change that a reader typed, such as "value 9=24". With one part, its name can be left out."""
    match = _CHANGE.fullmatch(text)
    if match is None:
        raise UsageError(f"expected a position and one byte in hex, for example {example!r}; found {text[:40]!r}")
    parts = list(bytes_by_part)
    part = match["part"] or (parts[0] if len(parts) == 1 else "")
    if part not in parts:
        raise UsageError(f"expected {' or '.join(parts)} before the position, for example {example!r}")
    position = int(match["position"])
    size = len(bytes_by_part[part])
    if position >= size:
        raise UsageError(f"the {part} has the positions 0 to {size - 1}; found position {position}")
    change = ByteChange(part, position, int(match["byte"], 16))
    if bytes_by_part[part][position] == change.byte:
        raise UsageError(f"byte {position} of the {part} is already {change.byte:02x}; type another value")
    return change
