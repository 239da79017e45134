"""Lesson 03: the batches of a segment, the range that each checksum covers, and what recovery keeps after damage.

The reader breaks one byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kafkagroups.course.figures.byte_ribbon import ByteChange, parse_change
from kafkagroups.course.figures.figure import Content, Control, Figure, FreeInput, Part, squeeze_right
from kafkagroups.course.figures.marks import KEY, WIDTH, Box, Label, Line, Mark, Scene, Tone
from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.log.batch import CRC_FROM, CRC_POSITION, Batch
from kafkagroups.log.batches import read_batches
from kafkagroups.log.segment_file import MAX_RELATIVE_OFFSET
from kafkagroups.records.serde import decode

_OFFSET_LEFT = 40
_RESULT_RIGHT = 556
_BAR_LEFT = 84
# The start of a batch is wider than in scale, so that its parts can be seen.
_OUTSIDE = 48
_CHECKSUM = 30
_COVERED_LEFT = _BAR_LEFT + _OUTSIDE + _CHECKSUM
_COVERED_WIDTH = 234
_NAMES_LEFT = 408
_SQUEEZE = 0.41
_WIDTHS = (86, 76, 98, 66, 96)
"""The width of each field of the header that stands above the batches."""
_TOP = 104
_ROW_HEIGHT = 29
_BAR_HEIGHT = 23
_FALL = 20
"""How far the batches that recovery removes fall."""
_SECONDS_PER_BATCH = 0.25
_SECONDS_OF_A_MOVE = 0.5
_MOST_SECONDS = 1.3
_EXAMPLE = "690=00"
_LEGEND = (Box("not covered by the checksum", *KEY, tone=Tone.MUTED, is_dashed=True, is_hollow=True),)
_HEADS = ((4, "byte"), (_OFFSET_LEFT, "offset"), (_BAR_LEFT, "the segment file"), (_NAMES_LEFT, "record"))
_WORDS = {"OffsetCommit": "commit", "GroupMetadata": "group"}
# The fields of a header that the figure breaks without a kernel: the last byte of each, counted from the batch.
_BROKEN_FIELDS = (("offset", 7), ("length", 11), ("leader epoch", 15), ("magic", 16), ("checksum", 20))


@dataclass(frozen=True)
class Recovery:
    """The batches that a broker's recovery keeps, and why the next one is wrong (None if all are kept)."""

    kept: tuple[Batch, ...]
    reason: str | None


class Segment(Figure):
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.batches = tuple(read_batches(data))
        self.choices = _choose_bytes(data, self.batches)
        self._height = _TOP + _ROW_HEIGHT * len(self.batches) + _FALL
        super().__init__(self._make_content([None, *self.choices]))

    def compute_content(self, value: str) -> Content:
        """Return the content with a byte that was typed as "571=ff"."""
        broken = parse_change(value, {"file": self.data}, _EXAMPLE)
        self._check_offsets(broken)
        return self._make_content([broken, None, *self.choices])

    def _check_offsets(self, broken: ByteChange) -> None:
        first = self.batches[0].base_offset
        for batch in recover(self.data, broken).kept:
            if not first <= batch.last_offset <= first + MAX_RELATIVE_OFFSET:
                raise UsageError(
                    f"byte {broken.position}: a broker notices the offset {batch.last_offset}, because it is far "
                    "outside this file; choose one of the last four bytes of an offset"
                )

    def _make_content(self, choices: Sequence[ByteChange | None]) -> Content:
        options = tuple("none" if broken is None else self._describe(broken) for broken in choices)
        recoveries = [recover(self.data, broken) for broken in choices]

        def draw(number: int, moment: int) -> Scene:
            return self._draw(choices[number], recoveries[number], moment)

        first = len(_BROKEN_FIELDS) if choices[0] is None else 0  # The wrong checksum, unless a byte was typed.
        controls = (
            Control("byte", "broken byte", options, is_sequence=False, is_answer=True, initial=first),
            Control("moment", "moment", ("the file", "the broker checks", "after recovery"), initial=1),
        )
        title = "A segment: batches and what their checksums cover"
        typed = FreeInput("break a byte (position=hex)", _EXAMPLE)
        header = Part(0, 0, WIDTH, 72, (0, 0), 0.61)
        names = Part(_NAMES_LEFT - 4, 0, WIDTH, self._height, (213, 0), 0.815)
        narrow = (header, names, *squeeze_right(_BAR_LEFT - 4, self._height, _SQUEEZE))
        others: dict[str, Any] = {"free_input": typed, "narrow": narrow, "legend": _LEGEND, "has_bytes": True}
        return Content.draw(title, self._height, controls, draw, **others)

    def _describe(self, broken: ByteChange) -> str:
        return f"byte {broken.position}, {self._name_place(broken.position)}"

    def _find_batch(self, position: int) -> Batch:
        return next(batch for batch in self.batches if position < batch.position + batch.size)

    def _name_place(self, position: int) -> str:
        index = position - self._find_batch(position).position
        name = next((name for name, last in _BROKEN_FIELDS if index <= last), "after the checksum")
        return name if name == "after the checksum" else f"part of the {name}"

    def _draw(self, broken: ByteChange | None, recovery: Recovery, moment: int) -> Scene:
        marks: list[Mark] = [Label(f"head {name}", x, _TOP - 14, name, "start", Tone.MUTED, 11) for x, name in _HEADS]
        text = []
        scale = _COVERED_WIDTH / (max(batch.size for batch in self.batches) - CRC_FROM)
        kept_count = len(recovery.kept)
        row = min(kept_count, len(self.batches) - 1) if moment == 1 else kept_count * (moment // 2)
        seconds = min(max(_SECONDS_PER_BATCH * row, _SECONDS_OF_A_MOVE), _MOST_SECONDS)
        shown = self._find_batch(broken.position) if broken else self.batches[0]
        file, scan = _draw_file(kept_count if moment == 2 else len(self.batches), row, seconds if moment == 1 else 0)
        marks.append(file)
        for number, batch in enumerate(self.batches):
            is_cut = moment == 2 and number >= kept_count
            y = _TOP + number * _ROW_HEIGHT + _FALL * is_cut
            now = recovery.kept[number] if number < kept_count else None
            is_broken = broken is not None and self._find_batch(broken.position) is batch
            result, tone = _describe_result(moment, number, kept_count, batch, now, is_broken=is_broken)
            # The result comes when the frame leaves the batch, and "cut away" after the batch has fallen.
            share = min(number + 1, row) / max(row, 1)
            delay = seconds * share - _SECONDS_OF_A_MOVE if moment == 1 else 0.3 * is_cut
            delay += 0.3 * (moment == 1 and number > kept_count)
            marks += _draw_batch(batch, number, y, scale, Tone.DEAD if is_cut else tone, delay)
            if batch is shown:
                marks += _draw_header(batch, broken, tone, delay)
            fall = 0.3 * is_cut
            frame = (_RESULT_RIGHT, y + 16, result, "end", tone, 11)
            marks.append(Label(f"result {number}{' cut' * is_cut}", *frame, is_bold=True, delay=delay))
            for x, name, words in ((4, "byte", str(batch.position)), (_OFFSET_LEFT, "offset", _list_offsets(batch))):
                marks.append(Label(f"{name} {number}", x, y + 16, words, size=11, delay=fall))
            if broken and is_broken:
                left = _find_byte(broken.position - batch.position, scale) - 6
                marks.append(Box("broken", left, y + 4, 12, 15, ("✗",), Tone.ERROR, 12, is_bold=True, delay=fall))
            told = f": {result}" if result else f", covered by its checksum from byte {batch.position + CRC_FROM}"
            text.append(f"{_format_offsets(batch)} at byte {batch.position}{told}")
        if broken:
            text.append(f"broken byte: {broken.position}")
        if moment == 2 and recovery.reason:
            y = _TOP + kept_count * _ROW_HEIGHT
            end = f"the file now ends at byte {self.batches[kept_count].position}"
            marks.append(Label("end", 4, y + 14, end, tone=Tone.NEW, size=11, is_bold=True, delay=0.4))
            text.append(f"reason: {recovery.reason}")
        marks.append(scan)
        caption = self._make_caption(broken, recovery, moment)
        return Scene(tuple(marks), caption, tuple(text), lines=(self._name_state(broken, recovery, moment),))

    def _name_state(self, broken: ByteChange | None, recovery: Recovery, moment: int) -> Line:
        if broken is None:
            return Line(f"{len(self.data)} bytes in {len(self.batches)} batches")
        name = f"Byte {broken.position}"
        if not moment:
            change = f"was {self.data[broken.position]:02x}, now {broken.byte:02x}"
            return Line(f"{name} {change}: {self._name_place(broken.position)}", Tone.WAIT)
        if recovery.reason is None:
            return Line(f"{name} is wrong, and no checksum covers it: unnoticed", Tone.WAIT)
        failed = self.batches[len(recovery.kept)]
        if moment == 1:
            part = "magic" if "magic" in recovery.reason else "checksum"
            return Line(f"{name} is wrong: the {part} of {_format_offsets(failed)} does not fit", Tone.ERROR)
        counts = f"{len(self.batches) - len(recovery.kept)} of {len(self.batches)} batches"
        return Line(f"{name} is wrong: {counts} are cut away, {len(self.data) - failed.position} bytes", Tone.ERROR)

    def _make_caption(self, broken: ByteChange | None, recovery: Recovery, moment: int) -> str:
        if moment == 0 and broken:
            return f"Byte {broken.position} has changed on the disk. Nothing happens until a program reads the byte."
        if moment == 0:
            return "Batches without gaps. Break a byte: does a broker notice it after a crash, and what does it keep?"
        if moment == 1:
            return "The broker checks one batch after the other: its length, its magic and its checksum."
        if broken is None:
            return "Every checksum fits, and recovery keeps the whole file."
        if recovery.reason is None:
            return "Every checksum fits, because none covers the broken byte. Recovery keeps it: it goes unnoticed."
        failed = self.batches[len(recovery.kept)]
        later = ", and with it every later batch, although their bytes are correct" * (failed is not self.batches[-1])
        return f"Recovery truncates the file at byte {failed.position}{later}. Reason: {recovery.reason}."


def _draw_file(rows: int, row: int, seconds: float) -> Iterator[Box]:
    """Yield the frame of the file, and what moves over the batches while the broker checks them.

    With 0 seconds, that is where the file ends.
    """
    y = _TOP + row * _ROW_HEIGHT - 3
    width = _COVERED_LEFT + _COVERED_WIDTH - _BAR_LEFT + 6
    yield Box("file", _BAR_LEFT - 3, _TOP - 4, width, _ROW_HEIGHT * rows + 2, is_hollow=True)
    frame = (_BAR_LEFT - 3, y, width, _ROW_HEIGHT if seconds else 1)
    duration = max(0, seconds - _SECONDS_OF_A_MOVE)
    delay = 0 if seconds else -0.75  # The end of the file comes before the batches fall.
    yield Box("scan", *frame, tone=Tone.NEW, is_hollow=True, duration=duration, delay=delay)


def recover(data: bytes, broken: ByteChange | None) -> Recovery:
    if broken is not None:
        data = broken.apply({"file": data})["file"]
    kept: list[Batch] = []
    try:
        for batch in read_batches(data):
            kept.append(batch)
    except InvalidLog as error:
        return Recovery(tuple(kept), error.reason)
    return Recovery(tuple(kept), None)


def _choose_bytes(data: bytes, batches: Sequence[Batch]) -> list[ByteChange]:
    """Return a byte in each part of the fourth batch (or the last one), and one of the first and of the last batch."""
    batch = batches[min(3, len(batches) - 1)]
    positions = [batch.position + last for _, last in _BROKEN_FIELDS]
    positions += [batch.position + batch.size - 20, batches[0].position + 80, len(data) - 1]
    return [ByteChange("file", position, data[position] ^ 1) for position in dict.fromkeys(positions)]


def _find_byte(index: int, scale: float) -> float:
    """Return where the sign of a byte of a batch is, inside its field."""
    if index < CRC_POSITION:
        return _BAR_LEFT + 6 + index / CRC_POSITION * (_OUTSIDE - 14)
    if index < CRC_FROM:
        return _BAR_LEFT + _OUTSIDE + 10 + (index - CRC_POSITION) / (CRC_FROM - CRC_POSITION) * (_CHECKSUM - 10)
    return _COVERED_LEFT + (index - CRC_FROM + 0.5) * scale


def _draw_header(batch: Batch, broken: ByteChange | None, tone: Tone, delay: float) -> Iterator[Mark]:
    """Yield the header of a batch, larger than in scale."""
    index = broken.position - batch.position if broken else -1
    data = ByteChange("file", index, broken.byte).apply({"file": batch.data})["file"] if broken else batch.data
    yield Label("header", 4, 12, f"the header of {_format_offsets(batch)}", is_bold=True)
    x = 4
    start = 0
    for (name, last), width in zip((*_BROKEN_FIELDS, ("rest", batch.size)), (*_WIDTHS, WIDTH - 1), strict=True):
        text = data[start : last + 1].hex()
        is_hit = start <= index <= last
        lines = ("✗ " * is_hit + name, f"…{text[-8:]}" if len(text) > 8 else text)
        kind = Tone.ERROR if is_hit else (tone, Tone.MUTED)[last < CRC_POSITION]
        frame = (x, 20, min(width - 3, _RESULT_RIGHT - x), 46, lines, kind, 11)
        yield Box(f"part {name}", *frame, is_dashed=last < CRC_POSITION, short=f"{lines[0]}\n…{text[-4:]}", delay=delay)
        x += width
        start = last + 1


def _draw_batch(batch: Batch, number: int, y: float, scale: float, tone: Tone, delay: float) -> Iterator[Mark]:
    is_cut = tone is Tone.DEAD
    style: dict[str, Any] = {"height": _BAR_HEIGHT, "is_gone": is_cut, "delay": delay}
    yield Box(f"outside {number}", _BAR_LEFT, y, _OUTSIDE - 2, tone=Tone.MUTED, is_dashed=True, **style)
    yield Box(f"checksum {number}", _BAR_LEFT + _OUTSIDE, y, _CHECKSUM - 2, tone=tone, **style)
    yield Box(f"covered {number}", _COVERED_LEFT, y, (batch.size - CRC_FROM) * scale, tone=tone, **style)
    kind = Tone.DEAD if is_cut else Tone.PLAIN
    yield Label(f"words {number}", _NAMES_LEFT, y + 16, _find_words(batch), tone=kind, size=11, delay=0.3 * is_cut)


def _find_words(batch: Batch) -> str:
    if batch.is_control:
        return "marker"
    if len(batch.records) > 1:
        return f"{len(batch.records)} records"
    [record] = batch.records
    return "tombstone" if record.value is None else _WORDS[decode(record.key, record.value).name]


def _describe_result(
    moment: int, number: int, kept_count: int, batch: Batch, now: Batch | None, *, is_broken: bool
) -> tuple[str, Tone]:
    if moment == 0:
        return "", Tone.MUTED
    if now is None and moment == 1:
        return ("wrong ✗", Tone.ERROR) if number == kept_count else ("not read", Tone.MUTED)
    if now is None:
        return "cut away ✗", Tone.ERROR
    if moment == 1:
        return "fits ✓", Tone.LIVE
    if (now.base_offset, now.last_offset) != (batch.base_offset, batch.last_offset):
        return f"now {_format_offsets(now)}", Tone.WAIT
    if is_broken:
        return "kept broken", Tone.WAIT
    return "kept ✓", Tone.LIVE


def _format_offsets(batch: Batch) -> str:
    return f"offset{'s' * (batch.base_offset != batch.last_offset)} {_list_offsets(batch)}"


def _list_offsets(batch: Batch) -> str:
    return "–".join(dict.fromkeys([str(batch.base_offset), str(batch.last_offset)]))
