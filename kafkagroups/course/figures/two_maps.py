"""Lesson 08: commits in transactions wait by producer until a marker moves them.

The reader chooses how, and in which order, the transactions of two producers end.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from kafkagroups.api import load
from kafkagroups.course.figures.figure import Content, Control, Figure, Part
from kafkagroups.course.figures.marks import DASHED, HATCHED, WIDTH, Arrow, Box, Label, Line, Mark, Scene, Tone
from kafkagroups.course.lesson_folders import make_scratch_folder
from kafkagroups.course.small_logs import SmallRecord, write_small_log
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.records.serde import ControlType

_PARTITION = TopicPartition("orders", 0)
_LOG_LEFT = 84
_PITCH = 79
_CELL_WIDTH = 75
_LOG_TOP = 18
_TOPS = {"the log": 6, "prod. 1 waits": 92, "prod. 2 waits": 144, "counts": 204, "answers": 258}
_HEIGHT = 304
_DELAY = 0.1
"""The seconds until the head has come to a marker, which then ends what waits of its producer."""
_COMPARED = 0.15
_SWAPPED = 0.8
"""The seconds until the two records are compared, and until the newer one counts."""
_COMMITS = tuple(SmallRecord("orders", *each) for each in ((10,), (20, 1), (25,), (30, 2)))
_1_COMMITS = SmallRecord(producer=1, ends=ControlType.COMMIT)
_2_COMMITS = SmallRecord(producer=2, ends=ControlType.COMMIT)
_2_ABORTS = SmallRecord(producer=2, ends=ControlType.ABORT)
_ENDINGS = {
    "prod. 1 commits, then prod. 2": (_1_COMMITS, _2_COMMITS),
    "prod. 2 commits, then prod. 1": (_2_COMMITS, _1_COMMITS),
    "prod. 1 commits, prod. 2 aborts": (_1_COMMITS, _2_ABORTS),
    "prod. 2 commits, prod. 1 stays open": (_2_COMMITS,),
}
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
        narrow = tuple(_narrow_rows())
        super().__init__(Content.draw(title, _HEIGHT, controls, draw, legend=(DASHED, HATCHED), narrow=narrow))


def _narrow_rows() -> Iterator[Part]:
    """Yield the parts of each row in a narrow column, where its title stands above it."""
    for number, (top, bottom) in enumerate(pairwise([*_TOPS.values(), _HEIGHT + 6])):
        place = top - 6 + 20 * number
        yield Part(0, top - 6, _LOG_LEFT - 6, bottom - 6, (0, place - 10))
        yield Part(_LOG_LEFT - 6, top - 6, WIDTH, bottom - 6, (0, place + 20), 0.7)


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
        Box("read", _LOG_LEFT, 3, head - _LOG_LEFT + 1, 4, tone=Tone.NEW, is_solid=True),
        Arrow("head", head, 1, head, 15, Tone.NEW),
    ]
    marks += [Label(f"title {title}", 4, top + 20, title, size=11, is_bold=True) for title, top in _TOPS.items()]
    for title, top in [*_TOPS.items()][1:-1]:
        marks.append(Box(f"map {title}", _LOG_LEFT - 4, top, WIDTH - _LOG_LEFT + 4, 48, tone=Tone.MUTED))
    fates = _find_fates(entries, states[: loaded + 1])
    last = entries[loaded - 1]
    for producer in [entry.producer for entry in entries[:loaded] if entry.ends]:
        place = (_find_cell(2 * producer - 1), _find_top(producer))
        marks.append(Box(f"waited {producer}", *place, _CELL_WIDTH, 38, tone=Tone.MUTED, is_dashed=True))
    for offset, entry in enumerate(entries):
        if entry.ends is None:
            marks += _draw_value(offset, entry, state, before, fates.get(offset, ""), _SWAPPED * bool(last.ends))
        elif offset < loaded:
            marks += _draw_marker(offset, entry, is_last=offset == loaded - 1)
        marks += _draw_record(offset, entry, loaded, is_past_end)
    stable = "UNSTABLE_OFFSET_COMMIT" if state.waits else _name_offset(state.counted_offset)
    text = [f"OffsetFetch: {_name_offset(state.counted_offset)}", f"OffsetFetch, requireStable: {stable}"]
    for number, words in enumerate(text):
        tone = Tone.MUTED if state.counts is None else Tone.LIVE
        if number and state.waits:
            tone = Tone.WAIT
        style: dict[str, Any] = {"tone": tone, "delay": _SWAPPED if last.ends else _DELAY}
        width = (2 + 2 * number) * _PITCH - 4
        frame = (_find_cell(2 * number), _TOPS["answers"] + 6, width, 38, tuple(words.split(": ")))
        marks.append(Box(f"fetch {number}", *frame, is_bold=True, **style))
    marks += _draw_comparison(state, before, last)
    text += [f"waits for producer {producer}: record {record}" for producer, record in sorted(state.waits.items())]
    text += [f"{fate}: {entries[offset].value}" for offset, fate in fates.items()]
    text += [f"record {offset}: {_name_record(entry)}" for offset, entry in enumerate(entries)]
    is_lost = loaded > 0 and before.waits.get(last.producer) in fates
    caption = _explain(entries, loaded, is_past_end, is_lost=is_lost)
    waits = " and ".join(str(entries[record].value) for record in sorted(state.waits.values()))
    counted = "Nothing" if state.counts is None else state.counted_offset
    told = f"{waits} {'wait' if len(state.waits) > 1 else 'waits'}: a stable fetch gets an error"
    line = Line(f"{counted} counts, {told if waits else 'nothing waits'}", Tone.WAIT if waits else Tone.LIVE)
    return Scene(tuple(marks), caption, tuple(text), lines=(line,))


def _find_fates(entries: _Entries, states: list[_State]) -> dict[int, str]:
    """Return why the commits of finished transactions do not count, by their offsets, and the one that is replaced."""
    fates = {}
    for entry, (before, state) in zip(entries, pairwise(states), strict=False):
        if entry.ends and state.counts != before.waits[entry.producer]:
            fates[before.waits[entry.producer]] = "aborted" if entry.ends is ControlType.ABORT else "too old"
    replaced = states[-2:][0].counts
    return fates if replaced in (None, states[-1].counts) else fates | {replaced: "older"}


def _draw_comparison(state: _State, before: _State, last: SmallRecord) -> Iterator[Mark]:
    """Yield the numbers of the two records that a commit compares: the newer one counts."""
    if last.ends is ControlType.COMMIT and before.counts is not None and last.producer not in state.waits:
        waited = before.waits.get(last.producer, before.counts)
        # In a narrow column, it has a second line after the first usual space.
        words = f"record\u00a0{waited} {'<' if waited < before.counts else '>'}\u00a0record\u00a0{before.counts}"
        frame = (_find_cell(4.5) + _CELL_WIDTH / 2, _find_top(0) + 20, words, "middle", Tone.NEW, 11.9)
        yield Label("compared", *frame, is_bold=True, delay=_COMPARED)


def _draw_value(
    offset: int, commit: SmallRecord, state: _State, before: _State, fate: str, delay: float
) -> Iterator[Mark]:
    """Below its record stands what becomes of a commit."""
    lines = (f"{commit.value}", f"record {offset}")
    top = _find_top(commit.producer)
    style: dict[str, Any] = {"hue": str(commit.producer), "origin": f"record {offset}", "delay": delay}
    style["short"] = f"{commit.value}\nrec. {offset}"
    if state.counts == offset:
        top = _find_top(0)
        style |= {"tone": Tone.LIVE if before.counts == offset else Tone.NEW, "is_bold": True}
    elif state.waits.get(commit.producer) == offset:
        style |= {"tone": Tone.WAIT, "is_dashed": True}
    elif fate:
        lines = (lines[0], fate)
        top = _find_top(0) if fate == "older" else top
        style |= {"tone": Tone.DEAD, "is_gone": True}
    else:
        return
    yield Box(f"value {offset}", _find_cell(offset), top, _CELL_WIDTH, 38, lines, **style)


def _draw_marker(offset: int, marker: SmallRecord, *, is_last: bool) -> Iterator[Mark]:
    """Below a marker, in the row of its producer, stands what it does."""
    assert marker.ends is not None
    top = _find_top(marker.producer)
    tone = Tone.NEW if is_last else Tone.MUTED
    lines = ("marker", f"{marker.ends.name.lower()}s")
    origin = f"record {offset}"
    x = _find_cell(offset)
    yield Box(f"marker {offset}", x, top, _CELL_WIDTH, 38, lines, tone, 11, origin=origin, delay=_DELAY)
    end = _find_cell(2 * marker.producer) - 2
    yield Arrow(f"ends {offset}", x - 3, top + 19, end, top + 19, tone, delay=_DELAY)


def _find_cell(offset: float) -> float:
    return _LOG_LEFT + offset * _PITCH


def _find_top(producer: int) -> float:
    """Return the top of what waits of this producer, or (0) of what counts."""
    return _TOPS[f"prod. {producer} waits" if producer else "counts"] + 5


def _draw_record(offset: int, entry: SmallRecord, loaded: int, is_past_end: bool) -> Iterator[Mark]:
    left = _find_cell(offset)
    lines = tuple(wrap(_name_record(entry), 9))
    is_last = offset == loaded - 1 and not is_past_end
    is_ahead = offset >= loaded
    tone = Tone.NEW if is_last else (Tone.PLAIN, Tone.MUTED)[is_ahead]
    hue = str(entry.producer) if entry.ends is None and not is_ahead else ""
    style: dict[str, Any] = {"is_bold": is_last, "is_dashed": bool(entry.producer), "hue": hue}
    yield Box(f"record {offset}", left, _LOG_TOP, _CELL_WIDTH, 48, lines, tone, 11, **style)
    yield Label(f"offset {offset}", left + _CELL_WIDTH / 2, _LOG_TOP + 62, str(offset), "middle", Tone.MUTED, 11)


def _name_record(entry: SmallRecord) -> str:
    if entry.ends is not None:
        return f"marker prod. {entry.producer} {entry.ends.name.lower()}s"
    return f"commit {entry.value}{f' prod. {entry.producer}' * bool(entry.producer)}"


def _name_offset(offset: int | None) -> str:
    return "−1" if offset is None else str(offset)


def _explain(entries: _Entries, loaded: int, is_past_end: bool, *, is_lost: bool) -> str:
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
    if is_lost:
        told = f"Producer {entry.producer} commits, but its record is older than the one that counts, so it is dropped."
    return f"{told} The place of the commit decides, not the place of the marker." if loaded == len(entries) else told
