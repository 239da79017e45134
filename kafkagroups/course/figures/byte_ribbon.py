"""Lessons 01 and 03: the fields of a record or of a batch as blocks."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby, product
from operator import attrgetter
from typing import Any

from kafkagroups.course.figures.figure import NARROW_WIDTH, Content, Control, Figure, FreeInput, Part
from kafkagroups.course.figures.marks import KEY, WIDTH, Box, Label, Line, Mark, Scene, Tone, measure_text
from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.helpers import escape
from kafkagroups.log.batches import list_batch_fields, parse_valid_batch
from kafkagroups.log.segment_file import find_frame
from kafkagroups.records.spans import Span, annotate

MARGIN = 6
_SIZE = 11
_BLOCK_HEIGHT = 42
_STRIP_HEIGHT = 5
_ROW_HEIGHT = _BLOCK_HEIGHT + _STRIP_HEIGHT + 4
_GAP = 4
_SECONDS_PER_ROW = 0.35
_SHOWN_BYTES = (11, 8)
"""How many bytes a block shows at most, and at most if it then still stands in the row of the block before it."""
_HUE_BY_KIND = {"count": "kind-1", "text": "kind-5", "number": "kind-6"}
_LEGEND = tuple(Box(kind, *KEY, hue=hue) for kind, hue in _HUE_BY_KIND.items())
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
    return find_name(span).rpartition(": ")[2].partition(" of ")[0].rpartition(".")[2]


def _find_section(span: Span) -> str:
    record, separator, _ = span.field.rpartition(": ")
    if separator:
        return record
    return "header" if span.part == "batch" else span.part


def _find_kind(span: Span) -> str:
    if span.meaning.startswith("how many") or span.type == "uvarint, uvarint":
        return "count"
    return "text" if isinstance(span.value, str) else "number"


def _find_end(span: Span, size: int) -> int:
    """Return the end of the bytes that a field counts or covers, or its own end."""
    if _find_kind(span) != "count" and span.field != "crc":
        return span.end
    if "bytes" in span.meaning:
        return min(span.end + max(span.value or 0, 0), size)
    return size if span.value else span.end


def arrange_blocks(spans: Sequence[Span]) -> tuple[list[Place], list[Mark], float]:
    places: list[Place] = []
    headings: list[Mark] = []
    section = ""
    x = float(MARGIN)
    y = -float(_ROW_HEIGHT)
    for span in spans:
        if _find_section(span) != section:
            section = _find_section(span)
            x = MARGIN
            y += _ROW_HEIGHT + 22
            headings.append(Label(f"heading {section}", MARGIN, y - 5, section, is_bold=True))
        longest, shortest = (_place_block(span, x, y, shown) for shown in _SHOWN_BYTES)
        place = longest if longest.x + longest.width <= WIDTH - MARGIN else shortest
        if place.x + place.width > WIDTH - MARGIN:
            y += _ROW_HEIGHT
            place = _place_block(span, MARGIN, y, _SHOWN_BYTES[0])
        places.append(place)
        x = place.x + place.width + _GAP
    return places, headings, y + _ROW_HEIGHT + 2


def _place_block(span: Span, x: float, y: float, shown: int) -> Place:
    place = Place(span, x, y, 0, shown)
    hex_text = "00 " * min(shown, span.end - span.start) + "…" * place.is_cut
    # Of a long value, its block shows what fits.
    texts = (hex_text.strip(), _find_label(span), span.text.rpartition(", ")[2] if _find_kind(span) == "count" else "")
    return replace(place, width=max(measure_text(text, _SIZE) for text in texts) + 7)


def draw_block(number: int, place: Place, data: bytes, value: str, tone: Tone, *, is_new: bool, is_read: bool) -> Box:
    """Return the block of a field. `value` stands below its bytes, unless the bytes are text."""
    span = place.span
    kind = _find_kind(span)
    rest = " …" * place.is_cut
    if span.type in ("string", "bytes", ""):
        value = "  ".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in data[: place.shown]) + rest
    elif kind == "count":
        value = value.rpartition(", ")[2]
    most = int((place.width - 4) / measure_text("0", _SIZE))
    lines = (_find_label(span), data[: place.shown].hex(" ") + rest, shorten(value, most))
    frame = (place.x, place.y, place.width, _BLOCK_HEIGHT)
    style: dict[str, Any] = {"hue": _HUE_BY_KIND[kind], "choice": ("field", number), "is_dashed": is_new}
    box = Box(f"block {number}", *frame, lines, tone if is_read else Tone.MUTED, _SIZE, **style)
    return replace(box, is_bold=tone is not Tone.PLAIN, is_hollow=not is_read)


def draw_changed_byte(place: Place, position: int, byte: int) -> Iterator[Mark]:
    index = position - place.span.start
    if index < place.shown:
        distance = measure_text("00 ", _SIZE)
        characters = min(place.span.end - place.span.start, place.shown) * 3 - 1 + 2 * place.is_cut
        start = place.x + place.width / 2 - characters * distance / 6
        frame = (start + index * distance - 2, place.y + 14, 18, 15)
        yield Box("changed byte", *frame, (f"{byte:02x}",), Tone.ERROR, _SIZE, is_bold=True)


def draw_reader(places: Sequence[Place], selected: int, size: int) -> Iterator[Box]:
    """Yield a line behind the last byte that was read, and a bracket from the field to the end of what it counts.

    Each block has a part of the bracket, because blocks that are neighbours can stand in two rows of a narrow column.
    """
    last = places[selected]
    span = last.span
    style: dict[str, Any] = {"hue": _HUE_BY_KIND[_find_kind(span)], "is_solid": True}
    end = _find_end(span, size)
    counted = [place for place in places if place.span.part == span.part and span.end <= place.span.start < end]
    starts = [(last, last.x + last.width - 7), *((place, place.x - _GAP) for place in counted)] if counted else []
    for place, x in starts:
        delay = (place.y - last.y) / _ROW_HEIGHT * _SECONDS_PER_ROW
        frame = (x, place.y + _BLOCK_HEIGHT + 2, place.x + place.width - x, 4)
        yield Box(f"reach {selected} {place.span.start}", *frame, **style, delay=delay)
        if place in (last, counted[-1]):
            hook = (x if place is last else place.x + place.width - 3, place.y + _BLOCK_HEIGHT - 4, 3, 10)
            yield Box(f"hook {selected} {place.span.start}", *hook, tone=Tone.NEW, **style, delay=delay)
    yield Box("cut", last.x + last.width + 1, last.y - 2, 2, _BLOCK_HEIGHT + 6, tone=Tone.NEW, is_solid=True)


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
            right = waiting[0].x if waiting else WIDTH
            yield Part(left - _GAP, top, right - _GAP, bottom, (0, y))
            y += bottom - top
            top = bottom - _ROW_HEIGHT
        top = bottom


def _shade(block: Box, selected: Place) -> Box:
    """Return a block with its colour, if the checksum is selected: row by row, each is covered."""
    if selected.span.field != "crc":
        return block
    delay = (block.y - selected.y) / _ROW_HEIGHT * _SECONDS_PER_ROW
    return replace(block, is_hollow=False, tone=Tone.PLAIN, delay=delay)


def draw_cuts(places: Sequence[Place], spans: Sequence[Span], wrong: Set[tuple[str, str]]) -> Iterator[Box]:
    for span, (number, place) in product(spans, enumerate(places)):
        block = place.span
        start = max(span.start, block.start)
        end = min(span.end, block.end)
        if span.part == block.part and start < end:
            byte_width = place.width / (block.end - block.start)
            x = place.x + (start - block.start) * byte_width + 1
            frame = (x, place.y + _BLOCK_HEIGHT + 2, (end - start) * byte_width - 2, _STRIP_HEIGHT)
            name = (span.part, find_name(span))
            tone = Tone.ERROR if name in wrong else Tone.LIVE
            yield Box(f"strip {name} {number}", *frame, tone=tone, is_solid=name in wrong)


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


class ByteRibbon(Figure):
    when_refused: str
    when_believed: str
    """What the caption says if the reader refuses a changed byte, or reads other values."""

    def __init__(self, title: str, bytes_by_part: Mapping[str, bytes]) -> None:
        self._title = title
        self.bytes_by_part = bytes_by_part
        self.spans = self.read_spans(bytes_by_part)
        self._written = Reading(self.spans).value_by_name
        self._places, self._headings, self._height = arrange_blocks(self.spans)
        # At most 160 scenes are drawn.
        self.changes = self.choose_changes()[: max(160 // len(self.spans) - 1, 1)]
        super().__init__(self._make_content([None, *self.changes]))

    @abstractmethod
    def read_spans(self, bytes_by_part: Mapping[str, bytes]) -> list[Span]:
        """Return the fields that a reader finds, or raise BadBytes if it refuses the bytes."""

    @abstractmethod
    def choose_changes(self) -> list[ByteChange]:
        """Return the changes that the figure offers without a kernel."""

    def _explain_change(self, reading: Reading, *, has_other_values: bool) -> str:
        if reading.error is not None:
            return self.when_refused
        return self.when_believed if has_other_values else "The reader still reads the same values."

    def compute_content(self, value: str) -> Content:
        """Return the content with one more change, typed as "value 9=24"."""
        return self._make_content([parse_change(value, self.bytes_by_part, self._example), None, *self.changes])

    @property
    def _example(self) -> str:
        change = self.changes[0]
        prefix = "" if len(self.bytes_by_part) == 1 else f"{change.part} "
        return f"{prefix}{change.position}={change.byte:02x}"

    def _make_content(self, changes: Sequence[ByteChange | None]) -> Content:
        has_parts = len(self.bytes_by_part) > 1
        fields = tuple((f"{span.part}: " if has_parts else "") + find_name(span) for span in self.spans)
        first = next((number for number, span in enumerate(self.spans) if span.field == "crc"), 1)
        options = tuple("none" if change is None else self._describe_change(change) for change in changes)
        bytes_after = [change.apply(self.bytes_by_part) if change else self.bytes_by_part for change in changes]
        readings = [self._read(bytes_by_part) for bytes_by_part in bytes_after]

        def draw(number: int, change: int) -> Scene:
            return self._draw(number, changes[change], bytes_after[change], readings[change])

        jumps = [("field", self.spans.index(self._find_span(change))) if change else None for change in changes]
        controls = (
            Control("field", "field", fields, initial=first),
            Control("change", "changed byte", options, is_sequence=False, jumps=tuple(jumps), is_answer=True),
        )
        typed = FreeInput("change a byte (position=hex)", self._example)
        others = {"free_input": typed, "legend": _LEGEND, "narrow": tuple(narrow_rows(self._places)), "has_bytes": True}
        return Content.draw(self._title, self._height, controls, draw, **others)

    def _describe_change(self, change: ByteChange) -> str:
        old = self.bytes_by_part[change.part][change.position]
        name = find_name(self._find_span(change))
        where = f"{change.part} byte" if len(self.bytes_by_part) > 1 else "byte"
        return f"{where} {change.position}: {old:02x} becomes {change.byte:02x} ({name})"

    def _find_span(self, byte: ByteChange) -> Span:
        return next(span for span in self.spans if span.part == byte.part and span.start <= byte.position < span.end)

    def _read(self, bytes_by_part: Mapping[str, bytes]) -> Reading:
        try:
            spans = self.read_spans(bytes_by_part)
        except BadBytes as error:
            field = f"{error.field}: " if error.field else ""
            return Reading((), field + error.reason)
        return Reading(spans)

    def _draw(self, selected: int, change: ByteChange | None, parts: Mapping[str, bytes], reading: Reading) -> Scene:
        changed_span = self._find_span(change) if change else None
        believed = reading.value_by_name or self._written
        marks: list[Mark] = list(self._headings)
        for number, place in enumerate(self._places):
            is_changed = place.span == changed_span
            data = parts[place.span.part][place.span.start : place.span.end]
            key = (place.span.part, find_name(place.span))
            value = "?" if is_changed and reading.error is not None else believed.get(key, "?")
            tone = Tone.NEW if number == selected else Tone.PLAIN
            if is_changed or believed.get(key) != self._written[key]:
                tone = Tone.ERROR
            is_read = change is not None or number <= selected
            block = draw_block(number, place, data, value, tone, is_new=is_changed, is_read=is_read)
            marks.append(_shade(block, self._places[selected]) if change is None and number > selected else block)
            if change and is_changed:
                marks += draw_changed_byte(place, change.position, change.byte)
        span = self.spans[selected]
        name = find_name(span)
        text = [f"field: {name}"]
        if change is None:
            shown_bytes = shorten(parts[span.part][span.start : span.end].hex(" "), limit=48)
            marks += draw_reader(self._places, selected, len(parts[span.part]))
            where = f"{span.part}, {_format_range(span)}, {span.type}"
            value = shorten(span.text)
            line = Line(f"{where}: {shown_bytes}. {span.meaning[:1].upper()}{span.meaning[1:]}")
            text += [f"where: {where}", f"bytes: {shown_bytes}", f"value: {value}", f"meaning: {span.meaning}"]
            caption = self._count_bytes(span, name)
        else:
            now = reading.value_by_name.get((span.part, name))
            value = f"written {_show(span.text)}, now read {_show(now)}"
            if now == span.text:
                value = f"{_show(span.text)}, still read"
            differences = self._list_differences(reading)
            line, belief = _describe_belief(reading, differences)
            wrong = {key for key, value in reading.value_by_name.items() if self._written.get(key) != value}
            marks += draw_cuts(self._places, reading.spans, wrong)
            old = self.bytes_by_part[change.part][change.position]
            explanation = self._explain_change(reading, has_other_values=bool(differences))
            changed = f"Byte {change.position} of the {change.part}"
            caption = f"{changed} was {old:02x}, and is now {change.byte:02x}. {explanation}"
            text += [f"value: {value}", f"changed byte: {change.byte:02x}", *belief]
        return Scene(tuple(marks), caption, tuple(text), lines=(Line(f"{name}: {value}", Tone.NEW), line))

    def _count_bytes(self, span: Span, name: str) -> str:
        count = span.end - span.start
        if span.start == 0:
            takes = "byte is" if count == 1 else f"{count} bytes are"
            return f"No field name is stored, so a reader counts bytes: the first {takes} “{name}”."
        takes = "the next byte is" if count == 1 else f"the next {count} bytes are"
        counted = _find_end(span, len(self.bytes_by_part[span.part])) - span.end
        verb = "covers" if span.field == "crc" else "counts"
        reach = f" What it {verb} ends where the bracket ends: {counted} bytes." if counted > 0 else ""
        return f"The reader has counted {span.start} bytes of the {span.part}, so {takes} “{name}”.{reach}"

    def _list_differences(self, reading: Reading) -> list[str]:
        believed = self._written if reading.error is not None else reading.value_by_name
        pairs = ((name, self._written.get(name), believed.get(name)) for name in self._written | believed)
        return [f"{name[1]}: {_show(old)} → {_show(new)}" for name, old, new in pairs if old != new]


def _show(value: str | None) -> str:
    return "nothing" if value is None else shorten(value, 14)


def _describe_belief(reading: Reading, differences: Sequence[str]) -> tuple[Line, list[str]]:
    if reading.error is not None:
        return Line(f"A reader refuses the bytes ✗ {reading.error}", Tone.ERROR), [f"refused: {reading.error}"]
    if not differences:
        return Line("A reader still reads the same values ✓", Tone.LIVE), []
    shown = differences[:2]
    words = f"A reader now reads other values ({len(differences)}): {', '.join(shown)}"
    return Line(words, Tone.WAIT), [f"now believed: {difference}" for difference in shown]


def _format_range(span: Span) -> str:
    if span.end - span.start == 1:
        return f"byte {span.start}"
    return f"bytes {span.start} to {span.end - 1}"


def shorten(text: str, limit: int = 34) -> str:
    if not text:
        return "“”"
    visible = escape(text)
    return visible if len(visible) <= limit else visible[: limit - 1] + "…"


class RecordRibbon(ByteRibbon):
    when_refused = "The reader refuses the record. A broker that finds it stops its load."
    when_believed = "A record has no checksum of its own, so the reader believes the new values."

    def __init__(self, key: bytes, value: bytes | None) -> None:
        parts = {"key": key} if value is None else {"key": key, "value": value}
        super().__init__("One record, byte by byte", parts)

    def read_spans(self, bytes_by_part: Mapping[str, bytes]) -> list[Span]:
        return list(annotate(bytes_by_part["key"], bytes_by_part.get("value")))

    def choose_changes(self) -> list[ByteChange]:
        changes = []
        for span in self.spans:
            name = find_name(span)
            last = self.bytes_by_part[span.part][span.end - 1]
            if name in ("type", "partition", "version", "offset", "length of metadata"):
                changes.append(ByteChange(span.part, span.end - 1, (last + 1) % 256))
            if name == "version" and last:
                changes.append(ByteChange(span.part, span.end - 1, last - 1))
        return changes


class BatchRibbon(ByteRibbon):
    """The header and the records of the batch that begins at `position` of a segment's bytes."""

    when_refused = "The reader notices it and refuses the batch."
    when_believed = "The checksum does not cover this byte, so the change goes unnoticed."

    def __init__(self, data: bytes, position: int = 0) -> None:
        spans = list_batch_fields(data, position)
        end = position + spans[-1].end
        self._before = data[:position]
        self._after = data[end:]
        super().__init__("One batch, byte by byte", {"batch": data[position:end]})

    def read_spans(self, bytes_by_part: Mapping[str, bytes]) -> list[Span]:
        segment = self._before + bytes_by_part["batch"] + self._after
        position = len(self._before)
        frame = find_frame(segment, position)
        parse_valid_batch(frame, segment[position : frame.end])
        return list_batch_fields(segment, position)

    def choose_changes(self) -> list[ByteChange]:
        changes = []
        batch = self.bytes_by_part["batch"]
        for span in self.spans:
            if span.field in ("baseOffset", "batchLength", "partitionLeaderEpoch", "magic", "crc"):
                changes.append(ByteChange("batch", span.end - 1, batch[span.end - 1] ^ 1))
        values = [span for span in self.spans if span.field.endswith("value") and span.type == "bytes"]
        if values:
            # The tenth byte of a commit is the last byte of its offset.
            position = min(values[0].start + 9, values[0].end - 1)
            changes.append(ByteChange("batch", position, batch[position] ^ 1))
        return changes
