"""Lesson 01: the same commit in several value versions, and what a reader of a wrong version makes of the bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

import msgspec

from kafkagroups.course.figures.byte_blocks import find_name
from kafkagroups.course.figures.figure import Content, Control, Figure, FreeInput
from kafkagroups.course.figures.marks import WIDTH, Box, Label, Mark, Scene, Tone, fit_words, measure_text
from kafkagroups.course.lesson_folders import find_data
from kafkagroups.course.log_lines import read_record
from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.helpers import MAX_INT32
from kafkagroups.records.dialects import DEFAULT_DIALECT, Dialect, dialect
from kafkagroups.records.offset_commit import OffsetCommitValue
from kafkagroups.records.serde import VERSION_BYTES, Record, decode, encode
from kafkagroups.records.spans import Span, split_into_spans
from kafkagroups.records.structs import field_specs, make_format
from kafkagroups.records.written_versions import describe_writers, writers_of

_LEFT = 7
_SIZE = 11
_BLOCK_HEIGHT = 32
_ROW_HEIGHT = 106
_OFFSET_OF_COMMIT = {"1.0.1": 37, "3.9.2": 37, "4.3.1": 38}
"""The log offset of the same commit of `billing` in the logs of three Kafka releases."""
_ERROR_SIGN = "✗ "
_SKIPPED = "skip"
# The columns of the picture: the fields that stand in each, the x of its left side, and its width.
_COLUMNS = (
    (("version",), 0, 32),
    (("offset",), 32, 112),
    (("leaderEpoch",), 144, 58),
    (("length of metadata",), 202, 32),
    (("metadata",), 234, 88),
    (("commitTimestamp",), 322, 112),
    (("expireTimestamp", "tagged fields", "tag of topicId", "topicId"), 434, 112),
)
_WORDS = {
    "version": "ver",
    "leaderEpoch": "epoch",
    "length of metadata": "len",
    "commitTimestamp": "commit time",
    "expireTimestamp": "expire time",
}


@dataclass(frozen=True)
class Reader:
    """`words` is what the control shows.

    A reader with a `fixed_version` expects it whatever the bytes name. Others read the version, by the rules of
    `dialect`.
    """

    words: str
    fixed_version: int | None = None
    dialect: Dialect = DEFAULT_DIALECT


@dataclass(frozen=True)
class ReadField:
    name: str
    start: int
    end: int
    value: str


@dataclass(frozen=True)
class Reading:
    fields: tuple[ReadField, ...]
    error: str | None = None


READERS = (
    Reader("reads the version, then the fields (Kafka 4.3.1)"),
    Reader("ignores the version, expects version 1", 1),
    Reader("ignores the version, expects version 3", 3),
    Reader("ignores the version, expects version 4", 4),
    Reader("Kafka 1.0.1: has the versions 0 and 1", None, dialect("classic", "1.0.1")),
    Reader("Kafka 2.8.2: has the versions 0 to 3", None, dialect("classic", "2.8.2")),
)


class VersionOverlay(Figure):
    """The same commit in several value versions, and a reader that the lesson's reader chooses.

    `records` are the keys and the values of the commits; without them, it is a commit of `billing` from the logs of
    three releases.
    """

    def __init__(self, *records: tuple[bytes | None, bytes | None]) -> None:
        self.records = records or _read_commits_of_billing()
        super().__init__(_make_content(self.records))

    def compute_content(self, value: str) -> Content:
        """Return the content with another leader epoch in the versions that have one."""
        try:
            epoch = int(value)
        except ValueError:
            epoch = -2
        if not -1 <= epoch <= MAX_INT32:
            raise UsageError(f"expected a leader epoch from -1 (unknown) to {MAX_INT32}; found {value[:20]!r}")
        return _make_content([_set_epoch(key, data, epoch) for key, data in self.records])


def _read_commits_of_billing() -> tuple[tuple[bytes | None, bytes | None], ...]:
    return tuple(
        read_record(find_data(f"harbour/{kafka}/__consumer_offsets-9"), offset)
        for kafka, offset in _OFFSET_OF_COMMIT.items()
    )


def _set_epoch(key: bytes | None, value: bytes | None, epoch: int) -> tuple[bytes | None, bytes | None]:
    record = decode(key, value)
    assert isinstance(record.value, OffsetCommitValue)
    if record.value_version is not None and record.value_version >= 3:
        record = record._replace(value=msgspec.structs.replace(record.value, leader_epoch=epoch))
    return encode(record)


def _make_content(records: Sequence[tuple[bytes | None, bytes | None]]) -> Content:
    readers = (None, *READERS)
    options = tuple(reader.words if reader else "no reader yet" for reader in readers)
    control = Control("reader", "reader", options, is_sequence=False, initial=3)
    height = _ROW_HEIGHT * len(records) + 2
    return Content.draw(
        "One commit in different value versions",
        height,
        (control,),
        lambda number: _draw(records, readers[number]),
        FreeInput("leader epoch of the commit", "-1"),
    )


def read_value(reader: Reader, key: bytes | None, value: bytes) -> Reading:
    """Return what a reader makes of a commit's value: if it refuses the value, the fields before the error."""
    data = value
    if reader.fixed_version is not None:
        data = reader.fixed_version.to_bytes(VERSION_BYTES, "big") + value[VERSION_BYTES:]
    try:
        record = decode(key, data, reader.dialect)
    except BadBytes as error:
        if error.field == "value.version":
            return Reading((), error.reason)
        return Reading(_skip_version(tuple(_read_until_error(data))), error.reason)
    spans = split_into_spans(record, key, data, reader.dialect)
    fields = tuple(_make_field(span) for span in spans if span.part == "value" and span.field)
    return Reading(_skip_version(fields) if reader.fixed_version is not None else fields)


def _make_field(span: Span) -> ReadField:
    return ReadField(find_name(span), span.start, span.end, span.text)


def _skip_version(fields: tuple[ReadField, ...]) -> tuple[ReadField, ...]:
    return (replace(fields[0], value=_SKIPPED), *fields[1:])


def _read_until_error(data: bytes) -> Iterator[ReadField]:
    version = int.from_bytes(data[:VERSION_BYTES], "big")
    message_format = make_format(OffsetCommitValue, version)
    position = VERSION_BYTES
    yield ReadField("version", 0, position, str(version))
    for spec in field_specs(OffsetCommitValue):
        if spec.tag is not None or not spec.is_in(message_format):
            continue
        try:
            value, end = spec.wire.read(data, position, message_format, spec.nullable)
        except (BadBytes, struct.error, IndexError):
            return
        yield ReadField(spec.json_name, position, end, str(value))
        position = end


def _draw(records: Sequence[tuple[bytes | None, bytes | None]], reader: Reader | None) -> Scene:
    marks: list[Mark] = []
    text = []
    results = []
    for number, (key, value) in enumerate(records):
        assert value is not None
        record = decode(key, value)
        y = number * _ROW_HEIGHT
        title = f"version {record.value_version}"
        first, _, last = describe_writers([writers_of(record)]).partition(" – ")
        writers = f"Kafka {first} to {last}" if last else f"Kafka {first} and newer"
        marks += [
            Label(f"title {number}", _LEFT, y + 15, title, is_bold=True),
            Label(f"writers {number}", _LEFT + 80, y + 15, f"written by {writers}", tone=Tone.MUTED, size=11),
        ]
        written = read_value(Reader(""), key, value)
        sides = _find_sides(written)
        marks += _draw_written(number, y + 20, record, value, written)
        if reader is None:
            text.append(f"{title}: {len(value)} bytes")
            marks.append(Label(f"result {number}", WIDTH - _LEFT, y + 15, f"{len(value)} bytes", "end"))
            continue
        reading = read_value(reader, key, value)
        wrong = _find_wrong(written, reading)
        tone, result = _describe_result(reading, wrong)
        marks.append(Label(f"result {number}", WIDTH - _LEFT, y + 15, result, "end", tone, is_bold=True))
        marks += _draw_reading(number, y + 20 + _BLOCK_HEIGHT + 4, len(value), sides, reading, wrong)
        results.append((record.value_version, reading, wrong))
        text.append(f"{title}: {result}")
        if reading.error is not None:
            text.append(f"{title} refused: {reading.error}")
        else:
            text += [f"{title} {field.name}: {_fit(field, sides)}" for field in reading.fields if _is_shown(field)]
    return Scene(tuple(marks), _make_caption(reader, results), tuple(text))


def _find_sides(written: Reading) -> dict[int, tuple[float, float]]:
    sides: dict[int, tuple[float, float]] = {}
    for names, x, width in _COLUMNS:
        fields = [field for field in written.fields if field.name in names]
        if not fields:
            continue
        start = fields[0].start
        end = fields[-1].end
        byte_width = width / (end - start)
        for position in range(start, end):
            left = _LEFT + x + byte_width * (position - start)
            sides[position] = (left, left + byte_width)
    return sides


def _draw_written(number: int, y: float, record: Record, value: bytes, written: Reading) -> Iterator[Mark]:
    for names, x, width in _COLUMNS:
        fields = [field for field in written.fields if field.name in names]
        if not fields:
            continue
        name = fields[0].name
        words = "tags: topic id" if name == "tagged fields" else _WORDS.get(name, name)
        data = value[fields[0].start : fields[-1].end]
        hex_text = data.hex() if len(data) <= 8 else f"{data[:7].hex()}…"
        yield Box(f"written {number} {name}", _LEFT + x, y, width, _BLOCK_HEIGHT, (words, hex_text), size=_SIZE)


def _draw_reading(
    number: int, y: float, size: int, sides: dict[int, tuple[float, float]], reading: Reading, wrong: set[str]
) -> Iterator[Mark]:
    end = 0
    for field in reading.fields:
        end = max(end, field.end)
        if not _is_shown(field):
            continue
        x = sides[field.start][0]
        width = sides[field.end - 1][1] - x
        is_wrong = field.name in wrong
        tone = Tone.ERROR if is_wrong else Tone.LIVE
        if field.value == _SKIPPED:
            tone = Tone.DEAD
        sign = _ERROR_SIGN if is_wrong else ""
        words = sign + _WORDS.get(field.name, field.name)
        if measure_text(words, _SIZE) > width:
            words = sign.strip()
        yield Box(
            f"read {number} {field.name}",
            x,
            y,
            width,
            _BLOCK_HEIGHT,
            (words, _fit(field, sides)),
            tone,
            _SIZE,
            is_dashed=is_wrong,
        )
    if reading.error is not None:
        x = sides[end][0]
        width = sides[size - 1][1] - x
        lines = wrap(_ERROR_SIGN + reading.error, int(width / measure_text("0", _SIZE)))
        yield Box(f"refused {number}", x, y, width, _BLOCK_HEIGHT, tuple(lines), Tone.ERROR, _SIZE, is_dashed=True)
    elif end < size:
        x = sides[end][0]
        width = sides[size - 1][1] - x
        unread = fit_words(width - 6, _SIZE, "not read", "…")
        yield Box(f"rest {number}", x, y, width, _BLOCK_HEIGHT, unread, Tone.DEAD, _SIZE, is_dashed=True)


def _is_shown(field: ReadField) -> bool:
    """Return whether a field has a block. The parts of the tagged fields are too narrow."""
    return field.name not in ("tagged fields", "tag of topicId") and field.end > field.start


def _fit(field: ReadField, sides: dict[int, tuple[float, float]]) -> str:
    width = sides[field.end - 1][1] - sides[field.start][0]
    text = field.value
    while measure_text(text, _SIZE) > width and len(text) > 1:
        text = text.removesuffix("…")[:-1] + "…"
    return text


def _find_wrong(written: Reading, reading: Reading) -> set[str]:
    right = set(written.fields)
    return {field.name for field in reading.fields if field.name != "version" and field not in right}


def _describe_result(reading: Reading, wrong: set[str]) -> tuple[Tone, str]:
    if reading.error is not None:
        return Tone.ERROR, "refuses it ✗"
    if wrong:
        fields = "field" if len(wrong) == 1 else "fields"
        return Tone.ERROR, f"no error, {len(wrong)} wrong {fields} ✗"
    return Tone.LIVE, "reads it correctly ✓"


def _make_caption(reader: Reader | None, results: Sequence[tuple[int | None, Reading, set[str]]]) -> str:
    if reader is None:
        return (
            "Brokers of different releases wrote the same commit. The fields stand in common columns. "
            "The bytes contain no names, so a reader needs the version. Choose a reader."
        )
    misread = [str(version) for version, reading, wrong in results if reading.error is None and wrong]
    refused = [str(version) for version, reading, _ in results if reading.error is not None]
    parts = []
    if misread:
        parts.append(f"{_name_versions(misread)}: wrong values, and no error. The reader does not notice.")
    if refused:
        reads_version = reader.fixed_version is None
        why = "the reader does not have the version" if reads_version else "a length makes no sense"
        parts.append(f"{_name_versions(refused)}: refused, because {why}.")
    if not parts:
        parts.append("This reader reads the version first. So it cuts the bytes at the right places, in every row.")
    elif reader.fixed_version is not None:
        parts.append("The reader counts bytes from the left, with the layout that it expects.")
    else:
        parts.append("A broker that finds such a record stops its load.")
    return " ".join(parts)


def _name_versions(versions: Sequence[str]) -> str:
    return f"Version{'s' if len(versions) > 1 else ''} {' and '.join(versions)}"
