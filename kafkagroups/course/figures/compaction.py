"""Lesson 10: a small log as a tape, and what three passes of the log cleaner do with each record.

The keys A, B, C and D are offsets of the group `shop`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafkagroups import CleanerConfig, compact
from kafkagroups.course.cleaner_passes import CleanerPass, find_results, read_horizons
from kafkagroups.course.figures.figure import Content, Control, Figure
from kafkagroups.course.figures.marks import WIDTH, Arrow, Box, Label, Mark, Scene, Tone
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.small_logs import HOUR_MS, START_MS, SmallRecord, write_small_log
from kafkagroups.log.folders import open_log
from kafkagroups.records.serde import ControlType

_HEIGHT = 250
_COLUMNS = 9
_CELL_WIDTH = 60
_CELL_HEIGHT = 36
_LEFT = 10
_ROW_TOPS = (42, 142)
_SEGMENT_LENGTH = 4
_PASS_HOURS = (0, 25, 50)
_RETENTION_MS = 24 * HOUR_MS
_ACTIVE_STARTS = (16, 8)
_TRANSACTIONS = ("committed by record 7", "still open")


_MARKER = SmallRecord(producer=7, ends=ControlType.COMMIT)
_LOG = (
    SmallRecord("A", 1),
    SmallRecord("B", 1),
    SmallRecord("A", 2),
    SmallRecord("C", 1),
    SmallRecord("B", None),
    SmallRecord("A", 3, producer=7),
    SmallRecord("C", 2, producer=7),
    _MARKER,
    SmallRecord("A", 4),
    SmallRecord("C", 3),
    SmallRecord("A", 5),
    SmallRecord("D", 1),
    SmallRecord("A", 6),
    SmallRecord("D", 2),
    SmallRecord("A", 7),
    SmallRecord("C", 4),
    SmallRecord("A", 8),
    SmallRecord("D", 3),
)
_STEPS = ("before the first pass", "pass 1, hour 0", "pass 2, hour 25", "pass 3, hour 50", "after pass 3")


class _Result(NamedTuple):
    word: str
    tone: Tone = Tone.DEAD
    sentence: str = ""


_RESULTS = {
    "value kept": _Result("stays", Tone.LIVE),
    "value gone": _Result("replaced"),
    "tombstone waits": _Result("until", Tone.WAIT, "The tombstone waits for a day."),
    "tombstone gone": _Result(
        "removed", Tone.DEAD, "The delete horizon of the tombstone has passed, so the pass removes it."
    ),
    "marker kept": _Result("needed", Tone.WAIT, "The marker stays, because its transaction still had records."),
    "marker waits": _Result(
        "until", Tone.WAIT, "The marker has no records any more, so the pass sets its delete horizon."
    ),
    "marker gone": _Result(
        "removed", Tone.DEAD, "The delete horizon of the marker has passed, so the pass removes it."
    ),
    "unchanged": _Result("not read", Tone.MUTED),
}
_OPEN = "The transaction is open, so the pass ends at the segment with its first record, which begins at 4."
_END = "The newest value of each key before the active segment remains. The cleaner never reads the active segment."
_END_OF_OPEN = "Nearly the whole log remains. It grows until the transaction ends."


class Compaction(Figure):
    def __init__(self) -> None:
        folder = make_scratch_folder()
        controls = (
            Control("pass", "step", _STEPS, initial=1),
            Control("active", "the active segment begins at", tuple(map(str, _ACTIVE_STARTS)), is_sequence=False),
            Control("transaction", "the transaction of records 5 and 6 is", _TRANSACTIONS, is_sequence=False),
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

        super().__init__(Content.draw("Three passes of the log cleaner", _HEIGHT, controls, draw))


def list_entries(is_open: bool) -> list[SmallRecord]:
    return [SmallRecord("C", 9) if is_open and entry is _MARKER else entry for entry in _LOG]


def _run_passes(folder: Path, active_start: int, is_open: bool) -> list[CleanerPass]:
    log = folder / "log"
    starts = range(0, active_start + 1, _SEGMENT_LENGTH)
    # All records are one hour old at the first pass.
    write_small_log(log, map(SmallRecord.encode, list_entries(is_open)), starts, START_MS - HOUR_MS)
    passes = []
    for number, hour in enumerate(_PASS_HOURS, 1):
        cleaned = folder / f"cleaned-{number}"
        now_ms = START_MS + hour * HOUR_MS
        result = compact(log, cleaned, CleanerConfig(now_ms, _RETENTION_MS, producer_expiration_ms=0))
        passes.append(CleanerPass(f"pass {number}", log, cleaned, result.next_dirty_offset))
        log = cleaned
    return passes


def _list_offsets(log: Path) -> list[int]:
    return [record.offset for batch in open_log(log) for record in batch.records]


def _draw(step: int, passes: list[CleanerPass], active_start: int, is_open: bool) -> Scene:
    is_pass = 1 <= step <= len(passes)
    results: dict[int, str] = {}
    words: dict[int, str] = {}
    log = [passes[0].log_before, *(each.log_before for each in passes), passes[-1].log_after][step]
    if is_pass:
        results = find_results(passes[step - 1])
        words = _name_results(results, passes[step - 1].log_after)
    present = _list_offsets(log)
    marks: list[Mark] = [*_draw_segments(log, present, active_start)]
    entries = list_entries(is_open)
    for place, offset in enumerate(present):
        marks += _draw_record(place, offset, entries[offset], results.get(offset), words.get(offset, ""))
    removed = [offset for offset, result in results.items() if result.endswith("gone")]
    left = [offset for offset in present if offset not in removed]
    marks.append(Label("count", _LEFT, 242, f"records in the log: {len(left)} of {len(_LOG)}", is_bold=True))
    text = [f"step: {_STEPS[step]}", f"records in the log: {len(left)} of {len(_LOG)}"]
    if is_pass:
        text.append(f"the pass ends at: {passes[step - 1].end_offset}")
        marks.append(Label("end", 550, 242, f"the pass ends at: {passes[step - 1].end_offset}", "end"))
    text += [
        f"{offset} {_name_entry(entry)}: {words[offset]}"
        for offset, entry in enumerate(list_entries(is_open))
        if offset in results
    ]
    if not is_pass:
        text += [f"record {offset}: {_name_entry(list_entries(is_open)[offset])}" for offset in left]
    caption = f"{_STEPS[step][0].upper()}{_STEPS[step][1:]}. {_explain(step, results, active_start, is_open)}"
    return Scene(tuple(marks), caption, tuple(text))


def _name_results(results: dict[int, str], log_after: Path) -> dict[int, str]:
    horizons = read_horizons(log_after)
    words = {}
    for offset, result in results.items():
        words[offset] = _RESULTS[result].word
        horizon = horizons.get(offset)
        if result.endswith("waits") and horizon is not None:
            words[offset] += f" {(horizon - START_MS) // HOUR_MS}"
    return words


def _explain(step: int, results: dict[int, str], active_start: int, is_open: bool) -> str:
    if step == 0:
        end = "Nothing ends it: record 7 is a commit of C." if is_open else "Record 7 is its marker."
        return (
            f"{len(_LOG)} records of four keys. B = ∅ is a tombstone. "
            f"Records 5 and 6 belong to a transaction. {end} The active segment begins at {active_start}."
        )
    if not results:
        return _END_OF_OPEN if is_open else _END
    replaced = list(results.values()).count("value gone")
    sentences = [f"{replaced} {'record has' if replaced == 1 else 'records have'} a newer one of the same key."]
    if not replaced:
        sentences = ["No record has a newer one of the same key."]
    sentences += [sentence for result in results.values() if (sentence := _RESULTS[result].sentence)]
    if is_open:
        sentences.append(_OPEN)
    return " ".join(sentences)


def _name_entry(entry: SmallRecord) -> str:
    if entry is _MARKER:
        return "marker"
    return f"{entry.topic} = {'∅' if entry.value is None else entry.value}"


def _find_place(place: int) -> tuple[float, float]:
    row, column = divmod(place, _COLUMNS)
    return _LEFT + column * _CELL_WIDTH, _ROW_TOPS[row]


def _draw_segments(log: Path, present: list[int], active_start: int) -> Iterator[Mark]:
    words = "dashed line: a segment begins   dashed cell: in a transaction"
    yield Label("words", _LEFT, 220, words, tone=Tone.MUTED)
    bases = [int(path.stem) for path in log.glob("*.log")]
    for place, offset in enumerate(present):
        x, y = _find_place(place)
        if offset in bases and place:
            x1 = x - 1.5
            yield Arrow(
                f"segment {offset}", x1, y - 16, x1, y + _CELL_HEIGHT + 3, Tone.NEW, is_dashed=True, has_head=False
            )
        if offset >= active_start:
            yield Arrow(f"active {offset}", x, y - 20, x + 57, y - 20, Tone.NEW, has_head=False)
        if offset == active_start:
            is_wide = x + 105 < WIDTH
            yield Label(
                "active", x if is_wide else 550, y - 26, "active segment", "start" if is_wide else "end", Tone.NEW
            )


def _draw_record(place: int, offset: int, entry: SmallRecord, result: str | None, word: str) -> Iterator[Mark]:
    """A removed record leaves no gap there."""
    x, y = _find_place(place)
    middle = x + (_CELL_WIDTH - 3) / 2
    is_gone = result is not None and result.endswith("gone")
    tone = _RESULTS[result].tone if result else Tone.PLAIN
    yield Label(f"offset {offset}", middle, y - 6, str(offset), "middle", Tone.MUTED)
    yield Box(
        f"record {offset}",
        x,
        y,
        _CELL_WIDTH - 3,
        _CELL_HEIGHT,
        (_name_entry(entry),),
        tone,
        is_bold=not is_gone,
        is_dashed=bool(entry.producer and entry.topic),
        is_gone=is_gone,
        is_hollow=entry.value is None,
        hue=entry.topic,
    )
    yield Label(f"result {offset}", middle, y + _CELL_HEIGHT + 15, word, "middle", tone, 11)
