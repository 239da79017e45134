"""Lessons 01 and 03: the fields of a record or of a batch as blocks with their bytes.

The reader of the lesson selects a block, or changes one byte. The figure then shows what a reader of Kafka's bytes
believes: other values, or nothing because it refuses the bytes.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from kafkagroups.anatomy.annotate import annotate
from kafkagroups.anatomy.batches import list_batch_fields
from kafkagroups.anatomy.spans import Span
from kafkagroups.course.figures.figure import Content, Control, Figure, FreeInput
from kafkagroups.course.figures.marks import CHARACTER_WIDTH, WIDTH, Box, Label, Mark, Scene, Tone, measure_text
from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.log.batches import parse_valid_batch
from kafkagroups.log.frames import find_frame
from kafkagroups.visible_text import escape

_MARGIN = 6
_GAP = 4
_SIZE = 11
_BLOCK_HEIGHT = 44
_ROW_HEIGHT = _BLOCK_HEIGHT + 4
_HEADING_HEIGHT = 18
_PANEL_HEIGHT = 76
_BELIEF_HEIGHT = 78
_SHOWN_BYTES = 11
"""A block shows at most this number of bytes."""
_PANEL_BYTES = 16
_SHOWN_CHARACTERS = 34
_SHOWN_DIFFERENCES = 3
_LINE_CHARACTERS = int((WIDTH - 4 * _MARGIN) / (12 * CHARACTER_WIDTH))
_MOST_SCENES = 160
_NAME_OF_REST = "rest"
_CHANGE = re.compile(r"\s*(?:(?P<part>[a-z]+)\s+)?(?P<position>[0-9]{1,9})\s*=\s*(?P<byte>[0-9a-fA-F]{1,2})\s*")


@dataclass(frozen=True)
class ByteChange:
    """One changed byte: where it is, and its new value. `part` is "key", "value" or "batch"."""

    part: str
    position: int
    byte: int

    def apply(self, bytes_by_part: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the bytes of all parts with this change."""
        changed = bytearray(bytes_by_part[self.part])
        changed[self.position] = self.byte
        return {**bytes_by_part, self.part: bytes(changed)}


@dataclass(frozen=True)
class _Reading:
    """What a reader believes. `error` says why it refuses the bytes; then it believes no value."""

    value_by_name: Mapping[tuple[str, str], str]
    error: str | None = None


@dataclass(frozen=True)
class _Place:
    """Where the block of a span is drawn."""

    span: Span
    x: float
    y: float
    width: float


class ByteRibbon(Figure):
    """The fields of some bytes as blocks. `RecordRibbon` and `BatchRibbon` are its two kinds."""

    def __init__(self, title: str, bytes_by_part: Mapping[str, bytes]) -> None:
        self._title = title
        self.bytes_by_part = bytes_by_part
        self.spans = self.read_spans(bytes_by_part)
        self._places, self._headings, self._panel_y = _arrange(self.spans)
        self._height = self._panel_y + _PANEL_HEIGHT + _BELIEF_HEIGHT
        most_changes = max(_MOST_SCENES // len(self.spans) - 1, 1)
        self.changes = self.choose_changes()[:most_changes]
        super().__init__(self._make_content([None, *self.changes]))

    @abstractmethod
    def read_spans(self, bytes_by_part: Mapping[str, bytes]) -> list[Span]:
        """Return the fields that a reader finds. Raises BadBytes if the reader refuses the bytes."""

    @abstractmethod
    def choose_changes(self) -> list[ByteChange]:
        """Return the changes that the figure offers without a kernel."""

    @abstractmethod
    def explain_change(self, reading: _Reading, *, has_other_values: bool) -> str:
        """Return a sentence about why a change is noticed or not."""

    def compute_content(self, value: str) -> Content:
        """Return the content with one more change, which the reader typed as "value 9=24"."""
        return self._make_content([self._parse_change(value), None, *self.changes])

    def _parse_change(self, text: str) -> ByteChange:
        example = self._example
        match = _CHANGE.fullmatch(text)
        if match is None:
            raise UsageError(f"expected a position and one byte in hex, for example {example!r}; found {text[:40]!r}")
        parts = list(self.bytes_by_part)
        part = match["part"] or (parts[0] if len(parts) == 1 else "")
        if part not in parts:
            raise UsageError(f"expected {' or '.join(parts)} before the position, for example {example!r}")
        position = int(match["position"])
        size = len(self.bytes_by_part[part])
        if position >= size:
            raise UsageError(f"the {part} has the positions 0 to {size - 1}; found position {position}")
        change = ByteChange(part, position, int(match["byte"], 16))
        if self.bytes_by_part[part][position] == change.byte:
            raise UsageError(f"byte {position} of the {part} is already {change.byte:02x}; type another value")
        return change

    @property
    def _example(self) -> str:
        return self._format_change(self.changes[0])

    def _format_change(self, change: ByteChange) -> str:
        prefix = "" if len(self.bytes_by_part) == 1 else f"{change.part} "
        return f"{prefix}{change.position}={change.byte:02x}"

    def _make_content(self, changes: Sequence[ByteChange | None]) -> Content:
        several_parts = len(self.bytes_by_part) > 1
        fields = tuple((f"{span.part}: " if several_parts else "") + find_name(span) for span in self.spans)
        options = tuple("none" if change is None else self._describe_change(change) for change in changes)
        scenes: dict[tuple[int, ...], Scene] = {}
        for change_number, change in enumerate(changes):
            bytes_by_part = change.apply(self.bytes_by_part) if change else self.bytes_by_part
            reading = self._read(bytes_by_part)
            for number, _ in enumerate(self.spans):
                scenes[number, change_number] = self._draw(number, change, bytes_by_part, reading)
        controls = (Control("field", "field", fields), Control("change", "changed byte", options, is_sequence=False))
        free_input = FreeInput("change a byte (position=hex)", self._example)
        return Content(self._title, self._height, controls, scenes, free_input)

    def _describe_change(self, change: ByteChange) -> str:
        old = self.bytes_by_part[change.part][change.position]
        name = find_name(self._find_span(change))
        where = f"{change.part} byte" if len(self.bytes_by_part) > 1 else "byte"
        return f"{where} {change.position}: {old:02x} becomes {change.byte:02x} ({name})"

    def _find_span(self, change: ByteChange) -> Span:
        return next(
            span for span in self.spans if span.part == change.part and span.start <= change.position < span.end
        )

    def _read(self, bytes_by_part: Mapping[str, bytes]) -> _Reading:
        try:
            spans = self.read_spans(bytes_by_part)
        except BadBytes as error:
            field = f"{error.field}: " if error.field else ""
            return _Reading({}, field + error.reason)
        return _Reading({(span.part, find_name(span)): span.text for span in spans})

    def _draw(
        self, selected: int, change: ByteChange | None, bytes_by_part: Mapping[str, bytes], reading: _Reading
    ) -> Scene:
        changed_span = self._find_span(change) if change else None
        marks: list[Mark] = list(self._headings)
        for number, place in enumerate(self._places):
            is_changed = place.span == changed_span
            marks.append(
                _draw_block(number, place, bytes_by_part, is_selected=number == selected, is_changed=is_changed)
            )
            if change and is_changed:
                marks += _draw_changed_byte(place, change)
        span = self.spans[selected]
        name = find_name(span)
        written = _shorten(span.text)
        data = bytes_by_part[span.part][span.start : span.end]
        shown_bytes = data[:_PANEL_BYTES].hex(" ") + (" …" if len(data) > _PANEL_BYTES else "")
        where = f"{span.part}, {_format_range(span)}, {span.type}"
        value = written
        if change:
            now = reading.value_by_name.get((span.part, name))
            if now == span.text:
                value = f"{written}, still read"
            else:
                value = f"written {written}, now read {'nothing' if now is None else _shorten(now)}"
        y = self._panel_y
        marks += [
            Label("panel name", _MARGIN, y + 14, name, tone=Tone.NEW, is_bold=True),
            Label("panel where", WIDTH - _MARGIN, y + 14, where, "end", Tone.MUTED, size=11),
            Label("panel bytes", _MARGIN, y + 31, f"bytes  {shown_bytes}"),
            Label("panel value", _MARGIN, y + 48, f"value  {value}", is_bold=True),
            Label("panel meaning", _MARGIN, y + 65, span.meaning),
        ]
        text = [
            f"field: {name}",
            f"where: {where}",
            f"bytes: {shown_bytes}",
            f"value: {value}",
            f"meaning: {span.meaning}",
        ]
        if change is None:
            lines = ["No byte is changed. A reader accepts the bytes."]
            tone = Tone.MUTED
            count = span.end - span.start
            takes = "one byte" if count == 1 else f"{count} bytes"
            caption = (
                f"A reader treats {takes} as the field “{name}”. It counts bytes, because no field name is stored."
            )
        else:
            differences = self._list_differences(reading)
            lines, tone, belief = _describe_belief(reading, differences)
            old = self.bytes_by_part[change.part][change.position]
            explanation = self.explain_change(reading, has_other_values=bool(differences))
            changed = f"Byte {change.position} of the {change.part}"
            caption = f"{changed} was {old:02x}, and is now {change.byte:02x}. {explanation}"
            text += [f"changed byte: {change.byte:02x}", *belief]
        belief_box = Box("belief", _MARGIN, y + _PANEL_HEIGHT, WIDTH - 2 * _MARGIN, 72, tuple(lines), tone)
        return Scene((*marks, belief_box), caption, tuple(text))

    def _list_differences(self, reading: _Reading) -> list[str]:
        """Return the values that a reader now believes instead of the written ones."""
        if reading.error is not None:
            return []
        written = {(span.part, find_name(span)): span.text for span in self.spans}
        differences = []
        for name in [*written, *(name for name in reading.value_by_name if name not in written)]:
            old = written.get(name)
            new = reading.value_by_name.get(name)
            if old != new:
                old_text = "nothing" if old is None else _shorten(old, 24)
                new_text = "nothing" if new is None else _shorten(new, 24)
                differences.append(f"{name[1]}: {old_text} → {new_text}")
        return differences


class RecordRibbon(ByteRibbon):
    """The fields of one record: its key and its value.

    Parameters
    ----------
    key, value
        The bytes of the record. If `value` is None, the record is a tombstone.
    """

    def __init__(self, key: bytes, value: bytes | None) -> None:
        parts = {"key": key} if value is None else {"key": key, "value": value}
        super().__init__("One record, byte by byte", parts)

    def read_spans(self, bytes_by_part: Mapping[str, bytes]) -> list[Span]:
        return list(annotate(bytes_by_part["key"], bytes_by_part.get("value")))

    def choose_changes(self) -> list[ByteChange]:
        """Return a change of the type, of the version, and of the fields that the lesson explains."""
        changes = []
        for span in self.spans:
            name = find_name(span)
            last = self.bytes_by_part[span.part][span.end - 1]
            if name in ("type", "partition", "version", "offset", "length of metadata"):
                changes.append(ByteChange(span.part, span.end - 1, (last + 1) % 256))
            if name == "version" and last:
                changes.append(ByteChange(span.part, span.end - 1, last - 1))
        return changes

    def explain_change(self, reading: _Reading, *, has_other_values: bool) -> str:
        if reading.error is not None:
            return "The reader refuses the record. A broker that finds it stops its load."
        if not has_other_values:
            return "The reader still reads the same values."
        return "A record has no checksum of its own, so the reader believes the new values."


class BatchRibbon(ByteRibbon):
    """The fields of one batch: its header and its records.

    Parameters
    ----------
    data
        The bytes of a segment.
    position
        The position in `data` at which the batch begins.
    """

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
        """Return changes of four fields before the checksum, of the checksum, and of a value."""
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

    def explain_change(self, reading: _Reading, *, has_other_values: bool) -> str:
        if reading.error is not None:
            return "The reader notices it and refuses the batch."
        if not has_other_values:
            return "The reader still reads the same values."
        return "The checksum does not cover this byte, so the change goes unnoticed."


def find_name(span: Span) -> str:
    """Return a name of a span that is unique in its part."""
    field = span.field or _NAME_OF_REST
    prefix, separator, short = field.rpartition(": ")
    if span.type.endswith("length"):
        return f"{prefix}{separator}length of {short}"
    if span.type == "uvarint, uvarint":
        return f"tag of {field}"
    return field


def _find_label(span: Span) -> str:
    """Return the words in the block of a span."""
    if span.type.endswith("length"):
        return "length"
    if span.type == "uvarint, uvarint":
        return "tag"
    return (span.field or _NAME_OF_REST).rpartition(": ")[2].rpartition(".")[2]


def _find_section(span: Span) -> str:
    """Return the heading above a span."""
    record, separator, _ = span.field.rpartition(": ")
    if separator:
        return record
    return "header" if span.part == "batch" else span.part


def _arrange(spans: Sequence[Span]) -> tuple[list[_Place], list[Mark], float]:
    """Return the places of the blocks, the headings, and the y below the blocks."""
    places = []
    headings: list[Mark] = []
    section = ""
    x = float(_MARGIN)
    y = -float(_ROW_HEIGHT)
    for span in spans:
        width = max(measure_text(_format_hex(span), _SIZE), measure_text(_find_label(span), _SIZE)) + 7
        if _find_section(span) != section:
            section = _find_section(span)
            x = _MARGIN
            y += _ROW_HEIGHT + _HEADING_HEIGHT
            words = "header: the checksum crc covers every byte after itself" if section == "header" else section
            headings.append(Label(f"heading {section}", _MARGIN, y - 5, words, is_bold=True))
        elif x + width > WIDTH - _MARGIN:
            x = _MARGIN
            y += _ROW_HEIGHT
        places.append(_Place(span, x, y, width))
        x += width + _GAP
    return places, headings, y + _ROW_HEIGHT


def _format_hex(span: Span) -> str:
    """Return as many characters as the hex bytes of a span have in its block."""
    count = span.end - span.start
    return "00 " * (min(count, _SHOWN_BYTES) - 1) + "00" + (" …" if count > _SHOWN_BYTES else "")


def _draw_block(
    number: int, place: _Place, bytes_by_part: Mapping[str, bytes], *, is_selected: bool, is_changed: bool
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


def _draw_changed_byte(place: _Place, change: ByteChange) -> list[Mark]:
    """Return a frame around the changed byte, if its block shows it."""
    index = change.position - place.span.start
    count = place.span.end - place.span.start
    if index >= _SHOWN_BYTES:
        return []
    step = 3 * _SIZE * CHARACTER_WIDTH
    characters = min(count, _SHOWN_BYTES) * 3 - 1 + (2 if count > _SHOWN_BYTES else 0)
    start = place.x + place.width / 2 - characters * _SIZE * CHARACTER_WIDTH / 2
    x = start + index * step - 2
    return [Box("changed byte", x, place.y + 15, 18, 15, (f"{change.byte:02x}",), Tone.ERROR, _SIZE, is_bold=True)]


def _describe_belief(reading: _Reading, differences: Sequence[str]) -> tuple[list[str], Tone, list[str]]:
    """Return the lines of the box about what a reader believes, its tone, and its lines in the text form."""
    if reading.error is not None:
        reason = wrap(reading.error, _LINE_CHARACTERS)[:3]
        return ["A reader refuses the bytes ✗", *reason], Tone.ERROR, [f"refused: {' '.join(reason)}"]
    if not differences:
        return ["A reader accepts the bytes, with the same values ✓"], Tone.LIVE, []
    shown = list(differences[:_SHOWN_DIFFERENCES])
    if len(differences) > len(shown):
        rest = len(differences) - len(shown)
        shown[-1] += f"   (and {rest} more)"
    lines = ["A reader accepts the bytes, and reads something else:", *shown]
    return lines, Tone.WAIT, [f"now believed: {line}" for line in shown]


def _format_range(span: Span) -> str:
    if span.end - span.start == 1:
        return f"byte {span.start}"
    return f"bytes {span.start} to {span.end - 1}"


def _shorten(text: str, limit: int = _SHOWN_CHARACTERS) -> str:
    """Return a text in quotation marks if it is empty, and with an ellipsis if it is long."""
    if not text:
        return "“”"
    visible = escape(text)
    return visible if len(visible) <= limit else visible[: limit - 1] + "…"
