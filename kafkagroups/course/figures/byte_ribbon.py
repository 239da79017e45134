"""Lesson 01: the fields of a record as blocks, and what a reader believes after one wrong byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from operator import attrgetter
from typing import Any

from kafkagroups.course.figures.figure import NARROW_WIDTH, Content, Control, Figure, FreeInput, Part
from kafkagroups.course.figures.marks import KEY, WIDTH, Box, Label, Line, Mark, Scene, Tone, fit_words, measure_text
from kafkagroups.course.group_life import format_count
from kafkagroups.errors import InvalidRecord, UsageError
from kafkagroups.helpers import escape
from kafkagroups.records.releases import DEFAULT_DIALECT
from kafkagroups.records.spans import Span, annotate, split_before_error

MARGIN = 6
_SIZE = 11
_BLOCK_HEIGHT = 50
_STRIP_HEIGHT = 5
_ROW_HEIGHT = _BLOCK_HEIGHT + _STRIP_HEIGHT + 10
_GAP = 4
_SECONDS_PER_ROW = 0.35
_SHOWN_BYTES = (11, 8)
"""How many bytes a block shows at most, and at most if it then still stands in the row of the block before it."""
HUE_BY_KIND = {"count": "kind-1", "text": "kind-5", "number": "kind-6"}
_LEGEND = (
    *(Box(kind, *KEY, hue=hue) for kind, hue in HUE_BY_KIND.items()),
    Box("how far the reader is", 0, 0, 3, 14, tone=Tone.NEW, is_solid=True),
    Box("taken as one field", 0, 8, 18, _STRIP_HEIGHT, tone=Tone.ERROR, is_solid=True),
)
_EXPLANATIONS = {Tone.NEW: "It is read as written.", Tone.ERROR: "No name is stored, so the reader does not notice."}
_CHANGE = re.compile(r"\s*(?:(?P<part>[a-z]+)\s+)?(?P<position>[0-9]{1,9})\s*=\s*(?P<byte>[0-9a-fA-F]{1,2})\s*")


@dataclass(frozen=True)
class Place:
    span: Span
    x: float
    y: float
    width: float
    shown: int
    """How many of its bytes the block shows."""

    @property
    def is_cut(self) -> bool:
        return self.span.end - self.span.start > self.shown


def find_name(span: Span) -> str:
    field = span.field or "rest"
    if span.type.endswith("length"):
        return f"length of {field}"
    return f"tag of {field}" if span.type == "uvarint, uvarint" else field


@dataclass(frozen=True)
class Reading:
    """What a reader believes. If it refuses the bytes, `error` says why, and the fields are those before."""

    spans: Sequence[Span]
    error: str | None = None

    @property
    def value_by_name(self) -> dict[tuple[str, str], str]:
        return {(span.part, find_name(span)): span.text for span in self.spans}


def _find_label(span: Span) -> str:
    return find_name(span).partition(" of ")[0].rpartition(".")[2]


def find_kind(span: Span) -> str:
    if span.meaning.startswith("how many") or span.type == "uvarint, uvarint":
        return "count"
    return "text" if isinstance(span.value, str) else "number"


def _find_end(span: Span, size: int) -> int:
    """Return the end of the bytes that a field counts, or its own end."""
    if find_kind(span) != "count":
        return span.end
    if "bytes" in span.meaning:
        return min(span.end + max(span.value or 0, 0), size)
    return size if span.value else span.end


def arrange_blocks(spans: Sequence[Span]) -> tuple[list[Place], list[Mark], float]:
    """A count stands in one row with what it counts, and with the next field, which a wrong count would take."""
    places: list[Place] = []
    headings: list[Mark] = []
    section = ""
    x = float(MARGIN)
    y = -float(_ROW_HEIGHT) - 8
    for number, span in enumerate(spans):
        if span.part != section:
            section = span.part
            x = MARGIN
            y += _ROW_HEIGHT + 22
            headings.append(Label(f"heading {section}", MARGIN, y - 5, section, is_bold=True))
        together = [each for each in spans[number : number + 3] if each.part == section and find_kind(span) == "count"]
        widths = [_place_block(each, 0, 0, _SHOWN_BYTES[1]).width + _GAP for each in together or [span]]
        if x > MARGIN and x + sum(widths) > WIDTH - MARGIN + _GAP:
            x = MARGIN
            y += _ROW_HEIGHT
        longest, shortest = (_place_block(span, x, y, shown) for shown in _SHOWN_BYTES)
        place = longest if longest.x + longest.width <= WIDTH - MARGIN else shortest
        places.append(place)
        x = place.x + place.width + _GAP
    return places, headings, y + _ROW_HEIGHT + 2


def _place_block(span: Span, x: float, y: float, shown: int) -> Place:
    place = Place(span, x, y, 0, shown)
    hex_text = "00 " * min(shown, span.end - span.start) + "…" * place.is_cut
    # Of a long value, its block shows what fits.
    count = span.text.rpartition(", ")[2] + " − 1 = 00" * span.meaning.endswith("plus 1")
    texts = (hex_text.strip(), _find_label(span), count if find_kind(span) == "count" else "")
    return replace(place, width=max(measure_text(text, _SIZE) for text in texts) + 7)


def draw_block(number: int, place: Place, data: bytes, value: str, tone: Tone, *, is_read: bool) -> Box:
    """Return the block of a field. Below the bytes of one that is read stands `value`, or the bytes as text."""
    span = place.span
    kind = find_kind(span)
    rest = " …" * place.is_cut
    if not is_read:
        value = " "
    elif span.type in ("string", "bytes", ""):
        value = "  ".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in data[: place.shown]) + rest
    elif kind == "count":
        is_raised = span.meaning.endswith("plus 1") and value.isdecimal()
        value = f"{int(value) + 1} − 1 = {value}" if is_raised else value.rpartition(", ")[2]
    most = int((place.width - 4) / measure_text("0", _SIZE))
    lines = (_find_label(span), data[: place.shown].hex(" ") + rest, shorten(value, most))
    frame = (place.x, place.y, place.width, _BLOCK_HEIGHT)
    style: dict[str, Any] = {"hue": HUE_BY_KIND[kind] if is_read else "", "choice": ("field", number)}
    is_bold = tone not in (Tone.PLAIN, Tone.MUTED)
    return Box(f"block {number}", *frame, lines, tone, _SIZE, is_bold=is_bold, **style)


def draw_changed_byte(place: Place, position: int, byte: int) -> Iterator[Mark]:
    index = position - place.span.start
    if index < place.shown:
        distance = measure_text("00 ", _SIZE)
        characters = min(place.span.end - place.span.start, place.shown) * 3 - 1 + 2 * place.is_cut
        start = place.x + place.width / 2 - characters * distance / 6
        frame = (start + index * distance - 2, place.y + 17.5, 18, 15)
        yield Box("changed byte", *frame, (f"{byte:02x}",), Tone.ERROR, _SIZE, is_bold=True)


def draw_reader(places: Sequence[Place], selected: int, size: int) -> Iterator[Box]:
    """Yield a bar behind the last byte that was read, and a line below the field and what it counts.

    Each block has a part of the line, because blocks that are neighbours can stand in two rows of a narrow column.
    """
    last = places[selected]
    span = last.span
    end = _find_end(span, size)
    for place in places:
        if place.span.part == span.part and span.start <= place.span.start < end > span.end:
            x = place.x - _GAP * (place is not last)
            frame = (x, place.y + _BLOCK_HEIGHT + 2, place.x + place.width - x, 4)
            style: dict[str, Any] = {"hue": HUE_BY_KIND[find_kind(span)], "is_solid": True}
            delay = (place.y - last.y) / _ROW_HEIGHT * _SECONDS_PER_ROW
            yield Box(f"reach {selected} {place.span.start}", *frame, **style, delay=delay)
    yield _draw_head(last, last.width + 1)


def _draw_head(place: Place, distance: float) -> Box:
    """Return the bar behind the last byte that was read."""
    return Box(f"head {place.y:.0f}", place.x + distance, place.y, 3, _BLOCK_HEIGHT + 5, tone=Tone.NEW, is_solid=True)


def narrow_rows(places: Sequence[Place]) -> Iterator[Part]:
    """Yield the parts of rows that fit into a narrow column, one below the other, with the headings above them."""
    y = 0.0
    top = 0.0
    for _, row in groupby(places, attrgetter("y")):
        waiting = list(row)
        bottom = waiting[0].y + _ROW_HEIGHT - 2
        while waiting:
            left = waiting[0].x
            fitting = [place for place in waiting if place.x + place.width - left <= NARROW_WIDTH]
            del waiting[: len(fitting)]
            right = waiting[0].x if waiting else left + NARROW_WIDTH + _GAP
            yield Part(left - _GAP, top, right - _GAP, bottom, (0, y))
            y += bottom - top
            top = bottom - _ROW_HEIGHT
        top = bottom


def draw_cuts(places: Sequence[Place], spans: Sequence[Span], read: Span | None) -> Iterator[Box]:
    """Yield a strip below the bytes that a reader takes for each of these fields, and a bar behind those of `read`."""
    for place in places:
        start = place.span.start
        if read is not None and place.span.part == read.part and start < read.end <= place.span.end:
            yield _draw_head(place, (read.end - start) / (place.span.end - start) * place.width)
    for span, (number, place) in product(spans, enumerate(places)):
        block = place.span
        start = max(span.start, block.start)
        end = min(span.end, block.end)
        if span.part == block.part and start < end:
            byte_width = place.width / (block.end - block.start)
            x = place.x + (start - block.start) * byte_width + 1
            frame = (x, place.y + _BLOCK_HEIGHT + 2, (end - start) * byte_width - 2, _STRIP_HEIGHT)
            yield Box(f"strip {span.part} {find_name(span)} {number}", *frame, tone=Tone.ERROR, is_solid=True)


@dataclass(frozen=True)
class ByteChange:
    """A new value for one byte. `part` is "key", "value" or "file"."""

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


class RecordRibbon(Figure):
    """The fields of a record. It opens with a changed byte, after which a reader cuts off the fields elsewhere."""

    def __init__(self, key: bytes, value: bytes | None) -> None:
        self.bytes_by_part = {"key": key} if value is None else {"key": key, "value": value}
        self.spans = annotate(key, value)
        self._written = Reading(self.spans).value_by_name
        self._places, self._headings, self._height = arrange_blocks(self.spans)
        self.changes = list(self._choose_changes())
        super().__init__(self._make_content([None, *self.changes], len(self.changes)))

    def _choose_changes(self) -> Iterator[ByteChange]:
        """Yield the changes that the figure offers without a kernel."""
        for span in self.spans:
            last = self.bytes_by_part[span.part][span.end - 1]
            if find_name(span) in ("version", "offset", "length of metadata"):
                yield ByteChange(span.part, span.end - 1, (last + 1) % 256)
            if find_name(span) == "version" and last:
                yield ByteChange(span.part, span.end - 1, last - 1)

    def compute_content(self, value: str) -> Content:
        """Return the content with one more change, typed as "value 9=24"."""
        return self._make_content([parse_change(value, self.bytes_by_part, "value 9=24"), None, *self.changes], 0)

    def _make_content(self, changes: Sequence[ByteChange | None], shown: int) -> Content:
        fields = tuple(f"{span.part}: {find_name(span)}" for span in self.spans)
        options = tuple("none" if change is None else self._describe_change(change) for change in changes)
        bytes_after = [change.apply(self.bytes_by_part) if change else self.bytes_by_part for change in changes]
        readings = [_read(bytes_by_part) for bytes_by_part in bytes_after]
        last = len(fields) - 1
        jumps = tuple(("field", min(self._find_stop(reading), last)) for reading in readings)
        change = changes[shown]
        initial = min(self.spans.index(self._find_span(change)) + 1, jumps[shown][1]) if change else last

        def draw(number: int, change: int) -> Scene:
            return self._draw(number, changes[change], bytes_after[change], readings[change])

        controls = (
            Control("field", "field", fields, initial=initial),
            Control("change", "changed byte", options, is_sequence=False, initial=shown, jumps=jumps, is_answer=True),
        )
        typed = FreeInput("change a byte (position=hex)", "value 9=24")
        others = {"free_input": typed, "legend": _LEGEND, "narrow": tuple(narrow_rows(self._places)), "has_bytes": True}
        return Content.draw("One record, byte by byte", self._height, controls, draw, **others)

    def _describe_change(self, change: ByteChange) -> str:
        old = self.bytes_by_part[change.part][change.position]
        return f"{_find_label(self._find_span(change))} {old:02x} → {change.byte:02x}"

    def _find_span(self, byte: ByteChange) -> Span:
        return next(span for span in self.spans if span.part == byte.part and span.start <= byte.position < span.end)

    def _find_stop(self, reading: Reading) -> int:
        """Return the number of the field at which a reader refuses the record, or the number of all fields."""
        if reading.error is None:
            return len(self.spans)
        names = reading.value_by_name
        return next(number for number, span in enumerate(self.spans) if (span.part, find_name(span)) not in names)

    def _draw(self, selected: int, change: ByteChange | None, parts: Mapping[str, bytes], reading: Reading) -> Scene:
        marks: list[Mark] = list(self._headings)
        fields = []
        stop = self._find_stop(reading)
        selected = min(selected, stop)  # A reader that refuses the record reads no further.
        believed = reading.value_by_name
        for number, place in enumerate(self._places):
            data = parts[place.span.part][place.span.start : place.span.end]
            key = (place.span.part, find_name(place.span))
            is_read = number <= selected
            nothing = fit_words(place.width - 4, _SIZE, "nothing left", "none", "–")
            value = "✗" if number == stop else believed.get(key, nothing[0])
            tone = Tone.PLAIN if is_read else Tone.MUTED
            if is_read and value != self._written[key]:
                tone = Tone.ERROR
            elif number == selected:
                tone = Tone.NEW
            block = draw_block(number, place, data, value, tone, is_read=is_read)
            marks.append(block)
            words = f" = {shorten(value)}" if is_read else ", not read yet"
            fields.append(f"{' '.join(key)}{words}: {block.lines[1]}")
            if change and place.span == self._find_span(change):
                marks += draw_changed_byte(place, change.position, change.byte)
        if change:
            scene = self._draw_change(marks, selected, change, reading)
            return replace(scene, text=(*scene.text, *fields))
        span = self.spans[selected]
        name = find_name(span)
        marks += draw_reader(self._places, selected, len(parts[span.part]))
        shown_bytes = shorten(parts[span.part][span.start : span.end].hex(" "), limit=48)
        where = f"{_format_range(span)} of the {span.part}, {span.type}"
        value = shorten(span.text)
        counted = _find_end(span, len(parts[span.part])) - span.end
        reach = " No name is stored, so the reader counts bytes."
        if counted > 0:
            reach = f" It counts what has the line below it: {counted} bytes."
        lines = (Line(f"{name} is {value}", Tone.NEW), Line(f"It is {span.meaning} ({where})"))
        text = (f"field: {name}", f"where: {where}", f"bytes: {shown_bytes}", f"value: {value}")
        caption = f"The bytes: {shown_bytes}.{reach}"
        return Scene(tuple(marks), caption, (*text, f"meaning: {span.meaning}", *fields), lines=lines)

    def _draw_change(self, marks: list[Mark], selected: int, change: ByteChange, reading: Reading) -> Scene:
        misread = [span for span in reading.spans if self._written.get((span.part, find_name(span))) != span.text]
        span = self.spans[selected]
        reached = [each for each in misread if (each.part, each.start) < (span.part, span.end)]
        marks += draw_cuts(self._places, reached, _find_read(span, reading))
        names = self._written | reading.value_by_name
        pairs = ((name, self._written.get(name), reading.value_by_name.get(name)) for name in names)
        wrong = [f"{name[1]}: {_show(old)} → {_show(new)}" for name, old, new in pairs if old != new]
        if selected == self._find_stop(reading) and reading.error:
            lines = (Line("The reader refuses the record ✗", Tone.ERROR), Line(reading.error, Tone.ERROR))
            belief = [f"refused: {reading.error}"]
            explanation = "A broker that finds such a record stops its load."
        elif span is not self.spans[-1]:
            lines = self._tell_field(span, reading)
            belief = [f"now believed: {lines[0].text}"]
            explanation = _EXPLANATIONS[lines[0].tone]
        else:
            count = "One value is wrong" if len(wrong) == 1 else f"{len(wrong)} values are wrong"
            headline = Line(f"{count}, and the reader notices nothing", Tone.ERROR)
            lines = (headline, Line(", ".join(wrong[:2]), Tone.ERROR))
            belief = [f"now believed: {difference}" for difference in wrong[:2]]
            explanation = "A record has no checksum of its own."
        old = self.bytes_by_part[change.part][change.position]
        caption = f"Byte {change.position} of the {change.part} was {old:02x}, now {change.byte:02x}. {explanation}"
        return Scene(tuple(marks), caption, (f"changed byte: {change.byte:02x}", *belief), lines=lines)

    def _tell_field(self, span: Span, reading: Reading) -> tuple[Line, Line]:
        """Return what a reader takes for this field, and from where."""
        name = find_name(span)
        read = _find_read(span, reading)
        where = f"{shorten(span.text)} was written to {_format_range(span)}"
        if read is None:
            return Line(f"✗ {name}: nothing is left", Tone.ERROR), Line(where)
        if read.text == span.text and read.start == span.start:
            return Line(f"{name} is {shorten(read.text)}", Tone.NEW), Line(f"It is {span.meaning}")
        words = ("short", "long") if read.start == span.start else ("early", "late")
        more = read.end - span.end
        how = f", {format_count(abs(more), 'byte')} too {words[more > 0]}" * bool(more)
        headline = Line(f"✗ {name} is read as {shorten(read.text)}{how}", Tone.ERROR)
        return headline, Line(f"{where}, read from {_format_range(read)}")


def _read(bytes_by_part: Mapping[str, bytes]) -> Reading:
    pair = (bytes_by_part["key"], bytes_by_part.get("value"))
    try:
        return Reading(annotate(*pair))
    except InvalidRecord as error:
        field = f"{error.field}: " if error.field else ""
        return Reading(split_before_error(error, *pair, DEFAULT_DIALECT), field + error.reason)


def _find_read(span: Span, reading: Reading) -> Span | None:
    """Return what a reader takes for this field."""
    name = find_name(span)
    return next((each for each in reading.spans if (each.part, find_name(each)) == (span.part, name)), None)


def _show(value: str | None) -> str:
    return "nothing" if value is None else shorten(value, 14)


def _format_range(span: Span) -> str:
    if span.end - span.start == 1:
        return f"byte {span.start}"
    return f"bytes {span.start} to {span.end - 1}"


def shorten(text: str, limit: int = 34) -> str:
    if not text.strip():
        return text or "“”"
    visible = escape(text)
    return visible if len(visible) <= limit else visible[: limit - 1] + "…"
