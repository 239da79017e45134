"""Lesson 08: commits in transactions wait by producer until a marker moves them.

The reader chooses how, and in which order, the transactions of two producers end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from kafkagroups.api import load
from kafkagroups.course.figures.figure import Content, Control, Figure, squeeze_right
from kafkagroups.course.figures.marks import DASHED, KEY, Arrow, Box, Label, Line, Mark, Scene, Tone
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.small_logs import SmallRecord, write_small_log
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.records.serde import ControlType

_PARTITION = TopicPartition("orders", 0)
_LOG_LEFT = 6
_CELL_WIDTH = 88
_WAITS_LEFT = 140
_COUNTS_LEFT = 360
_COUNTS_TOP = 142
_BOX_WIDTH = 150
_SLOT_TOPS = {1: 142, 2: 204}
_HEIGHT = 302
_DELAY = 0.2
"""The seconds until the head has come to a marker, which then ends what waits of its producer."""
_COMMITS = tuple(SmallRecord("orders", *each) for each in ((10,), (20, 1), (25,), (30, 2)))
_1_COMMITS = SmallRecord(producer=1, ends=ControlType.COMMIT)
_2_COMMITS = SmallRecord(producer=2, ends=ControlType.COMMIT)
_2_ABORTS = SmallRecord(producer=2, ends=ControlType.ABORT)
_ENDINGS = {
    "1 commits, then 2 commits": (_1_COMMITS, _2_COMMITS),
    "2 commits, then 1 commits": (_2_COMMITS, _1_COMMITS),
    "1 commits, then 2 aborts": (_1_COMMITS, _2_ABORTS),
    "2 commits, 1 stays open": (_2_COMMITS,),
}
_LEGEND = (Box("not read yet", *KEY, tone=Tone.MUTED), DASHED)
_Entries = tuple[SmallRecord, ...]


class _State(NamedTuple):
    counts: int | None
    counted_offset: int | None
    waits: dict[int, int]


class TwoMaps(Figure):
    def __init__(self) -> None:
        folder = make_scratch_folder()
        steps = ("nothing is loaded", *(f"after record {offset}" for offset in range(5)), "the end of the log")
        controls = (
            Control("step", "step", steps, initial=2),
            Control("ending", "the transactions end", tuple(_ENDINGS), is_sequence=False),
        )
        logs = [(*_COMMITS, *ending) for ending in _ENDINGS.values()]
        states = [_load_states(folder / str(number), entries) for number, entries in enumerate(logs)]

        def draw(step: int, ending: int) -> Scene:
            count = len(logs[ending])
            return _draw(logs[ending], states[ending], min(step, count), step > count)

        title = "Two maps: what counts, and what waits for a marker"
        narrow = squeeze_right(2, _HEIGHT, 0.63)
        super().__init__(Content.draw(title, _HEIGHT, controls, draw, legend=_LEGEND, narrow=narrow))


def _load_states(folder: Path, entries: _Entries) -> list[_State]:
    log = folder / "__consumer_offsets-0"
    write_small_log(log, map(SmallRecord.encode, entries))
    return [_load_state(log, until) for until in range(len(entries) + 1)]


def _load_state(log: Path, until: int) -> _State:
    group = load(log, "new", until=until).get("shop")
    if group is None:
        return _State(None, None, {})
    counted = group.offsets.get(_PARTITION)
    waits = {producer: offsets[_PARTITION].record_offset for producer, offsets in group.pending.items()}
    return _State(counted.record_offset, counted.offset, waits) if counted else _State(None, None, waits)


def _draw(entries: _Entries, states: list[_State], loaded: int, is_past_end: bool) -> Scene:
    state = states[loaded]
    before = states[loaded - 1] if loaded else state
    head = _find_cell(loaded - 1) + _CELL_WIDTH / 2 if loaded else _LOG_LEFT
    marks: list[Mark] = [
        Label("log title", _LOG_LEFT, 14, "the log", is_bold=True),
        Box("read", _LOG_LEFT, 22, head - _LOG_LEFT + 1, 4, tone=Tone.NEW, is_solid=True),
        Arrow("head", head, 20, head, 34, Tone.NEW),
    ]
    for title, left, top, height in (("waits", _WAITS_LEFT, 102, 146), ("counts", _COUNTS_LEFT, 102, 86)):
        marks.append(Box(f"map {title}", left - 8, top, _BOX_WIDTH + 16, height, tone=Tone.MUTED))
    slots = {f"producer {producer}": (_WAITS_LEFT, top) for producer, top in _SLOT_TOPS.items()}
    slots["orders-0"] = (_COUNTS_LEFT, _COUNTS_TOP)
    for words, place in slots.items():
        marks.append(Box(f"slot {words}", *place, _BOX_WIDTH, 40, tone=Tone.PAGE))
    lost = _find_lost(state, before, entries, loaded)
    last = entries[loaded - 1]
    fate = "aborted" if last.ends is ControlType.ABORT else "too old"
    for offset, entry in enumerate(entries):
        if entry.ends is None:
            delay = 4 * _DELAY if last.ends else 0
            marks += _draw_value(offset, entry, state, before, fate if offset in lost else "", delay)
        elif offset < loaded:
            marks += _draw_marker(offset, entry, is_last=offset == loaded - 1)
        marks += _draw_record(offset, entry, loaded, is_past_end)
    stable = "UNSTABLE_OFFSET_COMMIT" if state.waits else _name_offset(state.counted_offset)
    text = [f"OffsetFetch: {_name_offset(state.counted_offset)}", f"OffsetFetch, requireStable: {stable}"]
    for number, words in enumerate(text):
        tone = Tone.MUTED if state.counts is None else Tone.LIVE
        x, width, arrow = ((412, 132, (478, 190, 478, 258)), (78, 212, (378, 190, 292, 272)))[number]
        if number and state.waits:
            tone = Tone.WAIT
            arrow = (200, 249, 200, 258)
        style: dict[str, Any] = {"tone": tone, "delay": 4 * _DELAY if last.ends else _DELAY}
        marks.append(Arrow(f"answer {number} {arrow[0]}", *arrow, **style))
        marks.append(Box(f"fetch {number}", x, 260, width, 38, tuple(words.split(": ")), is_bold=True, **style))
    marks += _draw_comparison(state, before, last)
    # What drops into a map passes behind the words.
    for x, words in ((_WAITS_LEFT, "waits"), (_COUNTS_LEFT, "counts")):
        marks.append(Label(f"{words} title", x, 118, words, is_bold=True))
    marks += [Label(words, x, top - 6, words, tone=Tone.MUTED) for words, (x, top) in slots.items()]
    text += [f"waits for producer {producer}: record {record}" for producer, record in sorted(state.waits.items())]
    dropped = [entry for offset, entry in enumerate(entries) if offset in lost and entry.ends is None]
    text += [f"{fate}: {entry.value}" for entry in dropped]
    text += [f"record {offset}: {_name_record(entry)}" for offset, entry in enumerate(entries)]
    caption = _explain(entries, loaded, lost, is_past_end)
    waits = [f"{entries[record].value} waits for producer {producer}" for producer, record in state.waits.items()]
    counted = "Nothing" if state.counts is None else state.counted_offset
    told = ["nothing waits", f"{' and '.join(waits)}, so a stable fetch gets an error"][bool(waits)]
    line = Line(f"{counted} counts; {told}", Tone.WAIT if waits else Tone.LIVE)
    return Scene(tuple(marks), caption, tuple(text), lines=(line,))


def _find_lost(state: _State, before: _State, entries: _Entries, loaded: int) -> set[int]:
    last = entries[loaded - 1] if loaded else None
    if last is None or last.ends is None:
        return set()
    return {before.waits[last.producer]} - {state.counts}


def _draw_comparison(state: _State, before: _State, last: SmallRecord) -> Iterator[Mark]:
    """Yield the numbers of the two records that a commit compares: the newer one counts."""
    if last.ends is ControlType.COMMIT and before.counts is not None and last.producer not in state.waits:
        waited = before.waits.get(last.producer, before.counts)
        words = f"{waited} {'<' if waited < before.counts else '>'} {before.counts}"
        frame = (325, _COUNTS_TOP + 24, words, "middle", Tone.NEW, 13)
        yield Label(f"compared {words}", *frame, is_bold=True, delay=_DELAY)


def _draw_value(
    offset: int, commit: SmallRecord, state: _State, before: _State, fate: str, delay: float
) -> Iterator[Mark]:
    lines = (f"{commit.value}", f"record {offset}")
    x = _WAITS_LEFT
    top = _SLOT_TOPS.get(commit.producer, _COUNTS_TOP)
    style: dict[str, Any] = {"hue": str(commit.producer), "origin": f"record {offset}", "delay": delay}
    if state.counts == offset:
        x = _COUNTS_LEFT
        top = _COUNTS_TOP
        style |= {"tone": Tone.LIVE if before.counts == offset else Tone.NEW, "is_bold": True}
    elif state.waits.get(commit.producer) == offset:
        style |= {"tone": Tone.WAIT, "is_dashed": True}
    elif fate:
        lines = (lines[0], fate)
        style |= {"tone": Tone.DEAD, "is_gone": True}
    else:
        return
    yield Box(f"value {offset}", x, top, _BOX_WIDTH, 40, lines, **style)


def _draw_marker(offset: int, marker: SmallRecord, *, is_last: bool) -> Iterator[Mark]:
    """A marker stands next to what waits of its producer."""
    assert marker.ends is not None
    top = _SLOT_TOPS[marker.producer]
    tone = Tone.NEW if is_last else Tone.MUTED
    lines = ("marker", f"{marker.ends.name.lower()}s")
    origin = f"record {offset}"
    yield Box(f"marker {offset}", _LOG_LEFT, top, _CELL_WIDTH, 40, lines, tone, 11, origin=origin, delay=_DELAY)
    yield Arrow(f"ends {offset}", _LOG_LEFT + _CELL_WIDTH + 3, top + 20, _WAITS_LEFT - 3, top + 20, tone, delay=_DELAY)


def _find_cell(offset: int) -> float:
    return _LOG_LEFT + offset * 92


def _draw_record(offset: int, entry: SmallRecord, loaded: int, is_past_end: bool) -> Iterator[Mark]:
    left = _find_cell(offset)
    lines = tuple(wrap(_name_record(entry), 9))
    is_last = offset == loaded - 1 and not is_past_end
    is_ahead = offset >= loaded
    tone = Tone.NEW if is_last else (Tone.PLAIN, Tone.MUTED)[is_ahead]
    hue = str(entry.producer) if entry.ends is None and not is_ahead else ""
    style: dict[str, Any] = {"is_bold": is_last, "is_dashed": bool(entry.producer), "hue": hue}
    yield Box(f"record {offset}", left, 37, _CELL_WIDTH, 48, lines, tone, 11, **style)
    yield Label(f"offset {offset}", left + _CELL_WIDTH / 2, 98, str(offset), "middle", Tone.MUTED, 11)


def _name_record(entry: SmallRecord) -> str:
    if entry.ends is not None:
        return f"marker prod. {entry.producer} {entry.ends.name.lower()}s"
    return f"commit {entry.value}{f' prod. {entry.producer}' * bool(entry.producer)}"


def _name_offset(offset: int | None) -> str:
    return "−1" if offset is None else str(offset)


def _explain(entries: _Entries, loaded: int, lost: set[int], is_past_end: bool) -> str:
    if loaded == 0:
        return "Four commits of the same partition, and the markers of two transactions. Load them one by one."
    offset = loaded - 1
    entry = entries[offset]
    if is_past_end:
        return "The log ends here. Producer 1's transaction is still open, so its offset waits."
    if entry.ends is None and not entry.producer:
        return f"Record {offset} is not in a transaction. Offset {entry.value} counts immediately."
    if entry.ends is None:
        return f"Record {offset} is in a transaction: {entry.value} waits for a marker of producer {entry.producer}."
    if entry.ends is ControlType.ABORT:
        return f"Producer {entry.producer} aborts. Its offset is dropped."
    told = f"Producer {entry.producer} commits. Its record is newer than the one that counted, so it counts now."
    if lost:
        told = f"Producer {entry.producer} commits, but its record is older than the one that counts, so it is dropped."
    return f"{told} The place of the commit decides, not the place of the marker." if loaded == len(entries) else told
