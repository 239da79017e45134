"""Lesson 01: the same commit in several value versions, and what a reader of a wrong version makes of the bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from textwrap import wrap
from typing import Any

from kafkagroups.course.figures.byte_ribbon import HUE_BY_KIND, Reading, find_kind, find_name, shorten
from kafkagroups.course.figures.figure import NARROW_WIDTH, Content, Control, Figure, Part
from kafkagroups.course.figures.marks import WIDTH, Box, Label, Line, Mark, Scene, Tone, fit_words, measure_text
from kafkagroups.course.group_life import format_count
from kafkagroups.course.lesson_folders import find_data
from kafkagroups.course.log_lines import read_record
from kafkagroups.errors import InvalidRecord
from kafkagroups.records.releases import DEFAULT_DIALECT, Dialect, dialect
from kafkagroups.records.serde import VERSION_BYTES, decode
from kafkagroups.records.spans import Span, annotate, split_before_error
from kafkagroups.records.written_versions import describe_writers, writers_of

_LEFT = 7
_SIZE = 11
_BLOCK_HEIGHT = 32
_TOP = 26
_ROW_HEIGHT = 104
_OFFSET_OF_COMMIT = {"1.0.1": 37, "3.9.2": 37, "4.3.1": 38}
"""The log offset of the same commit of `billing` in the logs of three Kafka releases."""
_TOO_LONG = re.compile(r"expected a string of length (\d+), found (\d+) more bytes")
_GAP = 4
_RESULT_WIDTH = 200
_RESULT_DELAY = 0.8
"""A verdict comes after its cause, in seconds."""
_NO_NULL = "expected a value that is not null, found "
_ERROR_SIGN = "✗ "
# The columns of the picture: the fields that stand in each, and its width.
_FIELDS = ("version", "offset", "leaderEpoch", "length of metadata", "metadata", "commitTimestamp")
_ENDS = ("expireTimestamp", "tagged fields", "tag of topicId", "topicId")
_COLUMNS = (*zip(((name,) for name in _FIELDS), (68, 82, 70, 62, 90, 84), strict=True), (_ENDS, 91))
_BEFORE = "Three releases wrote the same commit. The bytes contain no names, so a reader needs the version."
_WORDS = {
    "leaderEpoch": "epoch",
    "length of metadata": "length",
    "commitTimestamp": "commit time",
    "expireTimestamp": "expire time",
}
_SHORT = {"version": "ver.", "length": "len.", "metadata": "meta", "tag: topic id": "topic"}


_Result = tuple[int | None, Reading, set[str]]
_Pair = tuple[bytes | None, bytes | None]
_Sides = dict[int, tuple[float, float, str]]
"""The left and the right side of each byte of a value, and the name of its column."""


@dataclass(frozen=True)
class Reader:
    """`words` is what the control shows.

    A reader with a `fixed_version` expects it whatever the bytes name. Others read the version, by the rules of
    `dialect`.
    """

    words: str
    fixed_version: int | None = None
    dialect: Dialect = DEFAULT_DIALECT


READERS = (
    Reader("Kafka 4.3.1: reads the version first"),
    Reader("ignores the version, expects version 1", 1),
    Reader("ignores the version, expects version 3", 3),
    Reader("ignores the version, expects version 4", 4),
    Reader("Kafka 1.0.1: has the versions 0 and 1", None, dialect("classic", "1.0.1")),
    Reader("Kafka 2.8.2: has the versions 0 to 3", None, dialect("classic", "2.8.2")),
)


class VersionOverlay(Figure):
    """The same commit of `billing` from the logs of three releases, and a reader that cuts it field by field."""

    def __init__(self) -> None:
        places = [(find_data(f"harbour/{kafka}/__consumer_offsets-9"), at) for kafka, at in _OFFSET_OF_COMMIT.items()]
        records = [read_record(log, offset) for log, offset in places]
        readings = [[read_value(reader, *record) for record in records] for reader in READERS]
        last = max(map(_find_end, chain.from_iterable(readings)))
        steps = ("no field is read", *(f"field {cut}" for cut in range(1, last + 1)))
        controls = (
            Control("reader", "reader", tuple(reader.words for reader in READERS), is_sequence=False, initial=2),
            Control("cut", "cut", steps, initial=4),
        )

        def draw(number: int, cut: int) -> Scene:
            return _draw(records, READERS[number], readings[number], cut)

        height = _ROW_HEIGHT * len(records) - 6
        narrow = tuple(chain(*map(_narrow_row, range(len(records)))))
        title = "One commit in different value versions"
        super().__init__(Content.draw(title, height, controls, draw, narrow=narrow, has_bytes=True))


def _narrow_row(number: int) -> Iterator[Part]:
    """Yield the parts of a row in a narrow column: its title and its writers, the result, and the blocks."""
    top = number * _ROW_HEIGHT
    middle = top + _TOP - 2
    yield Part(0, top, NARROW_WIDTH, middle, (0, top))
    yield Part(NARROW_WIDTH, top, WIDTH, middle, (217, top), 0.6)
    yield Part(0, middle, WIDTH, top + _ROW_HEIGHT, (0, middle), 0.62)


def read_value(reader: Reader, key: bytes | None, value: bytes | None) -> Reading:
    """Return what a reader makes of a commit's value: if it refuses the value, the fields before the error."""
    data = value or b""
    if reader.fixed_version is not None:
        data = reader.fixed_version.to_bytes(VERSION_BYTES, "big") + data[VERSION_BYTES:]
    error = None
    try:
        spans: list[Span] = annotate(key, data, reader.dialect)
    except InvalidRecord as refused:
        error = _TOO_LONG.sub(r"length \1: only \2 bytes left", refused.reason).removeprefix(_NO_NULL)
        spans = split_before_error(refused, key, data, reader.dialect)
    fields = [span for span in spans if span.part == "value" and span.field]
    if fields and (error or reader.fixed_version is not None):
        fields[0] = fields[0]._replace(value="skip")
    return Reading(fields, error)


def _draw(records: Sequence[_Pair], reader: Reader, readings: Sequence[Reading], cut: int) -> Scene:
    who = f"the reader {re.split(', |: ', reader.words)[-1]}"
    marks: list[Mark] = []
    text = [who.replace("reader ", "reader: ")]
    results = []
    bad = 0
    told: dict[int | None, str] = {}
    for number, ((key, value), reading) in enumerate(zip(records, readings, strict=True)):
        assert value is not None
        record = decode(key, value)
        y = number * _ROW_HEIGHT
        title = f"version {record.value_version}"
        first, _, last = describe_writers([writers_of(record)]).partition(" – ")
        writers = f"Kafka {first} to {last}" if last else f"Kafka {first} and newer"
        written = read_value(Reader(""), key, value)
        sides = _find_sides(written)
        fields = _list_shown(reading)
        end = fields[:cut][-1].end if fields[:cut] else 0
        is_done = cut >= _find_end(reading)
        marks += _draw_written(number, y + _TOP, value, written, end, _find_length(reading) if is_done else range(0))
        wrong = _find_wrong(written, reading)
        bad += not wrong.isdisjoint(map(find_name, fields[:cut])) or (cut > len(fields) and reading.error is not None)
        tone, result = _describe_result(reading, wrong) if is_done else (Tone.MUTED, f"{len(value)} bytes")
        short = re.sub(" correctly|no error, | fields?", "", result)
        frame = (WIDTH - _LEFT - _RESULT_WIDTH, y, _RESULT_WIDTH, 22, (result,), tone)
        marks += [
            Label(f"title {number}", _LEFT, y + 15, title, is_bold=True),
            Label(f"writers {number}", _LEFT + 78, y + 15, writers, tone=Tone.MUTED, size=11),
            Box(f"result {number}", *frame, is_bold=True, short=short, delay=_RESULT_DELAY),
        ]
        if not number:  # The other rows have no room.
            lines = (("written", y + _TOP + 20), ("read as", y + _TOP + _BLOCK_HEIGHT + 23))
            marks += [Label(f"line {words}", 490, place, words, tone=Tone.MUTED, size=11) for words, place in lines]
        text.append(f"record of {title}: {result}")
        read_y = y + _TOP + _BLOCK_HEIGHT + 3
        boxes = list(_draw_read(number, read_y, sides, fields[:cut], wrong))
        marks += boxes
        text += [f"{title} {find_name(field)}: {box.lines[1]}" for field, box in zip(fields, boxes, strict=False)]
        if is_done:
            results.append((record.value_version, reading, wrong))
            marks += _draw_rest(number, read_y, value, sides, reading)
        if is_done and reading.error is not None:
            text.append(f"{title} refused: {reading.error}")
        if words := "".join(_tell_cut(sides, reading, wrong, cut)):
            told[record.value_version] = words
        x = sides[end - 1][1] if end else _LEFT - _GAP
        marks.append(Box(f"cut {number}", x + 1, read_y - 4, 2, _BLOCK_HEIGHT + 6, tone=Tone.NEW, is_solid=True))
    if len(results) < len(records):
        words = f"{bad} of {len(records)} versions are misread or refused so far"
        words = words if bad else f"Field {cut} fits in every version"
        if told:
            reason = " are refused" if len({*told.values()}) > 1 else next(iter(told.values()))
            words = f"Version{'s' * (len(told) > 1)} {' and '.join(map(str, told))}{reason}"
        line = Line(words if cut else "Where does each field begin?", Tone.ERROR if bad else Tone.PLAIN)
        caption = _tell_step(readings, cut) if cut else _BEFORE
    else:
        line = _conclude(results)
        caption = _make_caption(reader, results)
    return Scene(tuple(marks), caption, tuple(text), lines=(line, Line(who[:1].upper() + who[1:], Tone.NEW)))


def _tell_step(readings: Sequence[Reading], cut: int) -> str:
    """Return how many bytes the reader takes for which field, if it still reads."""
    fields = chain.from_iterable(_list_shown(reading)[cut - 1 : cut] for reading in readings)
    taken = [f"{format_count(field.end - field.start, 'byte')} as {_find_words(field)}" for field in fields]
    return f"Counting from the left, the reader now takes {' or '.join(dict.fromkeys(taken)) or 'nothing more'}."


def _find_words(field: Span) -> str:
    return _WORDS.get(find_name(field), find_name(field))


def _find_end(reading: Reading) -> int:
    """Return the cut after which a reader knows whether it can read the value."""
    return len(_list_shown(reading)) + (reading.error is not None)


def _tell_cut(sides: _Sides, reading: Reading, wrong: set[str], cut: int) -> Iterator[str]:
    """Yield what a reader wrongly takes for the field of this cut, or why it refuses the value."""
    fields = _list_shown(reading)
    if cut == len(fields) + 1 and reading.error is not None:
        yield f" is refused: {reading.error}"
    for field in fields[cut - 1 : cut] if cut else ():
        name = find_name(field)
        taken = dict.fromkeys(sides[position][2] for position in range(field.start, field.end))
        if name in wrong:
            yield f": {' + '.join(_WORDS.get(name, name) for name in taken)} read as {_find_words(field)}"


def _conclude(results: Sequence[_Result]) -> Line:
    right = sum(reading.error is None and not wrong for _, reading, wrong in results)
    misread = sum(reading.error is None and bool(wrong) for _, reading, wrong in results)
    unseen = f", misreads {misread} without an error" if misread else ""
    tone = Tone.LIVE if right == len(results) else Tone.ERROR
    return Line(f"Reads {right} of {len(results)} versions correctly{unseen}", tone)


def _list_columns(written: Reading) -> Iterator[tuple[float, float, list[Span]]]:
    x = float(_LEFT)
    for names, width in _COLUMNS:
        fields = [field for field in written.spans if find_name(field) in names]
        if fields:
            yield x, width - _GAP, fields
            x += width


def _find_sides(written: Reading) -> _Sides:
    sides: _Sides = {}
    for x, width, fields in _list_columns(written):
        start = fields[0].start
        end = fields[-1].end
        byte_width = width / (end - start)
        for position in range(start, end):
            left = x + byte_width * (position - start)
            sides[position] = (left, left + byte_width, find_name(fields[0]))
    return sides


def _find_length(reading: Reading) -> range:
    """Return the bytes that a reader took for a length, and then refused. Up to version 3, these are two bytes."""
    if reading.error is None or not reading.error.startswith("length"):
        return range(0)
    end = reading.spans[-1].end
    return range(end, end + 1 + (int(reading.error.split()[1].strip(":")) > 255))


def _draw_written(number: int, y: float, value: bytes, written: Reading, end: int, length: range) -> Iterator[Mark]:
    """Yield the bytes of a value. Those that the reader has read are faded, and a wrong length is underlined."""
    for x, width, fields in _list_columns(written):
        name = find_name(fields[0])
        words = "tag: topic id" if name == "tagged fields" else _WORDS.get(name, name)
        data = value[fields[0].start : fields[-1].end]
        hex_text = data.hex() if len(data) <= 6 else f"{data[:2].hex()}…{data[-3:].hex()}"
        style: Any = {"tone": Tone.MUTED} if fields[-1].end <= end else {"hue": HUE_BY_KIND[find_kind(fields[0])]}
        red = bytes(value[at] for at in length if fields[0].start <= at < fields[-1].end).hex()
        first = max(length.start - fields[0].start, 0)
        some = f"…{red}…" if red and first else f"{red}{data[1:2].hex()}" * bool(red) + f"…{data[-1:].hex()}"
        style["short"] = f"{_SHORT.get(words, words.removesuffix(' time'))}\n{hex_text if len(data) < 3 else some}"
        yield Box(f"written {number} {name}", x, y, width, _BLOCK_HEIGHT, (words, hex_text), size=_SIZE, **style)
        if red:
            left = x + width / 2 + measure_text("00", _SIZE) * (first - len(data) / 2)
            frame = (left, y + 29, measure_text(red, _SIZE), 2, (), Tone.ERROR)
            yield Box(f"marked {number} {name}", *frame, is_solid=True)


def _draw_read(number: int, y: float, sides: _Sides, fields: list[Span], wrong: set[str]) -> Iterator[Box]:
    for field in fields:
        name = find_name(field)
        x, width = _find_block(sides, field.start, field.end)
        tone, sign = (Tone.ERROR, _ERROR_SIGN) if name in wrong else (Tone.PLAIN, "")
        words = fit_words(width, _SIZE, sign + _find_words(field), sign.strip())
        lines = (*words, shorten(field.text, int((width - 14) / measure_text("0", _SIZE))))
        # A block comes from the bytes above it, which have its name.
        style: dict[str, Any] = {"origin": f"written {number} {sides[field.start][2]}", "short": sign + lines[1]}
        style |= {"is_dashed": bool(sign), "hue": "" if sign or name == "version" else HUE_BY_KIND[find_kind(field)]}
        yield Box(f"read {number} {name}", x, y, width, _BLOCK_HEIGHT, lines, tone, _SIZE, **style)


def _draw_rest(number: int, y: float, value: bytes, sides: _Sides, reading: Reading) -> Iterator[Mark]:
    """Yield the bytes that a reader did not read, or refused, and those that it took for a length."""
    end = max((field.end for field in reading.spans), default=0)
    if end == len(value) and reading.error is None:
        return
    x, width = _find_block(sides, end, len(value))
    style: dict[str, Any] = {"tone": Tone.DEAD, "size": _SIZE, "is_dashed": True}
    rest = fit_words(width - 6, _SIZE, "not read", "…")
    if reading.error is not None:
        style |= {"tone": Tone.ERROR, "origin": f"marked {number} {sides[end][2]}", "delay": 0.3}
        taken = value[end : _find_length(reading).stop].hex()
        words = _ERROR_SIGN + f"{taken} = " * bool(taken) + reading.error
        halves = tuple(wrap(words, len(words) // 2 + 2))
        style["short"] = "\n".join(halves).replace(" = length", " =")
        rest = fit_words(width - 4, _SIZE, words) or halves
    yield Box(f"rest {number}", x, y, width, _BLOCK_HEIGHT, rest, **style)


def _list_shown(reading: Reading) -> list[Span]:
    """Return the fields that have a block. The parts of the tagged fields are too narrow."""
    hidden = ("tagged fields", "tag of topicId")
    return [field for field in reading.spans if find_name(field) not in hidden and field.end > field.start]


def _find_block(sides: _Sides, start: int, end: int) -> tuple[float, float]:
    x = sides[start][0]
    return x, sides[end - 1][1] - x


def _find_wrong(written: Reading, reading: Reading) -> set[str]:
    right = set(map(_identify, written.spans))
    return {find_name(field) for field in reading.spans if _identify(field) not in right} - {"version"}


def _identify(field: Span) -> tuple[str, int, int, str]:
    return find_name(field), field.start, field.end, field.text


def _describe_result(reading: Reading, wrong: set[str]) -> tuple[Tone, str]:
    if reading.error is not None:
        return Tone.ERROR, "refuses it ✗"
    if wrong:
        return Tone.ERROR, f"no error, {format_count(len(wrong), 'wrong field')} ✗"
    return Tone.LIVE, "reads it correctly ✓"


def _make_caption(reader: Reader, results: Sequence[_Result]) -> str:
    if reader.fixed_version is not None:
        return "The reader counts bytes from the left, with the layout that it expects, whatever the bytes contain."
    if any(reading.error is not None for _, reading, _ in results):
        return "The reader does not have this version, so it refuses the value. A broker then stops its load."
    return "This reader reads the version first. So it cuts the bytes at the right places, in every row."
