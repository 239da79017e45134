"""Lesson 10: one pass of the log cleaner over seven records, from the dirty range to the new segments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkagroups import CleanerConfig, compact
from kafkagroups.course.figures.figure import Content, Control, Figure, Part
from kafkagroups.course.figures.marks import Arrow, Box, Label, Line, Mark, Scene, Tone
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.small_logs import HOUR_MS, START_MS, SmallRecord, write_small_log
from kafkagroups.log.cleaner import OffsetMap as CleanersMap
from kafkagroups.log.folders import open_log

_LEFT = 37
_PITCH = 70
_CELL_WIDTH = 66
_CELL_HEIGHT = 40
_TAPE_TOP = 62
_VERDICT_TOP = 122
_VERDICT_HEIGHT = 54
_MAP_TOP = 204
_HEIGHT = 270
_RECORDS = (("A", 1), ("B", 1), ("C", 1), ("A", 2), ("D", 1), ("A", 3), ("B", 2))
_DELAY = 0.5
"""The seconds until the cleaner has looked a record up. Halfway, the entry of the map lights up."""
_FIRST_DIRTY = 3
_ACTIVE_START = 6
_PARTS = (("clean part", 0, _FIRST_DIRTY), ("dirty range", _FIRST_DIRTY, _ACTIVE_START), ("active", _ACTIVE_START, 7))
_MAP_COLUMNS = {"A": 3.5, "D": 4.5}
"""So that the map is in the middle below the dirty range."""
_MISSING_COLUMN = 2.38
"""Beside the map is the place of a key that it does not have."""
_FIRST_LOOK_UP = 1 + _ACTIVE_START - _FIRST_DIRTY
_STEPS = (
    "before the pass",
    *(f"read record {offset}" for offset in range(_FIRST_DIRTY, _ACTIVE_START)),
    *(f"look up record {offset}" for offset in range(_ACTIVE_START)),
    "the new segments",
)
_HEADS = (None, *range(_FIRST_DIRTY, _ACTIVE_START), *range(_ACTIVE_START), None)
"""The offset of the record that is read in each step."""
_CAPTIONS = (
    "An earlier pass cleaned the records before offset 3. The rest, up to the active segment, is the dirty range.",
    "First the cleaner reads the dirty range. The map gets the key A with offset 3.",
    "The key D is new in the map.",
    "A again, so its entry now has the newer offset, 5. Here the dirty range ends.",
)
_LAST_CAPTION = "B = 1 stays, although B = 2 is newer, because the cleaner has not read the active segment."


class OffsetMap(Figure):
    def __init__(self) -> None:
        survivors = _clean()
        steps = (Control("step", "step", _STEPS, initial=7),)
        narrow = (Part(15, 0, 530, _HEIGHT, (0, 0), 0.715),)
        title = "One pass: fill the offset map, then copy"
        super().__init__(Content.draw(title, _HEIGHT, steps, lambda step: _draw(step, survivors), narrow=narrow))


def _clean() -> list[int]:
    folder = make_scratch_folder()
    log = folder / "log"
    starts = [start for _, start, _ in _PARTS]
    write_small_log(log, (SmallRecord(*record).encode() for record in _RECORDS), starts, START_MS)
    config = CleanerConfig(START_MS + HOUR_MS, first_dirty=_FIRST_DIRTY, producer_expiration_ms=0)
    compact(log, folder / "cleaned", config)
    return [record.offset for batch in open_log(folder / "cleaned") for record in batch.records]


def _fill_map(end: int) -> dict[str, int]:
    offset_map = CleanersMap(len(_RECORDS))
    keys = {key for key, _ in _RECORDS}
    for offset in range(_FIRST_DIRTY, end):
        offset_map.put(_RECORDS[offset][0].encode(), offset)
    return {key: offset_map.get(key.encode()) for key in sorted(keys) if offset_map.get(key.encode()) >= 0}


def _draw(step: int, survivors: list[int]) -> Scene:
    end = min(_FIRST_DIRTY + step, _ACTIVE_START)
    entries = _fill_map(end)
    is_copied = step == len(_STEPS) - 1
    shown = survivors if is_copied else list(range(len(_RECORDS)))
    looked_up = step - _FIRST_LOOK_UP
    current = _HEADS[step]
    marks = list(_draw_parts(current, is_copied=is_copied))
    newest = None if current is None else entries.get(_RECORDS[current][0])
    if looked_up >= 0 and current is not None:
        found = _MISSING_COLUMN if newest is None else _MAP_COLUMNS[_RECORDS[newest][0]]
        x, to_x = (_find_left(column) + _CELL_WIDTH / 2 for column in (looked_up, found))
        ends = (x, _VERDICT_TOP + _VERDICT_HEIGHT + 2, to_x, _MAP_TOP - 6)
        marks.append(Arrow(f"look-up {looked_up}", *ends, Tone.NEW, is_dashed=newest is None))
        if newest is None:
            frame = (_find_left(found), _MAP_TOP, _CELL_WIDTH, _CELL_HEIGHT, (f"{_RECORDS[current][0]} ?",))
            marks.append(Box("missing", *frame, Tone.MUTED, is_dashed=True))
    for place, offset in enumerate(shown):
        column = offset if offset >= _ACTIVE_START else place
        marks += _draw_record(offset, column, current, entries if offset <= looked_up else {}, survivors)
    marks += _draw_map(end, newest, is_filled=looked_up >= 0 or is_copied)
    caption = _LAST_CAPTION
    words = f"{len(shown)} of {len(_RECORDS)} records remain"
    if current is None and not is_copied:
        caption = _CAPTIONS[0]
        words = "Before the pass, the map is empty"
    elif current is not None and looked_up < 0:
        caption = _CAPTIONS[step]
        words = f"1 Fill the map: {_RECORDS[current][0]} → {current}"
    elif current is not None:
        caption = f"The cleaner reads the log again, and looks up {_RECORDS[current][0]}, the key of record {current}."
        words = f"2 Copy: record {current} is {_tell_result(current, newest)}"
    text = [f"record {offset}: {_name(offset)}" for offset in shown]
    boxes = (mark for mark in marks if isinstance(mark, Box) and mark.key.startswith("verdict") and mark.lines)
    text += [f"{box.key}: {' '.join(box.lines)}" for box in boxes]
    text += [f"the map has {key}: {key} → {offset}" for key, offset in entries.items()]
    return Scene(tuple(marks), caption, tuple(text), lines=(Line(words),))


def _tell_result(offset: int, newest: int | None) -> str:
    if newest is None:
        return "kept, the map has no entry"
    return f"removed, {newest} is newer" if newest > offset else "kept, it is the newest"


def _find_left(column: float) -> float:
    return _LEFT + column * _PITCH


def _draw_parts(current: int | None, *, is_copied: bool) -> Iterator[Mark]:
    if is_copied:
        yield Label("copied", _LEFT, 26, "the new segments", is_bold=True)
        yield Label("part active", _find_left(_ACTIVE_START), 26, "active", is_bold=True)
        return
    for name, start, end in _PARTS:
        left = _find_left(start)
        right = _find_left(end) - 8
        yield Label(f"part {name}", left, 26, name, is_bold=True)
        yield Arrow(f"line {name}", left, 34, right, 34, Tone.PLAIN, has_head=False)
    middle = _LEFT - 18 if current is None else _find_left(current) + _CELL_WIDTH / 2
    yield Arrow("head", middle, 42, middle, 58, Tone.NEW)


def _draw_map(end: int, newest: int | None, *, is_filled: bool) -> Iterator[Mark]:
    yield Label("map title", _find_left(4.5) - 2, _MAP_TOP + 59, "the offset map", "middle", is_bold=True)
    yield Box("map", _find_left(3.5) - 4, _MAP_TOP - 4, 2 * _PITCH + 4, _CELL_HEIGHT + 8, tone=Tone.MUTED)
    for offset in range(_FIRST_DIRTY, end):
        key = _RECORDS[offset][0]
        # An entry comes from its record, when the head is there. One that is replaced stays below the new one.
        style: dict[str, Any] = {"origin": f"record {offset}", "delay": _DELAY / 2, "duration": 0 if is_filled else 0.2}
        frame = (_find_left(_MAP_COLUMNS[key]), _MAP_TOP, _CELL_WIDTH, _CELL_HEIGHT)
        tone = Tone.NEW if offset == newest else Tone.PLAIN
        yield Box(f"entry {offset}", *frame, (f"{key} → {offset}",), tone, hue=key, **style)


def _draw_record(offset: int, column: int, head: int | None, known: dict[str, int], kept: list[int]) -> Iterator[Mark]:
    """Yield a record, and below it what happens to it and why, if the map is `known`."""
    left = _find_left(column)
    key = _RECORDS[offset][0]
    is_gone = bool(known) and offset not in kept
    tone = Tone.NEW if offset == head else Tone.PLAIN
    style: dict[str, Any] = {"tone": Tone.MUTED, "is_dashed": True}
    if known:
        tone = Tone.DEAD if is_gone else Tone.LIVE
        kept_lines = ("kept", "is newest" if key in known else "no entry")
        lines = ("removed", f"newer: {known[key]}") if is_gone else kept_lines
        style = {"tone": Tone.ERROR if is_gone else Tone.LIVE, "lines": lines, "delay": _DELAY}
    if offset < _ACTIVE_START:
        yield Box(f"verdict {offset}", left, _VERDICT_TOP, _CELL_WIDTH, _VERDICT_HEIGHT, size=11, **style)
    frame = (left, _TAPE_TOP, _CELL_WIDTH, _CELL_HEIGHT)
    delay = _DELAY * bool(known)
    yield Box(f"record {offset}", *frame, (_name(offset),), tone, is_gone=is_gone, hue=key, delay=delay)
    place = (left + _CELL_WIDTH / 2, _TAPE_TOP + _CELL_HEIGHT + 15)
    yield Label(f"offset {offset}", *place, str(offset), "middle", Tone.MUTED, 11, delay=delay)


def _name(offset: int) -> str:
    key, value = _RECORDS[offset]
    return f"{key} = {value}"
