"""Lesson 10: one pass of the log cleaner over seven records, from the dirty range to the new segments."""

from __future__ import annotations

from collections.abc import Iterator

from kafkagroups import CleanerConfig, compact
from kafkagroups.course.figures.figure import Content, Control, Figure
from kafkagroups.course.figures.marks import Arrow, Box, Label, Mark, Scene, Tone
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.small_logs import HOUR_MS, START_MS, SmallRecord, write_small_log
from kafkagroups.log.cleaner import OffsetMap as CleanersMap
from kafkagroups.log.folders import open_log

_HEIGHT = 222
_LEFT = 37
_PITCH = 70
_CELL_WIDTH = 64
_CELL_HEIGHT = 40
_TAPE_TOP = 62
_MAP_TOP = 164
_RECORDS = (("A", 1), ("B", 1), ("C", 1), ("A", 2), ("D", 1), ("A", 3), ("B", 2))
_FIRST_DIRTY = 3
_ACTIVE_START = 6
_PARTS = (("clean part", 0, _FIRST_DIRTY), ("dirty range", _FIRST_DIRTY, _ACTIVE_START), ("active", _ACTIVE_START, 7))
_MAP_COLUMNS = {"A": 2, "D": 3}
_STEPS = ("before the pass", "record 3", "record 4", "record 5", "compare", "the new segments")
_CAPTIONS = (
    "An earlier pass cleaned the records before offset 3. The dirty range is what was appended since, up to the active "
    "segment.",
    "First the cleaner reads the dirty range. The map gets the key A with offset 3.",
    "The key D is new in the map.",
    "A again, so its entry now has the newer offset, 5. Here the dirty range ends.",
    "Then the cleaner reads the clean part and the dirty range. The map has a newer offset for the records 0 and 3.",
    "It copies all others, and each keeps its offset. B = 1 stays, although B = 2 is newer, because the cleaner has "
    "not read the active segment.",
)


class OffsetMap(Figure):
    def __init__(self) -> None:
        survivors = _clean()
        controls = (Control("step", "step", _STEPS),)
        title = "One pass: fill the offset map, then copy"
        super().__init__(Content.draw(title, _HEIGHT, controls, lambda step: _draw(step, survivors)))


def _clean() -> list[int]:
    folder = make_scratch_folder()
    log = folder / "log"
    write_small_log(
        log, (SmallRecord(*record).encode() for record in _RECORDS), [start for _, start, _ in _PARTS], START_MS
    )
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
    newest = end - 1 if 1 <= step <= 3 else None
    marks = [*_draw_parts(step), *_draw_map(entries, end, newest)]
    for place, offset in enumerate(shown):
        column = offset if offset >= _ACTIVE_START else place
        marks += _draw_record(offset, column, newest, step >= 4, survivors)
    text = [f"record {offset}: {_name(offset)}" for offset in shown]
    text += [f"the map has {key}: {key} → {offset}" for key, offset in entries.items()]
    return Scene(tuple(marks), _CAPTIONS[step], tuple(text))


def _find_left(column: float) -> float:
    return _LEFT + column * _PITCH


def _draw_parts(step: int) -> Iterator[Mark]:
    if step == len(_STEPS) - 1:
        yield Label("copied", _LEFT, 26, "the new segments", is_bold=True)
        yield Label("part active", _find_left(_ACTIVE_START), 26, "active", is_bold=True)
        return
    for name, start, end in _PARTS:
        left = _find_left(start)
        right = _find_left(end) - 8
        yield Label(f"part {name}", left, 26, name, is_bold=True)
        yield Arrow(f"line {name}", left, 34, right, 34, Tone.PLAIN, has_head=False)
    if 1 <= step <= 3:
        middle = _find_left(_FIRST_DIRTY + step - 1) + _CELL_WIDTH / 2
        yield Arrow("head", middle, 42, middle, 58, Tone.NEW)


def _draw_map(entries: dict[str, int], end: int, newest: int | None) -> Iterator[Mark]:
    yield Label("map title", _find_left(0), _MAP_TOP + 24, "the offset map", is_bold=True)
    yield Box("map", _find_left(2) - 4, _MAP_TOP - 4, 2 * _PITCH + 2, _CELL_HEIGHT + 8, tone=Tone.MUTED)
    for offset in range(end, _ACTIVE_START):
        left = _find_left(offset)
        yield Box(f"entry {offset}", left, _TAPE_TOP, _CELL_WIDTH, _CELL_HEIGHT, tone=Tone.MUTED)
    for key, offset in entries.items():
        left = _find_left(_MAP_COLUMNS[key])
        tone = Tone.NEW if offset == newest else Tone.LIVE
        yield Box(f"entry {offset}", left, _MAP_TOP, _CELL_WIDTH, _CELL_HEIGHT, (f"{key} → {offset}",), tone)


def _draw_record(
    offset: int, column: int, newest: int | None, is_compared: bool, survivors: list[int]
) -> Iterator[Mark]:
    left = _find_left(column)
    lines: tuple[str, ...] = (_name(offset),)
    tone = Tone.PLAIN
    if offset >= _ACTIVE_START:
        tone = Tone.MUTED
    elif is_compared and offset not in survivors:
        tone = Tone.DEAD
        lines = (*lines, "older")
    elif is_compared:
        tone = Tone.LIVE
    elif offset == newest:
        tone = Tone.NEW
    yield Box(f"record {offset}", left, _TAPE_TOP, _CELL_WIDTH, _CELL_HEIGHT, lines, tone)
    middle = left + _CELL_WIDTH / 2
    yield Label(f"offset {offset}", middle, _TAPE_TOP + _CELL_HEIGHT + 15, str(offset), "middle", Tone.MUTED, 11)


def _name(offset: int) -> str:
    key, value = _RECORDS[offset]
    return f"{key} = {value}"
