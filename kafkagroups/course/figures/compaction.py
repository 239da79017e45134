"""Lesson 10: a small log, and below it what each of three passes of the log cleaner copies.

The keys A, B, C and D are offsets of the group `shop`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from kafkagroups import CleanerConfig, compact
from kafkagroups.course.cleaner_passes import CleanerPass, find_results, read_horizons
from kafkagroups.course.figures.figure import Content, Control, Figure, squeeze_right
from kafkagroups.course.figures.marks import DASHED, HATCHED, KEY, WIDTH, Arrow, Box, Label, Line, Mark, Scene, Tone
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.small_logs import HOUR_MS, START_MS, SmallRecord, write_small_log
from kafkagroups.log.folders import open_log
from kafkagroups.records.serde import ControlType

_LEFT = 8
_RIGHT = 554
_PITCH = 30.4
_CELL_WIDTH = 28
_CELL_HEIGHT = 26
_HEIGHT = 364
_SECONDS_OF_A_MOVE = 0.5
_SECONDS_OF_A_PASS = 1.8
"""How long the head takes to the end of its pass."""
_PASS_HOURS = (0, 25, 50)
_ACTIVE_STARTS = (16, 8)


_MARKER = SmallRecord(producer=7, ends=ControlType.COMMIT)


def _list_commits(words: str, producer: int = 0) -> list[SmallRecord]:
    """Read words such as "A1" and "B∅", which are the names of the records in the picture."""
    return [SmallRecord(word[0], None if word[1] == "∅" else int(word[1]), producer) for word in words.split()]


_LOG = (
    *_list_commits("A1 B1 A2 C1 B∅"),
    *_list_commits("A3 C2", 7),
    _MARKER,
    *_list_commits("A4 C3 A5 D1 A6 D2 A7 C4 A8 D3"),
)
_SIGNS = (("marker", "M"), ("tombstone", "∅"))
_LEGEND = (HATCHED, DASHED, *(Box(name, *KEY, (sign,), is_hollow=True) for name, sign in _SIGNS))
_STEPS = ("before pass 1", "pass 1, hour 0", "pass 2, hour 25", "pass 3, hour 50")


class _Result(NamedTuple):
    word: str
    tone: Tone = Tone.DEAD
    sentence: str = ""
    headline: str = ""


_PASSED = "The delete horizon of the {} has passed, so the pass removes it."
_DATED = "The marker has no records any more: its delete horizon is set."
_RESULTS = {
    "value kept": _Result("kept", Tone.LIVE),
    "value gone": _Result("replaced"),
    "tombstone waits": _Result("until", Tone.WAIT, "The tombstone waits for a day.", "the tombstone waits"),
    "tombstone gone": _Result("removed", Tone.DEAD, _PASSED.format("tombstone"), "the tombstone goes"),
    "marker kept": _Result("needed", Tone.WAIT, "The marker stays, because its transaction still had records."),
    "marker waits": _Result("until", Tone.WAIT, _DATED, "the marker gets its date"),
    "marker gone": _Result("removed", Tone.DEAD, _PASSED.format("marker"), "the marker goes"),
    "unchanged": _Result("not read", Tone.MUTED),
}
_OPEN = "The transaction is open, so the pass ends at the segment with its first record, which begins at 4."


class Compaction(Figure):
    def __init__(self) -> None:
        folder = make_scratch_folder()
        endings = ("committed by record 7", "still open")
        controls = (
            Control("pass", "step", _STEPS, initial=1),
            Control("active", "the active segment begins at", tuple(map(str, _ACTIVE_STARTS)), is_sequence=False),
            Control("transaction", "the transaction of records 5 and 6 is", endings, is_sequence=False),
        )
        passes = {
            (start, is_open): _run_passes(folder / f"{start}-{is_open}", start, is_open)
            for start in _ACTIVE_STARTS
            for is_open in (False, True)
        }

        def draw(step: int, active: int, transaction: int) -> Scene:
            start = _ACTIVE_STARTS[active]
            is_open = transaction == 1
            return _draw(step, passes[start, is_open], start, is_open)

        title = "Three passes of the log cleaner"
        narrow = squeeze_right(2, _HEIGHT, 0.605)
        super().__init__(Content.draw(title, _HEIGHT, controls, draw, legend=_LEGEND, narrow=narrow))


def list_entries(is_open: bool) -> list[SmallRecord]:
    return [SmallRecord("C", 9) if is_open and entry is _MARKER else entry for entry in _LOG]


def _run_passes(folder: Path, active_start: int, is_open: bool) -> list[CleanerPass]:
    log = folder / "log"
    starts = range(0, active_start + 1, 4)
    # All records are one hour old at the first pass.
    write_small_log(log, map(SmallRecord.encode, list_entries(is_open)), starts, START_MS - HOUR_MS)
    passes = []
    for number, hour in enumerate(_PASS_HOURS, 1):
        cleaned = folder / f"cleaned-{number}"
        now_ms = START_MS + hour * HOUR_MS
        result = compact(log, cleaned, CleanerConfig(now_ms, 24 * HOUR_MS, producer_expiration_ms=0))
        passes.append(CleanerPass(f"pass {number}", log, cleaned, result.next_dirty_offset))
        log = cleaned
    return passes


def _draw(step: int, passes: list[CleanerPass], active_start: int, is_open: bool) -> Scene:
    entries = list_entries(is_open)
    logs = [passes[0].log_before, *(each.log_after for each in passes)]
    rows = [[record.offset for batch in open_log(log) for record in batch.records] for log in logs]
    marks: list[Mark] = [*_draw_frame(active_start, step)]
    text = [f"step: {_STEPS[step]}", f"records in the log: {_count(rows[step])}"]
    results: dict[int, str] = {}
    verdicts: list[Mark] = []
    for row, present in enumerate(rows[: step + 2]):
        if row < step:
            each = passes[row]
            results = find_results(each)
            words = _name_results(results, each.log_after)
            verdicts += _draw_verdicts(row, entries, results, words, each.end_offset, is_faded=row < step - 1)
            if row == step - 1:
                verdicts.append(_draw_head(row, each.end_offset))
                text += [f"record {offset} ({_name_entry(entries[offset])}): {words[offset]}" for offset in present]
        for offset in present:
            record = _draw_record(min(row, step), row, offset, entries[offset])
            style: dict[str, Any] = {"delay": _find_delay(offset, passes[row - 1].end_offset)}
            if row < step - 1:
                style = {"is_faint": True}
            elif row < step and results[offset] == "value kept":
                style = {"tone": Tone.LIVE, "delay": -_SECONDS_OF_A_PASS}  # The newest ones first.
            elif row < step and _RESULTS[results[offset]].headline:
                style = {"tone": Tone.NEW}
            marks.append(replace(record, **style))
        if step - 1 <= row <= step:
            marks += _draw_row(logs[row], row)
    marks += verdicts
    if step < len(passes):
        marks.append(_draw_head(step, 0))
    marks += _draw_titles(rows[: step + 1])
    if step:
        text.append(f"the pass ends at: {passes[step - 1].end_offset}")
    else:
        text += [f"record {offset}: {_name_entry(entry)}" for offset, entry in enumerate(entries)]
    line = Line(_name_step(step, results))
    return Scene(tuple(marks), _explain(step, results, is_open), tuple(text), lines=(line,))


def _name_step(step: int, results: dict[int, str]) -> str:
    if step == 0:
        return f"Before pass 1: {len(_LOG)} records of four keys"
    gone = list(results.values()).count("value gone")
    changes = [words for result in results.values() if (words := _RESULTS[result].headline)]
    return f"Pass {step}: {', '.join([f'{gone} replaced'] * bool(gone) + changes) or 'nothing goes'}"


def _count(present: list[int]) -> str:
    return f"{len(present)} of {len(_LOG)}"


def _name_results(results: dict[int, str], log_after: Path) -> dict[int, str]:
    horizons = read_horizons(log_after)
    words = {}
    for offset, result in results.items():
        words[offset] = _RESULTS[result].word
        horizon = horizons.get(offset)
        if result.endswith("waits") and horizon is not None:
            words[offset] += f" hour {(horizon - START_MS) // HOUR_MS}"
    return words


def _explain(step: int, results: dict[int, str], is_open: bool) -> str:
    if step == 0:
        end = "Nothing ends it: record 7 is a commit of C." if is_open else "Record 7 is its marker."
        return (
            f"{len(_LOG)} records of four keys. A1 is the key A with the value 1, and B∅ is a tombstone. "
            f"Records 5 and 6 belong to a transaction. {end}"
        )
    replaced = list(results.values()).count("value gone")
    are = "records are" if replaced > 1 else "record is"
    sentences = [f"{replaced or 'No'} {are} replaced by a newer record of the same key."]
    sentences += [sentence for result in results.values() if (sentence := _RESULTS[result].sentence)]
    if is_open:
        sentences.append(_OPEN if step < len(_PASS_HOURS) else "The log grows until the transaction ends.")
    elif step == len(_PASS_HOURS):
        sentences.append("The newest value of each key before the active segment remains.")
    return " ".join(sentences)


def _name_entry(entry: SmallRecord) -> str:
    value = "∅" if entry.value is None else entry.value
    return f"{entry.topic}{value}" if entry.topic else "M"


def _find_left(offset: float) -> float:
    return _LEFT + offset * _PITCH


def _find_top(row: int) -> float:
    return 68 + row * 88


def _find_delay(offset: int, end: int) -> float:
    """Return when the head passes a record."""
    return _SECONDS_OF_A_PASS * min(offset / end, 1)


def _draw_frame(active_start: int, step: int) -> Iterator[Mark]:
    yield Box("band", 2, _find_top(max(step - 1, 0)) - 29, WIDTH - 4, 90, tone=Tone.MUTED)
    yield Label("active words", _RIGHT, 12, "active segment", "end", Tone.MUTED, 11)
    yield Arrow("active", _find_left(active_start), 18, _RIGHT, 18, has_head=False)
    for offset in range(0, len(_LOG), 2):
        x = _find_left(offset) + _CELL_WIDTH / 2
        yield Label(f"offset {offset}", x, 32, str(offset), "middle", Tone.MUTED, 11)
    for row in range(max(step - 1, 0), len(_STEPS)):
        middle = _find_top(row) + _CELL_HEIGHT / 2
        style: dict[str, Any] = {"has_head": False, "is_faint": row > step}
        yield Arrow(f"tape {row}", _LEFT, middle, _RIGHT, middle, Tone.MUTED, **style)


def _draw_titles(rows: list[list[int]]) -> Iterator[Mark]:
    for row, step in enumerate(_STEPS):
        words = "after " * bool(row) + step + "".join(f" · {_count(present)}" for present in rows[row : row + 1])
        style: dict[str, Any] = {"is_bold": row < len(rows), "is_faint": not -2 <= row - len(rows) < 0}
        delay = _SECONDS_OF_A_PASS * bool(row)
        yield Label(f"title {row}", _LEFT + 6, _find_top(row) - 13, words, delay=delay, **style)


def _draw_row(log: Path, row: int) -> Iterator[Mark]:
    y = _find_top(row)
    delay = _SECONDS_OF_A_PASS * bool(row)
    for base in sorted(int(path.stem) for path in log.glob("*.log")):
        if base:
            x = _find_left(base) - 1.6
            yield Arrow(f"segment {row} {base}", x, y - 4, x, y + 28, is_dashed=True, has_head=False, delay=delay)


def _draw_record(place: int, row: int, offset: int, entry: SmallRecord) -> Box:
    frame = (_find_left(offset), _find_top(place), _CELL_WIDTH, _CELL_HEIGHT)
    is_dashed = bool(entry.producer and entry.topic)
    box = Box(f"record {row} {offset}", *frame, (_name_entry(entry),), is_bold=True, is_dashed=is_dashed)
    return replace(box, is_hollow=entry.value is None, hue=entry.topic)


def _draw_head(row: int, offset: int) -> Arrow:
    """The head of the next pass comes when the pass before it is at its end."""
    x = _find_left(offset) - 2
    y = _find_top(row)
    delay = 0 if offset else _SECONDS_OF_A_PASS
    return Arrow(f"head {row}", x, y - 17, x, y - 1, Tone.NEW, delay=delay, duration=0.3 * bool(offset))


def _draw_verdicts(
    row: int, log: list[SmallRecord], results: dict[int, str], words: dict[int, str], end: int, *, is_faded: bool
) -> Iterator[Mark]:
    """Yield what the pass decides, each when its head passes: a hatched box for what it leaves out, or a word."""
    for word, run in groupby(results, words.__getitem__):
        offsets = list(run)
        result = results[offsets[0]]
        if result != "value gone" and not is_faded:
            x = (_find_left(offsets[0]) + _find_left(offsets[-1]) + _CELL_WIDTH) / 2
            delay = _find_delay(offsets[0], end) - _SECONDS_OF_A_MOVE
            style: dict[str, Any] = {"tone": _RESULTS[result].tone, "delay": delay}
            yield Label(f"result {row} {offsets[0]}", x, _find_top(row) + 40, word, "middle", size=11, **style)
        for offset in offsets if result.endswith("gone") else ():
            box = _draw_record(row, row, offset, log[offset])
            style = {"tone": Tone.NEW if _RESULTS[result].headline else Tone.DEAD, "is_faint": is_faded}
            delay = _find_delay(offset, end) - _SECONDS_OF_A_MOVE
            yield replace(box, key=f"gone {row} {offset}", is_gone=True, delay=delay, **style)
